//! Rejects NULL in NOT NULL columns, such as those of the primary key, before rows are written, so
//! that the error can name the row.

use arrow::array::{Array, RecordBatch};
use fleetdb_engine::{Code, Column, Error, Result, TableSchema};

/// The error for a NULL in a NOT NULL column.
pub(crate) fn null_in(schema: &TableSchema, column: &Column) -> Error {
    let message = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        column.name, schema.name
    );
    Error::new(Code::NotNull, message)
}

/// Checks rows of a file, matching columns by name. `before` counts the rows that precede them in
/// the file.
///
/// # Errors
/// [`Code::NotNull`], naming the first row of the file that has a NULL in a NOT NULL column.
pub fn check_not_null(schema: &TableSchema, rows: &RecordBatch, before: u64) -> Result<()> {
    let needed = schema.columns.iter().filter(|column| !column.nullable);
    let first_null = |column: &Column| match rows.column_by_name(&column.name) {
        None => (rows.num_rows() > 0).then_some(0),
        Some(values) => values.logical_nulls().and_then(|nulls| (0..nulls.len()).find(|&row| nulls.is_null(row))),
    };
    match needed.filter_map(|column| Some((first_null(column)?, column))).min_by_key(|(row, _)| *row) {
        Some((row, column)) => Err(null_in(schema, column).context(format_args!("row {}", before + row as u64 + 1))),
        None => Ok(()),
    }
}
