//! TLS for HTTP and the PostgreSQL protocol.

use fleetdb_engine::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A TLS acceptor for a certificate.
///
/// # Errors
/// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that names the invalid file.
pub(crate) fn acceptor(certificate: &Path, key: &Path, protocols: &[&[u8]]) -> Result<TlsAcceptor> {
    let wrong = |path: &Path, e: &dyn std::fmt::Display| Error::invalid(format!("{}: {e}", path.display()));
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|e| wrong(certificate, &e))?;
    if certificates.is_empty() {
        return Err(wrong(certificate, &"the file contains no certificate"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, &e))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(certificates, private));
    let mut config = config.map_err(|e| wrong(certificate, &e))?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
