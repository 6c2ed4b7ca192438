//! The checksum by which answers are compared; `ask_duckdb.py` computes the same.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use fleetdb_bench_core::Outcome;
use fleetdb_engine::Value;
use std::sync::Arc;

/// Combines the CRC-32 of each row's cells as text, and depends on the order of the rows if that is
/// part of the answer.
///
/// Integers and times are decimal numbers, floats have nine digits (the order of addition changes
/// later ones), and NULL is empty; a zero byte ends each cell.
#[derive(Clone, Copy)]
pub struct Checksum {
    sum: u64,
    ordered: bool,
}

impl Checksum {
    pub fn new(ordered: bool) -> Self {
        Self { sum: 0, ordered }
    }

    pub fn value(self) -> u64 {
        self.sum
    }

    /// Adds a row: the text of its cells, each followed by a zero byte.
    pub fn add_row(&mut self, cells: &[u8]) {
        let row = u64::from(crc32fast::hash(cells)) + 1;
        self.sum = if self.ordered { self.sum.wrapping_mul(31).wrapping_add(row) } else { self.sum.wrapping_add(row) };
    }

    /// Adds a row from the container API.
    pub fn add_values(&mut self, row: &[Value]) {
        let cells = row.iter().map(|value| match value {
            Value::Null => "\0".to_owned(),
            Value::Text(text) => format!("{text}\0"),
            Value::Float(value) => float(*value) + "\0",
            Value::Int(value) => format!("{value}\0"),
            other => format!("{other:?}\0"),
        });
        self.add_row(cells.collect::<String>().as_bytes());
    }

    pub fn add_batches(&mut self, batches: &[RecordBatch]) -> Outcome<()> {
        let mut cells = String::new();
        for batch in batches {
            let columns: Vec<ArrayRef> = batch
                .columns()
                .iter()
                .map(|column| match column.data_type() {
                    DataType::Utf8 | DataType::Float64 => Ok(Arc::clone(column)),
                    _ => cast(column, &DataType::Int64),
                })
                .collect::<Result<_, _>>()?;
            for row in 0..batch.num_rows() {
                cells.clear();
                for column in &columns {
                    if column.is_valid(row) {
                        match column.data_type() {
                            DataType::Utf8 => cells += column.as_string::<i32>().value(row),
                            DataType::Float64 => cells += &float(column.as_primitive::<Float64Type>().value(row)),
                            _ => cells += &column.as_primitive::<Int64Type>().value(row).to_string(),
                        }
                    }
                    cells.push('\0');
                }
                self.add_row(cells.as_bytes());
            }
        }
        Ok(())
    }
}

pub fn float(value: f64) -> String {
    format!("{value:.8e}")
}
