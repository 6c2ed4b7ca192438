//! The log writer: takes frames from committers and brings them to the file and the medium.
//!
//! 1. A committer, under the database's commit lock, puts its frame at the end of `pending`
//!    ([`Log::enqueue`]) together with what is to be called when it is as durable as asked.
//! 2. The log thread ([`Log::run`]) takes all that is pending, writes it with one `write`, calls
//!    whoever asked for `os` or `interval`, and, if somebody asked for `sync` or the interval is
//!    over, does one `fdatasync` and calls the others: group commit.
//!    A sync waits a moment for those who shared the last one, or came during it, if they are many (as PostgreSQL's
//!    `commit_delay` with its `commit_siblings`). A committer who has a thread for its sync, when none was shared lately, runs
//!    the step itself ([`Log::lead`]), and so does one that needs none.
//!    Small steps that are synced overwrite zeros, which are written ahead of them ([`Log::reserve`]).
//! 3. A new generation begins with a new file; the old one is cut behind its last frame and synced first, so that files
//!    are durable in order ([`Log::rotate`]).
//!
//! A full disk stalls the log: the file is cut back to its last whole frame, whoever waits is told to try again, no
//! batch is taken, and what could not be written stays in memory and is written, in order, as soon as there is
//! room. After any other failed write, and after a failed fsync, nothing is acknowledged any more: what the file holds
//! is unknown (fsync may drop the dirty pages it failed on). Without threads the committer runs the steps.

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

/// Milliseconds until a log that a full disk stalled tries again.
const STALL_RETRY_MS: u64 = 200;

/// The longest time that a sync waits for more batches.
const MOST_GATHERING: Duration = Duration::from_millis(2);

/// A sync waits only if so many are likely to share it. Fewer do better with one sync running while the others work, by 15
/// to 38 % with 8 connections and 42 to 57 % with 32; 96 and more do as well or better, by up to 17 %, with one for all
/// (`fleetdb-bench bars served --connections 8,32,64,96,160`, with 0 and with `usize::MAX` here).
const LEAST_GATHERED: usize = 64;

/// Zeros written ahead of the frames, in one write.
const RESERVED_BYTES: usize = 64 << 10;

/// The most bytes between two syncs that zeros are written for. Each byte is written twice then, but the file system does
/// not write its journal; that costs whole blocks of 4 KiB, so that larger steps gain nothing.
const SMALL_STEP_BYTES: u64 = 4 << 10;

/// A buffer of so many bytes is kept for what comes next, a larger one is given back.
const MOST_SPARE_BYTES: usize = 256 << 10;

/// Called once with the fate of a batch, on the log thread or a committer's, who then holds no lock but the writer: it must
/// be short and must not wait.
pub(crate) type Completion = Box<dyn FnOnce(Result<()>) + Send>;

/// What a committer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For nothing: it is one of many that a few threads serve. It gives up when the memtables are full. It may
    /// [lead](Log::lead) if nobody is likely to share its sync.
    Never,
    /// For room in the memtables. It may write on its own thread, but must not block on a sync.
    ForRoom,
    /// For room, and then for its outcome, on a thread of its own: it may lead.
    ForOutcome,
}

/// A completion and the sequence and durability it waits for.
struct Waiter {
    sequence: Sequence,
    durability: Durability,
    done: Completion,
    /// Whether it is worth while to wait for others; see [`Log::gather`].
    gathers: bool,
}

/// One stretch of bytes for one file.
struct Stretch {
    /// A new file begins here.
    begins: Option<Generation>,
    bytes: Vec<u8>,
    last: Sequence,
}

/// When a step syncs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syncs {
    /// If somebody waits for it, or the interval is over.
    InTime,
    /// If somebody waits for it: the interval's end is the log's thread's to see.
    ForWaiters,
}

#[derive(Default)]
struct Pending {
    stretches: Vec<Stretch>,
    /// A buffer for the next stretch.
    spare: Vec<u8>,
    waiters: Vec<Waiter>,
    /// How many waiters the next sync is likely to have, if they are waited for.
    expected: usize,
    /// Why nothing can be written at the moment.
    stalled: Option<Error>,
    /// Why nothing can be written any more.
    failed: Option<Error>,
    closed: bool,
    /// The log's thread waits to be woken, not for the interval's end.
    is_asleep: bool,
}

impl Pending {
    /// Whether the next sync is better begun a little later: who came last gathers, and others are likely to come.
    fn is_gathering(&self) -> bool {
        let are_many = self.expected >= LEAST_GATHERED && self.waiters.len() < self.expected;
        are_many && self.waiters.last().is_some_and(|waiter| waiter.gathers) && !self.closed
    }
}

