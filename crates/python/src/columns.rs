//! Arrow arrays of Python objects.
//!
//! A column is one of these:
//! - an object with Arrow's C array or C stream interface, whose values are not copied;
//! - a NumPy type, the bytes of its values, and None or a byte for each value that says whether it
//!   is NULL, as `("<i8", b"...", None)`. NaT is NULL. Times with a zone are in UTC, and have a type
//!   as `"<M8[ns, UTC]"`;
//! - a list of objects, whose type is that of the objects. None is NULL, and integers among floats
//!   are floats. Decimal numbers get the digits that all of them need.

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float64Array,
    Int64Array, ListArray, NullArray, PrimitiveArray, RecordBatch, RecordBatchIterator, RecordBatchOptions,
    StringArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{concat, nullif};
use arrow::datatypes::{self as types, ArrowPrimitiveType, ArrowTimestampType, Field, FieldRef, Schema};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Timelike, Utc};
use fleetdb_engine::ColumnType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDate, PyDateTime, PyFloat, PyInt, PyList, PyString, PyTime, PyTuple};
use pyo3_arrow::PyChunkedArray;
use pyo3_arrow::input::AnyArray;
use std::sync::Arc;

use crate::stream::Stream;

/// The most lists that a value is in. A list that contains itself is in more.
const MAX_LISTS: usize = 64;

/// The most digits of a decimal number.
const MAX_DIGITS: u32 = 38;

/// A stream of one batch with these columns.
#[pyfunction]
pub(crate) fn from_columns(names: Vec<String>, columns: Vec<Bound<'_, PyAny>>) -> PyResult<Stream> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, column) in names.iter().zip(&columns) {
        let (field, array) = column_of(name, column)?;
        fields.push(field);
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(arrays.is_empty().then_some(0));
    let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)
        .map_err(|e| PyValueError::new_err(format!("the columns are no table: {e}")))?;
    Ok(Stream::of_reader(Box::new(RecordBatchIterator::new([Ok(rows)], schema))))
}

fn column_of(name: &str, column: &Bound<'_, PyAny>) -> PyResult<(FieldRef, ArrayRef)> {
    if let Ok(list) = column.cast::<PyList>() {
        let items = list.iter().enumerate().map(|(row, object)| {
            item_of(&object).map_err(|e| PyTypeError::new_err(format!("column '{name}', row {}: {e}", row + 1)))
        });
        let items = items.collect::<PyResult<Vec<_>>>()?;
        let (array, column_type) =
            array_of(&items).map_err(|reason| PyTypeError::new_err(format!("column '{name}': {reason}")))?;
        let field = match column_type {
            Some(column_type) => column_type.to_field(name, true),
            None => Field::new(name, array.data_type().clone(), true),
        };
        return Ok((Arc::new(field), array));
    }
    if let Ok(values) = column.cast::<PyTuple>() {
        let (kind, bytes, nulls): (String, Bound<'_, PyBytes>, Option<Bound<'_, PyBytes>>) = values.extract()?;
        let nulls = nulls.as_ref().map(|nulls| nulls.as_bytes());
        let array = of_bytes(&kind, bytes.as_bytes(), nulls)
            .ok_or_else(|| PyTypeError::new_err(format!("column '{name}': values of NumPy's type {kind}")))?;
        return Ok((Arc::new(Field::new(name, array.data_type().clone(), true)), array));
    }
    let chunks: PyChunkedArray = column.extract::<AnyArray>()?.into_chunked_array()?;
    let (chunks, field) = chunks.into_inner();
    let field = Arc::new(field.as_ref().clone().with_name(name));
    let array = match chunks.as_slice() {
        [] => arrow::array::new_empty_array(field.data_type()),
        [only] => Arc::clone(only),
        several => concat(&several.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())
            .map_err(|e| PyValueError::new_err(format!("column '{name}': {e}")))?,
    };
    Ok((field, array))
}

