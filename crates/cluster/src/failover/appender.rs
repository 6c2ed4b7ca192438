//! Copies the log to the bucket, in pieces of WAL files, as soon as it is durable on this machine.
//!
//! 1. The appender notes how far the log is durable, and then how definitions stand: so they are at
//!    least as new as those that the batches need.
//! 2. It appends objects up to there, and then acknowledges the batches.
//! 3. If a WAL file is gone because its generation is in segments, or if rows were rewritten, the
//!    log goes on only after a manifest that covers this.

use super::copied::Copied;
use super::definitions::Redefined;
use super::log::{self, Header, LogObject, Place};
use crate::requests::Requests;
use crate::told::Told;
use bytes::Bytes;
use fleetdb_engine::inspect::State;
use fleetdb_engine::{Code, Database, Definitions, Error, Generation, LogEnd, Result, Sequence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The largest piece. Taking over reads such pieces in parallel, and a store takes little longer
/// for one of them than for a small one. Tests cut frames in the middle.
const MAX_PIECE_BYTES: u64 = if cfg!(test) { 200 } else { 1 << 20 };
/// Time after which the appender looks again although nobody woke it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Copies the log of one epoch.
pub(super) struct Appender {
    pub(super) requests: Requests,
    copied: Arc<Copied>,
    db: Weak<Database>,
    /// What was copied ends here.
    at: (Generation, u64),
    /// The last batch that is copied.
    sequence: Sequence,
    /// The definitions that the bucket has.
    defined: State,
    /// Their count; `None` before the first object of the epoch, which has definitions in any case,
    /// and says where the log of this epoch begins, so that what an earlier owner has left
    /// incomplete is cut off.
    count: Option<u64>,
    /// What is being copied.
    target: Option<Target>,
    /// The object that is being appended. If it is unknown whether it is there, no other may be
    /// tried in its place.
    pending: Option<Pending>,
    told: Told,
}

/// How far the log is to be copied.
#[derive(Clone, Copy)]
struct Target {
    end: LogEnd,
    definitions: Definitions,
    /// When this was the end.
    at: Instant,
}

/// An object that is being appended.
struct Pending {
    place: Place,
    bytes: Bytes,
    piece_bytes: u64,
    /// The definitions once it is there, and their count.
    defined: Option<(State, u64)>,
}

/// What a step did.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Something was appended or found to be there; there may be more.
    Done,
    /// Everything is copied.
    Complete,
    /// The log goes on after the next manifest.
    NeedsManifest,
    /// Another node owns the log.
    Fenced,
}

impl Appender {
    /// What was copied ends at a byte of a generation, and at a batch. The bucket has these definitions.
    pub(super) fn new(
        requests: Requests,
        copied: Arc<Copied>,
        db: Weak<Database>,
        at: (Generation, u64),
        sequence: Sequence,
        defined: State,
    ) -> Self {
        let (count, target, pending, told) = (None, None, None, Told::default());
        Self { requests, copied, db, at, sequence, defined, count, target, pending, told }
    }

    /// Copies what there is, and waits for more; `false` at the end.
    pub(super) fn run(&mut self) -> bool {
        self.copied.wait_for_work(LOOK_AGAIN);
        loop {
            let Some(db) = self.db.upgrade() else { return false };
            match self.step(db) {
                Ok(Step::Done) => {
                    self.told.ended();
                }
                Ok(Step::Complete | Step::NeedsManifest) => return true,
                Ok(Step::Fenced) => return false,
                Err(error) if error.code() == Code::Closed => return false,
                Err(error) => {
                    self.copied.append_failed(&error);
                    self.told.failed(format_args!("could not copy the log to {}", self.requests.url()), error);
                    std::thread::sleep(LOOK_AGAIN);
                    return true;
                }
            }
        }
    }

