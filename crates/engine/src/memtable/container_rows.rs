//! The rows of a container in a memtable, and their times. Scans keep them for the next scan.
//!
//! Each row names the previous row of its container, which is usually in another block. To find the
//! rows of a container, a scan follows these numbers, which costs cache misses for each row. The next
//! scan follows them only from the newest row to the newest one that is kept.

use super::selection::Selection;
use super::{Container, MemtableView, NONE};
use std::sync::Arc;

/// The rows of smaller containers are not kept.
pub(super) const MIN_KEPT_ROWS: u32 = 64;
/// A scan of more containers keeps no rows: it would drive everything else out of the cache.
pub(super) const MAX_KEPT_CONTAINERS: usize = 256;

/// The rows of a container in order of arrival, and their times.
#[derive(Default)]
pub(crate) struct ContainerRows {
    pub(super) rows: Vec<u32>,
    pub(super) times: Vec<i64>,
    /// Whether some time is not after the one before it.
    pub(super) has_disorder: bool,
}

/// A container of a memtable. No other memtable of the process has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MemtableContainer {
    pub(super) memtable: u64,
    pub(super) number: u32,
}

/// Keeps the rows of containers for later scans. It may forget them at any time.
pub(crate) trait KeepRows {
    /// The oldest rows of a container: all that it had when they were kept.
    fn kept(&self, container: MemtableContainer) -> Option<Arc<ContainerRows>>;

    /// Keeps all rows of a container.
    fn keep(&self, container: MemtableContainer, rows: Arc<ContainerRows>);
}

/// Keeps nothing.
impl KeepRows for () {
    fn kept(&self, _: MemtableContainer) -> Option<Arc<ContainerRows>> {
        None
    }

    fn keep(&self, _: MemtableContainer, _: Arc<ContainerRows>) {}
}

impl ContainerRows {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>() + self.times.capacity() * size_of::<i64>()
    }

    /// The rows of a large container, except perhaps those before the selected times if they arrived in
    /// the order of their times. `now` is the current view, whose lock the caller holds.
    pub(super) fn of_large(
        now: &MemtableView,
        number: u32,
        container: Container,
        selection: &Selection,
        keeper: &impl KeepRows,
    ) -> Arc<Self> {
        let id = MemtableContainer { memtable: now.memtable.number, number };
        let kept = keeper.kept(id).unwrap_or_default();
        let mut newer = Self::default();
        let is_whole = newer.fill(now, container, selection, kept.rows.last().copied().unwrap_or(NONE));
        if newer.rows.is_empty() && is_whole {
            return kept;
        }
        // A scan of the newest rows alone must not copy all others.
        let are_before = container.is_in_order && kept.times.last().is_some_and(|last| selection.is_after(*last));
        if !is_whole || are_before {
            return Arc::new(newer);
        }
        let rows = Arc::new(kept.followed_by(newer));
        keeper.keep(id, Arc::clone(&rows));
        rows
    }

    /// Takes the rows of a container that are after row `until`, except perhaps those before the
    /// selected times if they arrived in the order of their times. Returns whether all of them are
    /// there. `now` is the current view.
    pub(super) fn fill(&mut self, now: &MemtableView, container: Container, selection: &Selection, until: u32) -> bool {
        self.rows.clear();
        self.times.clear();
        self.has_disorder = false;
        let (mut row, mut is_whole) = (container.newest_row, true);
        while row != until {
            let time = now.time(row);
            if container.is_in_order && selection.is_after(time) {
                is_whole = false;
                break;
            }
            self.has_disorder |= self.times.last().is_some_and(|next| *next <= time);
            self.rows.push(row);
            self.times.push(time);
            row = now.previous(row);
        }
        self.rows.reverse();
        self.times.reverse();
        is_whole
    }

    fn followed_by(&self, newer: Self) -> Self {
        if self.rows.is_empty() {
            return newer;
        }
        let ends = self.times.last().zip(newer.times.first());
        Self {
            rows: [&*self.rows, &*newer.rows].concat(),
            times: [&*self.times, &*newer.times].concat(),
            has_disorder: self.has_disorder || newer.has_disorder || ends.is_some_and(|(last, first)| last >= first),
        }
    }
}

#[cfg(test)]
#[path = "container_rows_tests.rs"]
mod tests;
