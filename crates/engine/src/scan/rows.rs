//! A running scan: picks rows container by container, and reads them column by column.

use super::bounds::ScanBounds;
use super::collection::{CollectionRows, RowKeys};
use super::merge::{self, Merge, RowSpan};
use super::source::PageMemo;
use super::{Projection, ScanRequest, Sources, TableView};
use crate::column::ColumnBuilder;
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::key::{self, KeyValue};
use crate::schema::{Role, TableSchema};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_empty_array};
use arrow::compute::{FilterBuilder, prep_null_mask_filter, take_record_batch};
use arrow::datatypes::SchemaRef;
use std::cell::LazyCell;
use std::sync::Arc;

/// A condition that a scan applies to rows while it reads; see [`TableView::scan_where`].
pub struct RowCondition {
    /// The columns it needs, as indexes into the table.
    pub places: Vec<usize>,
    /// Tells for each row of these columns whether it matches; NULL means no. It must depend on the
    /// values alone: rows with equal values are tested once.
    pub test: Box<RowTest>,
}

/// The test of a [`RowCondition`].
pub type RowTest = dyn FnMut(&RecordBatch) -> Result<BooleanArray> + Send;

impl TableView {
    /// Scans rows in (key, time) order.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if a column or key does not fit the table.
    /// Read errors come from the iterator.
    pub fn scan(&self, request: &ScanRequest) -> Result<Scan> {
        self.scan_with(request, None)
    }

    /// Scans the rows that match a condition. The condition's columns are read first; pages of
    /// other columns are read only for matching rows ("late materialization": Abadi et al., ICDE
    /// 2007). A batch without matching rows is yielded empty, so that a reader can stop. The
    /// request's limit counts rows before the condition.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn scan_where(&self, request: &ScanRequest, condition: RowCondition) -> Result<Scan> {
        self.places(&Projection::Places(condition.places.clone()))?;
        self.scan_with(request, Some(condition))
    }

    fn scan_with(&self, request: &ScanRequest, condition: Option<RowCondition>) -> Result<Scan> {
        let places = self.places(&request.projection)?;
        let newest = request.limit.filter(|_| request.newest_first);
        let bounds = ScanBounds { newest, ..self.bounds(request)? };
        let sources = self.sources(&bounds, places.len())?;
        let tested = condition.iter().flat_map(|condition| &condition.places);
        let batch_rows = self.rows_of_texts(&sources, places.iter().chain(tested));
        Ok(Scan {
            schema: Arc::clone(&self.schema),
            output: self.schema.to_arrow_of(&places),
            places,
            condition,
            merge: Merge::new(&sources.list, bounds.clone()),
            memos: sources.list.iter().map(|_| PageMemo::default()).collect(),
            ready: None,
            collection: CollectionRows::of(&self.schema, &sources.list, &bounds).filter(|_| !request.newest_first),
            sources,
            bounds,
            batch_rows,
            left: request.limit.unwrap_or(usize::MAX),
            newest_first: request.newest_first,
        })
    }

    /// Rows per batch with these columns: fewer if texts are long.
    fn rows_of_texts<'a>(&self, sources: &Sources, places: impl Iterator<Item = &'a usize>) -> usize {
        let texts = places.map(|&place| &self.schema.columns[place]).filter(|column| column.column_type.is_bytes());
        let bytes = texts.flat_map(|column| sources.list.iter().map(|source| source.text_bytes(column.id)));
        self.batch_rows.min(BATCH_TEXT_BYTES / bytes.max().unwrap_or(0).max(1)).max(1)
    }
}

/// Approximate maximum bytes of a text column in a batch.
pub(crate) const BATCH_TEXT_BYTES: usize = 8 << 20;

/// If more than one in this many rows matches, whole columns are read: reading single rows costs
/// more.
const WHOLE_COLUMN_DIVISOR: usize = 2;