/// The array of these bytes; `None` if the engine has no such values. A byte of `nulls` that is not
/// 0 is that of a NULL.
fn of_bytes(kind: &str, bytes: &[u8], nulls: Option<&[u8]>) -> Option<ArrayRef> {
    fn numbers<T: ArrowPrimitiveType>(bytes: &[u8]) -> Option<PrimitiveArray<T>> {
        let size = size_of::<T::Native>();
        let rows = bytes.len() / size;
        let buffer = (rows * size == bytes.len()).then(|| Buffer::from(bytes))?;
        PrimitiveArray::try_new(ScalarBuffer::new(buffer, 0, rows), None).ok()
    }
    fn times<T: ArrowTimestampType>(bytes: &[u8], zone: Option<&str>) -> Option<ArrayRef> {
        let times = numbers::<T>(bytes)?;
        let is_time = |time: &i64| *time != i64::MIN;
        let nulls = NullBuffer::from_iter(times.values().iter().map(is_time));
        let times = PrimitiveArray::<T>::try_new(times.values().clone(), Some(nulls)).ok()?;
        Some(Arc::new(times.with_timezone_opt(zone)))
    }
    let (kind, zone) = match kind.strip_suffix(", UTC]") {
        Some(kind) => (format!("{kind}]"), Some(ColumnType::UTC)),
        None => (kind.to_owned(), None),
    };
    let array: ArrayRef = match kind.as_str() {
        "|b1" => Arc::new(BooleanArray::from_iter(bytes.iter().map(|byte| Some(*byte != 0)))),
        "|i1" => Arc::new(numbers::<types::Int8Type>(bytes)?),
        "<i2" => Arc::new(numbers::<types::Int16Type>(bytes)?),
        "<i4" => Arc::new(numbers::<types::Int32Type>(bytes)?),
        "<i8" => Arc::new(numbers::<types::Int64Type>(bytes)?),
        "|u1" => Arc::new(numbers::<types::UInt8Type>(bytes)?),
        "<u2" => Arc::new(numbers::<types::UInt16Type>(bytes)?),
        "<u4" => Arc::new(numbers::<types::UInt32Type>(bytes)?),
        "<u8" => Arc::new(numbers::<types::UInt64Type>(bytes)?),
        "<f4" => Arc::new(numbers::<types::Float32Type>(bytes)?),
        "<f8" => Arc::new(numbers::<types::Float64Type>(bytes)?),
        "<M8[s]" => times::<types::TimestampSecondType>(bytes, zone)?,
        "<M8[ms]" => times::<types::TimestampMillisecondType>(bytes, zone)?,
        "<M8[us]" => times::<types::TimestampMicrosecondType>(bytes, zone)?,
        "<M8[ns]" => times::<types::TimestampNanosecondType>(bytes, zone)?,
        _ => return None,
    };
    match nulls {
        Some(nulls) => nullif(&array, &nulls.iter().map(|is_null| Some(*is_null != 0)).collect()).ok(),
        None => Some(array),
    }
}

/// A Python object's value.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Null,
    Bool(bool),
    Int(i64),
    /// Larger than an `i64`.
    UInt(u64),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// Days since 1970.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970, and whether the zone is known.
    Timestamp(i64, bool),
    /// The number without its point, and the digits after the point.
    Decimal(i128, u32),
    Uuid([u8; 16]),
    List(Vec<Item>),
}

/// What an object is.
///
/// # Errors
/// It is nothing that a column can hold, or outside of what it can.
fn item_of(object: &Bound<'_, PyAny>) -> PyResult<Item> {
    item_within(object, 0)
}

/// As [`item_of`], for an object within this number of lists.
fn item_within(object: &Bound<'_, PyAny>, lists: usize) -> PyResult<Item> {
    let py = object.py();
    if lists > MAX_LISTS {
        return Err(PyValueError::new_err(format!("a value is in more than {MAX_LISTS} lists")));
    }
    if object.is_none() {
        return Ok(Item::Null);
    }
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Item::Bool(value.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return match (object.extract::<i64>(), object.extract::<u64>()) {
            (Ok(value), _) => Ok(Item::Int(value)),
            (_, Ok(value)) => Ok(Item::UInt(value)),
            _ => Err(PyValueError::new_err(format!("{object} has more than 64 bits"))),
        };
    }
    if let Ok(value) = object.cast::<PyFloat>() {
        return Ok(Item::Float(value.value()));
    }
    if object.is_instance_of::<PyString>() {
        return Ok(Item::Text(object.extract()?));
    }
    if let Ok(value) = object.cast::<PyBytes>() {
        return Ok(Item::Bytes(value.as_bytes().to_vec()));
    }
    // A datetime is also a date, so it comes first.
    if object.is_instance_of::<PyDateTime>() {
        return timestamp_of(object);
    }
    if object.is_instance_of::<PyDate>() {
        let days = object.extract::<NaiveDate>()?.signed_duration_since(NaiveDate::default()).num_days();
        return Ok(Item::Date(i32::try_from(days)?));
    }
    if object.is_instance_of::<PyTime>() {
        if !object.getattr(intern!(py, "tzinfo"))?.is_none() {
            return Err(PyTypeError::new_err(format!("{object} has a zone, which a time of day cannot have")));
        }
        let time = object.extract::<NaiveTime>()?;
        let micros = i64::from(time.num_seconds_from_midnight()) * 1_000_000 + i64::from(time.nanosecond()) / 1_000;
        return Ok(Item::Time(micros));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.map(|object| item_within(&object?, lists + 1));
        return Ok(Item::List(items.collect::<PyResult<_>>()?));
    }
    if object.is_instance(&py.import(intern!(py, "decimal"))?.getattr(intern!(py, "Decimal"))?)? {
        return decimal_of(object);
    }
    if object.is_instance(&py.import(intern!(py, "uuid"))?.getattr(intern!(py, "UUID"))?)? {
        return Ok(Item::Uuid(object.getattr(intern!(py, "bytes"))?.extract()?));
    }
    let name = object.get_type().name()?.extract::<String>()?;
    match name.as_str() {
        // The NULL of pandas.
        "NAType" => return Ok(Item::Null),
        // Times of NumPy's. Their `item` may be a number without its unit.
        "datetime64" | "timedelta64" => {}
        // Another value of NumPy's.
        _ => {
            if let Some(item) = object.getattr_opt(intern!(py, "item"))? {
                let item = item.call0()?;
                if !item.get_type().is(object.get_type()) {
                    return item_within(&item, lists + 1);
                }
            }
        }
    }
    Err(PyTypeError::new_err(format!("a value cannot be of type {name}")))
}

