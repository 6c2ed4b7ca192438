//! Where rows come from: a sorted memtable or a segment, behind one small interface.

use crate::column::ColumnBuilder;
use crate::error::Result;
use crate::ids::ColumnId;
use crate::lane::Lane;
use crate::lane::NullMask;
use crate::memtable::sorted::Sorted;
use crate::schema::ColumnType;
use crate::segment::PAGE_ROWS;
use crate::segment::index::{Amounts, IndexBlock};
use crate::segment::reader::{Page, Segment};
use std::sync::Arc;

/// Rows of one container in one source; rows are numbered in the source's (key, time) order.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) key: Vec<u8>,
    pub(crate) start: u64,
    pub(crate) rows: usize,
    /// The times of the first and the last row.
    pub(crate) times: (i64, i64),
    /// Where the container's statistics are.
    statistics: Option<(Arc<IndexBlock>, usize)>,
}

/// A source of rows.
pub(crate) enum Source {
    Memtable(Sorted),
    Segment {
        segment: Arc<Segment>,
        time: Option<ColumnId>,
        /// Whether pages read go to the cache: yes for a few containers, no for a long scan.
        keep: bool,
    },
}

/// Walks the containers of a source in key order.
#[derive(Default)]
pub(crate) struct Cursor {
    next: usize,
    block: usize,
    loaded: Option<Arc<IndexBlock>>,
}

/// The page of each column that was used last.
#[derive(Default)]
pub(crate) struct Memo(Vec<(ColumnId, usize, Arc<Page>)>);

impl Source {
    /// The next container, skipping those below `from`; `None` at the end.
    pub(crate) fn next(&self, cursor: &mut Cursor, from: Option<&[u8]>) -> Result<Option<Run>> {
        match self {
            Self::Memtable(sorted) => {
                if let Some(from) = from {
                    let rest = &sorted.containers[cursor.next.min(sorted.containers.len())..];
                    cursor.next += rest.partition_point(|container| container.key.as_slice() < from);
                }
                let Some(container) = sorted.containers.get(cursor.next) else { return Ok(None) };
                cursor.next += 1;
                let last = container.start + container.rows - 1;
                Ok(Some(Run {
                    key: container.key.clone(),
                    start: container.start as u64,
                    rows: container.rows,
                    times: (sorted.times[container.start], sorted.times[last]),
                    statistics: None,
                }))
            }
            Self::Segment { segment, .. } => {
                if let Some(from) = from {
                    let block = segment.find_block(from);
                    if block > cursor.block {
                        *cursor = Cursor { next: 0, block, loaded: None };
                    }
                }
                loop {
                    if cursor.block >= segment.blocks().len() {
                        return Ok(None);
                    }
                    let block = match &cursor.loaded {
                        Some(block) => Arc::clone(block),
                        None => segment.block(cursor.block)?,
                    };
                    cursor.loaded = Some(Arc::clone(&block));
                    if let Some(from) = from {
                        let rest = &block.keys[cursor.next.min(block.keys.len())..];
                        cursor.next += rest.partition_point(|key| key.as_slice() < from);
                    }
                    if cursor.next < block.keys.len() {
                        let i = cursor.next;
                        cursor.next += 1;
                        return Ok(Some(Run {
                            key: block.keys[i].clone(),
                            start: block.starts[i],
                            rows: (block.starts[i + 1] - block.starts[i]) as usize,
                            times: block.times[i],
                            statistics: Some((block, i)),
                        }));
                    }
                    *cursor = Cursor { next: 0, block: cursor.block + 1, loaded: None };
                }
            }
        }
    }

