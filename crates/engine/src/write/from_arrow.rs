//! The values of Arrow arrays in the engine's form.

use super::value::{MAX_VALUE_BYTES, Value};
use crate::array::ArrayBuilder;
use crate::column_type::{ArrayElement, ColumnType, Unit};
use crate::error::{Code, Error, Result};
use crate::key::KeyPart;
use crate::lane::NullMask;
use crate::schema::TableSchema;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, ListArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{self as types, ArrowPrimitiveType, DataType};

/// Which values are NULL.
pub(super) fn null_mask(array: &dyn Array) -> NullMask {
    let mut mask = NullMask::default();
    if let Some(nulls) = array.logical_nulls().filter(|n| n.null_count() > 0) {
        for row in 0..nulls.len() {
            if nulls.is_null(row) {
                mask.set(row, true);
            }
        }
    }
    mask
}

/// The raw values of an array of the column's Arrow type; 0 for NULL.
pub(super) fn raw_values(column_type: ColumnType, array: &ArrayRef) -> Vec<u64> {
    fn raw<T: ArrowPrimitiveType>(array: &ArrayRef, raw: impl Fn(T::Native) -> u64) -> Vec<u64> {
        let array = array.as_primitive::<T>();
        if array.null_count() == 0 {
            array.values().iter().map(|&v| raw(v)).collect()
        } else {
            array.iter().map(|v| v.map_or(0, &raw)).collect()
        }
    }
    match column_type {
        ColumnType::Boolean => array.as_boolean().iter().map(|v| u64::from(v.unwrap_or(false))).collect(),
        ColumnType::Int8 => raw::<types::Int8Type>(array, |v| v as u64),
        ColumnType::Int16 => raw::<types::Int16Type>(array, |v| v as u64),
        ColumnType::Int32 => raw::<types::Int32Type>(array, |v| v as u64),
        ColumnType::Int64 => raw::<types::Int64Type>(array, |v| v as u64),
        ColumnType::UInt8 => raw::<types::UInt8Type>(array, u64::from),
        ColumnType::UInt16 => raw::<types::UInt16Type>(array, u64::from),
        ColumnType::UInt32 => raw::<types::UInt32Type>(array, u64::from),
        ColumnType::UInt64 => raw::<types::UInt64Type>(array, |v| v),
        ColumnType::Float32 => raw::<types::Float32Type>(array, |v| u64::from(v.to_bits())),
        ColumnType::Float64 => raw::<types::Float64Type>(array, f64::to_bits),
        ColumnType::Date32 => raw::<types::Date32Type>(array, |v| v as u64),
        // Numbers of at most 18 digits fit in 64 bits.
        ColumnType::Decimal { .. } => raw::<types::Decimal128Type>(array, |v| v as u64),
        ColumnType::Timestamp(unit) | ColumnType::TimestampUtc(unit) => match unit {
            Unit::Second => raw::<types::TimestampSecondType>(array, |v| v as u64),
            Unit::Millisecond => raw::<types::TimestampMillisecondType>(array, |v| v as u64),
            Unit::Microsecond => raw::<types::TimestampMicrosecondType>(array, |v| v as u64),
            Unit::Nanosecond => raw::<types::TimestampNanosecondType>(array, |v| v as u64),
        },
        ColumnType::Time => raw::<types::Time64MicrosecondType>(array, |v| v as u64),
        // Columns of bytes are not raw.
        ColumnType::Utf8
        | ColumnType::Json
        | ColumnType::Jsonb
        | ColumnType::Binary
        | ColumnType::Uuid
        | ColumnType::Array(_) => Vec::new(),
    }
}

/// The bytes of an array of the Arrow type of a column whose values are bytes.
///
/// # Errors
/// An array is too large.
pub(super) fn bytes_of(column_type: ColumnType, array: &ArrayRef) -> Result<BinaryArray> {
    match column_type {
        ColumnType::Array(element) => bytes_of_lists(array.as_list(), element),
        _ => Ok(cast(array, &DataType::Binary)?.as_binary::<i32>().clone()),
    }
}

/// Rows of all columns of a table as values, in the table's column order.
///
/// # Errors
/// An array is too large.
pub(crate) fn rows_of(schema: &TableSchema, batch: &RecordBatch) -> Result<Vec<Vec<Value>>> {
    let mut rows = vec![Vec::with_capacity(schema.columns.len()); batch.num_rows()];
    for (column, array) in schema.columns.iter().zip(batch.columns()) {
        let (column_type, nulls) = (column.column_type, null_mask(array));
        let value: Box<dyn Fn(usize) -> Value> = if column_type.is_bytes() {
            let bytes = bytes_of(column_type, array)?;
            Box::new(move |row| Value::of_bytes(bytes.value(row), column_type))
        } else {
            let raws = raw_values(column_type, array);
            Box::new(move |row| Value::of_raw(raws[row], column_type))
        };
        for (row, values) in rows.iter_mut().enumerate() {
            values.push(if nulls.is_null(row) { Value::Null } else { value(row) });
        }
    }
    Ok(rows)
}

/// The bytes of each array of a column.
///
/// # Errors
/// An array is too large.
fn bytes_of_lists(lists: &ListArray, element: ArrayElement) -> Result<BinaryArray> {
    let values = lists.values();
    let nulls = values.logical_nulls();
    let (raws, texts) = match values.data_type() {
        DataType::Utf8 => (Vec::new(), Some(values.as_string::<i32>())),
        _ => (raw_values(element.column_type(), values), None),
    };
    let part = |at: usize| match texts {
        _ if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) => KeyPart::Null,
        Some(texts) => KeyPart::Bytes(texts.value(at).as_bytes()),
        None => KeyPart::Raw(raws[at]),
    };
    let mut out = BinaryBuilder::new();
    let (mut builder, mut bytes, mut total) = (ArrayBuilder::new(element), Vec::new(), 0);
    for row in 0..lists.len() {
        if lists.is_null(row) {
            out.append_null();
            continue;
        }
        let offsets = &lists.value_offsets()[row..row + 2];
        (offsets[0] as usize..offsets[1] as usize).for_each(|at| builder.push(part(at)));
        bytes.clear();
        builder.finish(&mut bytes)?;
        total += bytes.len();
        if bytes.len() > MAX_VALUE_BYTES || i32::try_from(total).is_err() {
            return Err(Error::new(
                Code::LimitExceeded,
                format!(
                    "the array in row {} has {} bytes, but the limit is {MAX_VALUE_BYTES}, and 2 GiB for all rows",
                    row + 1,
                    bytes.len()
                ),
            ));
        }
        out.append_value(&bytes);
    }
    Ok(out.finish())
}
