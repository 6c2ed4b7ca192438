//! Values between the engine, Arrow and C.
//!
//! 1. [`Cell`] is a value of a result, as a C program takes it ([`cell`]). Times, dates and times of day
//!    are integers; what has no number for C is a text.
//! 2. [`parameter`] is a value of an Arrow array as a parameter of a statement.
//! 3. [`for_column`] is a value in the form that a column takes.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{self as types, DataType, TimeUnit};
use arrow::util::display::array_value_to_string;
use fleetdb_engine::{ArrayElement, ArrayValue, Code, ColumnType, Decimal, Error, Result, Uuid, Value};
use fleetdb_query::{array_text_form, text_form, value_of_text};

/// A value of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Boolean(bool),
    /// Also a time in its column's unit, days since 1970, or microseconds since midnight.
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The value of a row of an array.
///
/// # Errors
/// A time is outside the range of its text form.
pub(crate) fn cell(array: &ArrayRef, row: usize) -> Result<Cell> {
    fn raw<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
        array.as_primitive::<T>().value(row)
    }
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return Ok(Cell::Null);
    }
    Ok(match array.data_type() {
        DataType::Boolean => Cell::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => Cell::Integer(raw::<types::Int8Type>(array, row).into()),
        DataType::Int16 => Cell::Integer(raw::<types::Int16Type>(array, row).into()),
        DataType::Int32 => Cell::Integer(raw::<types::Int32Type>(array, row).into()),
        DataType::Int64 => Cell::Integer(raw::<types::Int64Type>(array, row)),
        DataType::UInt8 => Cell::Integer(raw::<types::UInt8Type>(array, row).into()),
        DataType::UInt16 => Cell::Integer(raw::<types::UInt16Type>(array, row).into()),
        DataType::UInt32 => Cell::Integer(raw::<types::UInt32Type>(array, row).into()),
        DataType::UInt64 => {
            let value = raw::<types::UInt64Type>(array, row);
            i64::try_from(value).map_or_else(|_| Cell::Text(value.to_string()), Cell::Integer)
        }
        DataType::Float32 => Cell::Real(raw::<types::Float32Type>(array, row).into()),
        DataType::Float64 => Cell::Real(raw::<types::Float64Type>(array, row)),
        DataType::Date32 => Cell::Integer(raw::<types::Date32Type>(array, row).into()),
        DataType::Time64(TimeUnit::Microsecond) => Cell::Integer(raw::<types::Time64MicrosecondType>(array, row)),
        DataType::Timestamp(unit, _) => Cell::Integer(match unit {
            TimeUnit::Second => raw::<types::TimestampSecondType>(array, row),
            TimeUnit::Millisecond => raw::<types::TimestampMillisecondType>(array, row),
            TimeUnit::Microsecond => raw::<types::TimestampMicrosecondType>(array, row),
            TimeUnit::Nanosecond => raw::<types::TimestampNanosecondType>(array, row),
        }),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::LargeUtf8 => Cell::Text(array.as_string::<i64>().value(row).to_owned()),
        DataType::Utf8View => Cell::Text(array.as_string_view().value(row).to_owned()),
        DataType::Binary => Cell::Blob(array.as_binary::<i32>().value(row).to_vec()),
        DataType::LargeBinary => Cell::Blob(array.as_binary::<i64>().value(row).to_vec()),
        DataType::BinaryView => Cell::Blob(array.as_binary_view().value(row).to_vec()),
        DataType::FixedSizeBinary(_) if *array.data_type() != ColumnType::UUID => {
            Cell::Blob(array.as_fixed_size_binary().value(row).to_vec())
        }
        _ => Cell::Text(text(array, row)?),
    })
}

/// The text of a value: as SQL writes it, or as Arrow does if SQL has no form for it.
fn text(array: &ArrayRef, row: usize) -> Result<String> {
    let one = array.slice(row, 1);
    let text = match array_text_form(&one)? {
        None => text_form(&one)?,
        text => text,
    };
    match text {
        Some(text) => match text.as_string_opt::<i32>() {
            Some(texts) => Ok(texts.value(0).to_owned()),
            None => Ok(array_value_to_string(&text, 0)?),
        },
        None => Ok(array_value_to_string(&one, 0)?),
    }
}

/// The value of a row of an array, as a parameter of a statement.
///
/// # Errors
/// A statement cannot take values of the type.
pub(crate) fn parameter(array: &ArrayRef, row: usize) -> Result<Value> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    match array.data_type() {
        DataType::UInt64 => Ok(Value::UInt(array.as_primitive::<types::UInt64Type>().value(row))),
        // The statement decides the unit, so the time itself must be in the value.
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..) => {
            let texts = cast(&array.slice(row, 1), &DataType::Utf8)?;
            Ok(Value::Text(texts.as_string::<i32>().value(0).to_owned()))
        }
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let text = array_value_to_string(array, row)?;
            Ok(Decimal::read(&text).map_or(Value::Text(text), Value::Decimal))
        }
        data_type if *data_type == ColumnType::UUID => {
            let uuid = Uuid::from_slice(array.as_fixed_size_binary().value(row));
            uuid.map(Value::Uuid).map_err(|e| Error::bug(format!("16 bytes are no UUID: {e}")))
        }
        DataType::Dictionary(_, values) => parameter(&cast(&array.slice(row, 1), values)?, 0),
        DataType::List(_) => list(array.data_type(), &array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(array.data_type(), &array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => list(array.data_type(), &array.as_fixed_size_list().value(row)),
        DataType::Duration(_) | DataType::Interval(_) => Ok(Value::Text(text(array, row)?)),
        DataType::Float16 => parameter(&cast(&array.slice(row, 1), &DataType::Float32)?, 0),
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) | DataType::RunEndEncoded(..) => {
            let message = format!("a parameter cannot be of Arrow type {}", array.data_type());
            Err(Error::new(Code::NotSupported, message))
        }
        _ => cell(array, row).map(value_of),
    }
}

fn value_of(cell: Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Boolean(value) => Value::Boolean(value),
        Cell::Integer(value) => Value::Int(value),
        Cell::Real(value) => Value::Float(value),
        Cell::Text(value) => Value::Text(value),
        Cell::Blob(value) => Value::Binary(value),
    }
}

/// The array value with these elements.
fn list(data_type: &DataType, elements: &ArrayRef) -> Result<Value> {
    let ColumnType::Array(element) = ColumnType::from_arrow(data_type)? else {
        return Err(Error::bug(format!("the column type of {data_type} is not an array")));
    };
    elements_of(element, elements).map(Value::Array)
}

fn elements_of(element: ArrayElement, elements: &ArrayRef) -> Result<ArrayValue> {
    let values = (0..elements.len()).map(|row| parameter(elements, row)).collect::<Result<Vec<_>>>()?;
    ArrayValue::new(element, &values)
}

/// The value in the form that a column of this type takes: a text may be the text form of a value of
/// another type, a number may be a decimal number, and 0 and 1 are booleans.
///
/// # Errors
/// A text is no value of the type.
pub(crate) fn for_column(value: Value, column_type: ColumnType) -> Result<Value> {
    match value {
        Value::Text(text) if !matches!(column_type, ColumnType::Utf8 | ColumnType::Json | ColumnType::Jsonb) => {
            value_of_text(&text, column_type)
        }
        Value::Float(number) if column_type.is_decimal() => value_of_text(&number.to_string(), column_type),
        Value::Int(number @ (0 | 1)) if column_type == ColumnType::Boolean => Ok(Value::Boolean(number == 1)),
        value => Ok(value),
    }
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