/// The file, touched by whoever runs a step.
struct Writer {
    file: Box<dyn WriteFile>,
    /// The file's bytes up to the last whole frame.
    good_bytes: u64,
    /// As `good_bytes`, at the last sync.
    synced_bytes: u64,
    /// How far zeros were written ahead, see [`Log::reserve`]; the file ends there or behind its frames.
    zeros_end: u64,
    /// What is to be written next, from old to new; more than one step's only after a full disk.
    backlog: VecDeque<Stretch>,
    /// The buffer of what was written last.
    spare: Vec<u8>,
    last_sync_ns: u64,
    /// Waiters for `sync` whose batch is written.
    unsynced: Vec<Waiter>,
}

impl Writer {
    /// Cuts the file behind the last whole frame.
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
    /// The last batch known to be on the medium.
    durable: AtomicU64,
    /// The last batch handed to the operating system; changed by whoever has the writer.
    written: AtomicU64,
    /// The generation of the newest file whose name is durable.
    generation: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
}

impl Log {
    /// A log that goes on in a file that exists: `good_bytes` of it hold batches up to `last`.
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

    /// A log that begins with a new file.
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

    /// The last batch known to be on the medium.
    pub(crate) fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// What is known to be in the log, for the manifest.
    pub(crate) fn mark(&self) -> LogMark {
        // A batch that is durable now is in a file that is there now: the generation is read behind.
        let durable = self.durable();
        LogMark { generation: Generation(self.generation.load(Ordering::Acquire)), durable }
    }

    /// Bytes written to WAL files since the database was opened.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// fdatasync calls since the database was opened.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Refuses if the log cannot take a batch, now or ever.
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

