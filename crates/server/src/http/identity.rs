//! Authenticates a request: `Authorization: Basic`, `Token` or `Bearer`, or InfluxDB 1's `u` and
//! `p`.

use super::HttpError;
use super::client::Peer;
use crate::access::{Credentials, Identity, Role};
use crate::server::Shared;
use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Delay of the answer to a failed login. It slows down guessing, since the guesses of a connection
/// come one after another.
const FAILED_DELAY: Duration = Duration::from_millis(100);

/// User and password in the URL, as in InfluxDB 1.
#[derive(Default, Deserialize)]
pub(super) struct Login {
    u: Option<String>,
    p: Option<String>,
}

/// Authenticates a request and requires at least the rights of `role`.
pub(super) async fn require(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    login: &Login,
    peer: Peer,
    role: Role,
) -> Result<Identity, HttpError> {
    let (address, credentials) = (peer.0.ip(), credentials(headers, login)?);
    let name = credentials.name().map(str::to_owned);
    let Some(identity) = shared.access.identify(credentials, address).await? else {
        if let Some(name) = name {
            shared.login_failed("http", address, &name);
            tokio::time::sleep(FAILED_DELAY).await;
        }
        return Err(HttpError::new(
            StatusCode::UNAUTHORIZED,
            "authentication required: send Authorization: Token TOKEN, or Basic with user and password",
        ));
    };
    if identity.role < role {
        let Identity { name, role: has } = identity;
        return Err(HttpError::new(
            StatusCode::FORBIDDEN,
            format!("permission denied: this requires the role {role}, but '{name}' has {has}"),
        ));
    }
    Ok(identity)
}

fn credentials(headers: &HeaderMap, login: &Login) -> Result<Credentials, HttpError> {
    let wrong =
        || HttpError::new(StatusCode::UNAUTHORIZED, "unsupported Authorization scheme: use Basic, Token or Bearer");
    let Some(header) = headers.get(header::AUTHORIZATION) else {
        return Ok(match (&login.u, &login.p) {
            (Some(user), Some(password)) => Credentials::Password(user.clone(), password.clone()),
            _ => Credentials::None,
        });
    };
    let text = header.to_str().map_err(|_| wrong())?;
    let (scheme, value) = text.split_once(' ').map_or((text, ""), |(scheme, value)| (scheme, value.trim()));
    match scheme.to_ascii_lowercase().as_str() {
        // Telegraf without a token sends this.
        "token" | "bearer" if value.is_empty() => Ok(Credentials::None),
        // InfluxDB 1 also takes `Token user:password`.
        "token" | "bearer" => Ok(match value.split_once(':') {
            Some((user, password)) => Credentials::Password(user.to_owned(), password.to_owned()),
            None => Credentials::Token(value.to_owned()),
        }),
        "basic" => {
            let decoded = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let (user, password) = decoded.as_deref().and_then(|text| text.split_once(':')).ok_or_else(wrong)?;
            Ok(Credentials::Password(user.to_owned(), password.to_owned()))
        }
        _ => Err(wrong()),
    }
}
