//! The totals of columns by container and time bucket.
//!
//! Values are added up where their pages hold them: no batches of rows are made, and a bucket's
//! bounds are found by binary search. A run within one bucket is not read: the container index has
//! its totals.

use super::batch_reader::BatchReader;
use super::collection::RowKeys;
use super::containers::{ContainerSummary, amounts_of, key_values, totals};
use super::merge::{self, RowSpan};
use super::parallel::{CONTAINERS_OF_PICK, PickReader};
use super::picker::{PickedRows, Picker};
use super::reading::Reading;
use super::source::{PageMemo, Source};
use super::{BLOCKS_OF_RUNS, COLUMNS_OF_RUNS, INDEX_BLOCK_BYTES, ScanRequest, TableView};
use crate::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::key::KeyValue;
use crate::memory::{Budget, Charge};
use crate::segment::amounts::Amounts;
use std::ops::Range;
use std::sync::Arc;

/// Finds the bucket of a time: its start, and the first later time that is not in it. Times are in
/// the time column's unit.
pub type BucketOf = dyn Fn(i64) -> Result<Range<i64>> + Send + Sync;

/// Rows are picked in pieces of this many batches, as totals take little memory: fewer runs are
/// cut, and fewer pages are decoded by two threads.
const BATCHES_AT_ONCE: usize = 4;
/// Searches for the end of a bucket begin with this many rows.
const FIRST_STEP_ROWS: usize = 64;

/// What [`TableView::buckets`] adds up.
#[derive(Clone)]
pub struct BucketTotals {
    /// Numeric columns, as indexes into the table.
    pub columns: Vec<usize>,
    /// Whether their minima and maxima are wanted; otherwise these are NULL.
    pub extremes: bool,
    /// The buckets.
    pub bucket_of: Arc<BucketOf>,
}

impl TableView {
    /// The rows that match a request by container and time bucket, in this order, with the totals
    /// of columns. The request's own columns and limit are ignored. The iterator yields some groups
    /// at a time, perhaps none.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{BucketTotals, ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value};
    /// use std::sync::Arc;
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let reads = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second);
    /// db.create_table(&reads).unwrap();
    /// let meter = db.container("reads", &[Value::Int(7)]).unwrap();
    /// (0..90).for_each(|time| { meter.append(time, &[]).unwrap(); });
    /// let minute = |time: i64| Ok(time - time % 60..time - time % 60 + 60);
    /// let totals = BucketTotals { columns: Vec::new(), extremes: false, bucket_of: Arc::new(minute) };
    /// let found = db.view().table("reads").unwrap().buckets(&ScanRequest::all(), &totals).unwrap();
    /// let found = found.flat_map(|found| found.unwrap());
    /// let found: Vec<_> = found.map(|found| (found.bucket, found.rows)).collect();
    /// assert_eq!(found, [(Some(0), 60), (Some(60), 30)]);
    /// ```
    ///
    /// # Errors
    /// As [`containers`](Self::containers); [`ErrorKind::Input`](crate::ErrorKind::Input) if the
    /// table is a collection. Errors of `bucket_of` come from the iterator.
    pub fn buckets(&self, request: &ScanRequest, totals: &BucketTotals) -> Result<BucketSummaries> {
        if self.schema.time.is_none() {
            return Err(Error::invalid(format!("table '{}' has no time column", self.schema.name)));
        }
        let (bounds, columns) = (self.bounds(request)?, self.numeric_columns(&totals.columns)?);
        // The time is read as well, and picked runs keep blocks of the index.
        let sources = self.sources(&bounds, columns.len() + 1 + COLUMNS_OF_RUNS)?;
        let reader = BucketReader {
            memos: PageMemo::of_each(&sources.list),
            sources: Arc::clone(&sources.list),
            columns: columns.into(),
            extremes: totals.extremes,
            bucket_of: Arc::clone(&totals.bucket_of),
            budget: Arc::clone(&self.scans.budget),
        };
        let batch_rows = self.scans.batch_rows.saturating_mul(BATCHES_AT_ONCE);
        let picker = Picker::new(&self.schema, &sources.list, bounds, batch_rows, (None, false));
        let picker = picker.with_runs(CONTAINERS_OF_PICK);
        let batch_bytes = sources.list.len() * BLOCKS_OF_RUNS * INDEX_BLOCK_BYTES;
        Ok(BucketSummaries {
            types: self.schema.key_types(),
            // The reader charges for the groups that it returns.
            reading: Reading::new(picker, reader, sources, &self.scans, batch_bytes),
            open: None,
        })
    }
}

/// Yields the rows of each container by bucket, in key order: some at a time, perhaps none.
pub struct BucketSummaries {
    types: Vec<ColumnType>,
    reading: Reading<BucketReader>,
    /// A group that the next rows may belong to as well.
    open: Option<Group>,
}

/// The rows of one container in one bucket.
struct Group {
    key: Arc<[KeyValue]>,
    bucket: i64,
    rows: u64,
    /// The first and last time.
    times: (i64, i64),
    amounts: Vec<Amounts>,
}

impl BucketSummaries {
    /// Adds a group to the open one, or opens it. Returns the group that this completes.
    fn add(&mut self, group: Group) -> Option<Group> {
        match &mut self.open {
            Some(open) if open.key == group.key && open.bucket == group.bucket => {
                let columns = self.reading.reader().columns.iter();
                for ((amounts, others), column) in open.amounts.iter_mut().zip(&group.amounts).zip(columns) {
                    amounts.merge(others, column.1);
                }
                open.rows += group.rows;
                open.times.1 = group.times.1;
                None
            }
            open => open.replace(group),
        }
    }