/// Yields the rows of a scan as Arrow batches, in (key, time) order.
pub struct Scan {
    schema: Arc<TableSchema>,
    output: SchemaRef,
    places: Vec<usize>,
    condition: Option<RowCondition>,
    sources: Sources,
    bounds: ScanBounds,
    merge: Merge,
    memos: Vec<PageMemo>,
    /// The container whose rows are picked but not all yielded: its key, and the remaining picks.
    ready: Option<(Arc<[KeyValue]>, Vec<RowSpan>)>,
    /// The rest of a collection's rows, if they need not be merged.
    collection: Option<CollectionRows>,
    batch_rows: usize,
    left: usize,
    newest_first: bool,
}

/// Up to this many rows of a pick are read together with those before them.
const SHORT_PICK_ROWS: usize = 4;

/// Rows that are yielded together: of one container, or of a collection.
struct Taken {
    keys: RowKeys,
    picks: Vec<RowSpan>,
    rows: usize,
}

impl Scan {
    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.output
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let taken = self.take()?;
        let rows: usize = taken.iter().map(|taken| taken.rows).sum();
        if rows == 0 {
            return Ok(None);
        }
        self.left -= rows;
        let batch = match self.condition.take() {
            None => self.whole(&taken, rows)?,
            Some(mut condition) => {
                let batch = self.selected(taken, rows, &mut condition);
                self.condition = Some(condition);
                batch?
            }
        };
        Ok(Some(if self.newest_first { reversed(batch)? } else { batch }))
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?)
    }

    /// Reads all columns of all these rows.
    fn whole(&mut self, taken: &[Taken], rows: usize) -> Result<RecordBatch> {
        let columns = self.places.clone().into_iter().map(|place| self.read(place, taken, None));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.batch(columns, rows)
    }

    /// The next rows, from as many containers as fit in a batch. With newest first, from one
    /// container only; the caller then reverses the batch.
    fn take(&mut self) -> Result<Vec<Taken>> {
        let types = self.schema.key_types();
        let (mut all, mut rows) = (Vec::new(), 0);
        let most = self.batch_rows.min(self.left);
        if let Some(collection) = &mut self.collection {
            while rows < most
                && let Some((keys, pick)) = collection.next(&self.sources.list[0], most - rows)?
            {
                all.push(Taken { keys, picks: vec![pick], rows: pick.rows });
                rows += pick.rows;
            }
            return Ok(all);
        }
        while rows < most {
            let Some((key, picks)) = &mut self.ready else {
                let Some(runs) = self.merge.next()? else { break };
                let picks = merge::pick(&self.sources.list, &runs, &self.bounds, &mut self.memos)?;
                if let Some((_, run)) = runs.first().filter(|_| !picks.is_empty()) {
                    self.ready = Some((key::decode(&run.key, &types)?.into(), picks));
                }
                continue;
            };
            let take = if self.newest_first { take_last_picks } else { take_picks };
            let taken = take(picks, most - rows);
            let taken_rows = taken.iter().map(|pick| pick.rows).sum();
            all.push(Taken { keys: RowKeys::Container(Arc::clone(key)), picks: taken, rows: taken_rows });
            rows += taken_rows;
            if picks.is_empty() {
                self.ready = None;
            }
            if self.newest_first {
                break;
            }
        }
        Ok(all)
    }

    /// Reads one column of the rows, or only of the rows at the positions in `selected`.
    fn read(&mut self, place: usize, taken: &[Taken], selected: Option<&[u32]>) -> Result<ArrayRef> {
        let column = &self.schema.columns[place];
        let mut out = ColumnBuilder::new(column.column_type);
        out.reserve(selected.map_or_else(|| taken.iter().map(|taken| taken.rows).sum(), <[u32]>::len));
        let mut selected = selected;
        let mut before = 0;
        if column.role == Role::Key {
            let (key_place, types) = (self.schema.key_place(place), self.schema.key_types());
            for taken in taken {
                let wanted = selected.as_mut().map(|selected| split_below(selected, before + taken.rows));
                let rows = wanted.map_or(taken.rows, <[u32]>::len);
                if let RowKeys::Container(key) = &taken.keys {
                    out.push_repeated(key[key_place].part(), rows);
                } else {
                    for place in 0..rows {
                        let row = wanted.map_or(place, |wanted| wanted[place] as usize - before);
                        out.push(taken.keys.of_row(row, &self.sources.list[0], &types)?[key_place].part());
                    }
                }
                before += taken.rows;
            }
            return out.finish(column.column_type);
        }
        let column_id = column.id;
        for pick in self.spans(column_id, taken)? {
            let column = &self.schema.columns[place];
            let (source, memo) = (&self.sources.list[pick.source], &mut self.memos[pick.source]);
            let column = (column.id, column.column_type);
            match &mut selected {
                None => source.read(column, pick.start, pick.rows, memo, &mut out)?,
                Some(selected) => {
                    let rows = split_below(selected, before + pick.rows);
                    if rows.len() > pick.rows / WHOLE_COLUMN_DIVISOR
                        && source.is_constant(column.0, pick.start, pick.rows, memo)?
                    {
                        source.repeat(column, pick.start, rows.len(), memo, &mut out)?;
                    } else {
                        let rows = rows.iter().map(|&row| pick.start + u64::from(row) - before as u64);
                        source.read_rows(column, rows.collect(), memo, &mut out)?;
                    }
                }
            }
            before += pick.rows;
        }
        out.finish(self.schema.columns[place].column_type)
    }

    /// The picks that supply a column's values. Short picks that follow each other in one source, such as
    /// the rows of a collection, become one.
    fn spans(&mut self, column: ColumnId, taken: &[Taken]) -> Result<Vec<RowSpan>> {
        let mut spans: Vec<RowSpan> = Vec::with_capacity(taken.len());
        for taken in taken {
            for pick in merge::picks_with(&self.sources.list, &taken.picks, column, &mut self.memos)?.iter() {
                match spans.last_mut() {
                    Some(span)
                        if pick.rows <= SHORT_PICK_ROWS
                            && (span.source, span.start + span.rows as u64) == (pick.source, pick.start) =>
                    {
                        span.rows += pick.rows;
                    }
                    _ => spans.push(*pick),
                }
            }
        }
        Ok(spans)
    }

    /// Whether each pick's rows are known to have the same value in a column.
    fn is_constant(&mut self, place: usize, taken: &[Taken]) -> Result<bool> {
        let column = &self.schema.columns[place];
        if column.role == Role::Key {
            return Ok(taken.iter().all(|taken| taken.keys.is_one() || taken.rows <= 1));
        }
        for pick in taken.iter().flat_map(|taken| &taken.picks).filter(|pick| pick.rows > 1) {
            let (source, memo) = (&self.sources.list[pick.source], &mut self.memos[pick.source]);
            if !source.is_constant(column.id, pick.start, pick.rows, memo)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The columns that a condition needs, for all rows, and which rows match.
    fn test(
        &mut self,
        taken: &[Taken],
        rows: usize,
        condition: &mut RowCondition,
    ) -> Result<(RecordBatch, BooleanArray)> {
        let tested = condition.places.iter().map(|&place| self.read(place, taken, None));
        let tested = tested.collect::<Result<Vec<_>>>()?;
        let schema = self.schema.to_arrow_of(&condition.places);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, tested, &options)?;
        let wanted = (condition.test)(&batch)?;
        if wanted.len() != rows {
            return Err(Error::invalid(format!("a row condition returned {} results for {rows} rows", wanted.len())));
        }
        let wanted = if wanted.null_count() > 0 { prep_null_mask_filter(&wanted) } else { wanted };
        Ok((batch, wanted))
    }

    /// The picks that match a condition whose columns have one value in each pick.
    fn selected_picks(&mut self, taken: Vec<Taken>, condition: &mut RowCondition) -> Result<RecordBatch> {
        let first = |pick: &RowSpan| RowSpan { rows: pick.rows.min(1), ..*pick };
        let firsts = taken.iter().map(|taken| Taken {
            keys: taken.keys.clone(),
            picks: taken.picks.iter().map(first).collect(),
            rows: taken.picks.iter().filter(|pick| pick.rows > 0).count(),
        });
        let firsts: Vec<Taken> = firsts.collect();
        let picks = firsts.iter().map(|firsts| firsts.rows).sum();
        let (_, wanted) = self.test(&firsts, picks, condition)?;
        let mut wanted = wanted.values().iter();
        let kept = taken.into_iter().map(|mut taken| {
            let mut is_wanted = false;
            taken.picks.retain(|pick| {
                if pick.rows > 0 {
                    is_wanted = wanted.next() == Some(true);
                }
                is_wanted
            });
            taken.rows = taken.picks.iter().map(|pick| pick.rows).sum();
            taken
        });
        let kept: Vec<Taken> = kept.collect();
        self.whole(&kept, kept.iter().map(|kept| kept.rows).sum())
    }

    /// The rows that match a condition: its columns are read whole, others only for matching rows.
    fn selected(&mut self, taken: Vec<Taken>, rows: usize, condition: &mut RowCondition) -> Result<RecordBatch> {
        let mut constant = true;
        for &place in &condition.places {
            constant = constant && self.is_constant(place, &taken)?;
        }
        if constant {
            return self.selected_picks(taken, condition);
        }
        let taken = taken.as_slice();
        let (batch, wanted) = self.test(taken, rows, condition)?;
        let count = wanted.true_count();
        // The matching rows, for columns read row by row; the filter, for columns read whole.
        let selected = LazyCell::new(|| wanted.values().set_indices().map(|row| row as u32).collect::<Vec<u32>>());
        let filter = LazyCell::new(|| FilterBuilder::new(&wanted).optimize().build());
        let places = self.places.clone();
        let columns = places.iter().map(|place| {
            if count == 0 {
                return Ok(new_empty_array(&self.schema.columns[*place].column_type.to_arrow()));
            }
            match condition.places.iter().position(|tested| tested == place) {
                Some(tested) if count == rows => Ok(Arc::clone(batch.column(tested))),
                Some(tested) => Ok(filter.filter(batch.column(tested))?),
                None if count == rows => self.read(*place, taken, None),
                None if count > rows / WHOLE_COLUMN_DIVISOR && !self.is_constant(*place, taken)? => {
                    Ok(filter.filter(&self.read(*place, taken, None)?)?)
                }
                None => self.read(*place, taken, Some(&selected)),
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.batch(columns, count)
    }
}

/// The rows in reverse order.
fn reversed(batch: RecordBatch) -> Result<RecordBatch> {
    if batch.num_columns() == 0 {
        return Ok(batch);
    }
    let rows = UInt32Array::from_iter_values((0..batch.num_rows() as u32).rev());
    Ok(take_record_batch(&batch, &rows)?)
}

/// Takes the numbers below a bound from the front of an ascending slice.
fn split_below<'a>(numbers: &mut &'a [u32], bound: usize) -> &'a [u32] {
    let (below, rest) = numbers.split_at(numbers.partition_point(|&number| (number as usize) < bound));
    *numbers = rest;
    below
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if next.is_err() {
            self.left = 0;
        }
        next.transpose()
    }
}

