//! The right answers, computed from the workload's rows independently of any database, and the
//! comparison with a target's answers.

use crate::Outcome;
use crate::answer::{AnswerBuilder, Cell, cells};
use crate::query::{Key, Query};
use crate::workload::cpu::TAGS;
use crate::workload::own::Own;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{SortColumn, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Relative tolerance for floats, since databases add sums in another order.
const TOLERANCE: f64 = 1e-9;

/// A row of a shared batch.
type Row = (Arc<RecordBatch>, usize);

/// The answers for E2: keeps all rows of the queried hosts, and the newest row of every host.
pub struct CpuOracle {
    asked: BTreeSet<String>,
    rows: BTreeMap<String, BTreeMap<i64, Row>>,
    newest: BTreeMap<String, (i64, Row)>,
    count: i64,
}

impl CpuOracle {
    /// An oracle for these queries.
    pub fn new<'a>(queries: impl IntoIterator<Item = &'a Query>) -> Self {
        let mut asked = BTreeSet::new();
        for query in queries {
            match query {
                Query::Rows { key: Key::Text(host), .. } | Query::MinuteMaxima { host, .. } => {
                    asked.insert(host.clone());
                }
                Query::HourlyMaxima { hosts, .. } => asked.extend(hosts.iter().cloned()),
                _ => {}
            }
        }
        Self { asked, rows: BTreeMap::new(), newest: BTreeMap::new(), count: 0 }
    }

    /// Adds rows that were written.
    pub fn feed(&mut self, batch: RecordBatch) {
        let batch = Arc::new(batch);
        let hosts = batch.column(0).as_string::<i32>();
        let times = batch.column(TAGS.len()).as_primitive::<TimestampNanosecondType>();
        self.count += batch.num_rows() as i64;
        for row in 0..batch.num_rows() {
            let (host, time) = (hosts.value(row), times.value(row));
            match self.newest.get_mut(host) {
                Some((newest, _)) if *newest > time => {}
                Some(known) => *known = (time, (Arc::clone(&batch), row)),
                None => {
                    self.newest.insert(host.to_owned(), (time, (Arc::clone(&batch), row)));
                }
            }
            if self.asked.contains(host) {
                let alone = Arc::new(batch.slice(row, 1));
                self.rows.entry(host.to_owned()).or_default().insert(time, (alone, 0));
            }
        }
    }

    /// Subtracts rows that were sent twice.
    pub fn forget(&mut self, repeated: u64) {
        self.count -= repeated as i64;
    }

    fn window(&self, host: &str, (from, to): (i64, i64)) -> impl Iterator<Item = &Row> {
        self.rows.get(host).into_iter().flat_map(move |rows| rows.range(from..to).map(|(_, row)| row))
    }

    /// The right answer to a query.
    ///
    /// # Errors
    /// The query is not about these rows.
    pub fn answer(&self, query: &Query) -> Outcome<RecordBatch> {
        let mut answer = AnswerBuilder::new(&query.columns());
        let mut whole = |row: &Row| cells(&row.0, row.1).try_for_each(|cell| answer.push(cell));
        match query {
            Query::Count(_) => answer.push(Cell::Int(self.count))?,
            Query::Rows { key: Key::Text(host), window_ns, .. } => self.window(host, *window_ns).try_for_each(whole)?,
            Query::LastOfAll => self.newest.values().try_for_each(|(_, row)| whole(row))?,
            Query::Last { key: Key::Text(host), .. } => {
                self.newest.get(host).into_iter().try_for_each(|(_, row)| whole(row))?
            }
            Query::HourlyMaxima { hosts, window_ns } => {
                let rows = hosts.iter().flat_map(|host| self.window(host, *window_ns));
                maxima(rows, HOUR_NS, &mut answer)?;
            }
            Query::MinuteMaxima { host, window_ns } => maxima(self.window(host, *window_ns), MINUTE_NS, &mut answer)?,
            _ => return Err("unsupported query of cpu rows".into()),
        }
        answer.finish()
    }
}

/// The answers for a user's own rows. Keeps all rows in memory.
pub struct RowsOracle {
    series: BTreeMap<Key, BTreeMap<i64, Row>>,
}

impl RowsOracle {
    /// An oracle for these rows.
    pub fn of(own: &Own) -> Self {
        let mut series: BTreeMap<Key, BTreeMap<i64, Row>> = BTreeMap::new();
        for batch in &own.batches {
            let shared = Arc::new(batch.clone());
            for row in 0..batch.num_rows() {
                let (key, time) = Own::key(batch, row);
                series.entry(key).or_default().insert(time, (Arc::clone(&shared), row));
            }
        }
        Self { series }
    }