    fn summary(&self, group: &Group) -> ContainerSummary {
        let reader = self.reading.reader();
        let amounts = group.amounts.iter().zip(reader.columns.iter());
        ContainerSummary {
            key: key_values(&group.key, &self.types),
            bucket: Some(group.bucket),
            rows: group.rows,
            times: group.times,
            amounts: amounts.map(|(amounts, column)| totals(amounts, column.1, reader.extremes)).collect(),
        }
    }
}

impl Iterator for BucketSummaries {
    type Item = Result<Vec<ContainerSummary>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reading.next() {
            Some(Ok((groups, _charge))) => {
                let done = groups.into_iter().filter_map(|group| self.add(group)).collect::<Vec<_>>();
                Some(Ok(done.iter().map(|group| self.summary(group)).collect()))
            }
            Some(Err(error)) => {
                self.open = None;
                Some(Err(error))
            }
            None => self.open.take().map(|last| Ok(vec![self.summary(&last)])),
        }
    }
}

/// Adds up picked rows.
struct BucketReader {
    sources: Arc<Vec<Source>>,
    memos: Vec<PageMemo>,
    columns: Arc<[(ColumnId, ColumnType)]>,
    extremes: bool,
    bucket_of: Arc<BucketOf>,
    budget: Arc<Budget>,
}

/// Rows of a container in one bucket.
struct BucketRows {
    bucket: Range<i64>,
    rows: usize,
    times: (i64, i64),
    spans: Vec<RowSpan>,
}

impl BucketReader {
    /// Splits the rows of a container by bucket.
    fn split(&mut self, picked: &PickedRows) -> Result<Vec<BucketRows>> {
        let mut found: Vec<BucketRows> = Vec::new();
        for pick in &picked.picks {
            let (source, memo) = (&self.sources[pick.source], &mut self.memos[pick.source]);
            if pick.rows == 0 {
                // An older row with the time of the row before it.
                found.iter_mut().last().into_iter().for_each(|found| found.spans.push(*pick));
                continue;
            }
            let (mut first, last) = match merge::whole_run(picked.runs.as_deref().unwrap_or_default(), pick) {
                Some(run) => run.times,
                None => (source.time(pick.start, memo)?, source.time(pick.start + pick.rows as u64 - 1, memo)?),
            };
            let mut at = 0;
            loop {
                if found.last().is_none_or(|found| !found.bucket.contains(&first)) {
                    let bucket = (self.bucket_of)(first)?;
                    found.push(BucketRows { bucket, rows: 0, times: (first, first), spans: Vec::new() });
                }
                let Some(found) = found.last_mut() else { break };
                let rest = RowSpan { source: pick.source, start: pick.start + at as u64, rows: pick.rows - at };
                let (rows, last) = match last < found.bucket.end {
                    true => (rest.rows, last),
                    false => {
                        let rows = leading_rows_below(found.bucket.end, rest, source, memo)?.max(1);
                        (rows, source.time(rest.start + rows as u64 - 1, memo)?)
                    }
                };
                found.spans.push(RowSpan { rows, ..rest });
                found.rows += rows;
                found.times.1 = last;
                at += rows;
                if at >= pick.rows {
                    break;
                }
                first = source.time(pick.start + at as u64, memo)?;
            }
        }
        Ok(found)
    }
}

impl PickReader for BucketReader {
    const PICKS_ALONE: usize = BatchReader::PICKS_ALONE / BATCHES_AT_ONCE;
    /// Groups in order, and the charge for their memory.
    type Output = (Vec<Group>, Charge);

    fn read(&mut self, picked: Vec<PickedRows>) -> Result<Self::Output> {
        let mut groups = Vec::new();
        for picked in &picked {
            let RowKeys::Container(key) = &picked.keys else {
                return Err(Error::bug("rows of a collection have no buckets"));
            };
            for BucketRows { bucket, rows, times, spans } in self.split(picked)? {
                let Self { sources, memos, columns, extremes, .. } = self;
                let runs = picked.runs.as_deref().unwrap_or_default();
                let amounts = columns.iter().map(|&(column, column_type)| {
                    amounts_of(sources, runs, &spans, (column, column_type, *extremes), memos)
                });
                let amounts = amounts.collect::<Result<Vec<_>>>()?;
                groups.push(Group { key: Arc::clone(key), bucket: bucket.start, rows: rows as u64, times, amounts });
            }
        }
        let bytes = groups.len() * (size_of::<Group>() + self.columns.len() * size_of::<Amounts>());
        let charge = self.budget.charge("a scan", bytes)?;
        Ok((groups, charge))
    }

    fn another(&self) -> Self {
        Self {
            memos: PageMemo::of_each(&self.sources),
            sources: Arc::clone(&self.sources),
            columns: Arc::clone(&self.columns),
            extremes: self.extremes,
            bucket_of: Arc::clone(&self.bucket_of),
            budget: Arc::clone(&self.budget),
        }
    }

    fn memos(&mut self) -> &mut [PageMemo] {
        &mut self.memos
    }

    /// The time is read as well.
    fn columns(&self) -> usize {
        self.columns.len() + 1
    }
}

/// The number of rows of a span with a time below `bound`, which the first row has. Most buckets
/// are short compared with a container, so the search begins at its first row.
fn leading_rows_below(bound: i64, span: RowSpan, source: &Source, memo: &mut PageMemo) -> Result<usize> {
    let (mut low, mut step) = (1, FIRST_STEP_ROWS);
    while low + step < span.rows && source.time(span.start + (low + step) as u64, memo)? < bound {
        (low, step) = (low + step + 1, step * 2);
    }
    source.rows_below(bound, span.start, (low, (low + step).min(span.rows)), memo)
}

#[cfg(test)]
#[path = "buckets_tests.rs"]
mod tests;
