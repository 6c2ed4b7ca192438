//! Line protocol as it comes over any wire: lines are parsed, wrong ones are left out and named, the others are written
//! as one batch.

use fleetdb_engine::{Acknowledged, Database, Durability, Error, LineParser, Result, Unit};
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
    /// Counted from 1.
    pub(crate) number: usize,
    /// The column and what is wrong.
    pub(crate) reason: String,
    /// The line itself, or its beginning.
    pub(crate) text: String,
}

/// Lines that wait to be written.
struct Parsed {
    batch: Result<fleetdb_engine::Batch>,
    kept: usize,
    dropped: usize,
    wrong: Vec<WrongLine>,
}

fn parse(db: &Database, body: &[u8], precision: Unit) -> Parsed {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let mut parser = LineParser::new(db, precision, now_ns);
    let (mut dropped, mut wrong) = (0, Vec::new());
    for (number, line) in body.split(|&byte| byte == b'\n').enumerate() {
        let reason = match str::from_utf8(line) {
            Ok(text) => parser.parse(text).err().map(|error| error.to_string()),
            Err(error) => Some(format!("column {}: this is not UTF-8", error.valid_up_to() + 1)),
        };
        if let Some(reason) = reason {
            dropped += 1;
            if wrong.len() < MOST_NAMED {
                let text = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
                wrong.push(WrongLine { number: number + 1, reason, text });
            }
        }
    }
    let kept = parser.rows();
    Parsed { batch: parser.into_batch(), kept, dropped, wrong }
}

/// Parses a body and writes its lines; returns when they are as durable as asked.
///
/// # Errors
/// The engine's; then no line is written.
pub(crate) async fn write(
    work: &crate::work::Work,
    db: &Arc<Database>,
    body: impl AsRef<[u8]> + Send + 'static,
    precision: Unit,
    durability: Durability,
) -> Result<Written> {
    let (parser_db, committer) = (Arc::clone(db), Arc::clone(db));
    let (done, outcome) = tokio::sync::oneshot::channel();
    let parsed = work.run(move || {
        let mut parsed = parse(&parser_db, body.as_ref(), precision);
        let batch = std::mem::replace(&mut parsed.batch, Ok(fleetdb_engine::Batch::new()))?;
        let waits = parsed.kept > 0;
        if waits {
            // The receiver is gone if the client is.
            committer.commit_then(batch, durability, move |outcome| drop(done.send(outcome)))?;
        }
        Ok::<_, Error>((parsed, waits))
    });
    let (parsed, waits) = parsed.await??;
    let acknowledged = match waits {
        true => Some(outcome.await.map_err(|_| Error::closed("the log ended without a word"))??),
        false => None,
    };
    Ok(Written { kept: parsed.kept, dropped: parsed.dropped, wrong: parsed.wrong, acknowledged })
}