    /// Appends one object, if there is something to append.
    pub(super) fn step(&mut self, db: Arc<Database>) -> Result<Step> {
        if self.copied.fenced().is_some() {
            return Ok(Step::Fenced);
        }
        if self.pending.is_none()
            && let Some(step) = self.prepare(&db)?
        {
            return Ok(step);
        }
        // The database may be closed meanwhile.
        drop(db);
        let Some(Pending { place, bytes, .. }) = &self.pending else { return Ok(Step::Complete) };
        if !log::append(&self.requests, *place, bytes)? {
            self.copied.fence(fenced(place.0));
            return Ok(Step::Fenced);
        }
        if let Some(Pending { piece_bytes, defined, .. }) = self.pending.take() {
            self.copied.appended(piece_bytes);
            self.at.1 += piece_bytes;
            if let Some((state, count)) = defined {
                (self.defined, self.count) = (state, Some(count));
            }
        }
        let Some(db) = self.db.upgrade() else { return Err(Error::closed("the database was closed")) };
        match self.target {
            Some(target) if self.at >= (target.end.generation, target.end.bytes) => self.reached(&db, target),
            _ => db.acknowledge_shared(self.sequence, self.count),
        }
        Ok(Step::Done)
    }

    /// Prepares the next object. Returns a step if there is none.
    fn prepare(&mut self, db: &Database) -> Result<Option<Step>> {
        let covered = self.copied.covered();
        if covered.generation >= self.at.0 {
            self.at = (Generation(covered.generation.0 + 1), 0);
            self.sequence = self.sequence.max(covered.sequence);
        }
        let mut target = match self.target {
            Some(target) => target,
            None => {
                let at = Instant::now();
                // In this order: definitions must be at least as new as the batches.
                let end = db.log_end();
                let definitions = db.definitions();
                if end.sequence <= self.sequence && self.count == Some(definitions.count) {
                    self.copied.complete(self.sequence, at);
                    return Ok(Some(Step::Complete));
                }
                Target { end, definitions, at }
            }
        };
        let mut defined = None;
        if self.count != Some(target.definitions.count) {
            let (state, definitions) = db.defined();
            target.definitions = definitions;
            defined = Some((state, definitions));
        }
        self.target = Some(target);
        let rewritten = target.definitions.rewritten;
        let piece = match covered.definitions {
            Some(at) if at >= rewritten => self.piece(db, target.end)?,
            _ => None,
        };
        let Some(piece) = piece else {
            self.copied.need_manifest();
            return Ok(Some(Step::NeedsManifest));
        };
        if piece.is_empty() && defined.is_none() {
            self.reached(db, target);
            return Ok(Some(Step::Done));
        }
        let database_id = self.defined.database_id.clone();
        let file = (!piece.is_empty() || self.count.is_none()).then_some(self.at);
        let place = self.copied.begin(file.map(|(generation, _)| generation));
        let redefined = defined.as_ref().map(|(state, now)| Redefined::between(&self.defined, state, *now));
        let piece_bytes = piece.len() as u64;
        let header = Header { database_id, place, file, redefined, closed_by: None };
        let bytes = LogObject { header, piece }.encode()?;
        let defined = defined.map(|(state, definitions)| (state, definitions.count));
        self.pending = Some(Pending { place, bytes, piece_bytes, defined });
        Ok(None)
    }

    /// Everything up to the target is in the bucket.
    fn reached(&mut self, db: &Database, target: Target) {
        self.sequence = self.sequence.max(target.end.sequence);
        self.copied.complete(self.sequence, target.at);
        self.target = None;
        db.acknowledge_shared(self.sequence, self.count);
    }

    /// The next bytes of the log, empty at the end; `None` if they are only in segments.
    fn piece(&mut self, db: &Database, end: LogEnd) -> Result<Option<Bytes>> {
        while self.at.0 <= end.generation {
            let is_last = self.at.0 == end.generation;
            let left = if is_last { end.bytes.saturating_sub(self.at.1) } else { MAX_PIECE_BYTES };
            if left == 0 {
                break;
            }
            let Some(bytes) = db.read_log(self.at.0, self.at.1, left.min(MAX_PIECE_BYTES))? else { return Ok(None) };
            if !bytes.is_empty() || is_last || self.count.is_none() {
                return Ok(Some(bytes));
            }
            self.at = (Generation(self.at.0.0 + 1), 0);
        }
        Ok(Some(Bytes::new()))
    }
}

/// What clients of a node are told that no longer owns the database.
pub(super) fn fenced(epoch: u64) -> Error {
    Error::closed(format!("another node has taken over after epoch {epoch}: this one accepts no more writes"))
        .with_hint("Connect to the new owner. A write that waited may be there: look before you repeat it.")
}
