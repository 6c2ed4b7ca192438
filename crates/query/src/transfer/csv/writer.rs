//! Writes rows as CSV so that every value can be read back unchanged.

use crate::transfer::array_texts::array_text_form;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Schema};
use arrow::error::Result;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use fleetdb_engine::ColumnType;
use fleetdb_functions::values::texts::text_form;
use std::borrow::Cow;
use std::sync::Arc;

/// Formats a CSV cell. It is quoted if it could be taken for NULL, for the end of the rows, or for
/// more than one cell.
///
/// ```
/// use fleetdb_query::csv_cell;
/// assert_eq!(csv_cell(b"plain", b',', b"").as_ref(), b"plain");
/// assert_eq!(csv_cell(b"", b',', b"").as_ref(), b"\"\"");
/// assert_eq!(csv_cell(b"5\" pipe", b',', b"").as_ref(), b"\"5\"\" pipe\"");
/// ```
pub fn csv_cell<'a>(value: &'a [u8], delimiter: u8, null: &[u8]) -> Cow<'a, [u8]> {
    let is_special = |byte: &u8| [b'"', b'\n', b'\r', delimiter].contains(byte);
    if value != null && value != b"\\." && !value.iter().any(is_special) {
        return Cow::Borrowed(value);
    }
    let mut quoted = Vec::with_capacity(value.len() + 2);
    quoted.push(b'"');
    for &byte in value {
        if byte == b'"' {
            quoted.push(b'"');
        }
        quoted.push(byte);
    }
    quoted.push(b'"');
    Cow::Owned(quoted)
}

/// Appends a line with the column names.
pub fn csv_header(schema: &Schema, out: &mut Vec<u8>) {
    for (place, field) in schema.fields().iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&csv_cell(field.name().as_bytes(), b',', b""));
    }
    out.push(b'\n');
}

/// Appends a line per row. NULL is an empty cell, the empty text is `""`, and bytes are written as
/// PostgreSQL writes them.
///
/// # Errors
/// A value has no text form, such as a time beyond the calendar's range.
pub fn csv_rows(rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let columns = rows.columns().iter().map(readable).collect::<Result<Vec<_>>>()?;
    let columns = columns.iter().map(Texts::of).collect::<Result<Vec<_>>>()?;
    let mut text = String::new();
    for row in 0..rows.num_rows() {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            if column.put(row, &mut text)? {
                out.extend_from_slice(&csv_cell(text.as_bytes(), b',', b""));
            }
            text.clear();
        }
        out.push(b'\n');
    }
    Ok(())
}

/// A column of UUIDs or arrays as text, one of bytes as `Binary`; others as they are.
fn readable(column: &ArrayRef) -> Result<ArrayRef> {
    let texts = match column.data_type() {
        &ColumnType::UUID => text_form(column)?,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Some(cast(column, &DataType::Binary)?)
        }
        _ => array_text_form(column)?,
    };
    Ok(texts.unwrap_or_else(|| Arc::clone(column)))
}

/// Converts the values of a column to text.
struct Texts<'a> {
    column: &'a ArrayRef,
    formatter: ArrayFormatter<'a>,
}

impl<'a> Texts<'a> {
    fn of(column: &'a ArrayRef) -> Result<Self> {
        let formatter = ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())?;
        Ok(Self { column, formatter })
    }

    /// Writes a row's value as text; returns `false` if it is NULL.
    fn put(&self, row: usize, text: &mut String) -> Result<bool> {
        if self.column.is_null(row) {
            return Ok(false);
        }
        match self.column.data_type() {
            DataType::Binary => put_bytes(self.column.as_binary::<i32>().value(row), text),
            DataType::Float64 if put_infinity(self.column.as_primitive::<Float64Type>().value(row), text) => {}
            DataType::Float32 if put_infinity(self.column.as_primitive::<Float32Type>().value(row).into(), text) => {}
            DataType::Null => return Ok(false),
            _ => self.formatter.value(row).write(text)?,
        }
        Ok(true)
    }
}

fn put_bytes(bytes: &[u8], text: &mut String) {
    text.push_str("\\x");
    for digit in bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]) {
        text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
    }
}

/// Writes an infinity as PostgreSQL does; returns `false` for every other number.
fn put_infinity(value: f64, text: &mut String) -> bool {
    if value.is_infinite() {
        text.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    value.is_infinite()
}
