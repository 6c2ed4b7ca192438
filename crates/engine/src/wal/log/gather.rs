//! What waits to be written, and who writes it: which committers share one sync.
//!
//! - **Gathering.** If many committers shared the last sync or arrived during it, the next sync
//!   waits briefly for them, like PostgreSQL's `commit_delay` with its `commit_siblings`
//!   ([`gather`]).
//! - **Leading.** A committer writes its frame on its own thread if it needs no sync, or if its
//!   thread may block and no sync was shared lately ([`Pending::push_waiter`]).
//!
//! Owns the frames and completions that no step has taken yet. Does not own the file, the lock
//! around [`Pending`] or the steps: it only says who should run the next one, and when.

use super::file::FileWrite;
use crate::error::{Error, Result};
use crate::ids::{Generation, Sequence};
use crate::settings::Durability;
use crate::wal::frame;
use parking_lot::{Condvar, MutexGuard};
use std::time::Duration;

/// Maximum time that a sync waits for more batches.
const MAX_GATHERING: Duration = Duration::from_millis(2);

/// A sync waits only if at least this many are likely to share it. With fewer, it is faster to run
/// a sync while the others work: by 15 to 38 % with 8 connections and 42 to 57 % with 32. With 96
/// or more, one sync for all is as fast or faster, by up to 17 %. This was measured with a client of
/// one thread. To measure it with the suite's client, set 0 and `usize::MAX` here and run
/// `fleetdb-bench run billing --targets fleetdb-wire --connections 8,32,64,96,160`.
const MIN_GATHERED: usize = 64;

/// Called once with the outcome of a batch, on the log thread or a committer's thread that holds no
/// lock but the writer. It must be short and must not wait.
pub(super) type Completion = Box<dyn FnOnce(Result<()>) + Send>;

/// What a committer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing: a few threads serve many such committers. It gives up when the memtables are full.
    /// It may [lead](Next::Lead) if no one else is likely to share its sync.
    Never,
    /// Room in the memtables. It may write on its own thread, but must not block on a sync.
    ForRoom,
    /// Room, then the outcome, on its own thread. It may lead.
    ForOutcome,
}

/// Who takes care of a frame that was just added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The committer, which must run a step.
    Lead,
    /// The log thread, which must be woken.
    Wake,
    /// The log thread, which is already working or gathering.
    Nothing,
}

/// A completion and the sequence and durability it waits for.
pub(super) struct Waiter {
    pub(super) sequence: Sequence,
    pub(super) durability: Durability,
    pub(super) done: Completion,
    /// Whether its sync should wait for others; see [`gather`].
    gathers: bool,
}

/// What no step has taken yet, and the state of the log as committers see it.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) writes: Vec<FileWrite>,
    /// A buffer for the next write.
    spare: Vec<u8>,
    waiters: Vec<Waiter>,
    /// Number of waiters that the next sync will probably have if it waits.
    expected: usize,
    /// Why nothing can be written at the moment.
    pub(super) stalled: Option<Error>,
    /// Why nothing can be written any more.
    pub(super) failed: Option<Error>,
    pub(super) closed: bool,
    /// The log thread waits to be woken, not for the end of the interval.
    pub(super) is_asleep: bool,
}

impl Pending {
    /// Appends a frame. `durable` is the last batch known to be durable.
    pub(super) fn push_frame(&mut self, sequence: Sequence, payload: &[u8], durable: Sequence) {
        if self.writes.is_empty() {
            let bytes = std::mem::take(&mut self.spare);
            self.writes.push(FileWrite { begins: None, bytes, last: sequence });
        }
        if let Some(write) = self.writes.last_mut() {
            let start = frame::begin(&mut write.bytes);
            write.bytes.extend_from_slice(payload);
            frame::finish(&mut write.bytes, start, sequence, durable);
            write.last = sequence;
        }
    }

    /// Appends the beginning of a new file, after batch `last`.
    pub(super) fn push_file(&mut self, generation: Generation, last: Sequence) {
        self.writes.push(FileWrite { begins: Some(generation), bytes: Vec::new(), last });
    }

    /// Adds the waiter of the frame added last. Says who takes care of them.
    ///
    /// A committer leads when no other is likely to share the sync or no sync is needed: with two
    /// threads, each would only wait for the other.
    pub(super) fn push_waiter(
        &mut self,
        sequence: Sequence,
        durability: Durability,
        done: Completion,
        waiting: Waiting,
    ) -> Next {
        let wants_sync = durability >= Durability::Sync;
        let gathers = wants_sync && waiting != Waiting::ForOutcome;
        self.waiters.push(Waiter { sequence, durability, done, gathers });
        let count = self.waiters.len();
        let is_alone = count == 1 && (!wants_sync || self.expected <= 1);
        if is_alone && !(wants_sync && waiting == Waiting::ForRoom) {
            Next::Lead
        } else if count == 1 || !self.is_gathering() {
            Next::Wake
        } else {
            Next::Nothing
        }
    }

    /// Takes all writes and waiters, for a step. Leaves `spare` for the next write if it has no
    /// buffer yet.
    pub(super) fn take(&mut self, spare: impl FnOnce() -> Vec<u8>) -> (Vec<FileWrite>, Vec<Waiter>) {
        let writes = std::mem::take(&mut self.writes);
        // The next step will probably have as many.
        let next = Vec::with_capacity(self.waiters.len());
        let waiters = std::mem::replace(&mut self.waiters, next);
        if self.spare.capacity() == 0 {
            self.spare = spare();
        }
        (writes, waiters)
    }

    /// A step ended whose sync had this many waiters. Those that arrived meanwhile would have
    /// shared the sync had it begun later.
    pub(super) fn expect_after(&mut self, synced: usize) {
        self.expected = synced + self.waiters.len();
    }

    /// Whether the next sync should start later: the newest waiter gathers, and more are expected.
    fn is_gathering(&self) -> bool {
        let are_many = self.expected >= MIN_GATHERED && self.waiters.len() < self.expected;
        are_many && self.waiters.last().is_some_and(|waiter| waiter.gathers) && !self.closed
    }
}

/// Waits for committers that are likely to arrive soon, if they are [many](MIN_GATHERED), so that
/// they share a sync, which costs the same for one batch as for many. Waits at most twice as long
/// as the last sync took. Never waits for committers on their own threads: they can work while
/// others sync, and with 32 of them, waiting for all cost more than half of the rate
/// (`fleetdb-bench run billing`). A server's committers, whose work a few threads share, gain from
/// coming together.
pub(super) fn gather(wake: &Condvar, pending: &mut MutexGuard<'_, Pending>, sync_time: Duration) {
    wake.wait_while_for(pending, |pending| pending.is_gathering(), MAX_GATHERING.min(sync_time * 2));
}
