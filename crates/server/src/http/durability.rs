//! The headers with the durability level, of requests and answers, and with the sequence of a batch.

use super::HttpError;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use fleetdb_engine::{Acknowledged, Durability, Error};

const HEADER: &str = "x-fleetdb-durability";
const SEQUENCE: &str = "x-fleetdb-sequence";

/// The level that a request asks for.
pub(super) fn asked(headers: &HeaderMap) -> Result<Option<Durability>, HttpError> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let level = value.to_str().map_err(|_| Error::invalid(format!("the header {HEADER} is not a text")))?;
    Ok(Some(level.parse::<Durability>().map_err(|e| e.context(format_args!("header {HEADER}")))?))
}

/// Adds the level that was reached, and the batch's place in the order of all batches, to an answer.
pub(super) fn tell(acknowledged: Acknowledged, headers: &mut HeaderMap) {
    let Acknowledged { sequence, durability } = acknowledged;
    let level = HeaderValue::from_str(&format!("{durability} ({})", durability.tier()));
    headers.extend(level.map(|level| (HeaderName::from_static(HEADER), level)));
    headers.insert(SEQUENCE, sequence.0.into());
}
