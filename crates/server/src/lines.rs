//! Line protocol, however it arrives: parses the lines, leaves out and reports invalid ones, and
//! writes the others as one batch.

use crate::server::Shared;
use fleetdb_engine::{
    Acknowledged, Batch, BodyLine, Database, Durability, Error, LineParser, Precision, Result, body_lines,
};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most invalid lines of a body that are reported one by one.
const MAX_NAMED: usize = 100;

/// The result of writing a body.
pub(crate) struct WriteResult {
    /// Lines that were kept.
    pub(crate) kept: usize,
    /// Lines that were left out.
    pub(crate) dropped: usize,
    /// The first of the lines that were left out, each with its error.
    pub(crate) wrong: Vec<RejectedLine>,
    /// The batch of the lines that were kept; `None` if there are none.
    pub(crate) acknowledged: Option<Acknowledged>,
}

/// A line that was left out.
pub(crate) struct RejectedLine {
    /// Its first line in the body, counted from 1.
    pub(crate) number: usize,
    /// The column and the error.
    pub(crate) reason: String,
    /// The line itself, or its beginning.
    pub(crate) text: String,
}

/// Parses the lines into a batch and a report.
fn parse(db: &Database, body: &[u8], precision: Precision) -> Result<(Batch, WriteResult)> {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let mut parser = LineParser::new(db, precision, now_ns);
    let (mut dropped, mut wrong) = (0, Vec::new());
    for BodyLine { number, bytes } in body_lines(body) {
        if let Err(error) = parser.parse_bytes(bytes) {
            dropped += 1;
            if wrong.len() < MAX_NAMED {
                let line = bytes.trim_ascii_end();
                let text = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                wrong.push(RejectedLine { number, reason: error.to_string(), text });
            }
        }
    }
    let kept = parser.rows();
    Ok((parser.into_batch()?, WriteResult { kept, dropped, wrong, acknowledged: None }))
}

/// Parses a body and writes its lines. Returns when they have the durability that is asked for,
/// which is that of the server if none is.
///
/// # Errors
/// Those of the engine; then no line is written.
pub(crate) async fn write(
    shared: &Arc<Shared>,
    body: impl AsRef<[u8]> + Send + 'static,
    precision: Precision,
    durability: Option<Durability>,
) -> Result<WriteResult> {
    let worker = Arc::clone(shared);
    let begun = shared.work.run(move || {
        let (batch, written) = parse(worker.store.writer()?, body.as_ref(), precision)?;
        let batch = batch.with_durability(durability);
        let committing = (written.kept > 0).then(|| worker.begin_commit(batch)).transpose()?;
        Ok::<_, Error>((written, committing))
    });
    let (mut written, committing) = begun.await??;
    if let Some(committing) = committing {
        written.acknowledged = Some(committing.done().await?);
    }
    Ok(written)
}
