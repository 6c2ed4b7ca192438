//! Outputs the buckets of complete series, one series after another.

use super::shape::{Fill, Shape};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{cast, partition, take};
use arrow::datatypes::{DataType, Float64Type, Int64Type, SchemaRef};
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of rows per batch.
const BATCH_ROWS: usize = 8_192;

/// The row range of each series.
pub(super) fn ranges(rows: &RecordBatch, shape: &Shape) -> Result<Vec<Range<usize>>> {
    let columns: Vec<ArrayRef> = shape.series.iter().map(|&place| Arc::clone(rows.column(place))).collect();
    if columns.is_empty() || rows.num_rows() == 0 {
        return Ok(std::iter::once(0..rows.num_rows()).collect());
    }
    Ok(partition(&columns)?.ranges())
}

/// For each row, the nearest rows of its series that have a value.
struct Known {
    at_or_before: Vec<Option<usize>>,
    at_or_after: Vec<Option<usize>>,
}

impl Known {
    fn new(values: &ArrayRef, times: &Int64Array, ranges: &[Range<usize>]) -> Self {
        let is_known = |row: &usize| values.is_valid(*row) && times.is_valid(*row);
        let (mut at_or_before, mut at_or_after) = (vec![None; values.len()], vec![None; values.len()]);
        for range in ranges {
            let mut last = None;
            for row in range.clone() {
                last = Some(row).filter(is_known).or(last);
                at_or_before[row] = last;
            }
            let mut next = None;
            for row in range.clone().rev() {
                next = Some(row).filter(is_known).or(next);
                at_or_after[row] = next;
            }
        }
        Self { at_or_before, at_or_after }
    }
}

/// Complete series, and how far they have been output.
pub(super) struct Series {
    rows: RecordBatch,
    times: Int64Array,
    is_before: Vec<bool>,
    ranges: std::vec::IntoIter<Range<usize>>,
    /// One entry per fill.
    known: Vec<Known>,
    /// The series being output: its rows, the next bucket, and the first row not before that
    /// bucket.
    current: Option<(Range<usize>, usize, usize)>,
}

impl Series {
    pub(super) fn new(rows: RecordBatch, shape: &Shape) -> Result<Self> {
        let times = cast(rows.column(shape.time), &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        let is_before: Vec<bool> = match shape.before {
            Some(place) => rows.column(place).as_boolean().iter().map(|before| before == Some(true)).collect(),
            None => vec![false; rows.num_rows()],
        };
        let ranges = ranges(&rows, shape)?;
        let known = shape.fills.iter().map(|&(place, _)| Known::new(rows.column(place), &times, &ranges));
        let known = known.collect();
        Ok(Self { times, is_before, known, ranges: ranges.into_iter(), current: None, rows })
    }

    /// The next batch of buckets.
    pub(super) fn next(&mut self, shape: &Shape, starts: &[i64], schema: &SchemaRef) -> Result<Option<RecordBatch>> {
        let mut picked = Picked::new(shape.fills.len());
        while picked.times.len() < BATCH_ROWS {
            let Some((range, bucket, row)) = &mut self.current else {
                let Some(range) = self.ranges.next() else { break };
                let is_shown = |row: usize| {
                    !self.is_before[row]
                        && self.times.is_valid(row)
                        && starts.binary_search(&self.times.value(row)).is_ok()
                };
                // A series is output if it has rows in the window; without series columns, the
                // buckets are always output.
                if shape.series.is_empty() || range.clone().any(is_shown) {
                    self.current = Some((range.clone(), 0, range.start));
                }
                continue;
            };
            let Some(&start) = starts.get(*bucket) else {
                self.current = None;
                continue;
            };
            let is_passed =
                |row: usize| self.is_before[row] || self.times.is_null(row) || self.times.value(row) < start;
            while *row < range.end && is_passed(*row) {
                *row += 1;
            }
            let own = (*row < range.end && self.times.value(*row) == start).then_some(*row);
            let until = if own.is_some() { Some(*row) } else { row.checked_sub(1).filter(|last| range.contains(last)) };
            picked.series.push(range.start);
            picked.times.push(start);
            picked.own.push(own);
            for (fill, known) in picked.fills.iter_mut().zip(&self.known) {
                let last = until.and_then(|row| known.at_or_before[row]);
                let next = (*row < range.end).then(|| known.at_or_after[*row]).flatten();
                fill.push((last, next));
            }
            *bucket += 1;
        }
        if picked.times.is_empty() {
            return Ok(None);
        }
        let columns = (0..schema.fields().len()).map(|place| self.column(shape, place, &picked));
        Ok(Some(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_>>()?)?))
    }

    fn column(&self, shape: &Shape, place: usize, picked: &Picked) -> Result<ArrayRef> {
        let column = self.rows.column(place);
        if place == shape.time {
            let times: ArrayRef = Arc::new(Int64Array::from(picked.times.clone()));
            return Ok(cast(&times, column.data_type())?);
        }
        if column.is_empty() {
            return Ok(new_null_array(column.data_type(), picked.times.len()));
        }
        let of_rows = |rows: &mut dyn Iterator<Item = Option<usize>>| {
            let rows: UInt64Array = rows.map(|row| row.map(|row| row as u64)).collect();
            Ok(take(column, &rows, None)?)
        };
        match shape.fills.iter().position(|(fill, _)| *fill == place) {
            None if shape.is_given(place) => of_rows(&mut picked.series.iter().map(|row| Some(*row))),
            None => of_rows(&mut picked.own.iter().copied()),
            Some(fill) if shape.fills[fill].1 == Fill::Carry => {
                of_rows(&mut picked.fills[fill].iter().map(|(last, _)| *last))
            }
            Some(fill) => {
                let values = column.as_primitive::<Float64Type>();
                let points = picked.times.iter().zip(&picked.fills[fill]);
                let line = points.map(|(&time, &(last, next))| {
                    let (last, next) = (last?, next?);
                    let (from, to) = (values.value(last), values.value(next));
                    let time_of = |row| i128::from(self.times.value(row));
                    let (since, span) = (i128::from(time) - time_of(last), time_of(next) - time_of(last));
                    Some(if span == 0 { from } else { from + (to - from) * (since as f64 / span as f64) })
                });
                Ok(Arc::new(line.collect::<Float64Array>()))
            }
        }
    }
}

/// Where the values of the next buckets come from.
struct Picked {
    /// Some row of the bucket's series, for the series columns.
    series: Vec<usize>,
    times: Vec<i64>,
    /// The row of this bucket, if it has one.
    own: Vec<Option<usize>>,
    /// For each fill, the nearest rows with a value at or before the bucket, and at or after it.
    fills: Vec<Vec<(Option<usize>, Option<usize>)>>,
}

impl Picked {
    fn new(fills: usize) -> Self {
        Self { series: Vec::new(), times: Vec::new(), own: Vec::new(), fills: vec![Vec::new(); fills] }
    }
}
