//! The header with the durability level, of requests and answers.

use super::HttpError;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use fleetdb_engine::{Durability, Error};

const HEADER: &str = "x-fleetdb-durability";

/// The level that a request asks for.
pub(super) fn asked(headers: &HeaderMap) -> Result<Option<Durability>, HttpError> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let level = value.to_str().map_err(|_| Error::invalid(format!("the header {HEADER} is not a text")))?;
    Ok(Some(level.parse::<Durability>().map_err(|e| e.context(format_args!("header {HEADER}")))?))
}

/// Adds the level that was reached to an answer.
pub(super) fn tell(durability: Durability, headers: &mut HeaderMap) {
    let value = HeaderValue::from_str(&format!("{durability} ({})", durability.tier()));
    headers.extend(value.map(|value| (HeaderName::from_static(HEADER), value)));
}
