//! Values of Python objects, for parameters, keys and fields.
//!
//! The Python part of the package has made everything else a text before ([`fleetdb._values`]):
//! dates, times, decimal numbers, UUIDs and lists have the text form that SQL gives them.

use crate::errors::plain;
use fleetdb_engine::{ColumnType, Result, Value};
use fleetdb_query::value_of_text;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

/// The value of an object.
///
/// # Errors
/// TypeError for an object of another type.
pub(crate) fn value_of(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    // True is also an integer, so it comes first.
    if let Ok(value) = object.cast::<PyBool>() {
        return Ok(Value::Boolean(value.is_true()));
    }
    if let Ok(value) = object.cast::<PyInt>() {
        return match (value.extract::<i64>(), value.extract::<u64>()) {
            (Ok(value), _) => Ok(Value::Int(value)),
            (_, Ok(value)) => Ok(Value::UInt(value)),
            // Too large for an integer column, but perhaps not for a decimal one.
            _ => Ok(Value::Text(value.str()?.extract()?)),
        };
    }
    if let Ok(value) = object.cast::<PyFloat>() {
        return Ok(Value::Float(value.value()));
    }
    if let Ok(value) = object.cast::<PyString>() {
        return Ok(Value::Text(value.extract()?));
    }
    if let Ok(value) = object.cast::<PyBytes>() {
        return Ok(Value::Binary(value.as_bytes().to_vec()));
    }
    Err(PyTypeError::new_err(format!("a value cannot be of type {}", object.get_type().name()?)))
}

/// The values of several objects.
///
/// # Errors
/// As [`value_of`].
pub(crate) fn values_of(objects: &[Bound<'_, PyAny>]) -> PyResult<Vec<Value>> {
    objects.iter().map(value_of).collect()
}

/// The value for a column of this type: a text may be the text form of another value.
///
/// # Errors
/// The text is no value of the type.
pub(crate) fn for_column(value: Value, column_type: ColumnType) -> Result<Value> {
    match value {
        Value::Text(text) if !value_is_text(column_type) => value_of_text(&text, column_type),
        value => Ok(value),
    }
}

fn value_is_text(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Utf8 | ColumnType::Json | ColumnType::Jsonb)
}

/// A bound of time for a time column of this type, in its unit: a number, or a text.
///
/// # Errors
/// The text is no time, or the object is neither.
pub(crate) fn time_of(object: &Bound<'_, PyAny>, column_type: ColumnType) -> PyResult<i64> {
    let value = for_column(value_of(object)?, column_type).map_err(|error| plain(object.py(), &error))?;
    match value {
        Value::Int(time) => Ok(time),
        other => Err(PyTypeError::new_err(format!("a time cannot be {other}"))),
    }
}
