//! A memtable view in (key, time) order, with each primary key once, for scans and the flush.

use super::container_rows::{ContainerRows, KeepRows, MAX_KEPT_CONTAINERS, MIN_KEPT_ROWS};
use super::selection::Selection;
use super::{CONTAINER_LANE, GONE, MemtableView, NONE, PREVIOUS_LANE, lane_of};
use crate::deletes::DeleteSet;
use crate::ids::ColumnId;
use crate::key::Keys;
use hashbrown::HashMap;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// The range of one container's rows in a [`Sorted`] view. 32 bits, like a memtable's row numbers.
#[derive(Clone, Copy, Debug)]
struct SortedContainer {
    start: u32,
    rows: u32,
}

/// A view's rows in (key, time) order. Each primary key has only its newest row, although older
/// ones may supply values of its fields ([`Sorted::rows_with`]).
pub(crate) struct Sorted {
    pub(crate) view: MemtableView,
    order: Vec<u32>,
    times: Vec<i64>,
    /// Instead of `order` and `times`: a part of the rows of the only container.
    kept: Option<(Arc<ContainerRows>, Range<usize>)>,
    /// The containers' keys.
    pub(crate) keys: Keys,
    containers: Vec<SortedContainer>,
    /// If the table merges fields: for a row in the order, the older rows with its primary key,
    /// newest first.
    older: HashMap<u32, Box<[u32]>>,
    /// The deletes to apply; `None` if there are none.
    deletes: Option<DeleteSet>,
}

impl Sorted {
    /// The rows of a selection.
    pub(crate) fn of(view: MemtableView, selection: &Selection, deletes: &DeleteSet, keeper: &impl KeepRows) -> Self {
        match (view.memtable.time_lane, &selection.containers) {
            (None, _) => Self::of_collection(view, selection, deletes),
            (Some(time_lane), None) => Self::all(view, time_lane, selection, deletes),
            (Some(_), Some(containers)) => Self::some(view, containers, selection, deletes, keeper),
        }
    }

    /// The rows of a collection, one for each container.
    fn of_collection(view: MemtableView, selection: &Selection, deletes: &DeleteSet) -> Self {
        let memtable = Arc::clone(&view.memtable);
        let inner = memtable.read();
        let mut sorted = Self::empty(view, deletes);
        let add = |row: u32| {
            if row as usize >= sorted.view.rows || sorted.view.get(PREVIOUS_LANE, row) == Some(GONE) {
                return;
            }
            let key = inner.keys.get(row);
            // Deletes of its own generation have marked its rows: one may have been written again.
            if sorted.deletes.as_ref().is_some_and(|deletes| deletes.hit(memtable.generation, key, u32::MAX, 0)) {
                return;
            }
            sorted.keys.push(key);
            sorted.containers.push(SortedContainer { start: sorted.order.len() as u32, rows: 1 });
            sorted.order.push(row);
        };
        match &selection.containers {
            Some(numbers) => numbers.iter().copied().for_each(add),
            None => sorted.view.key_order(&inner.keys).iter().copied().for_each(add),
        }
        sorted.times = vec![0; sorted.order.len()];
        sorted
    }

    /// The rows of a selection of all containers: a counting sort by container, then by time where
    /// rows arrived out of order.
    fn all(view: MemtableView, time_lane: usize, selection: &Selection, deletes: &DeleteSet) -> Self {
        let memtable = Arc::clone(&view.memtable);
        let (numbers, _) = view.flat(CONTAINER_LANE).into_plain();
        let (times, _) = view.flat(time_lane).into_plain();
        let inner = memtable.read();
        let mut counts = vec![0u32; inner.keys.len()];
        let is_selected = |row: usize| selection.has_time(times[row] as i64);
        let mut rows = 0;
        for (row, &container) in numbers.iter().enumerate() {
            let is_selected = usize::from(is_selected(row));
            counts[container as usize] += is_selected as u32;
            rows += is_selected;
        }
        let key_order = view.key_order(&inner.keys);
        // From here on, a container's count is the position after its rows placed so far.
        let mut start = 0;
        for &container in key_order.iter() {
            let count = &mut counts[container as usize];
            start += std::mem::replace(count, start);
        }
        let mut order = vec![0u32; rows];
        for (row, &container) in (0u32..).zip(&numbers) {
            if is_selected(row as usize) {
                let place = &mut counts[container as usize];
                order[*place as usize] = row;
                *place += 1;
            }
        }
        drop(numbers);
        let mut sorted = Self::empty(view, deletes);
        let mut start = 0;
        for &container in key_order.iter() {
            let end = counts[container as usize] as usize;
            let arrived = &order[start..end];
            sorted.times.extend(arrived.iter().map(|&row| times[row as usize] as i64));
            sorted.push(inner.keys.get(container), arrived);
            start = end;
        }
        sorted
    }

