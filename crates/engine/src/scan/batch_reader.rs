//! Reads chosen rows column by column into Arrow batches.

use super::collection::RowKeys;
use super::merge::{self, RowSpan};
use super::parallel::PickReader;
use super::picker::PickedRows;
use super::source::{PageMemo, Source};
use crate::column::ColumnBuilder;
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::schema::{Role, TableSchema};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::{FilterBuilder, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use std::cell::LazyCell;
use std::sync::Arc;

/// A condition that a scan applies to rows while it reads; see [`TableView::scan_where`].
#[derive(Clone)]
pub struct RowCondition {
    /// The columns it needs, as indexes into the table.
    pub places: Vec<usize>,
    /// Tells for each row of these columns whether it matches; NULL means no. It must depend on the
    /// values alone: rows with equal values are tested once.
    pub test: Arc<RowTest>,
    /// Bytes of stack that the test needs.
    pub stack_bytes: usize,
}

/// The test of a [`RowCondition`].
pub type RowTest = dyn Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync;

/// If more than one in this many rows matches, whole columns are read: reading single rows costs
/// more.
const WHOLE_COLUMN_DIVISOR: usize = 2;

/// Up to this many rows of a pick are read together with those before them.
const SHORT_PICK_ROWS: usize = 4;

/// Reads the columns of a scan. Each thread has its own.
pub(super) struct BatchReader {
    schema: Arc<TableSchema>,
    output: SchemaRef,
    places: Vec<usize>,
    condition: Option<RowCondition>,
    sources: Arc<Vec<Source>>,
    memos: Vec<PageMemo>,
}

impl BatchReader {
    pub(super) fn new(
        schema: &Arc<TableSchema>,
        sources: &Arc<Vec<Source>>,
        places: Vec<usize>,
        condition: Option<RowCondition>,
    ) -> Self {
        Self {
            output: schema.to_arrow_of(&places),
            schema: Arc::clone(schema),
            places,
            condition,
            sources: Arc::clone(sources),
            memos: PageMemo::of_each(sources),
        }
    }

    /// The schema of the batches.
    pub(super) fn output(&self) -> &SchemaRef {
        &self.output
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?)
    }

    /// Reads all columns of all these rows.
    fn whole(&mut self, picked: &[PickedRows], rows: usize) -> Result<RecordBatch> {
        let columns = self.places.clone().into_iter().map(|place| self.column(place, picked, None));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.batch(columns, rows)
    }

    /// Reads one column of the rows, or only of the rows at the positions in `selected`.
    fn column(&mut self, place: usize, picked: &[PickedRows], selected: Option<&[u32]>) -> Result<ArrayRef> {
        let column = &self.schema.columns[place];
        let mut out = ColumnBuilder::new(column.column_type);
        out.reserve(selected.map_or_else(|| picked.iter().map(|picked| picked.rows).sum(), <[u32]>::len));
        let mut selected = selected;
        let mut before = 0;
        if column.role == Role::Key {
            let (key_place, types) = (self.schema.key_place(place), self.schema.key_types());
            for picked in picked {
                let wanted = selected.as_mut().map(|selected| split_below(selected, before + picked.rows));
                let rows = wanted.map_or(picked.rows, <[u32]>::len);
                if let RowKeys::Container(key) = &picked.keys {
                    out.push_repeated(key[key_place].part(), rows);
                } else {
                    for place in 0..rows {
                        let row = wanted.map_or(place, |wanted| wanted[place] as usize - before);
                        out.push(picked.keys.value(row, &self.sources[0], &types, key_place)?.part());
                    }
                }
                before += picked.rows;
            }
            return out.finish(column.column_type);
        }
        let column_id = column.id;
        for pick in self.spans(column_id, picked)? {
            let column = &self.schema.columns[place];
            let (source, memo) = (&self.sources[pick.source], &mut self.memos[pick.source]);
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
    fn spans(&mut self, column: ColumnId, picked: &[PickedRows]) -> Result<Vec<RowSpan>> {
        let mut spans: Vec<RowSpan> = Vec::with_capacity(picked.len());
        for picked in picked {
            for pick in merge::picks_with(&self.sources, &picked.picks, column, &mut self.memos)?.iter() {
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
    fn is_constant(&mut self, place: usize, picked: &[PickedRows]) -> Result<bool> {
        let column = &self.schema.columns[place];
        if column.role == Role::Key {
            return Ok(picked.iter().all(|picked| picked.keys.is_one() || picked.rows <= 1));
        }
        for pick in picked.iter().flat_map(|picked| &picked.picks).filter(|pick| pick.rows > 1) {
            let (source, memo) = (&self.sources[pick.source], &mut self.memos[pick.source]);
            if !source.is_constant(column.id, pick.start, pick.rows, memo)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The columns that a condition needs, for all rows, and which rows match.
    fn test(
        &mut self,
        picked: &[PickedRows],
        rows: usize,
        condition: &RowCondition,
    ) -> Result<(RecordBatch, BooleanArray)> {
        let tested = condition.places.iter().map(|&place| self.column(place, picked, None));
        let tested = tested.collect::<Result<Vec<_>>>()?;
        let schema = self.schema.to_arrow_of(&condition.places);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, tested, &options)?;
        let wanted = matching(condition, &batch)?;
        Ok((batch, wanted))
    }

    /// The picks that match a condition whose columns have one value in each pick.
    fn selected_picks(&mut self, picked: Vec<PickedRows>, condition: &RowCondition) -> Result<RecordBatch> {
        let first = |pick: &RowSpan| RowSpan { rows: pick.rows.min(1), ..*pick };
        let firsts = picked.iter().map(|picked| PickedRows {
            keys: picked.keys.clone(),
            runs: None,
            picks: picked.picks.iter().map(first).collect(),
            rows: picked.picks.iter().filter(|pick| pick.rows > 0).count(),
        });
        let firsts: Vec<PickedRows> = firsts.collect();
        let picks = firsts.iter().map(|firsts| firsts.rows).sum();
        let (_, wanted) = self.test(&firsts, picks, condition)?;
        let mut wanted = wanted.values().iter();
        let kept = picked.into_iter().map(|mut picked| {
            let mut is_wanted = false;
            picked.picks.retain(|pick| {
                if pick.rows > 0 {
                    is_wanted = wanted.next() == Some(true);
                }
                is_wanted
            });
            picked.rows = picked.picks.iter().map(|pick| pick.rows).sum();
            picked
        });
        let kept: Vec<PickedRows> = kept.collect();
        self.whole(&kept, kept.iter().map(|kept| kept.rows).sum())
    }

    /// The rows that match a condition: its columns are read whole, others only for matching rows.
    fn selected(&mut self, picked: Vec<PickedRows>, rows: usize, condition: &RowCondition) -> Result<RecordBatch> {
        let mut constant = true;
        for &place in &condition.places {
            constant = constant && self.is_constant(place, &picked)?;
        }
        if constant {
            return self.selected_picks(picked, condition);
        }
        let picked = picked.as_slice();
        let (batch, wanted) = self.test(picked, rows, condition)?;
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
                None if count == rows => self.column(*place, picked, None),
                None if count > rows / WHOLE_COLUMN_DIVISOR && !self.is_constant(*place, picked)? => {
                    Ok(filter.filter(&self.column(*place, picked, None)?)?)
                }
                None => self.column(*place, picked, Some(&selected)),
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.batch(columns, count)
    }
}

impl PickReader for BatchReader {
    const PICKS_ALONE: usize = 16;
    type Output = RecordBatch;

    /// Reads the rows that match the condition, if there is one.
    fn read(&mut self, picked: Vec<PickedRows>) -> Result<RecordBatch> {
        let rows = picked.iter().map(|picked| picked.rows).sum();
        match self.condition.clone() {
            None => self.whole(&picked, rows),
            Some(condition) => self.selected(picked, rows, &condition),
        }
    }

    fn another(&self) -> Self {
        Self::new(&self.schema, &self.sources, self.places.clone(), self.condition.clone())
    }

    fn memos(&mut self) -> &mut [PageMemo] {
        &mut self.memos
    }

    fn columns(&self) -> usize {
        self.places.len() + self.condition.as_ref().map_or(0, |condition| condition.places.len())
    }

    fn stack_bytes(&self) -> usize {
        self.condition.as_ref().map_or(0, |condition| condition.stack_bytes)
    }
}

/// Which rows of the columns that a condition needs match it.
pub(super) fn matching(condition: &RowCondition, rows: &RecordBatch) -> Result<BooleanArray> {
    let wanted = (condition.test)(rows)?;
    let (results, rows) = (wanted.len(), rows.num_rows());
    if results != rows {
        return Err(Error::invalid(format!("a row condition returned {results} results for {rows} rows")));
    }
    Ok(if wanted.null_count() > 0 { prep_null_mask_filter(&wanted) } else { wanted })
}

/// Takes the numbers below a bound from the front of an ascending slice.
fn split_below<'a>(numbers: &mut &'a [u32], bound: usize) -> &'a [u32] {
    let (below, rest) = numbers.split_at(numbers.partition_point(|&number| (number as usize) < bound));
    *numbers = rest;
    below
}