    /// The container with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Run>> {
        Ok(self.next(&mut Cursor::default(), Some(key))?.filter(|run| run.key == key))
    }

    /// The times of a stretch of rows.
    pub(crate) fn times(&self, start: u64, rows: usize, memo: &mut Memo) -> Result<Vec<i64>> {
        match self {
            Self::Memtable(sorted) => Ok(sorted.times[start as usize..start as usize + rows].to_vec()),
            Self::Segment { time, .. } => {
                let mut out = ColumnBuilder::new(ColumnType::Int64);
                match time {
                    Some(time) => self.read(*time, start, rows, memo, &mut out)?,
                    None => out.push_raw(Some(0), rows),
                }
                let ColumnBuilder::Raw(lane) = out else { return Ok(Vec::new()) };
                Ok(lane.into_plain().0.into_iter().map(|time| time as i64).collect())
            }
        }
    }

    /// How many of a run's rows have a time below `bound`.
    pub(crate) fn rows_before(&self, run: &Run, bound: i64, memo: &mut Memo) -> Result<usize> {
        if bound <= run.times.0 {
            return Ok(0);
        }
        if bound > run.times.1 {
            return Ok(run.rows);
        }
        match self {
            Self::Memtable(sorted) => {
                let start = run.start as usize;
                Ok(sorted.times[start..start + run.rows].partition_point(|&time| time < bound))
            }
            Self::Segment { .. } => {
                // A binary search that reads only the time pages it touches.
                let (mut low, mut high) = (0, run.rows);
                while low < high {
                    let middle = low + (high - low) / 2;
                    let time = self.times(run.start + middle as u64, 1, memo)?;
                    if time.first().is_some_and(|&time| time < bound) { low = middle + 1 } else { high = middle }
                }
                Ok(low)
            }
        }
    }

    /// Appends a stretch of a field or time column.
    pub(crate) fn read(
        &self,
        column: ColumnId,
        start: u64,
        rows: usize,
        memo: &mut Memo,
        out: &mut ColumnBuilder,
    ) -> Result<()> {
        match self {
            Self::Memtable(sorted) => {
                sorted.view.read(column, &sorted.order[start as usize..start as usize + rows], out);
                Ok(())
            }
            Self::Segment { .. } => self.pages(column, start, rows, memo, |page, at, take| match page {
                Some(page) => page.copy(at, take, out),
                None => out.push_raw(None, take),
            }),
        }
    }

    /// Adds up a stretch of a numeric field.
    pub(crate) fn add_up(
        &self,
        column: (ColumnId, ColumnType),
        start: u64,
        rows: usize,
        memo: &mut Memo,
        amounts: &mut Amounts,
    ) -> Result<()> {
        match self {
            Self::Memtable(sorted) => {
                let mut lane = Lane::default();
                let rows = &sorted.order[start as usize..start as usize + rows];
                sorted.view.read_raw(column.0, rows, &mut lane);
                add_lane(&lane, 0, lane.len(), column.1, amounts);
                Ok(())
            }
            Self::Segment { .. } => self.pages(column.0, start, rows, memo, |page, at, take| {
                if let Some(Page::Raw(lane)) = page {
                    add_lane(lane, at, take, column.1, amounts);
                }
            }),
        }
    }

    fn pages(
        &self,
        column: ColumnId,
        start: u64,
        rows: usize,
        memo: &mut Memo,
        mut each: impl FnMut(Option<&Page>, usize, usize),
    ) -> Result<()> {
        let Self::Segment { segment, keep, .. } = self else { return Ok(()) };
        let (mut row, end) = (start as usize, start as usize + rows);
        while row < end {
            let number = row / PAGE_ROWS;
            let at = row % PAGE_ROWS;
            let take = (PAGE_ROWS - at).min(end - row);
            each(memo.page(segment, column, number, *keep)?.as_deref(), at, take);
            row += take;
        }
        Ok(())
    }

    /// What all rows of a run amount to, if that is known without reading them.
    pub(crate) fn known_amounts(&self, run: &Run, column: (ColumnId, ColumnType)) -> Option<Amounts> {
        let Self::Segment { segment, .. } = self else { return None };
        let (block, place) = run.statistics.as_ref()?;
        block.amounts(*place, segment.numeric_field(column.0)?, column.1)
    }
}

impl Memo {
    fn page(&mut self, segment: &Segment, column: ColumnId, number: usize, keep: bool) -> Result<Option<Arc<Page>>> {
        if let Some((_, _, page)) = self.0.iter().find(|(c, n, _)| *c == column && *n == number) {
            return Ok(Some(Arc::clone(page)));
        }
        let page = segment.page(column, number, keep)?;
        if let Some(page) = &page {
            self.0.retain(|(c, _, _)| *c != column);
            self.0.push((column, number, Arc::clone(page)));
        }
        Ok(page)
    }
}

fn add_lane(lane: &Lane, start: usize, len: usize, column_type: ColumnType, amounts: &mut Amounts) {
    match lane.as_plain().filter(|_| lane.nulls() == &NullMask::default()) {
        Some(values) => amounts.add_all(&values[start..start + len], column_type),
        None => (start..start + len).filter_map(|row| lane.get(row)).for_each(|value| amounts.add(value, column_type)),
    }
}