    /// The rows of a selection of these containers of a time-series table.
    fn some(
        view: MemtableView,
        containers: &[u32],
        selection: &Selection,
        deletes: &DeleteSet,
        keeper: &impl KeepRows,
    ) -> Self {
        let memtable = Arc::clone(&view.memtable);
        let inner = memtable.read();
        let found = containers.iter().filter_map(|number| Some((*number, *inner.containers.get(*number as usize)?)));
        let found: Vec<_> = found.collect();
        // A container's newest row may be newer than the view.
        let now = memtable.view(&inner);
        let mut sorted = Self::empty(view, deletes);
        let (is_only, are_few) = (found.len() == 1, found.len() <= MAX_KEPT_CONTAINERS);
        let mut few = ContainerRows::default();
        for (number, container) in found {
            let (key, times) = (inner.keys.get(number), selection.times_of(container));
            if container.is_in_order && selection.newest < usize::MAX {
                let last_time = if are_few { times.1 } else { i64::MAX };
                let newest_row = ContainerRows::newest_until(&now, number, container, last_time, keeper);
                sorted.push_newest(key, newest_row, selection, &now);
                continue;
            }
            let kept = (are_few && container.rows >= MIN_KEPT_ROWS)
                .then(|| ContainerRows::of_large(&now, number, container, times, keeper));
            if kept.is_none() {
                few.fill(&now, container, times.0, NONE);
            }
            let ContainerRows { rows, times, has_disorder } = kept.as_deref().unwrap_or(&few);
            let in_view = rows.partition_point(|&row| (row as usize) < sorted.view.rows);
            if container.is_in_order {
                let first = times[..in_view].partition_point(|&time| selection.is_after(time));
                let end = first + times[first..in_view].partition_point(|&time| selection.has_time(time));
                match &kept {
                    Some(kept) if is_only && !has_disorder && sorted.deletes_of(key).is_none() => {
                        sorted.push_kept(key, kept, first..end);
                    }
                    _ => {
                        sorted.times.extend_from_slice(&times[first..end]);
                        sorted.push(key, &rows[first..end]);
                    }
                }
            } else {
                let selected = (0..in_view).filter(|&place| selection.has_time(times[place]));
                let (rows, times): (Vec<u32>, Vec<i64>) = selected.map(|place| (rows[place], times[place])).unzip();
                sorted.times.extend_from_slice(&times);
                sorted.push(key, &rows);
            }
        }
        sorted
    }

    /// Adds the newest rows of a container whose rows arrived in the order of their times; rows newer than
    /// `newest_row` are not selected. `now` is the current view.
    fn push_newest(&mut self, key: &[u8], newest_row: u32, selection: &Selection, now: &MemtableView) {
        let (mut row, mut newest, mut counted) = (newest_row, selection.newest, None);
        let (first, mut rows, deletes) = (self.times.len(), Vec::new(), self.deletes_of(key).cloned());
        while row != NONE {
            if (row as usize) < self.view.rows {
                let time = self.view.time(row);
                if selection.has_time(time) {
                    let hits = |deletes: &DeleteSet| deletes.hit(now.memtable.generation, key, row, time);
                    // Rows with one time follow each other and count once, deleted ones not at all.
                    if counted != Some(time) && !deletes.as_ref().is_some_and(hits) {
                        if newest == 0 {
                            break;
                        }
                        newest -= 1;
                        counted = Some(time);
                    }
                    rows.push(row);
                    self.times.push(time);
                } else if selection.is_after(time) {
                    // All rows before it are earlier.
                    break;
                }
            }
            row = now.previous(row);
        }
        rows.reverse();
        self.times[first..].reverse();
        self.push(key, &rows);
    }

    /// Row numbers of the view, in order.
    pub(crate) fn order(&self) -> &[u32] {
        self.kept.as_ref().map_or(&self.order, |(kept, part)| &kept.rows[part.clone()])
    }

    /// The rows' times, in the same order; all 0 in a collection.
    pub(crate) fn times(&self) -> &[i64] {
        self.kept.as_ref().map_or(&self.times, |(kept, part)| &kept.times[part.clone()])
    }

