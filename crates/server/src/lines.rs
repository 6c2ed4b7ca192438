//! Line protocol as it comes over any wire: lines are parsed, wrong ones are left out and named, the others are written
//! as one batch.

use crate::server::Shared;
use fleetdb_engine::{Acknowledged, Batch, BodyLine, Database, Error, LineParser, Precision, Result, body_lines};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Wrong lines of one body that are named one by one.
const MOST_NAMED: usize = 100;

/// What became of a body.
pub(crate) struct Written {
    /// Lines that are kept.
    pub(crate) kept: usize,
    /// Lines that are not.
    pub(crate) dropped: usize,
    /// The first of these, with what is wrong.
    pub(crate) wrong: Vec<WrongLine>,
    /// How durable the others are; `None` if there are none.
    pub(crate) acknowledged: Option<Acknowledged>,
}

/// A line that was left out.
pub(crate) struct WrongLine {
    /// The body's line with which it begins, counted from 1.
    pub(crate) number: usize,
    /// The column and what is wrong.
    pub(crate) reason: String,
    /// The line itself, or its beginning.
    pub(crate) text: String,
}

/// The lines as a batch, and what is to be said of them.
fn parse(db: &Database, body: &[u8], precision: Precision) -> Result<(Batch, Written)> {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let mut parser = LineParser::new(db, precision, now_ns);
    let (mut dropped, mut wrong) = (0, Vec::new());
    for BodyLine { number, bytes } in body_lines(body) {
        if let Err(error) = parser.parse_bytes(bytes) {
            dropped += 1;
            if wrong.len() < MOST_NAMED {
                let line = bytes.trim_ascii_end();
                let text = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                wrong.push(WrongLine { number, reason: error.to_string(), text });
            }
        }
    }
    let kept = parser.rows();
    Ok((parser.into_batch()?, Written { kept, dropped, wrong, acknowledged: None }))
}

/// Parses a body and writes its lines; returns when they are as durable as asked.
///
/// # Errors
/// The engine's; then no line is written.
pub(crate) async fn write(
    shared: &Arc<Shared>,
    body: impl AsRef<[u8]> + Send + 'static,
    precision: Precision,
) -> Result<Written> {
    let worker = Arc::clone(shared);
    let begun = shared.work.run(move || {
        let (batch, written) = parse(&worker.db, body.as_ref(), precision)?;
        let committing = (written.kept > 0).then(|| worker.begin_commit(batch)).transpose()?;
        Ok::<_, Error>((written, committing))
    });
    let (mut written, committing) = begun.await??;
    if let Some(committing) = committing {
        written.acknowledged = Some(committing.done().await?);
    }
    Ok(written)
}
