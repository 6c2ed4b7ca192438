//! The rows of a container in a memtable, and their times. Scans keep them for the next scan.
//!
//! Each row names the previous row of its container, which is usually in another block. To find the
//! rows of a container, a scan follows these numbers, which costs cache misses for each row. The next
//! scan follows them only from the newest row to the newest one that is kept. A scan that has followed
//! many of them follows the rest as well, so that the next one need not.

use super::{Container, MemtableView, NONE};
use std::sync::Arc;

/// The rows of smaller containers are not kept.
pub(super) const MIN_KEPT_ROWS: u32 = 64;
/// A scan of more containers keeps no rows: it would drive everything else out of the cache.
pub(super) const MAX_KEPT_CONTAINERS: usize = 256;

/// A scan that has followed at least one in this many of the rows that are not kept follows the rest.
/// Few newer rows (fewer than one in this many) are added only for a scan that wants at least half of
/// what is kept, because that copies it.
const KEPT_SHARE: usize = 8;

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

    /// Whether this many bytes may be kept for a while.
    fn has_room_for(&self, bytes: usize) -> bool;
}

/// Keeps nothing.
impl KeepRows for () {
    fn kept(&self, _: MemtableContainer) -> Option<Arc<ContainerRows>> {
        None
    }

    fn keep(&self, _: MemtableContainer, _: Arc<ContainerRows>) {}

    fn has_room_for(&self, _: usize) -> bool {
        false
    }
}

/// Bytes of memory of a row.
const ROW_BYTES: usize = size_of::<u32>() + size_of::<i64>();

impl ContainerRows {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>() + self.times.capacity() * size_of::<i64>()
    }

    /// The rows of a large container, perhaps without those before or after these times. `now` is the
    /// current view, whose lock the caller holds.
    pub(super) fn of_large(
        now: &MemtableView,
        number: u32,
        container: Container,
        (first_time, last_time): (i64, i64),
        keeper: &impl KeepRows,
    ) -> Arc<Self> {
        let id = MemtableContainer { memtable: now.memtable.number, number };
        let kept = keeper.kept(id).unwrap_or_default();
        if kept.times.last().is_some_and(|last| *last > last_time) {
            return kept;
        }
        let until = kept.rows.last().copied().unwrap_or(NONE);
        let mut newer = Self::default();
        if !newer.fill(now, container, first_time, until) {
            let (all, followed) = (container.rows as usize, newer.rows.len());
            let not_kept = all.saturating_sub(kept.rows.len());
            let is_many = followed >= MIN_KEPT_ROWS as usize && followed * KEPT_SHARE >= not_kept;
            let will_be_kept = not_kept * KEPT_SHARE >= kept.rows.len() && keeper.has_room_for(all * ROW_BYTES);
            if !is_many || !will_be_kept {
                return Arc::new(newer);
            }
            newer.fill(now, container, i64::MIN, until);
        }
        if newer.rows.is_empty() {
            return kept;
        }
        let before = kept.times.partition_point(|time| *time < first_time);
        if newer.rows.len() * KEPT_SHARE < kept.rows.len() && before > kept.rows.len() / 2 {
            // To keep the few newer rows, all others would be copied as well.
            return Arc::new(kept.followed_by(before, newer));
        }
        let mut rows = kept.followed_by(0, newer);
        rows.rows.shrink_to_fit();
        rows.times.shrink_to_fit();
        let rows = Arc::new(rows);
        keeper.keep(id, Arc::clone(&rows));
        rows
    }

    /// For a container whose rows arrived in the order of their times: its newest row with a time up to
    /// `last_time`, or a newer row. No row after it has such a time. `now` is the current view, whose lock
    /// the caller holds.
    pub(super) fn newest_until(
        now: &MemtableView,
        number: u32,
        container: Container,
        last_time: i64,
        keeper: &impl KeepRows,
    ) -> u32 {
        if last_time >= container.last_time || container.rows < MIN_KEPT_ROWS {
            return container.newest_row;
        }
        let later = Self::of_large(now, number, container, (last_time, last_time), keeper);
        match later.times.partition_point(|time| *time <= last_time) {
            0 => later.rows.first().map_or(container.newest_row, |row| now.previous(*row)),
            places => later.rows[places - 1],
        }
    }

    /// Takes the rows of a container that are after row `until`, but stops at the first one before
    /// `first_time`. Returns whether all of them are there. `now` is the current view.
    pub(super) fn fill(&mut self, now: &MemtableView, container: Container, first_time: i64, until: u32) -> bool {
        self.rows.clear();
        self.times.clear();
        self.has_disorder = false;
        let (mut row, mut is_whole) = (container.newest_row, true);
        while row != until {
            let time = now.time(row);
            if time < first_time {
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

    /// The rows from place `first` on, and newer ones.
    fn followed_by(&self, first: usize, newer: Self) -> Self {
        let (rows, times) = (&self.rows[first..], &self.times[first..]);
        if rows.is_empty() {
            return newer;
        }
        let ends = times.last().zip(newer.times.first());
        Self {
            rows: [rows, &*newer.rows].concat(),
            times: [times, &*newer.times].concat(),
            has_disorder: self.has_disorder || newer.has_disorder || ends.is_some_and(|(last, first)| last >= first),
        }
    }
}

#[cfg(test)]
#[path = "container_rows_tests.rs"]
mod tests;
