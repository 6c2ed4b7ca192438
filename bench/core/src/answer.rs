//! Helpers for targets that exchange rows cell by cell: reading the cells of a batch, and building
//! a batch from cells.

use crate::Outcome;
use crate::table::{Column, ColumnType, schema};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType};
use std::sync::Arc;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// See [`ColumnType::Int`].
    Int(i64),
    /// See [`ColumnType::Float`].
    Float(f64),
    /// See [`ColumnType::Text`].
    Text(&'a str),
    /// See [`ColumnType::Time`].
    Time(i64),
}

/// The cells of a row.
///
/// # Panics
/// If a column has a type that no [`ColumnType`] maps to.
pub fn cells(rows: &RecordBatch, row: usize) -> impl Iterator<Item = Cell<'_>> {
    rows.columns().iter().map(move |column| cell(column, row))
}

fn cell(column: &ArrayRef, row: usize) -> Cell<'_> {
    match column.data_type() {
        _ if column.is_null(row) => Cell::Null,
        DataType::Utf8 => Cell::Text(column.as_string::<i32>().value(row)),
        DataType::Float64 => Cell::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Int64 => Cell::Int(column.as_primitive::<Int64Type>().value(row)),
        _ => Cell::Time(column.as_primitive::<TimestampNanosecondType>().value(row)),
    }
}

enum Values {
    Int(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
    Time(Vec<Option<i64>>),
}

/// An answer that is built cell by cell, row by row.
///
/// ```
/// use fleetdb_bench_core::answer::{AnswerBuilder, Cell};
/// use fleetdb_bench_core::table::ColumnType;
/// let mut builder = AnswerBuilder::new(&[("host", ColumnType::Text), ("max", ColumnType::Int)]);
/// builder.push(Cell::Text("a")).unwrap();
/// builder.push(Cell::Float(7.0)).unwrap(); // a target's maximum of integers may be a float
/// assert_eq!(builder.finish().unwrap().num_rows(), 1);
/// ```
pub struct AnswerBuilder {
    columns: Vec<Column>,
    values: Vec<Values>,
    next: usize,
}

impl AnswerBuilder {
    /// An empty answer with these columns.
    pub fn new(columns: &[Column]) -> Self {
        let values = columns.iter().map(|(_, kind)| match kind {
            ColumnType::Int => Values::Int(Vec::new()),
            ColumnType::Float => Values::Float(Vec::new()),
            ColumnType::Text | ColumnType::Json => Values::Text(Vec::new()),
            ColumnType::Time => Values::Time(Vec::new()),
        });
        Self { columns: columns.to_vec(), values: values.collect(), next: 0 }
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The type of the next cell.
    pub fn expects(&self) -> ColumnType {
        self.columns[self.next].1
    }

    /// Adds the next cell. An integer may arrive as a whole float or a float as an integer, and a
    /// time as an integer.
    ///
    /// # Errors
    /// The cell is of another type.
    pub fn push(&mut self, cell: Cell<'_>) -> Outcome<()> {
        match (&mut self.values[self.next], cell) {
            (Values::Int(values), Cell::Int(value)) => values.push(Some(value)),
            (Values::Int(values), Cell::Float(value)) if value.fract() == 0.0 => values.push(Some(value as i64)),
            (Values::Float(values), Cell::Float(value)) => values.push(Some(value)),
            (Values::Float(values), Cell::Int(value)) => values.push(Some(value as f64)),
            (Values::Text(values), Cell::Text(value)) => values.push(Some(value.to_owned())),
            (Values::Time(values), Cell::Time(value) | Cell::Int(value)) => values.push(Some(value)),
            (Values::Int(values) | Values::Time(values), Cell::Null) => values.push(None),
            (Values::Float(values), Cell::Null) => values.push(None),
            (Values::Text(values), Cell::Null) => values.push(None),
            (_, other) => {
                return Err(format!("column {} has the unsupported value {other:?}", self.columns[self.next].0).into());
            }
        }
        self.next = (self.next + 1) % self.columns.len();
        Ok(())
    }

    /// Returns the rows.
    ///
    /// # Errors
    /// The last row is incomplete.
    pub fn finish(self) -> Outcome<RecordBatch> {
        if self.columns.is_empty() {
            return Ok(RecordBatch::new_empty(schema(&self.columns)));
        }
        let arrays = self.values.into_iter().map(|values| match values {
            Values::Int(values) => Arc::new(Int64Array::from(values)) as ArrayRef,
            Values::Float(values) => Arc::new(Float64Array::from(values)),
            Values::Text(values) => Arc::new(StringArray::from(values)),
            Values::Time(values) => Arc::new(TimestampNanosecondArray::from(values)),
        });
        Ok(RecordBatch::try_new(schema(&self.columns), arrays.collect())?)
    }
}
