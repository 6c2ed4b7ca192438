//! Rows of a table by their primary keys.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use fleetdb_engine::{Code, Error, Result, ScanRequest, TableSchema, Value};
use fleetdb_functions::errors::engine_error;
use fleetdb_plan::pushdown::key_value;
use std::sync::Arc;

/// A row's key, and its time in a time-series table.
pub(crate) fn key_of(schema: &TableSchema, rows: &RecordBatch, row: usize) -> Result<(Vec<Value>, Option<i64>)> {
    let value = |place: usize| {
        let value = ScalarValue::try_from_array(rows.column(place), row).map_err(engine_error)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        let column = &schema.columns[place];
        key_value(column, &value).ok_or_else(|| Error::bug(format!("{value} in column '{}'", column.name)))
    };
    let key = schema.key.iter().map(|&place| value(place)).collect::<Result<_>>()?;
    match schema.time.map(value).transpose()? {
        Some(Value::Int(time)) => Ok((key, Some(time))),
        Some(_) => Err(Error::new(Code::NotNull, format!("table '{}': the time of a row is NULL", schema.name))),
        None => Ok((key, None)),
    }
}

/// A request that finds the existing rows with the same keys as `rows`.
pub(crate) fn rows_with_keys_of(schema: &TableSchema, rows: &[RecordBatch]) -> Result<ScanRequest> {
    let mut request = ScanRequest { keys: Some(Vec::new()), ..ScanRequest::default() };
    let mut last = None;
    for rows in rows {
        for row in 0..rows.num_rows() {
            let (key, time) = key_of(schema, rows, row)?;
            request.from = time.map(|time| request.from.map_or(time, |from| from.min(time)));
            request.to = time.map(|time| request.to.map_or(time, |to| to.max(time)));
            // The engine sorts and deduplicates keys; rows of the same container are mostly
            // adjacent.
            if last.as_ref() != Some(&key) {
                request = request.container(&key);
                last = Some(key);
            }
        }
    }
    Ok(request)
}

/// Converts rows to the table's own column names and types ([`TableSchema::to_nullable_arrow`]); a value that does not
/// fit its type is an error.
pub(crate) fn named(schema: &TableSchema, rows: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let arrow = schema.to_nullable_arrow();
    let typed = |rows: &RecordBatch| {
        let columns = rows.columns().iter().zip(arrow.fields()).map(|(column, field)| typed_column(column, field));
        Ok(RecordBatch::try_new(Arc::clone(&arrow), columns.collect::<Result<_>>()?)?)
    };
    rows.iter().map(typed).collect()
}

/// Casts a column to the type of its field.
pub(crate) fn typed_column(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, field.data_type(), &options)
        .map_err(|e| engine_error(e.into()).context(format_args!("column '{}'", field.name())))
}
