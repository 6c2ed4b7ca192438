//! Backpressure: what happens when rows arrive faster than the background threads make room.
//!
//! | memtables | frozen generation | compaction | a committer | the flush thread |
//! |---|---|---|---|---|
//! | have room | any | any | writes | flushes any frozen generation |
//! | full | none | any | freezes them, then writes | is woken |
//! | full | being flushed | keeps up | waits up to `write_wait_ms`, then gets `Retry` | flushes |
//! | full | waits | behind | waits as above | waits for compaction, unless a flush was requested |
//! | full | flush failed | any | waits as above; the error gives the reason | retries each second |
//! | full | waits | failed | waits as above | flushes: waiting would not help |
//!
//! At most two generations are in memory: the active one and the frozen one. On machines with few
//! processors, a merge of runs that do not overlap pauses while the flush thread works, unless a
//! partition has many runs.

use crate::compaction::plan::{HURRY_RUNS, MAX_RUNS};
use crate::error::{Error, Result};
use crate::memtable::MAX_ROWS;
use crate::state::{Commit, Queue, Shared};
use parking_lot::MutexGuard;
use std::time::Duration;

/// How long a committer that never waits may block on the commit lock. A commit holds it for
/// microseconds.
const MAX_LOCK_WAIT: Duration = Duration::from_millis(2);
/// How many times such a committer tries the commit lock before its thread sleeps: for about 20 us.
/// Sleeping and being woken takes longer than most commits.
const LOCK_TRIES: usize = 500;

impl Queue {
    /// Whether flushes wait for compaction. They do not if compaction fails: waiting would be
    /// pointless.
    pub(crate) fn is_held_back(&self) -> bool {
        self.runs >= MAX_RUNS && self.urgent == 0 && self.compaction_error.is_none()
    }

    /// Whether a merge that can wait should wait for the flush that runs, because commits wait for that.
    pub(crate) fn is_flush_first(&self) -> bool {
        self.flushing && self.runs < HURRY_RUNS
    }
}

impl Shared {
    pub(crate) fn is_full(&self, commit: &Commit) -> bool {
        commit.memtable_bytes >= self.settings.memtable_bytes || commit.memtable_rows >= MAX_ROWS
    }

    /// The commit lock, unless a read-modify-write statement holds it for long.
    pub(crate) fn try_open_commit(&self) -> Result<Option<MutexGuard<'_, Commit>>> {
        let try_once = |_| {
            let commit = self.commit.try_lock();
            commit.or_else(|| {
                std::hint::spin_loop();
                None
            })
        };
        let commit = (0..LOCK_TRIES).find_map(try_once).or_else(|| self.commit.try_lock_for(MAX_LOCK_WAIT));
        let Some(commit) = commit else { return Ok(None) };
        if commit.closed { Err(Error::closed("the database is closed")) } else { Ok(Some(commit)) }
    }

    /// Keeps the commit lock if the memtables have room or can be frozen at once.
    pub(crate) fn room<'a>(&self, mut commit: MutexGuard<'a, Commit>) -> Option<MutexGuard<'a, Commit>> {
        if !self.is_full(&commit) {
            return Some(commit);
        }
        if self.queue.lock().frozen.is_empty() {
            self.freeze(&mut commit);
            if self.has_threads() {
                return Some(commit);
            }
        }
        None
    }

    /// Takes the commit lock when the memtables have room. Full memtables must wait while the
    /// previous generation is being flushed: at most two generations are in memory.
    pub(crate) fn wait_for_room(&self) -> Result<MutexGuard<'_, Commit>> {
        let wait_ns = self.settings.write_wait_ms.saturating_mul(1_000_000);
        let start_ns = self.io.clock.monotonic_ns();
        loop {
            if let Some(commit) = self.room(self.open_commit()?) {
                return Ok(commit);
            }
            if !self.has_threads() {
                let full =
                    |error: Error| error.context("the memtables are full and the flush failed; nothing was written");
                self.flush_all().map_err(full)?;
                continue;
            }
            let mut queue = self.queue.lock();
            if queue.frozen.is_empty() {
                continue;
            }
            let waited_ns = self.io.clock.monotonic_ns().saturating_sub(start_ns);
            if waited_ns >= wait_ns {
                let reason = match &queue.flush_error {
                    Some(error) => format!("the last flush failed: {error}"),
                    None if queue.is_held_back() => "compaction cannot keep up".to_owned(),
                    None => "the flush cannot keep up".to_owned(),
                };
                return Err(Error::retry(format!(
                    "the memtables are full ({} bytes, setting memtable_bytes) and {reason}; nothing was \
                     written, try again",
                    self.settings.memtable_bytes
                )));
            }
            self.wake.wait_for(&mut queue, Duration::from_nanos(wait_ns - waited_ns));
        }
    }
}

#[cfg(test)]
#[path = "backpressure_tests.rs"]
mod tests;
