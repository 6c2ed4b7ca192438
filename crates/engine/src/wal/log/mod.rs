//! The log writer: takes frames from committers, writes them to the file and syncs it.
//!
//! 1. A committer, under the database's commit lock, appends its frame to [`Pending`]
//!    ([`Log::enqueue`]), together with a completion to call when the frame is as durable as
//!    requested.
//! 2. The log thread ([`Log::run`]) takes everything pending, writes it with one `write`, and
//!    completes the `os` and `interval` commits. If there are `sync` commits, or the interval is
//!    over, it calls `fdatasync` once and completes the others: group commit. A committer may run
//!    the step itself ([`Log::lead`]).
//! 3. A new generation begins with a new file ([`Log::rotate`]), which may overwrite that of a
//!    generation that is in segments ([`Log::retire`]).
//!
//! A full disk stalls the log: the file is truncated after its last whole frame, waiters get a
//! retriable error, and no batch is accepted. What could not be written stays in memory and is
//! written, in order, once there is room. After any other failed write, and after a failed fsync,
//! nothing more is acknowledged: the contents of the file are unknown (fsync may drop the dirty
//! pages it failed on). Without threads the committer runs the steps.
//!
//! Owns the steps, the two locks (the writer's before that of what is pending) and what errors mean
//! for the waiters. Does not own who shares a sync (`gather.rs`), what a file contains (`file.rs`)
//! or the numbers that others read (`progress.rs`).

mod file;
mod gather;
mod progress;
mod spare;

use crate::error::{Code, Error, ErrorKind, Result};
use crate::ids::{Generation, Sequence};
use crate::io::Io;
use crate::manifest::LogMark;
use crate::settings::Durability;
use crate::sharing::Sharing;
use file::LogFile;
pub(crate) use gather::Waiting;
use gather::{Completion, Next, Pending, Waiter, gather};
use parking_lot::{Condvar, Mutex, MutexGuard};
pub use progress::LogEnd;
use progress::Progress;
use spare::Spare;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Milliseconds until a log stalled by a full disk tries again.
const STALL_RETRY_MS: u64 = 200;

/// When a step syncs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syncs {
    /// If a waiter needs it, or the interval is over.
    InTime,
    /// If a waiter needs it. The log thread watches the interval.
    ForWaiters,
}

/// What the thread that runs a step uses.
struct Writer {
    file: LogFile,
    /// Waiters for `sync` whose batch is written.
    unsynced: Vec<Waiter>,
}

/// The log of an open database.
pub(crate) struct Log {
    io: Io,
    interval_ns: u64,
    pending: Mutex<Pending>,
    wake: Condvar,
    writer: Mutex<Writer>,
    /// Changed only by the holder of the writer.
    progress: Arc<Progress>,
    spare: Arc<Spare>,
    /// Set if the log is also kept elsewhere.
    sharing: OnceLock<Arc<Sharing>>,
}

impl Log {
    /// Continues an existing log file: its first `good_bytes` hold batches up to `last`.
    pub(crate) fn resume(
        io: &Io,
        sync_interval_ms: u64,
        generation: Generation,
        good_bytes: usize,
        last: Sequence,
    ) -> Result<Arc<Self>> {
        let progress = Arc::new(Progress::new(generation, last));
        let file = LogFile::resume(io, generation, good_bytes, &progress)?;
        Ok(Self::with_file(io, sync_interval_ms, file, progress))
    }

    /// Starts a log with a new file.
    pub(crate) fn create(io: &Io, sync_interval_ms: u64, generation: Generation, last: Sequence) -> Result<Arc<Self>> {
        let progress = Arc::new(Progress::new(generation, last));
        let file = LogFile::create(io, generation, &progress)?;
        Ok(Self::with_file(io, sync_interval_ms, file, progress))
    }

    fn with_file(io: &Io, sync_interval_ms: u64, file: LogFile, progress: Arc<Progress>) -> Arc<Self> {
        Arc::new(Self {
            io: io.clone(),
            interval_ns: sync_interval_ms.saturating_mul(1_000_000),
            pending: Mutex::default(),
            wake: Condvar::new(),
            spare: Arc::clone(file.spare_file()),
            writer: Mutex::new(Writer { file, unsynced: Vec::new() }),
            progress,
            sharing: OnceLock::new(),
        })
    }

    /// The last batch known to be durable.
    pub(crate) fn durable(&self) -> Sequence {
        self.progress.durable()
    }

    /// How far the log is durable.
    pub(crate) fn end(&self) -> LogEnd {
        self.progress.end()
    }

    /// From now on, batches of [`Durability::Shared`] wait here once they are durable. Only the first
    /// call counts.
    pub(crate) fn share(&self, sharing: Arc<Sharing>) {
        self.sharing.set(sharing).ok();
    }

    /// Who keeps the log elsewhere, if someone does.
    pub(crate) fn sharing(&self) -> Option<&Arc<Sharing>> {
        self.sharing.get()
    }

    /// What is known to be in the log, for the manifest.
    pub(crate) fn mark(&self) -> LogMark {
        self.progress.mark()
    }