fn timestamp_of(object: &Bound<'_, PyAny>) -> PyResult<Item> {
    let py = object.py();
    if !object.is_exact_instance_of::<PyDateTime>() {
        // The NULL of pandas' times is the only one that differs from itself.
        if object.ne(object)? {
            return Ok(Item::Null);
        }
        let nanos = object.getattr_opt(intern!(py, "nanosecond"))?;
        if nanos.map_or(Ok(false), |nanos| nanos.is_truthy())? {
            let message = format!("{object} has nanoseconds: give its column as a Series, or as an array of NumPy's");
            return Err(PyTypeError::new_err(message));
        }
    }
    if object.getattr(intern!(py, "tzinfo"))?.is_none() {
        let time = object.extract::<NaiveDateTime>()?;
        return Ok(Item::Timestamp(time.and_utc().timestamp_micros(), false));
    }
    let utc = py.import(intern!(py, "datetime"))?.getattr(intern!(py, "timezone"))?.getattr(intern!(py, "utc"))?;
    let time = object.call_method1(intern!(py, "astimezone"), (utc,))?.extract::<DateTime<Utc>>()?;
    Ok(Item::Timestamp(time.timestamp_micros(), true))
}

fn decimal_of(object: &Bound<'_, PyAny>) -> PyResult<Item> {
    let wrong = || PyValueError::new_err(format!("{object} is no decimal number of at most {MAX_DIGITS} digits"));
    let text = object.call_method1(intern!(object.py(), "__format__"), ("f",))?.extract::<String>()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let unscaled = format!("{whole}{fraction}").parse::<i128>().map_err(|_| wrong())?;
    match u32::try_from(fraction.len()) {
        Ok(scale) if scale <= MAX_DIGITS => Ok(Item::Decimal(unscaled, scale)),
        _ => Err(wrong()),
    }
}