    /// The number of rows.
    pub fn count(&self) -> u64 {
        self.series.values().map(|rows| rows.len() as u64).sum()
    }

    /// A key, and a window with `rows` of its rows, or all if it has fewer; the random number
    /// `drawn` selects them.
    pub fn window(&self, drawn: u64, rows: usize) -> Option<(Key, (i64, i64))> {
        let (key, times) = self.series.iter().nth(drawn as usize % self.series.len().max(1))?;
        let first = (drawn >> 32) as usize % times.len().saturating_sub(rows).max(1);
        let mut window = times.keys().skip(first).take(rows);
        let from = *window.next()?;
        Some((key.clone(), (from, window.next_back().copied().unwrap_or(from) + 1_000)))
    }

    /// The right answer to a query.
    ///
    /// # Errors
    /// The query is not about these rows.
    pub fn answer(&self, query: &Query) -> Outcome<RecordBatch> {
        let mut answer = AnswerBuilder::new(&query.columns());
        let mut whole = |row: &Row| cells(&row.0, row.1).try_for_each(|cell| answer.push(cell));
        let of = |key: &Key| self.series.get(key).into_iter();
        match query {
            Query::Count(_) => answer.push(Cell::Int(self.count() as i64))?,
            Query::Rows { key, window_ns: (from, to), .. } => {
                of(key).flat_map(|rows| rows.range(from..to)).try_for_each(|(_, row)| whole(row))?;
            }
            Query::Last { key, .. } => of(key).filter_map(|rows| rows.values().next_back()).try_for_each(whole)?,
            _ => return Err("unsupported query of a user's own rows".into()),
        }
        answer.finish()
    }
}

/// The maxima of the first fields in each time bucket, as many fields as the answer has columns
/// after the time.
fn maxima<'a>(rows: impl Iterator<Item = &'a Row>, width_ns: i64, answer: &mut AnswerBuilder) -> Outcome<()> {
    let fields = answer.columns().len() - 1;
    let mut buckets: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (batch, row) in rows {
        let time = batch.column(TAGS.len()).as_primitive::<TimestampNanosecondType>().value(*row);
        let maxima = buckets.entry(time.div_euclid(width_ns) * width_ns).or_insert_with(|| vec![i64::MIN; fields]);
        for (place, maximum) in maxima.iter_mut().enumerate() {
            let value = batch.column(TAGS.len() + 1 + place).as_primitive::<Int64Type>().value(*row);
            *maximum = value.max(*maximum);
        }
    }
    for (time, maxima) in buckets {
        answer.push(Cell::Time(time))?;
        maxima.into_iter().try_for_each(|maximum| answer.push(Cell::Int(maximum)))?;
    }
    Ok(())
}

/// Describes the first difference between two answers, if any: the number of rows or columns, or a
/// cell.
pub fn difference(query: &Query, right: &RecordBatch, answer: &RecordBatch) -> Option<String> {
    if right.num_rows() != answer.num_rows() {
        return Some(format!("{query:?}: {} rows instead of {}", answer.num_rows(), right.num_rows()));
    }
    if right.num_columns() != answer.num_columns() {
        return Some(format!("{query:?}: {} columns instead of {}", answer.num_columns(), right.num_columns()));
    }
    if right.columns() == answer.columns() {
        return None;
    }
    let in_order = |rows: &RecordBatch| if query.is_ordered() { Ok(rows.clone()) } else { sorted(rows) };
    let (right, answer) = match (in_order(right), in_order(answer)) {
        (Ok(right), Ok(answer)) => (right, answer),
        (Err(error), _) | (_, Err(error)) => return Some(format!("{query:?}: {error}")),
    };
    for row in 0..right.num_rows() {
        for (place, (right, cell)) in cells(&right, row).zip(cells(&answer, row)).enumerate() {
            let is_equal = match (right, cell) {
                (Cell::Float(right), Cell::Float(value)) => (right - value).abs() <= TOLERANCE * right.abs().max(1.0),
                _ => right == cell,
            };
            if !is_equal {
                let name = query.columns()[place].0;
                return Some(format!("{query:?}: row {row}, {name}: {cell:?} instead of {right:?}"));
            }
        }
    }
    None
}

/// The rows sorted by all columns.
fn sorted(rows: &RecordBatch) -> Outcome<RecordBatch> {
    let columns = rows.columns().iter().map(|column| SortColumn { values: Arc::clone(column), options: None });
    let order = lexsort_to_indices(&columns.collect::<Vec<_>>(), None)?;
    Ok(take_record_batch(rows, &order)?)
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
