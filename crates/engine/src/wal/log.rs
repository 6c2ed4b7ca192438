//! The log writer: takes frames from committers, writes them to the file and syncs it.
//!
//! 1. A committer, under the database's commit lock, appends its frame to `pending`
//!    ([`Log::enqueue`]), together with a completion to call when the frame is as durable as
//!    requested.
//! 2. The log thread ([`Log::run`]) takes everything pending, writes it with one `write`, and
//!    completes the `os` and `interval` commits. If there are `sync` commits, or the interval is
//!    over, it calls `fdatasync` once and completes the others: group commit.
//!    - If many committers shared the last sync or arrived during it, the next sync waits briefly
//!      for them (like PostgreSQL's `commit_delay` with its `commit_siblings`).
//!    - A committer runs the step itself ([`Log::lead`]) if it needs no sync, or if its thread may
//!      block and no sync was shared lately.
//!    - Small synced steps overwrite zeros that were written ahead ([`Log::reserve`]).
//! 3. A new generation begins with a new file. The old file is first truncated after its last frame
//!    and synced, so that files become durable in order ([`Log::rotate`]).
//!
//! A full disk stalls the log: the file is truncated after its last whole frame, waiters get a
//! retriable error, and no batch is accepted. What could not be written stays in memory and is
//! written, in order, once there is room. After any other failed write, and after a failed fsync,
//! nothing more is acknowledged: the contents of the file are unknown (fsync may drop the dirty
//! pages it failed on). Without threads the committer runs the steps.

use super::frame;
use crate::error::{Code, Error, ErrorKind, Result};
use crate::ids::{Generation, Sequence};
use crate::io::{Io, WriteFile};
use crate::manifest::LogMark;
use crate::settings::Durability;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Milliseconds until a log stalled by a full disk tries again.
const STALL_RETRY_MS: u64 = 200;

/// Maximum time that a sync waits for more batches.
const MAX_GATHERING: Duration = Duration::from_millis(2);

/// A sync waits only if at least this many are likely to share it. With fewer, it is faster to run
/// a sync while the others work: by 15 to 38 % with 8 connections and 42 to 57 % with 32. With 96
/// or more, one sync for all is as fast or faster, by up to 17 %
/// (`fleetdb-bench run billing --targets fleetdb-wire --connections 8,32,64,96,160`, with 0 and with
/// `usize::MAX` here).
const MIN_GATHERED: usize = 64;

/// Zeros written ahead of the frames in one write.
const RESERVED_BYTES: usize = 64 << 10;

/// Maximum bytes between two syncs for which zeros are reserved. Reserving writes each byte twice,
/// but spares the file system a journal write. Journal blocks are 4 KiB, so larger steps gain
/// nothing.
const SMALL_STEP_BYTES: u64 = 4 << 10;

/// A buffer of up to this size is kept for reuse; a larger one is freed.
const MAX_SPARE_BYTES: usize = 256 << 10;

/// Called once with the outcome of a batch, on the log thread or a committer's thread that holds no
/// lock but the writer. It must be short and must not wait.
pub(crate) type Completion = Box<dyn FnOnce(Result<()>) + Send>;

/// What a committer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing: a few threads serve many such committers. It gives up when the memtables are full.
    /// It may [lead](Log::lead) if no one else is likely to share its sync.
    Never,
    /// Room in the memtables. It may write on its own thread, but must not block on a sync.
    ForRoom,
    /// Room, then the outcome, on its own thread. It may lead.
    ForOutcome,
}

/// A completion and the sequence and durability it waits for.
struct Waiter {
    sequence: Sequence,
    durability: Durability,
    done: Completion,
    /// Whether its sync should wait for others; see [`Log::gather`].
    gathers: bool,
}

/// Consecutive bytes for one file.
struct FileWrite {
    /// A new file begins here.
    begins: Option<Generation>,
    bytes: Vec<u8>,
    last: Sequence,
}

/// When a step syncs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syncs {
    /// If a waiter needs it, or the interval is over.
    InTime,
    /// If a waiter needs it. The log thread watches the interval.
    ForWaiters,
}

#[derive(Default)]
struct Pending {
    writes: Vec<FileWrite>,
    /// A buffer for the next write.
    spare: Vec<u8>,
    waiters: Vec<Waiter>,
    /// Number of waiters that the next sync will probably have if it waits.
    expected: usize,
    /// Why nothing can be written at the moment.
    stalled: Option<Error>,
    /// Why nothing can be written any more.
    failed: Option<Error>,
    closed: bool,
    /// The log thread waits to be woken, not for the end of the interval.
    is_asleep: bool,
}

