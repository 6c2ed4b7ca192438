//! Rows of Arrow as Python objects: a tuple for each.
//!
//! NULL is None. Dates, times of day and timestamps are those of the module `datetime`, with the
//! zone UTC if the column has one. They have microseconds: a timestamp in nanoseconds is rounded
//! down. Decimal numbers, UUIDs, arrays and structs are `Decimal`, `UUID`, lists and dictionaries;
//! an interval is a tuple of months, days and nanoseconds.

use crate::errors::plain;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{self as types, ArrowTimestampType, DataType, DecimalType, IntervalUnit, TimeUnit};
use arrow::temporal_conversions::{as_datetime, as_time};
use chrono::{Duration, NaiveDateTime};
use fleetdb_engine::{Code, ColumnType, Error};
use pyo3::IntoPyObjectExt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyTuple};

type Objects<'py> = Vec<Bound<'py, PyAny>>;

/// The rows as tuples.
///
/// # Errors
/// A value has no form in Python.
pub(crate) fn rows_of<'py>(py: Python<'py>, rows: &RecordBatch) -> PyResult<Vec<Bound<'py, PyTuple>>> {
    let columns = rows.columns().iter().map(|array| Ok(objects_of(py, array)?.into_iter()));
    let mut columns = columns.collect::<PyResult<Vec<_>>>()?;
    let row = |_| PyTuple::new(py, columns.iter_mut().filter_map(Iterator::next).collect::<Objects<'py>>());
    (0..rows.num_rows()).map(row).collect()
}

