//! Which rows of a memtable a scan wants, by container and time, so that only these are sorted.

use super::{Container, Inner, MemtableView};
use crate::error::Result;
use crate::key::KeyRange;
use crate::pool::Pool;
use std::sync::Arc;

/// If at least one in this many rows is wanted, all are sorted: reading a container's rows one
/// after another costs more for each row.
const WHOLE_SHARE: usize = 4;

/// The rows of a view to sort.
pub(crate) struct Selection {
    /// The numbers of their containers, in order of the keys; `None` for all.
    pub(super) containers: Option<Vec<u32>>,
    /// The first and last time. The rows of a collection have time 0, and a scan of one bounds none.
    times: (i64, i64),
    /// The number of rows, at most.
    pub(crate) rows: usize,
    /// The number of newest times that are wanted of each container.
    pub(super) newest: usize,
    /// Whether later containers were left out because these have as many rows as are wanted. Some of
    /// these rows may be deleted, replaced, or outside the times.
    pub(crate) is_cut: bool,
}

impl Selection {
    /// All containers of a view.
    pub(crate) fn all(view: &MemtableView) -> Self {
        Self { containers: None, times: (i64::MIN, i64::MAX), rows: view.rows, newest: usize::MAX, is_cut: false }
    }

    /// Only rows from a time to a time, both inclusive.
    pub(crate) fn within(self, from: Option<i64>, to: Option<i64>) -> Self {
        Self { times: (from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX)), ..self }
    }

    /// Keeps at least this many of the newest rows of each container; `None` keeps all rows.
    pub(crate) fn newest(self, rows: Option<usize>) -> Self {
        Self { newest: rows.unwrap_or(usize::MAX), ..self }
    }

    /// Whether a time is selected.
    pub(super) fn has_time(&self, time: i64) -> bool {
        self.times.0 <= time && time <= self.times.1
    }

    /// The first and last time of the rows of a container that must be looked at: all times if they
    /// did not arrive in the order of their times.
    pub(super) fn times_of(&self, container: Container) -> (i64, i64) {
        if container.is_in_order { self.times } else { (i64::MIN, i64::MAX) }
    }

    /// Whether all selected times are after this one.
    pub(super) fn is_after(&self, time: i64) -> bool {
        time < self.times.0
    }

    /// The containers with these sorted keys.
    pub(crate) fn listed(view: &MemtableView, keys: &[Vec<u8>]) -> Self {
        let inner = view.inner();
        Self::some(view, &inner, keys.iter().filter_map(|key| inner.keys.find(key)).collect(), false)
    }

    /// The containers of a range whose keys pass a test; only the first of them, if these have `limit`
    /// rows together.
    pub(crate) fn passing(
        view: &MemtableView,
        range: &KeyRange,
        limit: usize,
        passes: impl Fn(&[u8]) -> Result<bool>,
    ) -> Result<Self> {
        let inner = view.inner();
        let order = view.key_order(&inner.keys);
        let first = order.partition_point(|&number| inner.keys.get(number) < range.first.as_slice());
        let (mut numbers, mut rows, mut is_cut) = (Vec::new(), 0, false);
        for &number in &order[first..] {
            let key = inner.keys.get(number);
            if range.ends_before(key) {
                break;
            }
            is_cut = rows >= limit;
            if is_cut {
                break;
            }
            if passes(key)? {
                numbers.push(number);
                rows += rows_of(&inner, number);
            }
        }
        Ok(Self::some(view, &inner, numbers, is_cut))
    }

    fn some(view: &MemtableView, inner: &Inner, numbers: Vec<u32>, is_cut: bool) -> Self {
        let rows: usize = numbers.iter().map(|number| rows_of(inner, *number)).sum();
        // A row of a collection is where its container's number says.
        let is_collection = view.memtable.time_lane.is_none();
        match !is_collection && numbers.len() > 1 && rows > view.rows / WHOLE_SHARE {
            true => Self::all(view),
            false => Self { containers: Some(numbers), rows, is_cut, ..Self::all(view) },
        }
    }
}

fn rows_of(inner: &Inner, number: u32) -> usize {
    inner.containers.get(number as usize).map_or(0, |container| container.rows as usize)
}

impl MemtableView {
    /// The numbers of all keys in the order of the keys. The memtable keeps it: only keys that are
    /// new since the last time are sorted.
    pub(super) fn key_order(&self, keys: &Pool) -> Arc<Vec<u32>> {
        let mut kept = self.memtable.key_order.lock();
        if kept.len() < keys.len() {
            let mut order = Vec::with_capacity(keys.len());
            order.extend_from_slice(&kept);
            order.extend(kept.len() as u32..keys.len() as u32);
            // Stable sorting takes runs that are in order as they are.
            order.sort_by(|&a, &b| keys.get(a).cmp(keys.get(b)));
            *kept = Arc::new(order);
        }
        Arc::clone(&kept)
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
pub(super) mod tests;
