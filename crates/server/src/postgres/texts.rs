//! Columns in the form that the encoder of the crate, which writes `2.0`, `1e15`, `inf` and times with patterns that it reads
//! anew for each value, sends as PostgreSQL would: numbers and times as texts, arrays of such, spans between times with their
//! days apart.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use fleetdb_query::{days_apart, text_form};
use pgwire::api::results::{FieldFormat, FieldInfo};
use std::sync::Arc;

/// The rows with columns in their form for the wire.
pub(super) fn for_wire(rows: &RecordBatch, fields: &[FieldInfo]) -> arrow::error::Result<RecordBatch> {
    let schema = rows.schema_ref();
    let (mut columns, mut types) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
    for ((column, arrow), field) in rows.columns().iter().zip(schema.fields()).zip(fields) {
        let text = match (field.format(), column.data_type()) {
            (FieldFormat::Text, DataType::List(_)) => array_texts(column)?,
            (FieldFormat::Text, _) => text_form(column)?,
            (FieldFormat::Binary, _) => None,
        };
        let column = match text {
            Some(text) => text,
            None => days_apart(column)?,
        };
        types.push(match column.data_type() == arrow.data_type() {
            true => Arc::clone(arrow),
            false => Arc::new(Field::new(arrow.name(), column.data_type().clone(), true)),
        });
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(types)), columns)
}

/// Whether the encoder takes these rows as they are: all is sent in binary, and there are no spans between times.
pub(super) fn are_for_wire(rows: &RecordBatch, fields: &[FieldInfo]) -> bool {
    let is_span = |column: &ArrayRef| matches!(column.data_type(), DataType::Duration(_));
    fields.iter().all(|field| field.format() == FieldFormat::Binary) && !rows.columns().iter().any(is_span)
}

/// Arrays with their elements as texts, which the encoder puts together; `None` if its own are PostgreSQL's.
fn array_texts(column: &ArrayRef) -> arrow::error::Result<Option<ArrayRef>> {
    let arrays = column.as_list::<i32>();
    let Some(elements) = text_form(arrays.values())? else { return Ok(None) };
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let of_texts = ListArray::try_new(field, arrays.offsets().clone(), elements, arrays.nulls().cloned())?;
    Ok(Some(Arc::new(of_texts)))
}
