//! Batches, schema changes and reads that wait until a cluster's bucket has the log up to them.
//!
//! Owns the waiters and how far that log has come. Does not own the log: the cluster's crate copies
//! it ([`crate::log_copy`]), and says how far it is.

use crate::error::{Code, Error, Result};
use crate::ids::Sequence;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum time that a batch, a change of definitions or a read waits.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How often those that wait look whether it is of use.
const LOOK: Duration = Duration::from_millis(50);

type Completion = Box<dyn FnOnce(Result<()>) + Send>;

/// Who copies the log of a database elsewhere.
pub trait LogCopy: Send + Sync {
    /// More of the log is durable. This must not wait.
    fn wake(&self);
    /// Returns an error if another machine may have gone on with the copy, so that answers from
    /// here might be old. This must not wait.
    ///
    /// # Errors
    /// What the client is told.
    fn check_newest(&self) -> Result<()>;
}

/// How far the log is shared, and the batches that wait for it.
pub(crate) struct Sharing {
    state: Mutex<State>,
    changed: Condvar,
    copy: Arc<dyn LogCopy>,
    /// The last batch that asked to be shared.
    asked: AtomicU64,
    /// The count of definitions that readers wait for; they are always to be shared.
    asked_definitions: AtomicU64,
}

#[derive(Default)]
struct State {
    /// In the order of their batches.
    waiting: Vec<Waiting>,
    /// The last batch that is shared.
    sequence: Sequence,
    /// The [count](crate::Definitions::count) of the definitions that are shared; 0 before the first.
    definitions: u64,
    failed: Option<Error>,
}

/// A batch that waits.
struct Waiting {
    sequence: Sequence,
    /// When it gives up, by the database's monotonic clock.
    until_ns: u64,
    done: Completion,
}

impl Sharing {
    /// Everything up to `sequence` is shared. Readers must not see what follows, up to `last`,
    /// before it is.
    pub(crate) fn new(sequence: Sequence, last: Sequence, copy: Arc<dyn LogCopy>) -> Self {
        let state = Mutex::new(State { sequence, ..State::default() });
        let (asked, asked_definitions) = (AtomicU64::new(last.0), AtomicU64::new(0));
        Self { state, changed: Condvar::new(), copy, asked, asked_definitions }
    }

    /// There is more to share.
    pub(crate) fn wake(&self) {
        self.copy.wake();
    }

    /// A batch asks to be shared. Readers do not see it yet.
    pub(crate) fn ask(&self, sequence: Sequence) {
        self.asked.fetch_max(sequence.0, Ordering::Release);
    }

    /// The definitions have this count now. Readers do not see them yet.
    pub(crate) fn ask_definitions(&self, count: u64) {
        self.asked_definitions.fetch_max(count, Ordering::Release);
    }

    /// Calls `done` once a batch is shared, or will never be, or is not within [`MAX_WAIT`] from
    /// now.
    pub(crate) fn wait(&self, sequence: Sequence, now_ns: u64, done: Completion) {
        let mut state = self.state.lock();
        let outcome = match &state.failed {
            Some(error) => Err(error.clone()),
            None if sequence <= state.sequence => Ok(()),
            None => {
                // Nearly always the last one.
                let place = state.waiting.partition_point(|waiting| waiting.sequence <= sequence);
                let until_ns = now_ns.saturating_add(MAX_WAIT.as_nanos() as u64);
                state.waiting.insert(place, Waiting { sequence, until_ns, done });
                return;
            }
        };
        drop(state);
        done(outcome);
    }

    /// As [`wait`](Self::wait), for a batch that changes nothing, but has read what is there up to
    /// `sequence`.
    pub(crate) fn confirm(&self, sequence: Sequence, now_ns: u64, done: Completion) {
        match self.copy.check_newest() {
            Ok(()) => self.wait(self.asked_until(sequence), now_ns, done),
            Err(error) => done(Err(error)),
        }
    }

    /// The last batch up to this one that asked to be shared.
    fn asked_until(&self, sequence: Sequence) -> Sequence {
        Sequence(self.asked.load(Ordering::Acquire).min(sequence.0))
    }

    /// Everything up to here is shared.
    pub(crate) fn advance(&self, sequence: Sequence, definitions: u64) {
        let mut state = self.state.lock();
        if state.failed.is_some() {
            return;
        }
        state.sequence = state.sequence.max(sequence);
        state.definitions = state.definitions.max(definitions);
        let shared = state.waiting.partition_point(|waiting| waiting.sequence <= state.sequence);
        let done: Vec<_> = state.waiting.drain(..shared).collect();
        drop(state);
        self.changed.notify_all();
        for waiting in done {
            (waiting.done)(Ok(()));
        }
    }

    /// Ends the wait of those that have waited for too long. It is then unknown whether their
    /// batches will be shared.
    pub(crate) fn expire(&self, now_ns: u64) {
        let expired: Vec<_> = self.state.lock().waiting.extract_if(.., |waiting| waiting.until_ns <= now_ns).collect();
        for waiting in expired {
            let what = "The batch is durable on this machine, and is shared once the bucket answers. Do not repeat it \
                        without looking.";
            (waiting.done)(Err(too_late(what)));
        }
    }

    /// Nothing more will be shared.
    pub(crate) fn fail(&self, error: &Error) {
        let mut state = self.state.lock();
        state.failed.get_or_insert_with(|| error.clone());
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        for waiting in waiting {
            (waiting.done)(Err(error.clone()));
        }
    }

    /// Waits until the definitions of this count are shared.
    pub(crate) fn wait_for_definitions(&self, count: u64) -> Result<()> {
        let what = "The change is made on this machine. It is lost if the machine is lost before the bucket answers.";
        self.wait_until(|state| state.definitions >= count, what, || Ok(()))?;
        // It may have found that there was nothing to change.
        self.copy.check_newest()
    }

    /// Waits until what a reader saw, up to this batch, is as durable as its writers asked, or until
    /// `may_wait` returns an error.
    pub(crate) fn wait_to_show(&self, seen: Sequence, may_wait: &dyn Fn() -> Result<()>) -> Result<()> {
        let asked = self.asked_until(seen);
        self.copy.check_newest()?;
        let what = "What was read would be lost with this machine.";
        let definitions = self.asked_definitions.load(Ordering::Acquire);
        // If the machine can no longer copy the log, others answer.
        let may_wait = || self.copy.check_newest().and_then(|()| may_wait());
        self.wait_until(|state| state.sequence >= asked && state.definitions >= definitions, what, may_wait)
    }

    fn wait_until(
        &self,
        is_shared: impl Fn(&State) -> bool,
        what: &str,
        may_wait: impl Fn() -> Result<()>,
    ) -> Result<()> {
        for _ in 0..MAX_WAIT.as_millis() / LOOK.as_millis() {
            let mut state = self.state.lock();
            self.changed.wait_while_for(&mut state, |state| !is_shared(state) && state.failed.is_none(), LOOK);
            match &state.failed {
                _ if is_shared(&state) => return Ok(()),
                Some(error) => return Err(error.clone()),
                None => {}
            }
            drop(state);
            may_wait()?;
        }
        Err(too_late(what))
    }
}

fn too_late(what: &str) -> Error {
    let message = format!("the bucket did not take the log within {} s", MAX_WAIT.as_secs());
    Error::new(Code::Busy, message).with_hint(what)
}

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
