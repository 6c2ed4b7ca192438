//! Rejects NULL in NOT NULL columns, such as those of the primary key, before rows are written, so
//! that the error can name the row.

use arrow::array::{Array, RecordBatch};
use fleetdb_engine::{Column, Result, TableSchema};

/// Checks rows of a file, matching columns by name. `before` counts the rows that precede them in
/// the file.
///
/// # Errors
/// [`Code::NotNull`](fleetdb_engine::Code::NotNull), naming the first row of the file that has a NULL
/// in a NOT NULL column.
pub fn check_not_null(schema: &TableSchema, rows: &RecordBatch, before: u64) -> Result<()> {
    let needed = schema.columns.iter().filter(|column| !column.nullable);
    let first_null = |column: &Column| match rows.column_by_name(&column.name) {
        None => (rows.num_rows() > 0).then_some(0),
        Some(values) => values.logical_nulls().and_then(|nulls| (0..nulls.len()).find(|&row| nulls.is_null(row))),
    };
    match needed.filter_map(|column| Some((first_null(column)?, column))).min_by_key(|(row, _)| *row) {
        Some((row, column)) => Err(schema.null_in(column).context(format_args!("row {}", before + row as u64 + 1))),
        None => Ok(()),
    }
}
