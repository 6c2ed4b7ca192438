//! What all scans of a database share: the memory budget, the cache, and the helper threads.

use crate::io::threads::processors;
use crate::memory::Budget;
use crate::segment::cache::Cache;
use crate::settings::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Settings, memory and threads of the scans of a database.
pub(crate) struct ScanResources {
    pub(crate) batch_rows: usize,
    pub(crate) budget: Arc<Budget>,
    /// Keeps pages, and rows of containers in memtables, for later scans.
    pub(crate) cache: Arc<Cache>,
    /// Threads that all scans may start together, each in addition to its own.
    max_helpers: usize,
    helpers: AtomicUsize,
}

/// Helper threads that a scan may start. They are given back on drop.
pub(super) struct Helpers {
    resources: Arc<ScanResources>,
    pub(super) count: usize,
}

impl ScanResources {
    pub(crate) fn new(settings: &Settings, budget: &Arc<Budget>, cache: &Arc<Cache>) -> Arc<Self> {
        let threads = if settings.scan_threads == 0 { processors() } else { settings.scan_threads };
        Arc::new(Self {
            batch_rows: settings.scan_batch_rows,
            budget: Arc::clone(budget),
            cache: Arc::clone(cache),
            max_helpers: threads - 1,
            helpers: AtomicUsize::new(0),
        })
    }

    /// Takes helper threads, at most `most`; `None` if none is free.
    pub(super) fn take_helpers(self: &Arc<Self>, most: usize) -> Option<Helpers> {
        let taken = |busy: usize| most.min(self.max_helpers - busy);
        let more = |busy: usize| Some(busy + taken(busy)).filter(|more| *more > busy);
        let before = self.helpers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Helpers { resources: Arc::clone(self), count: taken(before) })
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.resources.helpers.fetch_sub(self.count, Ordering::Relaxed);
    }
}