impl Pending {
    /// Whether the next sync should start later: the newest waiter gathers, and more are expected.
    fn is_gathering(&self) -> bool {
        let are_many = self.expected >= MIN_GATHERED && self.waiters.len() < self.expected;
        are_many && self.waiters.last().is_some_and(|waiter| waiter.gathers) && !self.closed
    }
}

/// The file, used by the thread that runs a step.
struct Writer {
    file: Box<dyn WriteFile>,
    /// Bytes of the file up to the last whole frame.
    good_bytes: u64,
    /// The value of `good_bytes` at the last sync.
    synced_bytes: u64,
    /// End of the zeros written ahead; see [`Log::reserve`]. The file ends there or after its
    /// frames.
    zeros_end: u64,
    /// Writes still to do, oldest first; more than one step's only after a full disk.
    backlog: VecDeque<FileWrite>,
    /// The buffer of the last write, for reuse.
    spare: Vec<u8>,
    last_sync_ns: u64,
    /// Waiters for `sync` whose batch is written.
    unsynced: Vec<Waiter>,
}

impl Writer {
    /// Truncates the file after the last whole frame.
    fn cut(&mut self) -> Result<()> {
        self.file.truncate(self.good_bytes).map_err(Error::final_io)?;
        self.zeros_end = self.good_bytes;
        Ok(())
    }
}