/// The array of a column's items, and the column type if Arrow's type does not tell it.
///
/// # Errors
/// The items have no common type.
fn array_of(items: &[Item]) -> Result<(ArrayRef, Option<ColumnType>), String> {
    let Some(first) = items.iter().find(|item| **item != Item::Null) else {
        return Ok((Arc::new(NullArray::new(items.len())), None));
    };
    let has = |is: fn(&Item) -> bool| items.iter().any(is);
    let is_number = |item: &Item| matches!(item, Item::Int(_) | Item::UInt(_) | Item::Float(_));
    let is_float = has(|item| matches!(item, Item::Float(_)));
    let is_unsigned = has(|item| matches!(item, Item::UInt(_)));
    let array: ArrayRef = match first {
        Item::Null => Arc::new(NullArray::new(items.len())),
        Item::Bool(_) => Arc::new(
            every(items, |item| match item {
                Item::Bool(value) => Some(*value),
                _ => None,
            })?
            .into_iter()
            .collect::<BooleanArray>(),
        ),
        first if is_number(first) && is_float => Arc::new(
            every(items, |item| match item {
                Item::Float(value) => Some(*value),
                Item::Int(value) => Some(*value as f64),
                Item::UInt(value) => Some(*value as f64),
                _ => None,
            })?
            .into_iter()
            .collect::<Float64Array>(),
        ),
        first if is_number(first) && is_unsigned => Arc::new(
            every(items, |item| match item {
                Item::UInt(value) => Some(*value),
                Item::Int(value) => u64::try_from(*value).ok(),
                _ => None,
            })?
            .into_iter()
            .collect::<UInt64Array>(),
        ),
        Item::Int(_) | Item::UInt(_) | Item::Float(_) => Arc::new(
            every(items, |item| match item {
                Item::Int(value) => Some(*value),
                _ => None,
            })?
            .into_iter()
            .collect::<Int64Array>(),
        ),
        Item::Text(_) => Arc::new(
            every(items, |item| match item {
                Item::Text(value) => Some(value.as_str()),
                _ => None,
            })?
            .into_iter()
            .collect::<StringArray>(),
        ),
        Item::Bytes(_) => Arc::new(
            every(items, |item| match item {
                Item::Bytes(value) => Some(value.as_slice()),
                _ => None,
            })?
            .into_iter()
            .collect::<BinaryArray>(),
        ),
        Item::Date(_) => Arc::new(
            every(items, |item| match item {
                Item::Date(value) => Some(*value),
                _ => None,
            })?
            .into_iter()
            .collect::<Date32Array>(),
        ),
        Item::Time(_) => Arc::new(
            every(items, |item| match item {
                Item::Time(value) => Some(*value),
                _ => None,
            })?
            .into_iter()
            .collect::<Time64MicrosecondArray>(),
        ),
        Item::Timestamp(_, has_zone) => {
            let times = every(items, |item| match item {
                Item::Timestamp(value, zone) if zone == has_zone => Some(*value),
                _ => None,
            })?
            .into_iter()
            .collect::<TimestampMicrosecondArray>();
            Arc::new(times.with_timezone_opt(has_zone.then_some(ColumnType::UTC)))
        }
        Item::Decimal(..) => return decimals(items).map(|array| (array, None)),
        Item::Uuid(_) => {
            let values = every(items, |item| match item {
                Item::Uuid(value) => Some(*value),
                _ => None,
            })?;
            let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16);
            return Ok((Arc::new(array.map_err(|e| e.to_string())?), Some(ColumnType::Uuid)));
        }
        Item::List(_) => return lists(items).map(|array| (array, None)),
    };
    Ok((array, None))
}

/// The values of all items; `None` for NULL.
fn every<'a, T>(items: &'a [Item], value: impl Fn(&'a Item) -> Option<T>) -> Result<Vec<Option<T>>, String> {
    let value = |(row, item): (usize, &'a Item)| match item {
        Item::Null => Ok(None),
        item => match value(item) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("the value in row {} is of another type than those before it", row + 1)),
        },
    };
    items.iter().enumerate().map(value).collect()
}

/// Decimal numbers with as many digits as all of them need.
fn decimals(items: &[Item]) -> Result<ArrayRef, String> {
    let scale = items.iter().filter_map(|item| match item {
        Item::Decimal(_, scale) => Some(*scale),
        _ => None,
    });
    let scale = scale.max().unwrap_or(0);
    let unscaled = every(items, |item| match item {
        Item::Decimal(unscaled, own) => 10_i128.checked_pow(scale - own).and_then(|by| unscaled.checked_mul(by)),
        Item::Int(value) => 10_i128.checked_pow(scale).and_then(|by| i128::from(*value).checked_mul(by)),
        _ => None,
    })?;
    let digits = unscaled.iter().flatten().map(|value| value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1);
    let precision = digits.max().unwrap_or(1).max(scale).max(1);
    let array = unscaled.into_iter().collect::<Decimal128Array>();
    // Neither is larger than 39.
    let array = array.with_precision_and_scale(precision as u8, scale as i8).map_err(|e| e.to_string())?;
    Ok(Arc::new(array))
}

fn lists(items: &[Item]) -> Result<ArrayRef, String> {
    let lists = every(items, |item| match item {
        Item::List(items) => Some(items),
        _ => None,
    })?;
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.map_or(0, Vec::len)));
    let nulls = NullBuffer::from_iter(lists.iter().map(Option::is_some));
    let elements: Vec<Item> = lists.into_iter().flatten().flatten().cloned().collect();
    let (values, _) = array_of(&elements)?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let array = ListArray::try_new(field, offsets, values, Some(nulls)).map_err(|e| e.to_string())?;
    Ok(Arc::new(array))
}
