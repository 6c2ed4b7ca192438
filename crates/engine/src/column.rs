//! A column under construction: values gathered from memtables and pages, to become an Arrow array.

use crate::array::Elements;
use crate::column_type::{ArrayElement, ColumnType, UUID_BYTES, Unit, widen};
use crate::error::{Code, Error, Result};
use crate::key::KeyPart;
use crate::lane::{Lane, NullMask};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, ListArray, PrimitiveArray, StringArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{self as types, ArrowPrimitiveType};
use std::sync::Arc;

/// The values of one column, gathered from one source after another.
#[derive(Clone, Debug)]
pub(crate) enum ColumnBuilder {
    /// Raw values.
    Raw(Lane),
    /// Text or bytes.
    Bytes(BytesBuilder),
}

/// Text or binary values, concatenated.
#[derive(Clone, Debug, Default)]
pub(crate) struct BytesBuilder {
    data: Vec<u8>,
    /// 0 and the end of each value, as in Arrow. Saturates past 4 GiB, which no returned column
    /// reaches. Empty while there are no values.
    offsets: Vec<u32>,
    nulls: NullMask,
}

/// A length in bytes as an offset.
fn offset(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl BytesBuilder {
    /// Without values, but with room for `len` that have `bytes` bytes in total.
    pub(crate) fn with_capacity(len: usize, bytes: usize) -> Self {
        let mut builder = Self { data: Vec::with_capacity(bytes), ..Self::default() };
        builder.reserve(len);
        builder
    }

    /// Reserves room for `len` more values.
    fn reserve(&mut self, len: usize) {
        self.offsets.reserve(len + 1);
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
    }

    pub(crate) fn push(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else { return self.push_repeated(None, 1) };
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.data.extend_from_slice(value);
        self.offsets.push(offset(self.data.len()));
    }

    /// Appends `len` values of another column from `start`.
    pub(crate) fn extend(&mut self, other: &Self, start: usize, len: usize) {
        if len == 0 {
            return;
        }
        self.reserve(len);
        self.nulls.copy(self.len(), &other.nulls, start, len);
        let (from, to) = (other.offsets[start] as usize, other.offsets[start + len] as usize);
        let at = self.data.len();
        self.data.extend_from_slice(&other.data[from..to]);
        let ends = &other.offsets[start + 1..=start + len];
        self.offsets.extend(ends.iter().map(|&end| offset(at + end as usize - from)));
    }

    /// The bytes of `len` values from `start`.
    pub(crate) fn bytes_within(&self, start: usize, len: usize) -> usize {
        let ends = self.offsets.get(start).zip(self.offsets.get(start + len));
        ends.map_or(0, |(first, end)| (end - first) as usize)
    }

    /// Appends the same value `len` times.
    pub(crate) fn push_repeated(&mut self, value: Option<&[u8]>, len: usize) {
        self.reserve(len);
        let Some(value) = value else {
            let at = self.len();
            (at..at + len).for_each(|row| self.nulls.set(row, true));
            self.offsets.resize(self.offsets.len() + len, offset(self.data.len()));
            return;
        };
        let (start, bytes) = (self.data.len(), value.len() * len);
        self.data.reserve(bytes);
        // Copies everything written so far, doubling it each time.
        self.data.extend_from_slice(&value[..value.len().min(bytes)]);
        while self.data.len() < start + bytes {
            let there = self.data.len() - start;
            self.data.extend_from_within(start..start + there.min(bytes - there));
        }
        match (u32::try_from(start), u32::try_from(value.len()), u32::try_from(start + bytes)) {
            // All 32-bit, so that the compiler can vectorize it.
            (Ok(start), Ok(one), Ok(_)) => {
                self.offsets.extend((0..len as u32).map(|before| start + (before + 1) * one))
            }
            _ => self.offsets.extend((1..=len).map(|number| offset(start + number * value.len()))),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    pub(crate) fn nulls(&self) -> &NullMask {
        &self.nulls
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.data.capacity() + self.offsets.capacity() * 4 + self.nulls.bytes()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        if self.nulls.is_null(index) {
            return None;
        }
        Some(&self.data[self.offsets[index] as usize..self.offsets[index + 1] as usize])
    }
}

impl ColumnBuilder {
    /// An empty column for values of this type.
    pub(crate) fn new(column_type: ColumnType) -> Self {
        if column_type.is_bytes() { Self::Bytes(BytesBuilder::default()) } else { Self::Raw(Lane::default()) }
    }

    /// Reserves room for `rows` more values.
    pub(crate) fn reserve(&mut self, rows: usize) {
        match self {
            Self::Raw(lane) => lane.reserve(rows),
            Self::Bytes(bytes) => bytes.reserve(rows),
        }
    }

    /// Appends a raw value `len` times; `None` is NULL, in a column of any type.
    pub(crate) fn push_raw(&mut self, value: Option<u64>, len: usize) {
        match self {
            Self::Raw(lane) if len == 1 => lane.push(value),
            Self::Raw(lane) => lane.extend(&Lane::constant(value, len), 0, len),
            Self::Bytes(bytes) => bytes.push_repeated(None, len),
        }
    }

    /// Appends a value that fits the column's type.
    pub(crate) fn push(&mut self, value: KeyPart<'_>) {
        match (self, value) {
            (Self::Raw(lane), KeyPart::Raw(raw)) => lane.push(Some(raw)),
            (Self::Raw(lane), _) => lane.push(None),
            (Self::Bytes(builder), KeyPart::Bytes(bytes)) => builder.push(Some(bytes)),
            (Self::Bytes(builder), _) => builder.push(None),
        }
    }

    /// Appends a value that fits the column's type `len` times.
    pub(crate) fn push_repeated(&mut self, value: KeyPart<'_>, len: usize) {
        match (self, value) {
            (Self::Bytes(out), KeyPart::Bytes(bytes)) => out.push_repeated(Some(bytes), len),
            (out, KeyPart::Raw(raw)) => out.push_raw(Some(raw), len),
            (out, _) => out.push_raw(None, len),
        }
    }

    /// Appends `len` values of another column of the same type from `start`. Values of a type that does
    /// not fit, as a damaged file may have, become NULL.
    pub(crate) fn extend(&mut self, other: &Self, start: usize, len: usize) {
        match (self, other) {
            (Self::Raw(lane), Self::Raw(other)) => lane.extend(other, start, len),
            (Self::Bytes(bytes), Self::Bytes(other)) => bytes.extend(other, start, len),
            (out, _) => out.push_raw(None, len),
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Raw(lane) => lane.bytes(),
            Self::Bytes(bytes) => bytes.bytes(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Raw(lane) => lane.len(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Widens the values from `start` on.
    pub(crate) fn widen(&mut self, start: usize, from: ColumnType, to: ColumnType) {
        if let Self::Raw(lane) = self
            && to.is_float()
        {
            for row in start..lane.len() {
                let value = lane.get(row).map(|raw| widen(raw, from, to));
                lane.set(row, value);
            }
        }
    }

    /// The values as an Arrow array of the column's type.
    pub(crate) fn finish(self, column_type: ColumnType) -> Result<ArrayRef> {
        match self {
            Self::Raw(lane) => Ok(raw_array(lane, column_type)),
            Self::Bytes(bytes) => bytes_array(bytes, column_type),
        }
    }
}

fn null_buffer(nulls: &NullMask, len: usize) -> Option<NullBuffer> {
    (nulls.nulls() > 0).then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(nulls.validity(len)), 0, len)))
}

fn raw_array(lane: Lane, column_type: ColumnType) -> ArrayRef {
    let (values, mask) = lane.into_plain();
    let nulls = null_buffer(&mask, values.len());
    /// Uses 64-bit values in place, without a copy.
    fn whole<T: ArrowPrimitiveType>(values: Vec<u64>, nulls: Option<NullBuffer>) -> PrimitiveArray<T> {
        let len = values.len();
        PrimitiveArray::new(ScalarBuffer::new(Buffer::from_vec(values), 0, len), nulls)
    }
    fn times(unit: Unit, zone: Option<&str>, values: Vec<u64>, nulls: Option<NullBuffer>) -> ArrayRef {
        match unit {
            Unit::Second => Arc::new(whole::<types::TimestampSecondType>(values, nulls).with_timezone_opt(zone)),
            Unit::Millisecond => {
                Arc::new(whole::<types::TimestampMillisecondType>(values, nulls).with_timezone_opt(zone))
            }
            Unit::Microsecond => {
                Arc::new(whole::<types::TimestampMicrosecondType>(values, nulls).with_timezone_opt(zone))
            }
            Unit::Nanosecond => {
                Arc::new(whole::<types::TimestampNanosecondType>(values, nulls).with_timezone_opt(zone))
            }
        }
    }
    fn narrow<T: ArrowPrimitiveType>(
        values: &[u64],
        nulls: Option<NullBuffer>,
        convert: impl Fn(u64) -> T::Native,
    ) -> ArrayRef {
        let values: ScalarBuffer<T::Native> = values.iter().map(|&v| convert(v)).collect();
        Arc::new(PrimitiveArray::<T>::new(values, nulls))
    }
    match column_type {
        ColumnType::Boolean => Arc::new(BooleanArray::new(values.iter().map(|&v| v == 1).collect(), nulls)),
        ColumnType::Int8 => narrow::<types::Int8Type>(&values, nulls, |v| v as i8),
        ColumnType::Int16 => narrow::<types::Int16Type>(&values, nulls, |v| v as i16),
        ColumnType::Int32 => narrow::<types::Int32Type>(&values, nulls, |v| v as i32),
        ColumnType::Date32 => narrow::<types::Date32Type>(&values, nulls, |v| v as i32),
        ColumnType::UInt8 => narrow::<types::UInt8Type>(&values, nulls, |v| v as u8),
        ColumnType::UInt16 => narrow::<types::UInt16Type>(&values, nulls, |v| v as u16),
        ColumnType::UInt32 => narrow::<types::UInt32Type>(&values, nulls, |v| v as u32),
        ColumnType::Float32 => narrow::<types::Float32Type>(&values, nulls, |v| f32::from_bits(v as u32)),
        ColumnType::Decimal { .. } => {
            let values: ScalarBuffer<i128> = values.iter().map(|&v| i128::from(v as i64)).collect();
            Arc::new(Decimal128Array::new(values, nulls).with_data_type(column_type.to_arrow()))
        }
        ColumnType::UInt64 => Arc::new(whole::<types::UInt64Type>(values, nulls)),
        ColumnType::Float64 => Arc::new(whole::<types::Float64Type>(values, nulls)),
        ColumnType::Timestamp(unit) => times(unit, None, values, nulls),
        ColumnType::TimestampUtc(unit) => times(unit, Some(ColumnType::UTC), values, nulls),
        ColumnType::Time => Arc::new(whole::<types::Time64MicrosecondType>(values, nulls)),
        // Bytes are never in a raw lane; see `ColumnBuilder::new`.
        ColumnType::Int64
        | ColumnType::Utf8
        | ColumnType::Json
        | ColumnType::Jsonb
        | ColumnType::Binary
        | ColumnType::Uuid
        | ColumnType::Array(_) => Arc::new(whole::<types::Int64Type>(values, nulls)),
    }
}

fn bytes_array(bytes: BytesBuilder, column_type: ColumnType) -> Result<ArrayRef> {
    let len = bytes.len();
    if i32::try_from(bytes.data.len()).is_err() {
        return Err(Error::invalid(format!(
            "a batch of {len} rows has {} bytes in one text column, more than an Arrow array can hold: use smaller \
             batches",
            bytes.data.len()
        )));
    }
    match column_type {
        ColumnType::Uuid => return uuid_array(&bytes),
        ColumnType::Array(element) => return lists(&bytes, element),
        _ => {}
    }
    let offsets = if len == 0 { vec![0] } else { bytes.offsets };
    // The last offset is below 2^31, so all are.
    let offsets = OffsetBuffer::new(ScalarBuffer::<i32>::new(Buffer::from_vec(offsets), 0, len + 1));
    let nulls = null_buffer(&bytes.nulls, len);
    let data = Buffer::from_vec(bytes.data);
    Ok(match column_type {
        ColumnType::Utf8 | ColumnType::Json | ColumnType::Jsonb => Arc::new(
            StringArray::try_new(offsets, data, nulls)
                .map_err(|e| Error::damaged(format!("stored text is not UTF-8: {e}")))?,
        ),
        _ => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
    })
}

/// UUIDs, whose array has bytes also for NULL.
fn uuid_array(bytes: &BytesBuilder) -> Result<ArrayRef> {
    let mut data = Vec::with_capacity(bytes.len() * UUID_BYTES);
    for row in 0..bytes.len() {
        match bytes.get(row) {
            None => data.resize(data.len() + UUID_BYTES, 0),
            Some(uuid) if uuid.len() == UUID_BYTES => data.extend_from_slice(uuid),
            Some(other) => return Err(Error::damaged(format!("a stored UUID has {} bytes", other.len()))),
        }
    }
    let nulls = null_buffer(&bytes.nulls, bytes.len());
    Ok(Arc::new(FixedSizeBinaryArray::try_new(UUID_BYTES as i32, Buffer::from_vec(data), nulls)?))
}

/// Arrays as Arrow lists.
fn lists(bytes: &BytesBuilder, element: ArrayElement) -> Result<ArrayRef> {
    let mut values = ColumnBuilder::new(element.column_type());
    let mut offsets = Vec::with_capacity(bytes.len() + 1);
    offsets.push(0);
    for row in 0..bytes.len() {
        if let Some(array) = bytes.get(row) {
            let mut elements = Elements::read(element, array)?;
            while let Some(part) = elements.next_element()? {
                values.push(part);
            }
        }
        offsets.push(i32::try_from(values.len()).map_err(|_| {
            Error::new(Code::LimitExceeded, "a batch has more than 2,147,483,647 elements of arrays in one column")
        })?);
    }
    let nulls = null_buffer(bytes.nulls(), bytes.len());
    let values = values.finish(element.column_type())?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::try_new(element.to_field(), offsets, values, nulls)?))
}

#[cfg(test)]
#[path = "column_tests.rs"]
mod tests;