/// The log of an open database.
pub(crate) struct Log {
    io: Io,
    interval_ns: u64,
    pending: Mutex<Pending>,
    wake: Condvar,
    writer: Mutex<Writer>,
    /// The last batch known to be durable.
    durable: AtomicU64,
    /// The last batch handed to the operating system. Changed only by the holder of the writer.
    written: AtomicU64,
    /// The generation of the newest file whose directory entry is durable.
    generation: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
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
        let name = frame::file_name(generation);
        let mut file = io.storage.append(&name, good_bytes as u64)?;
        let mut good_bytes = good_bytes as u64;
        if good_bytes == 0 {
            file.write(&frame::file_header(generation))?;
            good_bytes = frame::FILE_HEADER_BYTES as u64;
        }
        file.sync()?;
        io.storage.sync_directory(frame::DIRECTORY)?;
        Ok(Self::with_file(io, sync_interval_ms, generation, file, good_bytes, last))
    }

    /// Starts a log with a new file.
    pub(crate) fn create(io: &Io, sync_interval_ms: u64, generation: Generation, last: Sequence) -> Result<Arc<Self>> {
        let file = create_file(io, generation)?;
        Ok(Self::with_file(io, sync_interval_ms, generation, file, frame::FILE_HEADER_BYTES as u64, last))
    }

    fn with_file(
        io: &Io,
        sync_interval_ms: u64,
        generation: Generation,
        file: Box<dyn WriteFile>,
        good_bytes: u64,
        last: Sequence,
    ) -> Arc<Self> {
        let writer = Writer {
            file,
            good_bytes,
            synced_bytes: good_bytes,
            zeros_end: good_bytes,
            backlog: VecDeque::new(),
            spare: Vec::new(),
            last_sync_ns: io.clock.monotonic_ns(),
            unsynced: Vec::new(),
        };
        Arc::new(Self {
            io: io.clone(),
            interval_ns: sync_interval_ms.saturating_mul(1_000_000),
            pending: Mutex::default(),
            wake: Condvar::new(),
            writer: Mutex::new(writer),
            durable: AtomicU64::new(last.0),
            written: AtomicU64::new(last.0),
            generation: AtomicU64::new(generation.0),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        })
    }

    /// The last batch known to be durable.
    pub(crate) fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// What is known to be in the log, for the manifest.
    pub(crate) fn mark(&self) -> LogMark {
        // The generation must be read after the sequence: the file of a durable batch exists by
        // then.
        let durable = self.durable();
        LogMark { generation: Generation(self.generation.load(Ordering::Acquire)), durable }
    }

    /// Bytes written to WAL files since the database was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Number of fdatasync calls since the database was opened.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
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
        let mut pending = self.pending.lock();
        if pending.writes.is_empty() {
            let bytes = std::mem::take(&mut pending.spare);
            pending.writes.push(FileWrite { begins: None, bytes, last: sequence });
        }
        if let Some(write) = pending.writes.last_mut() {
            let start = frame::begin(&mut write.bytes);
            write.bytes.extend_from_slice(payload);
            frame::finish(&mut write.bytes, start, sequence, self.durable());
            write.last = sequence;
        }
        let wants_sync = durability == Durability::Sync;
        pending.waiters.push(Waiter {
            sequence,
            durability,
            done,
            gathers: wants_sync && waiting != Waiting::ForOutcome,
        });
        let count = pending.waiters.len();
        let is_alone = count == 1 && (!wants_sync || pending.expected <= 1);
        let leads = is_alone && !(wants_sync && waiting == Waiting::ForRoom);
        // Otherwise the log thread is already working or gathering.
        if !leads && (count == 1 || !pending.is_gathering()) {
            self.wake.notify_one();
        }
        leads
    }

    /// Does the log thread's work on a committer's thread, when no other is likely to share the
    /// sync or no sync is needed: with two threads, each would only wait for the other.
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
        let mut pending = self.pending.lock();
        pending.writes.push(FileWrite { begins: Some(generation), bytes: Vec::new(), last });
        self.wake.notify_one();
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
                if !self.has_unsynced() {
                    pending.is_asleep = true;
                    self.wake.wait(&mut pending);
                    pending.is_asleep = false;
                } else if self.wake.wait_for(&mut pending, Duration::from_nanos(self.interval_ns)).timed_out() {
                    break;
                }
            }
            let closed = pending.closed && pending.writes.is_empty();
            self.gather(&mut pending, sync_time);
            drop(pending);
            let begun_ns = self.io.clock.monotonic_ns();
            self.step();
            if closed {
                return;
            }
            sync_time = Duration::from_nanos(self.io.clock.monotonic_ns().saturating_sub(begun_ns));
        }
    }

    /// Waits for committers that are likely to arrive soon, if they are [many](MIN_GATHERED), so
    /// that they share a sync, which costs the same for one batch as for many. Waits at most twice
    /// as long as the last sync took. Never waits for committers on their own threads: they can
    /// work while others sync, and with 32 of them, waiting for all cost more than half of the rate
    /// (`fleetdb-bench run billing`). A server's committers, whose work a few threads share, gain
    /// from coming together.
    fn gather(&self, pending: &mut MutexGuard<'_, Pending>, sync_time: Duration) {
        self.wake.wait_while_for(pending, |pending| pending.is_gathering(), MAX_GATHERING.min(sync_time * 2));
    }

    /// Writes what is pending. Syncs if a waiter needs it or the interval is over.
    pub(crate) fn step(&self) {
        self.step_with(self.writer.lock(), Syncs::InTime);
    }

    fn step_with(&self, writer: MutexGuard<'_, Writer>, syncs: Syncs) {
        let synced = self.write_and_sync(writer, syncs);
        let mut pending = self.pending.lock();
        // Those that arrived during the sync would have shared it had it begun later.
        pending.expected = synced + pending.waiters.len();
        if pending.stalled.is_some() || (pending.is_asleep && self.has_unsynced()) {
            // The log thread went to sleep while another thread ran a step.
            self.wake.notify_one();
        }
    }

    /// Whether the file holds batches that are not durable yet.
    fn has_unsynced(&self) -> bool {
        self.durable().0 < self.written.load(Ordering::Acquire)
    }

    /// Returns the number of waiters for the sync.
    fn write_and_sync(&self, mut writer: MutexGuard<'_, Writer>, syncs: Syncs) -> usize {
        let (writes, mut waiters, failed, closed) = {
            let mut pending = self.pending.lock();
            let writes = std::mem::take(&mut pending.writes);
            // The next step will probably have as many.
            let next = Vec::with_capacity(pending.waiters.len());
            let waiters = std::mem::replace(&mut pending.waiters, next);
            if pending.spare.capacity() == 0 {
                pending.spare = std::mem::take(&mut writer.spare);
            }
            (writes, waiters, pending.failed.clone(), pending.closed)
        };
        writer.backlog.extend(writes);
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
                if waiter.durability == Durability::Sync {
                    writer.unsynced.push(waiter);
                } else {
                    (waiter.done)(Ok(()));
                }
            }
            let since_ns = self.io.clock.monotonic_ns().saturating_sub(writer.last_sync_ns);
            let is_due = syncs == Syncs::InTime && since_ns >= self.interval_ns;
            if self.has_unsynced() && (!writer.unsynced.is_empty() || is_due || closed) {
                if !writer.unsynced.is_empty() {
                    self.reserve(&mut writer)?;
                }
                self.sync(&mut writer)?;
            }
            synced = writer.unsynced.len();
            for waiter in std::mem::take(&mut writer.unsynced) {
                debug_assert!(waiter.sequence <= self.durable(), "acknowledged before it is durable");
                (waiter.done)(Ok(()));
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

    /// Writes the backlog. `Ok(Some(error))`: the disk is full, and the rest stays in the backlog.
    fn write(&self, writer: &mut Writer) -> Result<Option<Error>> {
        while let Some(write) = writer.backlog.front_mut() {
            let written = match write.begins {
                None => writer.file.write(&write.bytes),
                Some(generation) => {
                    self.end_file(writer)?;
                    create_file(&self.io, generation).map(|file| {
                        writer.file = file;
                        writer.good_bytes = frame::FILE_HEADER_BYTES as u64;
                        writer.synced_bytes = writer.good_bytes;
                        writer.zeros_end = writer.good_bytes;
                        self.generation.store(generation.0, Ordering::Release);
                    })
                }
            };
            match written {
                Err(error) if error.kind() == ErrorKind::Retry => {
                    writer.cut()?;
                    self.pending.lock().stalled = Some(error.clone());
                    return Ok(Some(error));
                }
                written => written?,
            }
            let Some(write) = writer.backlog.front_mut() else { break };
            if write.begins.take().is_some() {
                // Now write its bytes.
                continue;
            }
            writer.good_bytes += write.bytes.len() as u64;
            self.bytes_written.fetch_add(write.bytes.len() as u64, Ordering::Relaxed);
            self.written.store(write.last.0, Ordering::Release);
            if let Some(FileWrite { mut bytes, .. }) = writer.backlog.pop_front()
                && bytes.capacity() <= MAX_SPARE_BYTES
            {
                bytes.clear();
                writer.spare = bytes;
            }
        }
        self.pending.lock().stalled = None;
        Ok(None)
    }

    /// Writes zeros after the frames if a small synced step has made the file longer. While steps
    /// overwrite zeros, their syncs write only frames, not the file's length. (InnoDB and
    /// PostgreSQL preallocate their log files for the same reason.)
    fn reserve(&self, writer: &mut Writer) -> Result<()> {
        let is_longer = writer.good_bytes >= writer.zeros_end;
        if !is_longer || writer.good_bytes - writer.synced_bytes > SMALL_STEP_BYTES {
            return Ok(());
        }
        match writer.file.reserve(RESERVED_BYTES) {
            Ok(()) => {
                writer.zeros_end = writer.good_bytes + RESERVED_BYTES as u64;
                self.bytes_written.fetch_add(RESERVED_BYTES as u64, Ordering::Relaxed);
                Ok(())
            }
            // The frames themselves fit.
            Err(error) if error.kind() == ErrorKind::Retry => writer.cut(),
            Err(error) => Err(error),
        }
    }

    /// Makes the file durable, ending with its last frame.
    fn end_file(&self, writer: &mut Writer) -> Result<()> {
        let has_zeros = writer.zeros_end > writer.good_bytes;
        if has_zeros {
            writer.cut()?;
        }
        if has_zeros || self.has_unsynced() {
            self.sync(writer)?;
        }
        Ok(())
    }

    fn sync(&self, writer: &mut Writer) -> Result<()> {
        writer.file.sync().map_err(Error::final_io)?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        writer.synced_bytes = writer.good_bytes;
        writer.last_sync_ns = self.io.clock.monotonic_ns();
        self.durable.store(self.written.load(Ordering::Acquire), Ordering::Release);
        Ok(())
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
        self.end_file(&mut writer)
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
        if self.has_unsynced() && self.durable() < last {
            let synced = self.sync(&mut writer);
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

/// Creates a durable file with its header. After an error there is no file.
fn create_file(io: &Io, generation: Generation) -> Result<Box<dyn WriteFile>> {
    let name = frame::file_name(generation);
    let mut file = io.storage.create(&name)?;
    let begun = file.write(&frame::file_header(generation)).and_then(|()| {
        file.sync().map_err(Error::final_io)?;
        io.storage.sync_directory(frame::DIRECTORY).map_err(Error::final_io)
    });
    if let Err(error) = begun {
        // This may fail on a full disk; the first error is the one to report.
        io.storage.remove(&name).ok();
        return Err(error);
    }
    Ok(file)
}

fn poisoned(error: &Error) -> Error {
    Error::closed(format!("the log failed and accepts no more batches until the database is reopened: {error}"))
}

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
