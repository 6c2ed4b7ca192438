//! State that an open database shares between committers, readers and background threads.
//!
//! It owns the locks, the counters and the few steps that all of them need. It does not own the
//! work: [`crate::commit`] commits, [`crate::flusher`] freezes and flushes, [`crate::compactor`]
//! merges, [`crate::backpressure`] waits for room. `ARCHITECTURE.md` gives the lock order.

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Generation, SegmentId, Sequence, TableId};
use crate::io::Io;
use crate::manifest::Edit;
use crate::manifest::file::Manifest;
use crate::memory::Budget;
use crate::scan::View;
use crate::scan::resources::ScanResources;
use crate::segment::cache::Cache;
use crate::settings::Settings;
use crate::shipping::{Adopting, Shipping};
use crate::wal::log::Log;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Data guarded by the commit lock.
pub(crate) struct Commit {
    pub(crate) sequence: Sequence,
    pub(crate) generation: Generation,
    /// Memory of the active memtables, including tables dropped since the last freeze.
    pub(crate) memtable_bytes: usize,
    /// Row count of the longest active memtable.
    pub(crate) memtable_rows: usize,
    pub(crate) closed: bool,
}

/// A generation waiting to be flushed.
#[derive(Clone, Copy)]
pub(crate) struct Frozen {
    pub(crate) generation: Generation,
    pub(crate) last: Sequence,
}

/// Work for the background threads.
pub(crate) struct Queue {
    pub(crate) frozen: Vec<Frozen>,
    /// The error of the last flush, until one succeeds.
    pub(crate) flush_error: Option<Error>,
    pub(crate) shipping: Option<Shipping>,
    pub(crate) adopting: Option<Adopting>,
    /// The error of the last compaction, until one succeeds.
    pub(crate) compaction_error: Option<Error>,
    /// Whether a flush or a setting changed what is due for compaction.
    pub(crate) changed: bool,
    /// The table being compacted.
    pub(crate) compacting: Option<String>,
    /// The most runs that a partition has, as [`most_runs`](crate::compaction::plan::most_runs) counts.
    pub(crate) runs: usize,
    /// Whether the flush thread writes segments.
    pub(crate) flushing: bool,
    /// Number of callers waiting for a flush they requested; such a flush is not held back.
    pub(crate) urgent: usize,
    pub(crate) stop: bool,
    /// Number of backups reading files, and the files to remove when they are done.
    pub(crate) pins: usize,
    pub(crate) unpinned: Vec<String>,
}

/// Background work done since the database was opened.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    /// Set when the database closes. A merge then stops at its next row group.
    pub(crate) stopping: AtomicBool,
}

impl Queue {
    pub(crate) fn new(frozen: Vec<Frozen>) -> Self {
        Self {
            frozen,
            flush_error: None,
            shipping: None,
            adopting: None,
            compaction_error: None,
            changed: true,
            compacting: None,
            runs: 0,
            flushing: false,
            urgent: 0,
            stop: false,
            pins: 0,
            unpinned: Vec::new(),
        }
    }
}

/// The shared state of an open database.
pub(crate) struct Shared {
    pub(crate) io: Io,
    pub(crate) settings: Settings,
    pub(crate) commit: Mutex<Commit>,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) catalog: RwLock<Catalog>,
    pub(crate) log: Arc<Log>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) scans: Arc<ScanResources>,
    pub(crate) queue: Mutex<Queue>,
    /// Signalled when the queue changes.
    pub(crate) wake: Condvar,
    /// Held during a step of compaction.
    pub(crate) compaction: Mutex<()>,
    pub(crate) counters: Counters,
    /// See [`Database::keep_apart`](crate::Database::keep_apart).
    pub(crate) apart: AtomicU64,
    /// Sequence of the last batch in the memtables.
    pub(crate) applied: AtomicU64,
    pub(crate) next_segment: AtomicU64,
    /// Of the tables that number their rows.
    pub(crate) numbers: Mutex<HashMap<TableId, Numbers>>,
}

/// The numbers that a table gives to its rows.
#[derive(Default)]
pub(crate) struct Numbers {
    /// The greatest number that a row is known to have.
    pub(crate) greatest: i64,
    /// `None` before the first use.
    pub(crate) reserved: Option<Reserved>,
}

/// Numbers that the manifest reserves for a table.
pub(crate) struct Reserved {
    pub(crate) next: i64,
    /// The last that is reserved.
    pub(crate) to: i64,
    /// How many were given since the database was opened.
    pub(crate) given: i64,
}

impl Shared {
    pub(crate) fn has_threads(&self) -> bool {
        self.io.spawn.has_threads()
    }

    /// Records in the manifest what the log holds. A full disk is not an error: the manifest then
    /// knows less.
    pub(crate) fn mark_log(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let mark = Some(self.log.mark());
        if manifest.has_failed() || manifest.state().log == mark {
            return Ok(());
        }
        match manifest.append(&Edit::Log { mark }) {
            Err(error) if error.kind() == ErrorKind::Retry => Ok(()),
            marked => marked,
        }
    }

    /// Makes a schema edit durable. If it is unknown whether the edit is durable, no more batches
    /// are accepted: their rows might belong to a table or column that is missing after the next
    /// open.
    pub(crate) fn change_schema(&self, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
        let changed = manifest.append(edit);
        self.ask_definitions(manifest);
        self.fail_without_lock();
        if let Err(error) = &changed
            && manifest.has_failed()
        {
            self.log.fail(error);
        }
        changed
    }

    /// Readers must not see the definitions as they are now before they are shared.
    pub(crate) fn ask_definitions(&self, manifest: &Manifest) {
        if let Some(sharing) = self.log.sharing() {
            sharing.ask_definitions(manifest.definitions().count);
        }
    }

    /// Waits until the definitions as they are now are shared, if they are to be. The caller holds no
    /// lock.
    pub(crate) fn wait_until_defined(&self) -> Result<()> {
        let Some(sharing) = self.log.sharing() else { return Ok(()) };
        let count = self.manifest.lock().definitions().count;
        sharing.wake();
        sharing.wait_for_definitions(count)
    }

    pub(crate) fn view(&self) -> View {
        self.view_of(None)
    }

    pub(crate) fn view_of(&self, only: Option<&[TableId]>) -> View {
        let last = || Sequence(self.applied.load(Ordering::Acquire));
        let now_ns = self.io.clock.wall_ns();
        self.catalog.read().view(only, now_ns, &self.scans, last)
    }

    pub(crate) fn open_commit(&self) -> Result<MutexGuard<'_, Commit>> {
        let commit = self.commit.lock();
        if commit.closed { Err(Error::closed("the database is closed")) } else { Ok(commit) }
    }

    /// Stops accepting batches if the writer's lock is lost: another process may be writing.
    pub(crate) fn fail_without_lock(&self) {
        if let Err(lost) = self.io.storage.check_lock() {
            self.log.fail(&lost);
        }
    }

    pub(crate) fn next_segment_id(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, Ordering::Relaxed))
    }
}
