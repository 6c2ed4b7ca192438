//! Bodies: read up to the limit, and unpacked up to the same limit.

use super::Failure;
use crate::server::Shared;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::io::Read;
use std::time::Duration;

/// How long a client may be silent in the middle of a body.
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// Reads a body, unpacked if it came as gzip.
pub(super) async fn read(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Bytes, Failure> {
    let most = shared.config.max_body_bytes;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > most) {
        return Err(too_large(most));
    }
    let packed = tokio::time::timeout(BODY_LIMIT, Limited::new(body, most).collect()).await;
    let packed = packed.map_err(|_| Failure::new(StatusCode::REQUEST_TIMEOUT, "the body took too long to come"))?;
    let packed = packed.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => too_large(most),
        None => Failure::new(StatusCode::BAD_REQUEST, format!("the body broke off: {error}")),
    })?;
    let packed = packed.to_bytes();
    let encoding = headers.get(header::CONTENT_ENCODING).map_or(Ok("identity"), |value| value.to_str());
    match encoding {
        Ok("identity" | "") => Ok(packed),
        Ok("gzip") => shared.work.run(move || unpack(&packed, most)).await?.map(Bytes::from),
        _ => Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Encoding: send it as it is, or as gzip")),
    }
}

fn unpack(packed: &[u8], most: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let read = MultiGzDecoder::new(packed).take(most as u64 + 1).read_to_end(&mut body);
    read.map_err(|e| Failure::new(StatusCode::BAD_REQUEST, format!("the body is not gzip: {e}")))?;
    if body.len() > most { Err(too_large(most)) } else { Ok(body) }
}

fn too_large(most: usize) -> Failure {
    Failure::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is longer than {most} bytes (option max_body_bytes): send it part by part"),
    )
}