/// The values of a column.
fn objects_of<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let objects = Column { py, array: array.as_ref() };
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => objects.booleans(array.as_boolean()),
        DataType::Int8 => objects.numbers::<types::Int8Type>(),
        DataType::Int16 => objects.numbers::<types::Int16Type>(),
        DataType::Int32 => objects.numbers::<types::Int32Type>(),
        DataType::Int64 => objects.numbers::<types::Int64Type>(),
        DataType::UInt8 => objects.numbers::<types::UInt8Type>(),
        DataType::UInt16 => objects.numbers::<types::UInt16Type>(),
        DataType::UInt32 => objects.numbers::<types::UInt32Type>(),
        DataType::UInt64 => objects.numbers::<types::UInt64Type>(),
        DataType::Float32 => objects.numbers::<types::Float32Type>(),
        DataType::Float64 => objects.numbers::<types::Float64Type>(),
        DataType::Float16 => objects_of(py, &in_type(py, array, &DataType::Float32)?),
        DataType::Utf8 => objects.all(|row| to_object(py, array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => objects.all(|row| to_object(py, array.as_string::<i64>().value(row))),
        DataType::Utf8View => objects.all(|row| to_object(py, array.as_string_view().value(row))),
        DataType::Binary => objects.all(|row| bytes(py, array.as_binary::<i32>().value(row))),
        DataType::LargeBinary => objects.all(|row| bytes(py, array.as_binary::<i64>().value(row))),
        DataType::BinaryView => objects.all(|row| bytes(py, array.as_binary_view().value(row))),
        data_type if *data_type == ColumnType::UUID => {
            let uuid = py.import(intern!(py, "uuid"))?.getattr(intern!(py, "UUID"))?;
            let of_bytes = |value| uuid.call1((py.None(), bytes(py, value)?));
            objects.all(|row| of_bytes(array.as_fixed_size_binary().value(row)))
        }
        DataType::FixedSizeBinary(_) => objects.all(|row| bytes(py, array.as_fixed_size_binary().value(row))),
        DataType::Date32 => objects.dates::<types::Date32Type>(),
        DataType::Date64 => objects.dates::<types::Date64Type>(),
        DataType::Time32(TimeUnit::Second) => objects.clock_times::<types::Time32SecondType>(),
        DataType::Time32(_) => objects.clock_times::<types::Time32MillisecondType>(),
        DataType::Time64(TimeUnit::Microsecond) => objects.clock_times::<types::Time64MicrosecondType>(),
        DataType::Time64(_) => objects.clock_times::<types::Time64NanosecondType>(),
        DataType::Timestamp(unit, zone) => match unit {
            TimeUnit::Second => objects.times::<types::TimestampSecondType>(zone.is_some()),
            TimeUnit::Millisecond => objects.times::<types::TimestampMillisecondType>(zone.is_some()),
            TimeUnit::Microsecond => objects.times::<types::TimestampMicrosecondType>(zone.is_some()),
            TimeUnit::Nanosecond => objects.times::<types::TimestampNanosecondType>(zone.is_some()),
        },
        DataType::Duration(_) => {
            let micros = in_type(py, array, &DataType::Duration(TimeUnit::Microsecond))?;
            let micros = micros.as_primitive::<types::DurationMicrosecondType>();
            objects.all(|row| to_object(py, Duration::microseconds(micros.value(row))))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => objects.all(|row| {
            let interval = array.as_primitive::<types::IntervalMonthDayNanoType>().value(row);
            to_object(py, (interval.months, interval.days, interval.nanoseconds))
        }),
        DataType::Interval(_) => objects_of(py, &in_type(py, array, &DataType::Interval(IntervalUnit::MonthDayNano))?),
        DataType::Decimal32(..) => objects.decimals::<types::Decimal32Type>(),
        DataType::Decimal64(..) => objects.decimals::<types::Decimal64Type>(),
        DataType::Decimal128(..) => objects.decimals::<types::Decimal128Type>(),
        DataType::Decimal256(..) => objects.decimals::<types::Decimal256Type>(),
        DataType::List(_) => objects.all(|row| list(py, &array.as_list::<i32>().value(row))),
        DataType::LargeList(_) => objects.all(|row| list(py, &array.as_list::<i64>().value(row))),
        DataType::FixedSizeList(..) => objects.all(|row| list(py, &array.as_fixed_size_list().value(row))),
        DataType::Struct(_) => structs(py, array.as_struct()),
        DataType::Map(..) => objects.all(|row| {
            let entries = array.as_map().value(row);
            let (names, values) = (entries.column(0), entries.column(1));
            let names = objects_of(py, names)?;
            let map = PyDict::new(py);
            names.iter().zip(objects_of(py, values)?).try_for_each(|(name, value)| map.set_item(name, value))?;
            Ok(map.into_any())
        }),
        DataType::Dictionary(_, values) => objects_of(py, &in_type(py, array, values)?),
        DataType::RunEndEncoded(_, values) => objects_of(py, &in_type(py, array, values.data_type())?),
        other => Err(no_form(py, other)),
    }
}

/// A column whose values become objects.
struct Column<'a, 'py> {
    py: Python<'py>,
    array: &'a dyn Array,
}

impl<'py> Column<'_, 'py> {
    /// The objects that `object` makes of the values that are not NULL.
    fn all(&self, object: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>) -> PyResult<Objects<'py>> {
        let none = self.py.None().into_bound(self.py);
        let value = |row| if self.array.is_null(row) { Ok(none.clone()) } else { object(row) };
        (0..self.array.len()).map(value).collect()
    }

    fn booleans(&self, array: &BooleanArray) -> PyResult<Objects<'py>> {
        self.all(|row| Ok(PyBool::new(self.py, array.value(row)).to_owned().into_any()))
    }

    fn numbers<T: ArrowPrimitiveType>(&self) -> PyResult<Objects<'py>>
    where
        T::Native: IntoPyObject<'py>,
    {
        let array = self.array.as_primitive::<T>();
        self.all(|row| to_object(self.py, array.value(row)))
    }

    fn dates<T: ArrowPrimitiveType>(&self) -> PyResult<Objects<'py>>
    where
        i64: From<T::Native>,
    {
        let array = self.array.as_primitive::<T>();
        self.all(|row| {
            let time = as_datetime::<T>(i64::from(array.value(row)));
            let date = time.ok_or_else(|| self.out_of_range())?.date();
            to_object(self.py, date).map_err(|_| self.out_of_range())
        })
    }

    fn clock_times<T: ArrowPrimitiveType>(&self) -> PyResult<Objects<'py>>
    where
        i64: From<T::Native>,
    {
        let array = self.array.as_primitive::<T>();
        self.all(|row| {
            let time = as_time::<T>(i64::from(array.value(row)));
            to_object(self.py, time.ok_or_else(|| self.out_of_range())?)
        })
    }

    fn times<T: ArrowTimestampType>(&self, has_zone: bool) -> PyResult<Objects<'py>> {
        let array: &PrimitiveArray<T> = self.array.as_primitive::<T>();
        self.all(|row| {
            let time: Option<NaiveDateTime> = as_datetime::<T>(array.value(row));
            let time = time.ok_or_else(|| self.out_of_range())?;
            let object = if has_zone { to_object(self.py, time.and_utc()) } else { to_object(self.py, time) };
            object.map_err(|_| self.out_of_range())
        })
    }

    fn decimals<T: DecimalType>(&self) -> PyResult<Objects<'py>> {
        let decimal = self.py.import(intern!(self.py, "decimal"))?.getattr(intern!(self.py, "Decimal"))?;
        let array = self.array.as_primitive::<T>();
        self.all(|row| decimal.call1((array.value_as_string(row),)))
    }

    /// The error of a time before the year 1 or after 9999.
    fn out_of_range(&self) -> PyErr {
        let message = "a time is outside the years 1 to 9999, which Python's datetime has";
        let hint = "Read the rows with arrow() or pl().";
        plain(self.py, &Error::new(Code::TimeOutOfRange, message).with_hint(hint))
    }
}

fn to_object<'py>(py: Python<'py>, value: impl IntoPyObject<'py>) -> PyResult<Bound<'py, PyAny>> {
    value.into_bound_py_any(py)
}

fn bytes<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyBytes::new(py, value).into_any())
}

fn list<'py>(py: Python<'py>, values: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyList::new(py, objects_of(py, values)?)?.into_any())
}

fn structs<'py>(py: Python<'py>, array: &StructArray) -> PyResult<Objects<'py>> {
    let columns = array.columns().iter().zip(array.fields());
    let columns = columns.map(|(array, field)| Ok((field.name(), objects_of(py, array)?)));
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    Column { py, array }.all(|row| {
        let object = PyDict::new(py);
        columns.iter().try_for_each(|(name, values)| object.set_item(name.as_str(), &values[row]))?;
        Ok(object.into_any())
    })
}

/// The same values in another type.
fn in_type(py: Python<'_>, array: &ArrayRef, data_type: &DataType) -> PyResult<ArrayRef> {
    cast(array, data_type).map_err(|_| no_form(py, array.data_type()))
}

fn no_form(py: Python<'_>, data_type: &DataType) -> PyErr {
    let message = format!("values of the Arrow type {data_type} have no form in Python");
    plain(py, &Error::new(Code::NotSupported, message).with_hint("Read the rows with arrow() or pl()."))
}
