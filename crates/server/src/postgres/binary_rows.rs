//! Rows in PostgreSQL's binary format. Numbers, texts, bytes and times go from their arrays into the
//! message. `arrow_pg` makes a value of each first, and looks up the zone for each time.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use bytes::{BufMut, BytesMut};
use chrono::{DateTime, Utc};
use pgwire::api::Type;
use pgwire::api::results::{FieldFormat, FieldInfo};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::data::{DataRow, MESSAGE_TYPE_BYTE_DATA_ROW as DATA_ROW};

/// 2000-01-01, PostgreSQL's epoch, in microseconds since 1970.
pub(super) const EPOCH_US: i64 = 946_684_800_000_000;

/// The length of NULL.
const NULL: i32 = -1;

/// The rows of a batch that are not encoded yet.
pub(super) struct BinaryRows {
    columns: Vec<Column>,
    next: usize,
    rows: usize,
    /// The previous row's message, whose memory the next one takes.
    buffer: BytesMut,
}

enum Column {
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    /// Also the microseconds of times.
    Int8(Int64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Text(StringArray),
    Bytes(BinaryArray),
}

impl BinaryRows {
    /// The rows of a batch; `None` if a column is sent as text or has another type, or if a time is out of
    /// `arrow_pg`'s range.
    pub(super) fn of(batch: &RecordBatch, fields: &[FieldInfo]) -> Option<Self> {
        let columns = batch.columns().iter().zip(fields);
        let columns = columns.map(|(array, field)| match field.format() {
            FieldFormat::Binary => Column::of(array, field.datatype()),
            FieldFormat::Text => None,
        });
        let columns = columns.collect::<Option<Vec<_>>>()?;
        Some(Self { columns, next: 0, rows: batch.num_rows(), buffer: BytesMut::new() })
    }

    /// The message for the next row; `None` at the end.
    pub(super) fn next_row(&mut self) -> Option<DataRow> {
        if self.next == self.rows {
            return None;
        }
        let (row, out) = (self.next, &mut self.buffer);
        self.columns.iter().for_each(|column| column.put(row, out));
        self.next += 1;
        Some(DataRow::new(self.buffer.split(), self.columns.len() as i16))
    }

    /// Appends the message for the next row; returns `false` at the end.
    ///
    /// # Errors
    /// The message would be too long.
    pub(super) fn put_row(&mut self, out: &mut BytesMut) -> PgWireResult<bool> {
        if self.next == self.rows {
            return Ok(false);
        }
        put_message(out, DATA_ROW, |out| {
            out.put_i16(self.columns.len() as i16);
            self.columns.iter().for_each(|column| column.put(self.next, out));
        })?;
        self.next += 1;
        Ok(true)
    }
}

impl Column {
    fn of(array: &ArrayRef, sent: &Type) -> Option<Self> {
        Some(match (array.data_type(), sent) {
            (DataType::Boolean, &Type::BOOL) => Self::Bool(array.as_boolean().clone()),
            (DataType::Int16, &Type::INT2) => Self::Int2(array.as_primitive::<Int16Type>().clone()),
            (DataType::Int32, &Type::INT4) => Self::Int4(array.as_primitive::<Int32Type>().clone()),
            (DataType::Int64, &Type::INT8) => Self::Int8(array.as_primitive::<Int64Type>().clone()),
            (DataType::Float32, &Type::FLOAT4) => Self::Float4(array.as_primitive::<Float32Type>().clone()),
            (DataType::Float64, &Type::FLOAT8) => Self::Float8(array.as_primitive::<Float64Type>().clone()),
            (DataType::Utf8, &Type::TEXT) => Self::Text(array.as_string::<i32>().clone()),
            (DataType::Binary, &Type::BYTEA) => Self::Bytes(array.as_binary::<i32>().clone()),
            (DataType::Timestamp(unit, None), &Type::TIMESTAMP)
            | (DataType::Timestamp(unit, Some(_)), &Type::TIMESTAMPTZ) => Self::Int8(match unit {
                TimeUnit::Second => {
                    times::<TimestampSecondType>(array, |count| in_range(count.checked_mul(1_000_000)?))
                }
                TimeUnit::Millisecond => {
                    times::<TimestampMillisecondType>(array, |count| in_range(count.checked_mul(1_000)?))
                }
                TimeUnit::Microsecond => times::<TimestampMicrosecondType>(array, in_range),
                // Cut off towards the epoch, as `chrono` does.
                TimeUnit::Nanosecond => times::<TimestampNanosecondType>(array, |count| {
                    count.checked_sub(EPOCH_US * 1_000).map(|since| since / 1_000)
                }),
            }?),
            _ => return None,
        })
    }

    /// Appends the value of a row: its length, and its bytes.
    fn put(&self, row: usize, out: &mut BytesMut) {
        match self {
            Self::Bool(values) if values.is_valid(row) => put_value(out, &[u8::from(values.value(row))]),
            Self::Int2(values) if values.is_valid(row) => put_value(out, &values.value(row).to_be_bytes()),
            Self::Int4(values) if values.is_valid(row) => put_value(out, &values.value(row).to_be_bytes()),
            Self::Int8(values) if values.is_valid(row) => put_value(out, &values.value(row).to_be_bytes()),
            Self::Float4(values) if values.is_valid(row) => put_value(out, &values.value(row).to_be_bytes()),
            Self::Float8(values) if values.is_valid(row) => put_value(out, &values.value(row).to_be_bytes()),
            Self::Text(values) if values.is_valid(row) => put_value(out, values.value(row).as_bytes()),
            Self::Bytes(values) if values.is_valid(row) => put_value(out, values.value(row)),
            _ => out.put_i32(NULL),
        }
    }
}

/// Appends a message: its type, its length, and what `body` appends.
///
/// # Errors
/// The message would be too long.
pub(super) fn put_message(out: &mut BytesMut, kind: u8, body: impl FnOnce(&mut BytesMut)) -> PgWireResult<()> {
    out.put_u8(kind);
    let start = out.len();
    out.put_i32(0);
    body(out);
    let bytes = out.len() - start;
    let Ok(length) = i32::try_from(bytes) else {
        out.truncate(start - size_of::<u8>());
        return Err(PgWireError::MessageTooLarge(i32::MAX as usize, bytes));
    };
    out[start..start + size_of::<i32>()].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn put_value(out: &mut BytesMut, value: &[u8]) {
    out.reserve(size_of::<i32>() + value.len());
    out.put_i32(value.len() as i32);
    out.put_slice(value);
}

/// Times as PostgreSQL sends them; `None` if one is out of range.
fn times<T: ArrowPrimitiveType<Native = i64>>(
    array: &ArrayRef,
    microseconds: impl Fn(i64) -> Option<i64>,
) -> Option<Int64Array> {
    let counts = array.as_primitive::<T>();
    let values = counts.iter().map(|count| count.map_or(Some(0), &microseconds));
    Some(Int64Array::new(values.collect::<Option<Vec<_>>>()?.into(), counts.nulls().cloned()))
}

/// Microseconds since 2000 for those since 1970, if they are in `chrono`'s range.
fn in_range(since_1970: i64) -> Option<i64> {
    const FIRST: i64 = DateTime::<Utc>::MIN_UTC.timestamp_micros();
    const LAST: i64 = DateTime::<Utc>::MAX_UTC.timestamp_micros();
    (FIRST..=LAST).contains(&since_1970).then(|| since_1970 - EPOCH_US)
}

#[cfg(test)]
#[path = "binary_rows_tests.rs"]
mod tests;