    /// The minimum and maximum time; `None` without rows.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let spans = (0..self.containers.len()).map(|container| self.span_of(container));
        spans.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)))
    }

    /// The first and last time of a container.
    pub(crate) fn span_of(&self, container: usize) -> (i64, i64) {
        let (rows, times) = (self.rows(container), self.times());
        (times[rows.start], times[rows.end - 1])
    }

    /// The positions of a container's rows in the order.
    pub(crate) fn rows(&self, container: usize) -> Range<usize> {
        let SortedContainer { start, rows } = self.containers[container];
        start as usize..start as usize + rows as usize
    }

    fn empty(view: MemtableView, deletes: &DeleteSet) -> Self {
        let deletes = deletes.concern(view.memtable.generation).then(|| deletes.clone());
        Self {
            view,
            order: Vec::new(),
            times: Vec::new(),
            kept: None,
            keys: Keys::default(),
            containers: Vec::new(),
            older: HashMap::new(),
            deletes,
        }
    }

    /// The rows that supply a column's values for these rows: usually the rows themselves. Where
    /// the table merges fields and a row is NULL, the newest older row that is not.
    pub(crate) fn rows_with<'a>(&self, column: ColumnId, rows: &'a [u32]) -> Cow<'a, [u32]> {
        if self.older.is_empty() {
            return Cow::Borrowed(rows);
        }
        let lane = lane_of(column);
        let has_value = |row: &&u32| self.view.get(lane, **row).is_some();
        let row_with = |row: &u32| match self.older.get(row) {
            Some(older) => *std::iter::once(row).chain(older).find(has_value).unwrap_or(row),
            None => *row,
        };
        Cow::Owned(rows.iter().map(row_with).collect())
    }

    /// Whether a row of the order has a value in a column.
    pub(crate) fn has_value(&self, column: ColumnId, place: usize) -> bool {
        let row = self.rows_with(column, &self.order()[place..=place])[0];
        self.view.get(lane_of(column), row).is_some()
    }

    /// Adds the only container. Its rows are in the order of their times, and none is deleted.
    fn push_kept(&mut self, key: &[u8], kept: &Arc<ContainerRows>, part: Range<usize>) {
        if !part.is_empty() {
            self.keys.push(key);
            self.containers.push(SortedContainer { start: 0, rows: part.len() as u32 });
            self.kept = Some((Arc::clone(kept), part));
        }
    }

    /// Adds a container. `arrived` holds its rows in order of arrival; `times` already ends with
    /// their times.
    fn push(&mut self, key: &[u8], arrived: &[u32]) {
        let start = self.order.len();
        self.order.extend_from_slice(arrived);
        self.leave_out_deleted(key, start);
        if !self.times[start..].is_sorted_by(|a, b| a < b) {
            let mut rows: Vec<(i64, u32)> = self.times.drain(start..).zip(self.order.drain(start..)).collect();
            // Stable: rows with the same time stay in order of arrival, and the last one counts.
            rows.sort_by_key(|&(time, _)| time);
            for of_time in rows.chunk_by(|a, b| a.0 == b.0) {
                let Some((&(time, row), older)) = of_time.split_last() else { continue };
                self.times.push(time);
                self.order.push(row);
                if !older.is_empty() && self.view.memtable.merges_fields {
                    self.older.insert(row, older.iter().rev().map(|&(_, row)| row).collect());
                }
            }
        }
        if self.order.len() > start {
            self.keys.push(key);
            self.containers.push(SortedContainer { start: start as u32, rows: (self.order.len() - start) as u32 });
        }
    }

    /// The deletes, if some may concern rows of this container.
    fn deletes_of(&self, key: &[u8]) -> Option<&DeleteSet> {
        let generation = self.view.memtable.generation;
        self.deletes.as_ref().filter(|deletes| deletes.concern_container(generation, key))
    }

    /// Removes deleted rows of the container that begins at `start`.
    fn leave_out_deleted(&mut self, key: &[u8], start: usize) {
        let Some(deletes) = self.deletes_of(key).cloned() else { return };
        let Self { view, order, times, .. } = self;
        let mut kept = start;
        for place in start..order.len() {
            let (row, time) = (order[place], times[place]);
            if !deletes.hit(view.memtable.generation, key, row, time) {
                (order[kept], times[kept]) = (row, time);
                kept += 1;
            }
        }
        order.truncate(kept);
        times.truncate(kept);
    }
}
