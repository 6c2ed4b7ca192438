//! Sources of rows: a sorted memtable or a segment, behind one small interface.

use super::bounds::ScanBounds;
use crate::column::ColumnBuilder;
use crate::column_type::ColumnType;
use crate::deletes::{DeleteSet, Span, covers, without};
use crate::error::Result;
use crate::ids::ColumnId;
use crate::key::KeyPart;
use crate::lane::Lane;
use crate::lane::NullMask;
use crate::memtable::sorted::Sorted;
use crate::pool::Pool;
use crate::schema::TableSchema;
use crate::segment::Listed;
use crate::segment::amounts::Amounts;
use crate::segment::index::IndexBlock;
use crate::segment::page::{Dictionary, Page};
use crate::segment::reader::{Place, Segment};
use std::sync::Arc;

/// The rows of one container in one source. Rows are numbered in the source's (key, time) order.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) key: Vec<u8>,
    pub(crate) start: u64,
    pub(crate) rows: usize,
    /// The times of the first and last row.
    pub(crate) times: (i64, i64),
    /// The index block and the position in it that hold the container's totals.
    statistics: Option<(Arc<IndexBlock>, usize)>,
}

impl Run {
    /// The index block and the container's position in it, if the block has the run's last row.
    pub(super) fn last_in_index(&self) -> Option<(&Arc<IndexBlock>, usize)> {
        self.statistics.as_ref().filter(|(block, _)| block.knows_last()).map(|(block, place)| (block, *place))
    }
}

/// A source of rows.
pub(crate) enum Source {
    Memtable(Sorted),
    Segment {
        listed: Arc<Listed>,
        schema: Arc<TableSchema>,
        deletes: DeleteSet,
        /// The ordered time spans whose rows are valid, before deletes of single containers.
        spans: Vec<Span>,
        /// Whether to cache the pages read: yes for a few containers, no for a long scan.
        keep: bool,
    },
}

/// Iterates over the containers of a source in key order.
#[derive(Default)]
pub(crate) struct Cursor {
    next: usize,
    block: usize,
    loaded: Option<Arc<IndexBlock>>,
}

/// The last used page of each column.
#[derive(Default)]
pub(crate) struct PageMemo(Vec<(ColumnId, usize, Arc<Page>)>);

impl PageMemo {
    /// An empty one for each source.
    pub(crate) fn of_each(sources: &[Source]) -> Vec<Self> {
        sources.iter().map(|_| Self::default()).collect()
    }
}

impl Source {
    /// A segment as a source; `keep` says whether to cache the pages read.
    pub(crate) fn segment(listed: &Arc<Listed>, schema: &Arc<TableSchema>, deletes: &DeleteSet, keep: bool) -> Self {
        let slices = &listed.entry.slices;
        let mut spans = match slices.as_slice() {
            [] => vec![(i64::MIN, i64::MAX)],
            slices => slices.iter().map(|slice| (slice.from, slice.to)).collect(),
        };
        for hole in deletes.holes(&listed.entry) {
            spans = without(spans, hole);
        }
        let (listed, schema, deletes) = (Arc::clone(listed), Arc::clone(schema), deletes.clone());
        Self::Segment { listed, schema, deletes, spans, keep }
    }

    /// The minimum and maximum time of all rows; `None` if there are no rows.
    pub(crate) fn span(&self) -> Option<Span> {
        match self {
            Self::Memtable(sorted) => sorted.span(),
            Self::Segment { listed, .. } => Some(listed.entry.times),
        }
    }

    /// The number of rows, if all of them match and are valid; `span` is the source's.
    pub(crate) fn whole_rows(&self, span: Span, bounds: &ScanBounds, deletes: &DeleteSet) -> Option<u64> {
        if !bounds.takes_all_of(span) {
            return None;
        }
        match self {
            Self::Memtable(sorted) => Some(sorted.times().len() as u64),
            Self::Segment { listed, .. } => {
                let all = listed.entry.slices.is_empty() && !deletes.concern_segment(&listed.entry);
                all.then_some(listed.entry.rows)
            }
        }
    }

