//! What an open database shares between committers, readers and the background threads.
//!
//! It owns the locks, the counters and the few steps that all of them need. It does not own the work: committing is in
//! [`crate::commit`], freezing and flushing in [`crate::flusher`], merging in [`crate::compactor`], waiting for room in
//! [`crate::backpressure`]. `ARCHITECTURE.md` has the order of the locks.

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Generation, SegmentId, Sequence, TableId};
use crate::io::Io;
use crate::manifest::Edit;
use crate::manifest::file::Manifest;
use crate::memory::Budget;
use crate::scan::View;
use crate::segment::cache::Cache;
use crate::settings::Settings;
use crate::wal::log::Log;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the commit lock guards.
pub(crate) struct Commit {
    pub(crate) sequence: Sequence,
    pub(crate) generation: Generation,
    /// Memory of the active memtables; of tables that were dropped since the last freeze, too.
    pub(crate) memtable_bytes: usize,
    /// Rows of the longest active memtable.
    pub(crate) memtable_rows: usize,
    pub(crate) closed: bool,
}

/// A generation that waits to be flushed.
#[derive(Clone, Copy)]
pub(crate) struct Frozen {
    pub(crate) generation: Generation,
    pub(crate) last: Sequence,
}

/// What waits for the background threads.
pub(crate) struct Queue {
    pub(crate) frozen: Vec<Frozen>,
    /// Why the last flush failed, until one succeeds.
    pub(crate) flush_error: Option<Error>,
    /// Why the last compaction failed, until one succeeds.
    pub(crate) compaction_error: Option<Error>,
    /// A flush or a setting changed what there is to compact.
    pub(crate) changed: bool,
    /// The table that is being compacted.
    pub(crate) compacting: Option<String>,
    /// A partition has too many runs: flushes wait for compaction.
    pub(crate) behind: bool,
    /// How many wait for a flush that they asked for, which is not held back.
    pub(crate) urgent: usize,
    pub(crate) stop: bool,
    /// How many backups read files, and the files that are to go when they are done.
    pub(crate) pins: usize,
    pub(crate) unpinned: Vec<String>,
}

/// What background work has done since the database was opened.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    /// Set when the database closes: a merge stops at its next row group.
    pub(crate) stopping: AtomicBool,
}

impl Queue {
    pub(crate) fn new(frozen: Vec<Frozen>) -> Self {
        Self {
            frozen,
            flush_error: None,
            compaction_error: None,
            changed: true,
            compacting: None,
            behind: false,
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
    pub(crate) queue: Mutex<Queue>,
    /// Signalled when the queue changes.
    pub(crate) wake: Condvar,
    /// Held during a step of compaction.
    pub(crate) compaction: Mutex<()>,
    pub(crate) counters: Counters,
    /// The last batch in the memtables.
    pub(crate) applied: AtomicU64,
    pub(crate) next_segment: AtomicU64,
}

impl Shared {
    pub(crate) fn has_threads(&self) -> bool {
        self.io.spawn.has_threads()
    }

    /// Lets the manifest know what is in the log. A full disk is no reason to fail: then it knows less.
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

    /// Makes an edit of the tables durable. If it cannot be known whether it is, no batch is taken any more: its rows
    /// might be of a table or column that the next opening does not have.
    pub(crate) fn change_schema(&self, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
        let changed = manifest.append(edit);
        self.fail_without_lock();
        if let Err(error) = &changed
            && manifest.has_failed()
        {
            self.log.fail(error);
        }
        changed
    }

    pub(crate) fn view(&self) -> View {
        self.view_of(None)
    }

    pub(crate) fn view_of(&self, only: Option<&[TableId]>) -> View {
        let last = || Sequence(self.applied.load(Ordering::Acquire));
        let now_ns = self.io.clock.wall_ns();
        self.catalog.read().view(only, now_ns, self.settings.scan_batch_rows, &self.budget, last)
    }

    pub(crate) fn open_commit(&self) -> Result<MutexGuard<'_, Commit>> {
        let commit = self.commit.lock();
        if commit.closed { Err(Error::closed("the database is closed")) } else { Ok(commit) }
    }

    /// Takes no more batches when the writer's lock is lost: another process may write.
    pub(crate) fn fail_without_lock(&self) {
        if let Err(lost) = self.io.storage.check_lock() {
            self.log.fail(&lost);
        }
    }

    pub(crate) fn next_segment_id(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, Ordering::Relaxed))
    }
}
