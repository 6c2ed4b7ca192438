//! `/api/v1/insert`: rows as Arrow IPC streams.
//!
//! A body holds one stream for each table, one after another. The metadata `fleetdb.table` of a
//! stream's schema names its table; the parameter `table` names it for streams without. All rows of
//! a body are one batch, so they are written as a whole or not at all. Columns are found by name;
//! columns that a stream lacks are NULL. The header `X-FleetDB-Durability` asks for a level, and
//! the answer has the same header.

use super::client::Peer;
use super::identity::{self, Login};
use super::write::to_owner;
use super::{HttpError, body, durability};
use crate::access::Role;
use crate::server::Shared;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::root_as_message;
use axum::body::Body;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use fleetdb_engine::{Acknowledged, Batch, Code, Durability, Error, Result};
use serde::Deserialize;
use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once};

/// The metadata of a stream's schema that names its table.
const TABLE: &str = "fleetdb.table";

/// What precedes the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// The parameters of a request.
#[derive(Deserialize)]
pub(super) struct Target {
    /// The table of streams that do not name one.
    table: Option<String>,
}

pub(super) async fn insert(
    State(shared): State<Arc<Shared>>,
    Query(target): Query<Target>,
    Query(login): Query<Login>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> std::result::Result<Response, HttpError> {
    if let Some(owner) = &shared.config.owner {
        return to_owner(owner, &uri);
    }
    identity::require(&shared, &headers, &login, peer, Role::Write).await?;
    let level = durability::asked(&headers)?;
    let body = body::read(&shared, &headers, body).await?;
    let written = write(&shared, target.table, body, level).await;
    let (rows, acknowledged) = written.map_err(|error| HttpError::of_statement(&error, ""))?;
    let answer = axum::Json(serde_json::json!({
        "rows": rows,
        "sequence": acknowledged.map(|acknowledged| acknowledged.sequence.0),
        "durability": acknowledged.map(|acknowledged| acknowledged.durability.to_string()),
    }));
    let mut response = answer.into_response();
    if let Some(acknowledged) = acknowledged {
        durability::tell(acknowledged, response.headers_mut());
    }
    Ok(response)
}

/// Writes the rows of a body; returns their number, and the acknowledgement if there are any.
async fn write(
    shared: &Arc<Shared>,
    table: Option<String>,
    body: impl AsRef<[u8]> + Send + 'static,
    durability: Option<Durability>,
) -> Result<(usize, Option<Acknowledged>)> {
    let worker = Arc::clone(shared);
    let begun = shared.work.run(move || {
        let body = body.as_ref();
        // Decoding copies the values.
        let _memory = worker.store.query_memory().reserve("the rows of a request", body.len())?;
        let batch = batch_of(body, table.as_deref())?.with_durability(durability);
        let rows = batch.rows();
        let committing = (rows > 0).then(|| worker.begin_commit(batch)).transpose()?;
        Ok::<_, Error>((rows, committing))
    });
    match begun.await?? {
        (rows, Some(committing)) => Ok((rows, Some(committing.done().await?))),
        (rows, None) => Ok((rows, None)),
    }
}

/// The rows of all streams in a body.
fn batch_of(body: &[u8], table: Option<&str>) -> Result<Batch> {
    check_lengths(body)?;
    contained(|| decoded(body, table)).unwrap_or_else(|| Err(wrong("it is not valid")))
}

thread_local! {
    /// Whether a panic of this thread means that a body is not valid.
    static DECODES: Cell<bool> = const { Cell::new(false) };
}

/// What Arrow's reader gives; `None` if it panics, as it does on some streams that are not valid. It holds
/// nothing that others see. Such a panic is the client's error, and is not told on standard error.
fn contained<T>(decode: impl FnOnce() -> T) -> Option<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !DECODES.get() {
                tell(panic);
            }
        }));
    });
    DECODES.set(true);
    let decoded = std::panic::catch_unwind(AssertUnwindSafe(decode)).ok();
    DECODES.set(false);
    decoded
}

fn wrong(reason: impl std::fmt::Display) -> Error {
    Error::new(Code::InvalidCopy, format!("the body is not an Arrow IPC stream: {reason}"))
}

/// Checks that the body has the bytes that its messages announce. The reader allocates as many,
/// before it reads them.
fn check_lengths(mut body: &[u8]) -> Result<()> {
    let cut = || wrong("it ends within a message");
    while let Some((head, rest)) = body.split_first_chunk::<4>() {
        let (head, rest) = match head {
            &CONTINUATION => rest.split_first_chunk::<4>().ok_or_else(cut)?,
            head => (head, rest),
        };
        let length = u32::from_le_bytes(*head) as usize;
        let (message, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        body = match length {
            // The end of a stream.
            0 => rest,
            _ => {
                let message = root_as_message(message).map_err(wrong)?;
                let of_dictionary = message.header_as_dictionary_batch().and_then(|values| values.data());
                let batches = message.header_as_record_batch().into_iter().chain(of_dictionary);
                // The reader allocates what compressed buffers claim to have.
                if batches.into_iter().any(|batch| batch.compression().is_some()) {
                    return Err(Error::new(Code::NotSupported, "compressed Arrow streams are not supported")
                        .with_hint("Send the stream without compression."));
                }
                let length = usize::try_from(message.bodyLength()).map_err(wrong)?;
                rest.split_at_checked(length).ok_or_else(cut)?.1
            }
        };
    }
    if body.is_empty() { Ok(()) } else { Err(cut()) }
}

/// Checks the elements of lists that take no bytes in the stream: it only claims their number.
fn check_elements(column: &ArrayRef, body_bytes: usize) -> Result<()> {
    let elements = match column.data_type() {
        DataType::List(_) => column.as_list::<i32>().values(),
        DataType::LargeList(_) => column.as_list::<i64>().values(),
        DataType::FixedSizeList(..) => column.as_fixed_size_list().values(),
        _ => return Ok(()),
    };
    match elements.data_type() == &DataType::Null && elements.len() > body_bytes {
        true => Err(wrong(format_args!("it has lists with {} elements of NULL", elements.len()))),
        false => Ok(()),
    }
}

fn decoded(mut body: &[u8], table: Option<&str>) -> Result<Batch> {
    let bytes = body.len();
    let mut batch = Batch::new();
    loop {
        let reader = StreamReader::try_new(&mut body, None).map_err(wrong)?;
        let schema = reader.schema();
        let named = schema.metadata().get(TABLE).map(String::as_str).or(table);
        let name = named.ok_or_else(|| {
            Error::invalid(format!("no table is named: add the parameter table, or the metadata {TABLE} to the schema"))
        })?;
        for rows in reader {
            let rows = rows.map_err(wrong)?;
            rows.columns().iter().try_for_each(|column| check_elements(column, bytes))?;
            batch = batch.with(name, rows);
        }
        if body.is_empty() {
            return Ok(batch);
        }
    }
}
