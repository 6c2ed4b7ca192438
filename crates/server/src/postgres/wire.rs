//! Messages on their way in: TLS is agreed on, and each message is looked at before pgwire reads it.
//!
//! pgwire 0.41 takes a message's own counts and lengths for true; wrong ones make it panic or read into the next message
//! (found by `crates/cli/tests/server/wrong.rs`). What is not a whole, well-formed message does not get there.

use super::connection::Connection;
use bytes::{Buf, BytesMut};
use pgwire::tokio::server::MaybeTls;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// Codes in the place of a protocol version.
const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
/// The longest first message, as in PostgreSQL.
const STARTUP_BYTES: usize = 10_000;
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// Agrees on TLS; gives the connection, whether it is encrypted, and what has been read of the next message.
pub(super) async fn negotiate(mut stream: TcpStream, tls: Option<TlsAcceptor>) -> Result<(MaybeTls, bool, BytesMut)> {
    let encrypted = |stream| (MaybeTls::Tls(Box::new(stream)), true, BytesMut::new());
    let mut first = [0; 8];
    if stream.peek(&mut first[..1]).await? == 1 && first[0] == TLS_HANDSHAKE {
        let tls = tls.ok_or_else(|| wrong("TLS is not set up here"))?;
        return tls.accept(stream).await.map(encrypted);
    }
    // One request for TLS, and one for GSSAPI, in either order.
    for _ in 0..3 {
        stream.read_exact(&mut first).await?;
        match (i32_at(&first, 0), i32_at(&first, 4), &tls) {
            (Some(8), Some(SSL_REQUEST), Some(tls)) => {
                stream.write_all(b"S").await?;
                return tls.accept(stream).await.map(encrypted);
            }
            (Some(8), Some(SSL_REQUEST | GSS_REQUEST), _) => stream.write_all(b"N").await?,
            _ => return Ok((MaybeTls::Plain(stream), false, BytesMut::from(&first[..]))),
        }
    }
    Err(wrong("a client may ask for TLS and for GSSAPI once each"))
}

/// A connection of which only well-formed messages are read.
pub(super) struct Checked {
    inner: MaybeTls,
    connection: Arc<Connection>,
    read: BytesMut,
    /// Bytes at the front that have been looked at.
    checked_bytes: usize,
    is_started: bool,
    /// Whether the first answer of a login has come.
    has_password: bool,
}

impl Checked {
    /// `read` has been read of it already.
    pub(super) fn new(inner: MaybeTls, read: BytesMut, connection: Arc<Connection>) -> Self {
        Self { inner, connection, read, checked_bytes: 0, is_started: false, has_password: false }
    }

    /// Looks at the next message; gives its bytes, or `None` if it has not come as a whole.
    fn check(&mut self) -> Result<Option<usize>> {
        let kind_bytes = usize::from(self.is_started);
        let Some(length) = i32_at(&self.read, kind_bytes) else { return Ok(None) };
        let most = if self.is_started { self.connection.most_message_bytes() } else { STARTUP_BYTES };
        let length = usize::try_from(length).ok().filter(|length| (4..=most).contains(length));
        let length = length.ok_or_else(|| wrong("a message has a length that it cannot have"))?;
        let whole = kind_bytes + length;
        if self.read.len() < whole {
            return Ok(None);
        }
        let body = &self.read[kind_bytes + 4..whole];
        let is_well_formed = if self.is_started {
            let first_password = self.read[0] == b'p' && !std::mem::replace(&mut self.has_password, true);
            is_message(self.read[0], body, first_password)
        } else {
            self.is_started = true;
            is_startup(body)
        };
        if is_well_formed { Ok(Some(whole)) } else { Err(wrong("a message is not what its kind says")) }
    }
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// What is left of a message.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    fn text(&mut self) -> Option<()> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        self.take(end + 1)
    }

    fn count(&mut self) -> Option<usize> {
        let count = u16::from_be_bytes(*self.0.first_chunk()?);
        self.take(2)?;
        Some(usize::from(count))
    }

    /// A length and so many bytes; a negative length has none.
    fn value(&mut self) -> Option<()> {
        let length = i32_at(self.0, 0)?;
        self.take(4)?;
        self.take(usize::try_from(length).unwrap_or(0))
    }
}

/// The first message: a version and pairs of texts, or a number and a secret.
fn is_startup(body: &[u8]) -> bool {
    match i32_at(body, 0) {
        Some(CANCEL_REQUEST) => body.len() >= 12,
        Some(_) => body.len() > 4 && body.ends_with(&[0]),
        None => false,
    }
}

/// Whether a body has the form of its kind.
fn is_message(kind: u8, body: &[u8], first_password: bool) -> bool {
    let mut rest = Rest(body);
    let parsed = (|| match kind {
        b'Q' | b'f' => rest.text(),
        b'P' => {
            rest.text()?;
            rest.text()?;
            let types = rest.count()?;
            rest.take(4 * types)
        }
        b'B' => {
            rest.text()?;
            rest.text()?;
            let formats = rest.count()?;
            rest.take(2 * formats)?;
            for _ in 0..rest.count()? {
                rest.value()?;
            }
            let formats = rest.count()?;
            rest.take(2 * formats)
        }
        b'D' | b'C' => {
            rest.take(1)?;
            rest.text()
        }
        b'E' => {
            rest.text()?;
            rest.take(4)
        }
        b'S' | b'H' | b'c' | b'X' => Some(()),
        b'p' if first_password => {
            rest.text()?;
            rest.value()
        }
        b'p' | b'd' => rest.take(body.len()),
        _ => None,
    })();
    parsed.is_some() && rest.0.is_empty()
}

impl AsyncRead for Checked {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        loop {
            if this.checked_bytes > 0 {
                let bytes = this.checked_bytes.min(out.remaining());
                out.put_slice(&this.read[..bytes]);
                this.read.advance(bytes);
                this.checked_bytes -= bytes;
                return Poll::Ready(Ok(()));
            }
            if let Some(bytes) = this.check()? {
                this.checked_bytes = bytes;
                continue;
            }
            let mut part = [0; 8 << 10];
            let mut part = ReadBuf::new(&mut part);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut part))?;
            if part.filled().is_empty() {
                // What has come of a message that was cut off is nothing.
                return Poll::Ready(Ok(()));
            }
            this.read.extend_from_slice(part.filled());
        }
    }
}

impl AsyncWrite for Checked {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