    /// Bytes written to WAL files since the database was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.progress.bytes_written()
    }

    /// Number of fdatasync calls since the database was opened.
    pub(crate) fn syncs(&self) -> u64 {
        self.progress.syncs()
    }

    /// Returns an error if the log cannot accept a batch, now or ever.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.io.spawn.has_threads() && self.pending.lock().stalled.is_some() {
            self.step();
        }
        let pending = self.pending.lock();
        match (&pending.failed, &pending.stalled) {
            (Some(error), _) => Err(poisoned(error)),
            _ if pending.closed => Err(Error::closed("the database is closed")),
            (_, Some(error)) => Err(stalled(error)),
            _ => Ok(()),
        }
    }

    /// Returns an error if the log has failed or is closed, but not for a full disk.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.check() {
            Err(error) if error.kind() == ErrorKind::Retry => Ok(()),
            checked => checked,
        }
    }

    /// Stops accepting batches: it is unknown whether a schema change is durable, and therefore how
    /// later batches would be read.
    pub(crate) fn fail(&self, error: &Error) {
        self.pending.lock().failed.get_or_insert_with(|| error.clone());
        self.wake.notify_one();
    }

    /// Appends a frame. The caller holds the commit lock, so that frames are in sequence order.
    /// Returns whether the caller, if it may, must [`lead`](Self::lead) once it holds no lock: no
    /// one else has been told about the frame.
    pub(crate) fn enqueue(
        &self,
        sequence: Sequence,
        durability: Durability,
        payload: &[u8],
        done: Completion,
        waiting: Waiting,
    ) -> bool {
        if let Some(sharing) = self.sharing_of(durability) {
            sharing.ask(sequence);
        }
        let mut pending = self.pending.lock();
        pending.push_frame(sequence, payload, self.durable());
        let next = pending.push_waiter(sequence, durability, done, waiting);
        if next == Next::Wake {
            self.wake.notify_one();
        }
        next == Next::Lead
    }

    /// Who shares batches of this level, if someone does.
    fn sharing_of(&self, durability: Durability) -> Option<&Arc<Sharing>> {
        self.sharing.get().filter(|_| durability == Durability::Shared)
    }

    /// Calls `done` once what a batch that changes nothing has read, up to `sequence`, is as durable as
    /// the batch asks.
    pub(crate) fn confirm(&self, sequence: Sequence, durability: Durability, done: Completion) {
        match self.sharing_of(durability) {
            Some(sharing) => sharing.confirm(sequence, self.io.clock.monotonic_ns(), done),
            None => done(Ok(())),
        }
    }

    /// Calls `done` once everything up to `sequence`, which is durable here, has reached a level.
    pub(crate) fn reach(&self, durability: Durability, sequence: Sequence, done: Completion) {
        match self.sharing_of(durability) {
            Some(sharing) => sharing.wait(sequence, self.io.clock.monotonic_ns(), done),
            None => done(Ok(())),
        }
    }

    /// Returns an error if no batch can be shared, because the database is not in a cluster.
    pub(crate) fn check_shared(&self) -> Result<()> {
        match self.sharing.get() {
            Some(_) => Ok(()),
            None => Err(Error::new(
                Code::NotSupported,
                "durability 'shared' needs a cluster, and this database is not in one: use sync, interval or os",
            )),
        }
    }

    /// Does the log thread's work on a committer's thread.
    pub(crate) fn lead(&self) {
        match self.writer.try_lock() {
            Some(writer) => self.step_with(writer, Syncs::ForWaiters),
            // Another thread has the file and may miss the frame.
            None => self.wake(),
        }
    }

    /// Tells the log thread that there is a frame.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Begins a new file after what is pending. The caller holds the commit lock.
    pub(crate) fn rotate(&self, generation: Generation, last: Sequence) {
        self.pending.lock().push_file(generation, last);
        self.wake.notify_one();
    }

    /// A generation that has ended is in segments: its file is kept for the next one, or removed.
    pub(crate) fn retire(&self, generation: Generation) -> Result<()> {
        self.spare.keep(generation)
    }

    /// Removes the file that was kept for the next generation, if there is one.
    pub(crate) fn remove_spare(&self) {
        self.spare.remove();
    }

    /// The log thread: runs steps until the log is closed.
    pub(crate) fn run(&self) {
        let mut sync_time = Duration::ZERO;
        loop {
            let mut pending = self.pending.lock();
            while pending.writes.is_empty() && !pending.closed {
                if pending.stalled.is_some() {
                    self.wake.wait_for(&mut pending, Duration::from_millis(STALL_RETRY_MS));
                    break;
                }
                if !self.progress.has_unsynced() {
                    pending.is_asleep = true;
                    self.wake.wait(&mut pending);
                    pending.is_asleep = false;
                } else if self.wake.wait_for(&mut pending, Duration::from_nanos(self.interval_ns)).timed_out() {
                    break;
                }
            }
            let closed = pending.closed && pending.writes.is_empty();
            gather(&self.wake, &mut pending, sync_time);
            drop(pending);
            let begun_ns = self.io.clock.monotonic_ns();
            self.step();
            if closed {
                return;
            }
            sync_time = Duration::from_nanos(self.io.clock.monotonic_ns().saturating_sub(begun_ns));
        }
    }

    /// Writes what is pending. Syncs if a waiter needs it or the interval is over.
    pub(crate) fn step(&self) {
        self.step_with(self.writer.lock(), Syncs::InTime);
    }

    fn step_with(&self, writer: MutexGuard<'_, Writer>, syncs: Syncs) {
        let synced = self.write_and_sync(writer, syncs);
        let mut pending = self.pending.lock();
        pending.expect_after(synced);
        if pending.stalled.is_some() || (pending.is_asleep && self.progress.has_unsynced()) {
            // The log thread went to sleep while another thread ran a step.
            self.wake.notify_one();
        }
    }

    /// Returns the number of waiters for the sync.
    fn write_and_sync(&self, mut writer: MutexGuard<'_, Writer>, syncs: Syncs) -> usize {
        let (writes, mut waiters, failed, closed) = {
            let mut pending = self.pending.lock();
            let (writes, waiters) = pending.take(|| writer.file.take_spare_buffer());
            (writes, waiters, pending.failed.clone(), pending.closed)
        };
        writer.file.push(writes);
        let outcome = match failed {
            Some(error) => Err(error),
            None => self.write(&mut writer),
        };
        if let Ok(Some(error)) = &outcome {
            let unsynced = std::mem::take(&mut writer.unsynced);
            drop(writer);
            for waiter in unsynced.into_iter().chain(waiters) {
                (waiter.done)(Err(stalled(error)));
            }
            return 0;
        }
        let mut synced = 0;
        let outcome = outcome.and_then(|_| {
            writer.unsynced.reserve(waiters.len());
            for waiter in std::mem::take(&mut waiters) {
                if waiter.durability >= Durability::Sync {
                    writer.unsynced.push(waiter);
                } else {
                    (waiter.done)(Ok(()));
                }
            }
            let is_due = syncs == Syncs::InTime && writer.file.since_sync_ns() >= self.interval_ns;
            if self.progress.has_unsynced() && (!writer.unsynced.is_empty() || is_due || closed) {
                if !writer.unsynced.is_empty() {
                    writer.file.reserve()?;
                }
                writer.file.sync()?;
                if let Some(sharing) = self.sharing.get() {
                    sharing.wake();
                }
            }
            synced = writer.unsynced.len();
            for waiter in std::mem::take(&mut writer.unsynced) {
                debug_assert!(waiter.sequence <= self.durable(), "acknowledged before it is durable");
                self.reach(waiter.durability, waiter.sequence, waiter.done);
            }
            Ok(())
        });
        if let Err(error) = outcome {
            self.pending.lock().failed.get_or_insert_with(|| error.clone());
            let unsynced = std::mem::take(&mut writer.unsynced);
            drop(writer);
            for waiter in unsynced.into_iter().chain(waiters) {
                (waiter.done)(Err(poisoned(&error)));
            }
        }
        synced
    }

    /// Writes the backlog. `Ok(Some(error))`: the disk is full, and the log is stalled.
    fn write(&self, writer: &mut Writer) -> Result<Option<Error>> {
        let full = writer.file.write()?;
        self.pending.lock().stalled.clone_from(&full);
        Ok(full)
    }

    /// Accepts no more batches and makes everything pending durable.
    ///
    /// # Errors
    /// The log had already failed, or fails now.
    pub(crate) fn close(&self) -> Result<()> {
        self.pending.lock().closed = true;
        self.wake.notify_one();
        self.step();
        let mut writer = self.writer.lock();
        if let Some(error) = &self.pending.lock().failed {
            return Err(poisoned(error));
        }
        writer.file.end()
    }

    /// Makes everything up to batch `last` durable.
    ///
    /// # Errors
    /// The disk is full, or the log failed.
    pub(crate) fn flush(&self, last: Sequence) -> Result<()> {
        self.step();
        let mut writer = self.writer.lock();
        if let Some(error) = &self.pending.lock().failed {
            return Err(poisoned(error));
        }
        if self.progress.has_unsynced() && self.durable() < last {
            let synced = writer.file.sync();
            if let Err(error) = &synced {
                self.pending.lock().failed.get_or_insert_with(|| error.clone());
            }
            return synced;
        }
        match &self.pending.lock().stalled {
            Some(error) if self.durable() < last => Err(stalled(error)),
            _ => Ok(()),
        }
    }
}

/// The error for a batch after `error` made the log fail.
fn poisoned(error: &Error) -> Error {
    Error::closed(format!("the log failed and accepts no more batches until the database is reopened: {error}"))
}

/// The error for a batch while `error` keeps the log from writing.
fn stalled(error: &Error) -> Error {
    Error::new(
        Code::DiskFull,
        format!(
            "the disk is full ({error}): nothing is written until there is space; free some space and try again \
             (repeating a batch is harmless)"
        ),
    )
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