    /// Refuses if the log has failed or is closed; a full disk is no reason.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.check() {
            Err(error) if error.kind() == ErrorKind::Retry => Ok(()),
            checked => checked,
        }
    }

    /// Takes no more batches: whether a schema change is durable is unknown, and so is how batches after it would be
    /// read.
    pub(crate) fn fail(&self, error: &Error) {
        self.pending.lock().failed.get_or_insert_with(|| error.clone());
        self.wake.notify_one();
    }

    /// Adds a frame. The caller holds the commit lock, so that frames stand in the order of their sequences. Gives
    /// whether the caller, if it may, has to [`lead`](Self::lead) when it holds no lock any more: nobody else is told of the
    /// frame.
    pub(crate) fn enqueue(
        &self,
        sequence: Sequence,
        durability: Durability,
        payload: &[u8],
        done: Completion,
        waiting: Waiting,
    ) -> bool {
        let mut pending = self.pending.lock();
        if pending.stretches.is_empty() {
            let bytes = std::mem::take(&mut pending.spare);
            pending.stretches.push(Stretch { begins: None, bytes, last: sequence });
        }
        if let Some(stretch) = pending.stretches.last_mut() {
            let start = frame::begin(&mut stretch.bytes);
            stretch.bytes.extend_from_slice(payload);
            frame::finish(&mut stretch.bytes, start, sequence, self.durable());
            stretch.last = sequence;
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
        // In between, the log's thread works or gathers.
        if !leads && (count == 1 || !pending.is_gathering()) {
            self.wake.notify_one();
        }
        leads
    }

    /// Does the log thread's work for a committer whom nobody is likely to share a sync with, or who needs none: both
    /// threads would only wait for each other.
    pub(crate) fn lead(&self) {
        match self.writer.try_lock() {
            Some(writer) => self.step_with(writer, Syncs::ForWaiters),
            // Somebody else is at the file and may not see the frame.
            None => self.wake(),
        }
    }

    /// Tells the log's thread that there is a frame.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Begins a new file behind what is pending. The caller holds the commit lock.
    pub(crate) fn rotate(&self, generation: Generation, last: Sequence) {
        let mut pending = self.pending.lock();
        pending.stretches.push(Stretch { begins: Some(generation), bytes: Vec::new(), last });
        self.wake.notify_one();
    }

    /// The log thread: steps until the log is closed.
    pub(crate) fn run(&self) {
        let mut sync_time = Duration::ZERO;
        loop {
            let mut pending = self.pending.lock();
            while pending.stretches.is_empty() && !pending.closed {
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
            let closed = pending.closed && pending.stretches.is_empty();
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

    /// Waits for those who are likely to commit soon, if they are [many](LEAST_GATHERED), so that they share a sync, which
    /// costs as much for one batch as for many: at most twice as long as the last sync took. Never for committers who wait
    /// on threads of their own: they have work to do while others' sync runs, and with 32 of them waiting for all took
    /// more than half of the rate (`fleetdb-bench run billing`); a server's, whose work a few threads share, gain by
    /// coming together.
    fn gather(&self, pending: &mut MutexGuard<'_, Pending>, sync_time: Duration) {
        self.wake.wait_while_for(pending, |pending| pending.is_gathering(), MOST_GATHERING.min(sync_time * 2));
    }

    /// Writes what is pending, syncs if somebody waits for it or the interval is over.
    pub(crate) fn step(&self) {
        self.step_with(self.writer.lock(), Syncs::InTime);
    }

    fn step_with(&self, writer: MutexGuard<'_, Writer>, syncs: Syncs) {
        let synced = self.write_and_sync(writer, syncs);
        let mut pending = self.pending.lock();
        // Who came during a sync would have shared it if it had begun later.
        pending.expected = synced + pending.waiters.len();
        if pending.stalled.is_some() || (pending.is_asleep && self.has_unsynced()) {
            // The log's thread went to sleep while another one stepped.
            self.wake.notify_one();
        }
    }

    /// Whether batches are in the file that are not on the medium yet.
    fn has_unsynced(&self) -> bool {
        self.durable().0 < self.written.load(Ordering::Acquire)
    }

    /// Gives how many waited for a sync.
    fn write_and_sync(&self, mut writer: MutexGuard<'_, Writer>, syncs: Syncs) -> usize {
        let (stretches, mut waiters, failed, closed) = {
            let mut pending = self.pending.lock();
            let stretches = std::mem::take(&mut pending.stretches);
            // As many are likely to come again.
            let next = Vec::with_capacity(pending.waiters.len());
            let waiters = std::mem::replace(&mut pending.waiters, next);
            if pending.spare.capacity() == 0 {
                pending.spare = std::mem::take(&mut writer.spare);
            }
            (stretches, waiters, pending.failed.clone(), pending.closed)
        };
        writer.backlog.extend(stretches);
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

    /// Writes the backlog. `Some` error: the disk is full, and the rest stays in the backlog.
    fn write(&self, writer: &mut Writer) -> Result<Option<Error>> {
        while let Some(stretch) = writer.backlog.front_mut() {
            let written = match stretch.begins {
                None => writer.file.write(&stretch.bytes),
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
            let Some(stretch) = writer.backlog.front_mut() else { break };
            if stretch.begins.take().is_some() {
                // Now its bytes.
                continue;
            }
            writer.good_bytes += stretch.bytes.len() as u64;
            self.bytes_written.fetch_add(stretch.bytes.len() as u64, Ordering::Relaxed);
            self.written.store(stretch.last.0, Ordering::Release);
            if let Some(Stretch { mut bytes, .. }) = writer.backlog.pop_front()
                && bytes.capacity() <= MOST_SPARE_BYTES
            {
                bytes.clear();
                writer.spare = bytes;
            }
        }
        self.pending.lock().stalled = None;
        Ok(None)
    }

    /// Has zeros ready behind the frames, if a small step that is to be synced made the file longer: as long as steps
    /// overwrite zeros, their syncs write frames only and not the file's length, too (as peers' logs, which are as long from
    /// their start as they will be: InnoDB, PostgreSQL).
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
            // The frames themselves had room.
            Err(error) if error.kind() == ErrorKind::Retry => writer.cut(),
            Err(error) => Err(error),
        }
    }

    /// Leaves a file that ends with its last frame, durable.
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

    /// Takes no more batches, brings what is pending to the medium.
    ///
    /// # Errors
    /// The log had failed, or fails now.
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

    /// Brings everything up to batch `last` to the medium.
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

/// A new file with its header, durable. After an error there is no file.
fn create_file(io: &Io, generation: Generation) -> Result<Box<dyn WriteFile>> {
    let name = frame::file_name(generation);
    let mut file = io.storage.create(&name)?;
    let begun = file.write(&frame::file_header(generation)).and_then(|()| {
        file.sync().map_err(Error::final_io)?;
        io.storage.sync_directory(frame::DIRECTORY).map_err(Error::final_io)
    });
    if let Err(error) = begun {
        // The disk may be full; what matters is the first error.
        io.storage.remove(&name).ok();
        return Err(error);
    }
    Ok(file)
}

fn poisoned(error: &Error) -> Error {
    Error::closed(format!("the log failed and takes no more batches until the database is opened again: {error}"))
}

fn stalled(error: &Error) -> Error {
    Error::coded(
        Code::DiskFull,
        format!(
            "the disk is full ({error}): nothing is written until there is room; make room and try again, repeating a batch is harmless"
        ),
    )
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
