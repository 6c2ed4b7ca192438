//! How far the log has come: numbers that every thread reads without a lock.
//!
//! Owns the order in which they change and are read. Does not own the file: only the thread that
//! holds the log's writer changes them ([`LogFile`](super::file::LogFile)).

use crate::ids::{Generation, Sequence};
use crate::manifest::LogMark;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a log is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The generation of the newest file.
    pub generation: Generation,
    /// The bytes of that file that are durable. They end with a whole frame.
    pub bytes: u64,
    /// The last batch that is durable.
    pub sequence: Sequence,
}

/// How far the log has come.
pub(super) struct Progress {
    /// The last batch known to be durable.
    durable: AtomicU64,
    /// The last batch handed to the operating system.
    written: AtomicU64,
    /// The generation of the newest file whose directory entry is durable.
    generation: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
    end: Mutex<LogEnd>,
}

impl Progress {
    /// All batches up to `last` are durable, and the newest file is that of `generation`.
    pub(super) fn new(generation: Generation, last: Sequence) -> Self {
        Self {
            durable: AtomicU64::new(last.0),
            written: AtomicU64::new(last.0),
            generation: AtomicU64::new(generation.0),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            end: Mutex::new(LogEnd { generation, bytes: 0, sequence: last }),
        }
    }

    /// The last batch known to be durable.
    pub(super) fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// What is known to be in the log, for the manifest.
    pub(super) fn mark(&self) -> LogMark {
        // The generation must be read after the sequence: the file of a durable batch exists by
        // then.
        let durable = self.durable();
        LogMark { generation: Generation(self.generation.load(Ordering::Acquire)), durable }
    }

    /// Whether the file holds batches that are not durable yet.
    pub(super) fn has_unsynced(&self) -> bool {
        self.durable().0 < self.written.load(Ordering::Acquire)
    }

    /// Bytes written since the database was opened.
    pub(super) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Number of syncs since the database was opened.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Bytes were written: frames, or zeros ahead of them.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All batches up to `last` are handed to the operating system.
    pub(super) fn set_written(&self, last: Sequence) {
        self.written.store(last.0, Ordering::Release);
    }

    /// The file was synced: everything written is durable, which is `bytes` of the newest file.
    pub(super) fn set_synced(&self, bytes: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let written = self.written.load(Ordering::Acquire);
        self.durable.store(written, Ordering::Release);
        let mut end = self.end.lock();
        (end.bytes, end.sequence) = (bytes, Sequence(written));
    }

    /// The file of a generation exists with this many durable bytes, and so does its directory entry
    /// after a crash.
    pub(super) fn set_file(&self, generation: Generation, bytes: u64) {
        self.generation.store(generation.0, Ordering::Release);
        let mut end = self.end.lock();
        (end.generation, end.bytes) = (generation, bytes);
    }

    /// How far the log is durable.
    pub(super) fn end(&self) -> LogEnd {
        *self.end.lock()
    }
}
