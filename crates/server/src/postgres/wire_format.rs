//! Converts columns so that pgwire's encoder sends what PostgreSQL would. The encoder writes `2.0`,
//! `1e15` and `inf`, and parses a pattern again for each time it writes. So numbers and times
//! become text, also in arrays. UUIDs become bytes, and `jsonb` gets its version. Durations get
//! their days separated. One-byte integers, which PostgreSQL lacks, become two bytes.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Field, Schema};
use fleetdb_engine::{Code, ColumnType, Error, Result};
use fleetdb_query::{Zone, array_text_form, split_days, text_form_in};
use pgwire::api::Type;
use pgwire::api::results::{FieldFormat, FieldInfo};
use std::sync::Arc;

/// Converts the columns of a batch for the wire, in a session with this zone.
pub(super) fn to_wire_format(rows: &RecordBatch, fields: &[FieldInfo], zone: Zone) -> Result<RecordBatch> {
    let schema = rows.schema_ref();
    let (mut columns, mut types) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
    for ((column, arrow), field) in rows.columns().iter().zip(schema.fields()).zip(fields) {
        let column = &widened(column)?;
        let text = match (field.format(), column.data_type()) {
            (_, DataType::List(element)) if is_array(element) => array_text_form(column)?,
            (FieldFormat::Text, DataType::List(_)) => array_texts(column, zone)?,
            (FieldFormat::Text, _) => text_form_in(column, zone)?,
            (FieldFormat::Binary, DataType::List(element)) if *element.data_type() == ColumnType::UUID => {
                Some(cast(column, &DataType::new_list(DataType::Binary, true))?)
            }
            (FieldFormat::Binary, DataType::List(_)) => {
                check_decimals(column.as_list::<i32>().values()).map(|()| None)?
            }
            (FieldFormat::Binary, &ColumnType::UUID) => Some(cast(column, &DataType::Binary)?),
            (FieldFormat::Binary, DataType::Utf8) if *field.datatype() == Type::JSONB => Some(versioned(column)),
            (FieldFormat::Binary, _) => None,
        };
        let column = match text {
            Some(text) => text,
            None => split_days(column)?,
        };
        types.push(match column.data_type() == arrow.data_type() {
            true => Arc::clone(arrow),
            false => Arc::new(Field::new(arrow.name(), column.data_type().clone(), true)),
        });
        columns.push(column);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(types)), columns)?)
}

/// Whether the elements of an array are arrays. They are sent as text.
fn is_array(element: &Field) -> bool {
    matches!(element.data_type(), DataType::List(_))
}

/// JSON behind the version of `jsonb`'s binary form, which is a byte.
fn versioned(column: &ArrayRef) -> ArrayRef {
    const VERSION: u8 = 1;
    let bytes = |text: Option<&str>| text.map(|text| [&[VERSION], text.as_bytes()].concat());
    Arc::new(column.as_string::<i32>().iter().map(bytes).collect::<BinaryArray>())
}

/// Refuses elements of arrays that the encoder would fail to encode.
fn check_decimals(elements: &ArrayRef) -> Result<()> {
    let DataType::Decimal128(_, scale) = elements.data_type() else { return Ok(()) };
    let fits =
        |value: i128| rust_decimal::Decimal::try_from_i128_with_scale(value, scale.unsigned_abs().into()).is_ok();
    match elements.as_primitive::<Decimal128Type>().iter().flatten().all(fits) {
        true => Ok(()),
        false => {
            Err(Error::new(Code::OutOfRange, "a numeric in an array has more than 28 digits: cast the array to text"))
        }
    }
}

/// Widens one-byte integers, also in arrays, to two bytes: the encoder declares them as int2 but
/// would send one byte.
fn widened(column: &ArrayRef) -> arrow::error::Result<ArrayRef> {
    match column.data_type() {
        DataType::Int8 => cast(column, &DataType::Int16),
        DataType::List(element) if *element.data_type() == DataType::Int8 => {
            let wide = element.as_ref().clone().with_data_type(DataType::Int16);
            cast(column, &DataType::List(Arc::new(wide)))
        }
        _ => Ok(Arc::clone(column)),
    }
}

/// Whether the encoder can take these rows unchanged: all columns are sent in binary, and there are
/// no durations, one-byte integers, UUIDs and `jsonb`.
pub(super) fn are_in_wire_format(rows: &RecordBatch, fields: &[FieldInfo]) -> bool {
    let is_other = |column: &ArrayRef| match column.data_type() {
        DataType::Duration(_) | DataType::Int8 | &ColumnType::UUID => true,
        DataType::List(element) => {
            matches!(
                element.data_type(),
                DataType::List(_) | DataType::Int8 | DataType::Decimal128(..) | &ColumnType::UUID
            )
        }
        _ => false,
    };
    let is_plain = |field: &FieldInfo| field.format() == FieldFormat::Binary && *field.datatype() != Type::JSONB;
    fields.iter().all(is_plain) && !rows.columns().iter().any(is_other)
}

/// Arrays with their elements as text, which the encoder joins; `None` if its own form is
/// PostgreSQL's.
fn array_texts(column: &ArrayRef, zone: Zone) -> arrow::error::Result<Option<ArrayRef>> {
    let arrays = column.as_list::<i32>();
    let Some(elements) = text_form_in(arrays.values(), zone)? else { return Ok(None) };
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let of_texts = ListArray::try_new(field, arrays.offsets().clone(), elements, arrays.nulls().cloned())?;
    Ok(Some(Arc::new(of_texts)))
}