    /// Whether all rows of a run are within `wanted` and are known to be valid.
    pub(crate) fn is_valid_within(&self, run: &Run, wanted: Span) -> bool {
        covers(wanted, run.times)
            && match self {
                Self::Memtable(_) => true,
                Self::Segment { deletes, spans, .. } => {
                    deletes.is_empty() && spans.iter().any(|span| covers(*span, run.times))
                }
            }
    }

    /// The time spans within `wanted` in which a container's rows are valid.
    pub(crate) fn spans(&self, key: &[u8], wanted: Span) -> Vec<Span> {
        let Self::Segment { listed, deletes, spans, .. } = self else { return vec![wanted] };
        let inside = spans.iter().map(|span| (span.0.max(wanted.0), span.1.min(wanted.1)));
        let mut inside: Vec<Span> = inside.filter(|span| span.0 <= span.1).collect();
        for hole in deletes.holes_of(&listed.entry, key) {
            inside = without(inside, hole);
        }
        inside
    }

    /// The next container, skipping keys below `from`; `None` at the end.
    pub(crate) fn next(&self, cursor: &mut Cursor, from: Option<&[u8]>) -> Result<Option<Run>> {
        match self {
            Self::Memtable(sorted) => {
                if let Some(from) = from {
                    cursor.next = sorted.keys.seek(cursor.next, from);
                }
                if cursor.next >= sorted.keys.len() {
                    return Ok(None);
                }
                let container = cursor.next;
                cursor.next += 1;
                let rows = sorted.rows(container);
                Ok(Some(Run {
                    key: sorted.keys.get(container).to_vec(),
                    start: rows.start as u64,
                    rows: rows.len(),
                    times: sorted.span_of(container),
                    statistics: None,
                }))
            }
            Self::Segment { listed, .. } => {
                let segment = &listed.segment;
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
                        cursor.next = block.keys.seek(cursor.next, from);
                    }
                    if cursor.next < block.keys.len() {
                        let i = cursor.next;
                        cursor.next += 1;
                        return Ok(Some(Run {
                            key: block.keys.get(i).to_vec(),
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

    /// Average bytes per row of a text column.
    pub(crate) fn text_bytes(&self, column: ColumnId) -> usize {
        match self {
            Self::Memtable(sorted) => sorted.view.text_bytes(column),
            Self::Segment { listed, .. } => listed.segment.text_bytes(column),
        }
    }

    /// Finds the container with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Run>> {
        Ok(self.next(&mut Cursor::default(), Some(key))?.filter(|run| run.key == key))
    }

    /// The times of a range of rows.
    pub(crate) fn times(&self, start: u64, rows: usize, memo: &mut PageMemo) -> Result<Vec<i64>> {
        match self {
            Self::Memtable(sorted) => Ok(sorted.times()[start as usize..start as usize + rows].to_vec()),
            Self::Segment { schema, .. } => {
                let mut out = ColumnBuilder::new(ColumnType::Int64);
                match schema.time {
                    Some(time) => {
                        let time = &schema.columns[time];
                        self.read((time.id, time.column_type), start, rows, memo, &mut out)?;
                    }
                    None => out.push_raw(Some(0), rows),
                }
                let ColumnBuilder::Raw(lane) = out else { return Ok(Vec::new()) };
                Ok(lane.into_plain().0.into_iter().map(|time| time as i64).collect())
            }
        }
    }

    /// The time of a row.
    pub(crate) fn time(&self, row: u64, memo: &mut PageMemo) -> Result<i64> {
        match self {
            Self::Memtable(sorted) => Ok(sorted.times()[row as usize]),
            Self::Segment { listed, schema, keep, .. } => {
                let Some(time) = schema.time.map(|time| schema.columns[time].id) else { return Ok(0) };
                let place = listed.segment.place(time, row as usize);
                match memo.page(&listed.segment, time, place.page, *keep)?.as_deref() {
                    Some(Page::Raw(lane)) => Ok(lane.value(place.at) as i64),
                    _ => Ok(0),
                }
            }
        }
    }

    /// The number of rows in a run with a time below `bound`.
    pub(crate) fn rows_before(&self, run: &Run, bound: i64, memo: &mut PageMemo) -> Result<usize> {
        if bound <= run.times.0 {
            return Ok(0);
        }
        if bound > run.times.1 {
            return Ok(run.rows);
        }
        self.rows_below(bound, run.start, (0, run.rows), memo)
    }

    /// The number of rows from `start` on with a time below `bound`, which is known to be within
    /// `range`. A binary search that reads only the time pages it touches.
    pub(crate) fn rows_below(
        &self,
        bound: i64,
        start: u64,
        range: (usize, usize),
        memo: &mut PageMemo,
    ) -> Result<usize> {
        let (mut low, mut high) = range;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.time(start + middle as u64, memo)? < bound { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Appends a range of rows of a field or time column.
    pub(crate) fn read(
        &self,
        column: (ColumnId, ColumnType),
        start: u64,
        rows: usize,
        memo: &mut PageMemo,
        out: &mut ColumnBuilder,
    ) -> Result<()> {
        match self {
            Self::Memtable(sorted) => {
                let rows = &sorted.order()[start as usize..start as usize + rows];
                sorted.view.read(column.0, &sorted.rows_with(column.0, rows), out);
                Ok(())
            }
            Self::Segment { listed, .. } => {
                let before = out.len();
                self.pages(column.0, start, rows, memo, |page, at, take| match page {
                    Some(page) => page.copy(at, take, out),
                    None => out.push_raw(None, take),
                })?;
                widen_stored(&listed.segment, column, before, out);
                Ok(())
            }
        }
    }

    /// Appends single rows, in ascending order, of a field or time column.
    pub(crate) fn read_rows(
        &self,
        column: (ColumnId, ColumnType),
        rows: Vec<u64>,
        memo: &mut PageMemo,
        out: &mut ColumnBuilder,
    ) -> Result<()> {
        match self {
            Self::Memtable(sorted) => {
                let rows: Vec<_> = rows.iter().map(|&row| sorted.order()[row as usize]).collect();
                sorted.view.read(column.0, &sorted.rows_with(column.0, &rows), out);
                Ok(())
            }
            Self::Segment { listed, keep, .. } => {
                let before = out.len();
                let mut rest = rows.as_slice();
                while let Some(&first) = rest.first() {
                    let place = listed.segment.place(column.0, first as usize);
                    let end = first.saturating_add(place.rows as u64);
                    let (of_page, others) = rest.split_at(rest.partition_point(|row| *row < end));
                    let places = of_page.iter().map(|row| ((row - first) as usize + place.at) as u32);
                    match memo.page(&listed.segment, column.0, place.page, *keep)?.as_deref() {
                        Some(page) => page.gather(&places.collect::<Vec<u32>>(), out),
                        None => out.push_raw(None, of_page.len()),
                    }
                    rest = others;
                }
                widen_stored(&listed.segment, column, before, out);
                Ok(())
            }
        }
    }

    /// Whether all rows of a range are known to have the same value in a column.
    pub(crate) fn is_constant(&self, column: ColumnId, start: u64, rows: usize, memo: &mut PageMemo) -> Result<bool> {
        let Self::Segment { listed, keep, .. } = self else { return Ok(rows <= 1) };
        let mut before: Option<(Arc<Page>, usize)> = None;
        for Place { page, at, rows } in listed.segment.places(column, start, rows) {
            // A column that the segment lacks is NULL.
            let Some(page) = memo.page(&listed.segment, column, page, *keep)? else { return Ok(true) };
            let goes_on = before.is_none_or(|(before, last)| before.value(last) == page.value(at));
            if !goes_on || !page.is_constant(at, rows) {
                return Ok(false);
            }
            before = Some((page, at + rows - 1));
        }
        Ok(true)
    }

    /// Whether a row has a value in a field or time column.
    pub(crate) fn has_value(&self, column: ColumnId, row: u64, memo: &mut PageMemo) -> Result<bool> {
        match self {
            Self::Memtable(sorted) => Ok(sorted.has_value(column, row as usize)),
            Self::Segment { .. } => {
                let mut has_value = false;
                self.pages(column, row, 1, memo, |page, at, _| {
                    has_value = page.is_some_and(|page| page.value(at) != KeyPart::Null);
                })?;
                Ok(has_value)
            }
        }
    }

    /// Appends one row's value of a field or time column `times` times.
    pub(crate) fn repeat(
        &self,
        column: (ColumnId, ColumnType),
        row: u64,
        times: usize,
        memo: &mut PageMemo,
        out: &mut ColumnBuilder,
    ) -> Result<()> {
        match self {
            Self::Memtable(sorted) => {
                let row = sorted.rows_with(column.0, &sorted.order()[row as usize..=row as usize])[0];
                sorted.view.read(column.0, &vec![row; times], out);
                Ok(())
            }
            Self::Segment { listed, .. } => {
                let before = out.len();
                self.pages(column.0, row, 1, memo, |page, at, _| {
                    out.push_repeated(page.map_or(KeyPart::Null, |page| page.value(at)), times);
                })?;
                widen_stored(&listed.segment, column, before, out);
                Ok(())
            }
        }
    }

    /// Appends a range of a segment's text column as codes; `number` is the source's.
    pub(crate) fn read_codes(
        &self,
        column: ColumnId,
        number: usize,
        (start, rows): (u64, usize),
        memo: &mut PageMemo,
        codes: &mut Codes,
    ) -> Result<()> {
        self.pages(column, start, rows, memo, |page, at, take| codes.extend(number, page, at, take))
    }

    /// Adds a range of a numeric field to the totals. Without `extremes`, these lack the minimum
    /// and maximum.
    pub(crate) fn add_up(
        &self,
        (column, column_type, extremes): (ColumnId, ColumnType, bool),
        start: u64,
        rows: usize,
        memo: &mut PageMemo,
        amounts: &mut Amounts,
    ) -> Result<()> {
        match self {
            Self::Memtable(sorted) => {
                let mut lane = Lane::default();
                let rows = &sorted.order()[start as usize..start as usize + rows];
                sorted.view.read_raw(column, &sorted.rows_with(column, rows), &mut lane);
                add_lane(&lane, 0, lane.len(), extremes, column_type, amounts);
                Ok(())
            }
            Self::Segment { listed, .. } => {
                let stored = listed.segment.stored_type(column).unwrap_or(column_type);
                let mut sum = Amounts::none(stored);
                self.pages(column, start, rows, memo, |page, at, take| {
                    if let Some(Page::Raw(lane)) = page {
                        add_lane(lane, at, take, extremes, stored, &mut sum);
                    }
                })?;
                amounts.merge(&sum.widened(stored, column_type), column_type);
                Ok(())
            }
        }
    }

    /// Visits the pages of a range of a segment's rows, each with its first matching row and their
    /// number.
    fn pages(
        &self,
        column: ColumnId,
        start: u64,
        rows: usize,
        memo: &mut PageMemo,
        mut each: impl FnMut(Option<&Page>, usize, usize),
    ) -> Result<()> {
        let Self::Segment { listed, keep, .. } = self else { return Ok(()) };
        for Place { page, at, rows } in listed.segment.places(column, start, rows) {
            each(memo.page(&listed.segment, column, page, *keep)?.as_deref(), at, rows);
        }
        Ok(())
    }

    /// The totals of all rows of a run, if the index has them.
    pub(crate) fn known_amounts(&self, run: &Run, column: (ColumnId, ColumnType)) -> Option<Amounts> {
        let (block, place) = run.statistics.as_ref()?;
        block.amounts(*place, column.0, column.1)
    }
}

/// Widens the values from `start` on, if the column had a narrower type when the segment was
/// written.
fn widen_stored(segment: &Segment, column: (ColumnId, ColumnType), start: usize, out: &mut ColumnBuilder) {
    if let Some(stored) = segment.stored_type(column.0).filter(|stored| *stored != column.1) {
        out.widen(start, stored, column.1);
    }
}

/// A text column as codes of one pool, gathered from pages that have their own dictionaries.
pub(crate) struct Codes {
    pub(crate) pool: Pool,
    pub(crate) values: Vec<u64>,
    pub(crate) nulls: NullMask,
    /// For each source, the dictionary it used last.
    known: Vec<Option<KnownCodes>>,
    /// Long texts that were looked up in the pool, and those of them that were there.
    looked_up: usize,
    found: usize,
}

/// Texts with more bytes are long: looking them up takes a tenth of a merge.
const LONG_TEXT_BYTES: usize = 64;
/// If fewer than an eighth of this many long texts of a row group were found, the rest is not
/// looked up.
const LOOKED_UP: usize = 512;

/// A dictionary, and the pool's codes for the entries seen so far.
type KnownCodes = (Arc<Dictionary>, Vec<Option<u32>>);

impl Codes {
    pub(crate) fn new(sources: usize) -> Self {
        let known = (0..sources).map(|_| None).collect();
        Self { pool: Pool::default(), values: Vec::new(), nulls: NullMask::default(), known, looked_up: 0, found: 0 }
    }

    /// The code of a text from a page without a dictionary. Equal long texts may get different
    /// codes.
    fn code_of(&mut self, text: &[u8]) -> u32 {
        if text.len() <= LONG_TEXT_BYTES {
            return self.pool.intern(text);
        }
        if self.looked_up >= LOOKED_UP && self.found < self.looked_up / 8 {
            return self.pool.append(text);
        }
        let before = self.pool.len();
        let code = self.pool.intern(text);
        self.looked_up += 1;
        self.found += usize::from(self.pool.len() == before);
        code
    }

    fn push(&mut self, code: Option<u32>) {
        if code.is_none() {
            self.nulls.set(self.values.len(), true);
        }
        self.values.push(code.map_or(0, u64::from));
    }

    fn extend(&mut self, source: usize, page: Option<&Page>, start: usize, len: usize) {
        match page {
            Some(Page::Codes(lane, dictionary)) => {
                let stale = self.known[source].as_ref().is_none_or(|(known, _)| !Arc::ptr_eq(known, dictionary));
                if stale {
                    self.known[source] = Some((Arc::clone(dictionary), vec![None; dictionary.len()]));
                }
                for row in start..start + len {
                    let code = lane.get(row);
                    let (Some(code), Some((_, known))) = (code, &mut self.known[source]) else {
                        self.push(None);
                        continue;
                    };
                    let pool = &mut self.pool;
                    let code = *known[code as usize].get_or_insert_with(|| pool.intern(dictionary.get(code)));
                    self.values.push(u64::from(code));
                }
            }
            Some(Page::Bytes(bytes)) => {
                for row in start..start + len {
                    let code = bytes.get(row).map(|text| self.code_of(text));
                    self.push(code);
                }
            }
            _ => (0..len).for_each(|_| self.push(None)),
        }
    }
}

impl PageMemo {
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

/// Adds `len` values of a lane from `start`.
fn add_lane(lane: &Lane, start: usize, len: usize, extremes: bool, column_type: ColumnType, amounts: &mut Amounts) {
    let nulls = lane.nulls().nulls_within(start, len);
    if extremes && nulls > 0 {
        return (start..start + len).filter_map(|row| lane.get(row)).for_each(|raw| amounts.add(raw, column_type));
    }
    match lane.as_plain() {
        Some(values) => amounts.add_all(&values[start..start + len], nulls, extremes, column_type),
        None => {
            let mut values = Vec::with_capacity(len);
            lane.copy_raw(start, len, &mut values);
            amounts.add_all(&values, nulls, extremes, column_type);
        }
    }
}
