//! Reads request bodies. Received and unpacked bodies have the same size limit. Their memory is
//! reserved as they arrive.

use super::HttpError;
use crate::server::Shared;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use fleetdb_engine::{MemoryReservation, Result as EngineResult};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::io::Read;
use std::time::Duration;

/// The time limit for receiving a whole body.
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// Number of bytes unpacked at a time.
const UNPACKED_BYTES: usize = 64 << 10;

/// A body and its reserved memory, which is released on drop.
pub(super) struct Received {
    bytes: Bytes,
    memory: MemoryReservation,
}

impl Received {
    fn new(memory: MemoryReservation) -> Self {
        Self { bytes: Bytes::new(), memory }
    }

    /// Appends a part.
    fn push(&mut self, part: Bytes) -> EngineResult<()> {
        self.memory.grow_to("the request body", self.bytes.len() + part.len())?;
        if self.bytes.is_empty() {
            // Most bodies arrive in one part, which is not copied.
            self.bytes = part;
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        let mut bytes = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        bytes.extend_from_slice(&part);
        self.bytes = bytes.freeze();
        Ok(())
    }

    /// The body as text, and its memory.
    pub(super) fn into_text(self) -> Result<(String, MemoryReservation), HttpError> {
        let text = String::from_utf8(self.bytes.into())
            .map_err(|_| HttpError::new(StatusCode::BAD_REQUEST, "the statement is not valid UTF-8"))?;
        Ok((text, self.memory))
    }
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body, and unpacks it if it is gzip.
pub(super) async fn read(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Received, HttpError> {
    let most = shared.config.max_body_bytes;
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > most) {
        return Err(too_large(most));
    }
    let packed = Received::new(shared.store.query_memory().reservation());
    let packed = tokio::time::timeout(BODY_LIMIT, receive(packed, body, most)).await;
    let packed =
        packed.map_err(|_| HttpError::new(StatusCode::REQUEST_TIMEOUT, "timed out while reading the body"))??;
    let encoding = headers.get(header::CONTENT_ENCODING).map_or(Ok("identity"), |value| value.to_str());
    match encoding {
        Ok("identity" | "") => Ok(packed),
        Ok("gzip") => {
            let unpacked = Received::new(shared.store.query_memory().reservation());
            shared.work.run(move || unpack(packed.as_ref(), unpacked, most)).await?
        }
        _ => Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported Content-Encoding: use gzip or none")),
    }
}

async fn receive(mut received: Received, body: Body, most: usize) -> Result<Received, HttpError> {
    let mut body = Limited::new(body, most);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => too_large(most),
            None => HttpError::new(StatusCode::BAD_REQUEST, format!("failed to read the body: {error}")),
        })?;
        // Trailers are not part of the body.
        let Ok(part) = frame.into_data() else { continue };
        if let Err(error) = received.push(part) {
            drop(received);
            // A client that is still sending would not read the answer.
            while let Some(Ok(_)) = body.frame().await {}
            return Err(error.into());
        }
    }
    Ok(received)
}

fn unpack(packed: &[u8], mut unpacked: Received, most: usize) -> Result<Received, HttpError> {
    let mut packed = MultiGzDecoder::new(packed);
    let mut bytes = Vec::new();
    loop {
        let read = packed.by_ref().take(UNPACKED_BYTES as u64).read_to_end(&mut bytes);
        match read.map_err(|e| HttpError::new(StatusCode::BAD_REQUEST, format!("the body is not valid gzip: {e}")))? {
            0 => break,
            _ if bytes.len() > most => return Err(too_large(most)),
            _ => unpacked.memory.grow_to("the request body", bytes.capacity())?,
        }
    }
    unpacked.bytes = bytes.into();
    Ok(unpacked)
}

fn too_large(most: usize) -> HttpError {
    HttpError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body exceeds {most} bytes (option max_body_bytes): split it into several requests"),
    )
}