/// Takes up to `most` rows from the front of the picks.
pub(crate) fn take_picks(picks: &mut Vec<RowSpan>, most: usize) -> Vec<RowSpan> {
    let (mut whole, mut rows) = (0, 0);
    while whole < picks.len() && rows + picks[whole].rows <= most {
        rows += picks[whole].rows;
        whole += 1;
    }
    let mut taken: Vec<RowSpan> = picks.drain(..whole).collect();
    if rows < most
        && let Some(next) = picks.first_mut()
    {
        let part = most - rows;
        taken.push(RowSpan { rows: part, ..*next });
        next.start += part as u64;
        next.rows -= part;
    }
    taken
}

/// Takes up to `most` rows from the end of the picks, keeping their order.
fn take_last_picks(picks: &mut Vec<RowSpan>, most: usize) -> Vec<RowSpan> {
    let (mut first, mut rows) = (picks.len(), 0);
    while first > 0 && rows + picks[first - 1].rows <= most {
        first -= 1;
        rows += picks[first].rows;
    }
    // Older rows stay with the row before them, to which they belong.
    while picks.get(first).is_some_and(|pick| pick.rows == 0) {
        first += 1;
    }
    let mut taken = picks.split_off(first);
    if rows < most
        && let Some(before) = picks.last_mut()
    {
        let part = most - rows;
        before.rows -= part;
        taken.insert(0, RowSpan { start: before.start + before.rows as u64, rows: part, ..*before });
    }
    taken
}
