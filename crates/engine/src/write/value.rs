//! One value of a row.

use crate::array::{ArrayBuilder, Elements};
use crate::column::ColumnBuilder;
use crate::column_type::{ArrayElement, ColumnType};
use crate::decimal::Decimal;
use crate::error::{Code, Error, Result};
use crate::key::{KeyPart, KeyValue};
use arrow::array::{AsArray, ListArray, new_null_array};
use std::fmt;
use uuid::Uuid;

/// Maximum size of one text, binary or array value.
pub const MAX_VALUE_BYTES: usize = 16 << 20;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// For a boolean column.
    Boolean(bool),
    /// For an integer, date (days), time (microseconds) or timestamp (in the column's unit) column.
    Int(i64),
    /// For an unsigned integer column.
    UInt(u64),
    /// For a float column.
    Float(f64),
    /// For a decimal column.
    Decimal(Decimal),
    /// For a text or JSON column.
    Text(String),
    /// For a binary column.
    Binary(Vec<u8>),
    /// For a UUID column.
    Uuid(Uuid),
    /// For a column of arrays with the same elements.
    Array(ArrayValue),
}

impl Value {
    /// Whether a column of this type can hold the value.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Value};
    /// assert!(Value::Int(127).fits(ColumnType::Int8) && !Value::Int(128).fits(ColumnType::Int8));
    /// ```
    pub fn fits(&self, column_type: ColumnType) -> bool {
        self.part(column_type).is_some()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let outside = match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
            Self::Array(array) => array.bytes().len(),
            _ => 0,
        };
        size_of::<Self>() + outside
    }

    /// The decimal number that a decimal number or an integer is; `None` for other values and for
    /// integers that have too many digits.
    ///
    /// ```
    /// use fleetdb_engine::{Decimal, Value};
    /// assert_eq!(Value::Int(7).decimal(), Some(Decimal { unscaled: 7, scale: 0 }));
    /// ```
    pub fn decimal(&self) -> Option<Decimal> {
        match self {
            Self::Int(unscaled) => Some(Decimal { unscaled: *unscaled, scale: 0 }),
            Self::UInt(value) => Some(Decimal { unscaled: i64::try_from(*value).ok()?, scale: 0 }),
            Self::Decimal(number) => Some(*number),
            _ => None,
        }
    }

    /// The value in the column type's internal form; `None` if it does not fit.
    pub(crate) fn part(&self, column_type: ColumnType) -> Option<KeyPart<'_>> {
        let integer = |value: i128| {
            let (least, most) = column_type.integer_range()?;
            (least..=most).contains(&value).then_some(KeyPart::Raw(value as u64))
        };
        let float = |value: f64| match column_type {
            ColumnType::Float32 => KeyPart::Raw(u64::from((value as f32).to_bits())),
            _ => KeyPart::Raw(value.to_bits()),
        };
        if let ColumnType::Decimal { precision, scale } = column_type
            && *self != Self::Null
        {
            return Some(KeyPart::Raw(self.decimal()?.with_scale(precision, scale)?.unscaled as u64));
        }
        match self {
            Self::Null => Some(KeyPart::Null),
            Self::Boolean(value) if column_type == ColumnType::Boolean => Some(KeyPart::Raw(u64::from(*value))),
            Self::Int(value) if column_type.is_float() => Some(float(*value as f64)),
            Self::Int(value) => integer(i128::from(*value)),
            Self::UInt(value) if column_type.is_float() => Some(float(*value as f64)),
            Self::UInt(value) => integer(i128::from(*value)),
            Self::Float(value) if column_type.is_float() => Some(float(*value)),
            Self::Decimal(value) if column_type.is_float() => Some(float(value.to_f64())),
            Self::Text(text) if column_type.is_text() || column_type == ColumnType::Binary => {
                Some(KeyPart::Bytes(text.as_bytes()))
            }
            Self::Binary(bytes) if column_type == ColumnType::Binary => Some(KeyPart::Bytes(bytes)),
            Self::Uuid(uuid) if column_type == ColumnType::Uuid => Some(KeyPart::Bytes(uuid.as_bytes())),
            Self::Array(array) if column_type == ColumnType::Array(array.element()) => {
                Some(KeyPart::Bytes(array.bytes()))
            }
            _ => None,
        }
    }

    /// Converts a raw value of a column whose values are not bytes.
    pub(crate) fn of_raw(raw: u64, column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean => Self::Boolean(raw != 0),
            ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => Self::UInt(raw),
            ColumnType::Float32 => Self::Float(f64::from(f32::from_bits(raw as u32))),
            ColumnType::Float64 => Self::Float(f64::from_bits(raw)),
            ColumnType::Decimal { scale, .. } => Self::Decimal(Decimal { unscaled: raw as i64, scale }),
            _ => Self::Int(raw as i64),
        }
    }

    /// Converts a key column's value.
    pub(crate) fn of_key(value: &KeyValue, column_type: ColumnType) -> Self {
        match value {
            KeyValue::Null => Self::Null,
            KeyValue::Bytes(bytes) => Self::of_bytes(bytes, column_type),
            KeyValue::Raw(raw) => Self::of_raw(*raw, column_type),
        }
    }

    /// Converts a value of a column whose values are bytes.
    pub(crate) fn of_bytes(bytes: &[u8], column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Binary => Self::Binary(bytes.to_vec()),
            ColumnType::Uuid => Uuid::from_slice(bytes).map_or(Self::Null, Self::Uuid),
            ColumnType::Array(element) => ArrayValue::of_bytes(element, bytes).map_or(Self::Null, Self::Array),
            _ => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

/// Formats the value for people; binary values are hexadecimal.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Decimal(value) => value.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Uuid(uuid) => uuid.fmt(f),
            Self::Array(array) => array.fmt(f),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<Decimal> for Value {
    fn from(value: Decimal) -> Self {
        Self::Decimal(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// An array.
///
/// ```
/// use fleetdb_engine::{ArrayElement, ArrayValue, Value};
/// let array = ArrayValue::new(ArrayElement::Int32, &[Value::Int(1), Value::Null]).unwrap();
/// assert_eq!(array.to_string(), "{1,NULL}");
/// assert_eq!(array.values(), [Value::Int(1), Value::Null]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayValue {
    element: ArrayElement,
    bytes: Vec<u8>,
}

impl ArrayValue {
    /// An array of these values.
    ///
    /// # Errors
    /// A value does not fit the type of the elements.
    pub fn new(element: ArrayElement, values: &[Value]) -> Result<Self> {
        let column_type = element.column_type();
        let mut builder = ArrayBuilder::new(element);
        for value in values {
            builder.push(value.part(column_type).ok_or_else(|| {
                Error::new(Code::OutOfRange, format!("an element of type {column_type} cannot be {value}"))
            })?);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes)?;
        Ok(Self { element, bytes })
    }

    /// The array that these bytes are; `None` if they are none.
    pub(crate) fn of_bytes(element: ArrayElement, bytes: &[u8]) -> Option<Self> {
        Elements::read(element, bytes).ok()?;
        Some(Self { element, bytes: bytes.to_vec() })
    }

    /// The type of the elements.
    pub fn element(&self) -> ArrayElement {
        self.element
    }

    /// The elements.
    pub fn values(&self) -> Vec<Value> {
        let column_type = self.element.column_type();
        let value = |part| match part {
            KeyPart::Null => Value::Null,
            KeyPart::Raw(raw) => Value::of_raw(raw, column_type),
            KeyPart::Bytes(bytes) => Value::of_bytes(bytes, column_type),
        };
        // The bytes were checked when the array was made.
        let Ok(mut elements) = Elements::read(self.element, &self.bytes) else { return Vec::new() };
        std::iter::from_fn(|| elements.next_element().ok().flatten()).map(value).collect()
    }

    /// The array as the only value of an Arrow array.
    pub fn to_list(&self) -> ListArray {
        let column_type = ColumnType::Array(self.element);
        let mut column = ColumnBuilder::new(column_type);
        column.push(KeyPart::Bytes(&self.bytes));
        // The bytes were checked when the array was made.
        let array = column.finish(column_type).unwrap_or_else(|_| new_null_array(&column_type.to_arrow(), 1));
        array.as_list().clone()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// PostgreSQL's text form of an array.
impl fmt::Display for ArrayValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, value) in self.values().iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            match value {
                Value::Boolean(value) => write!(f, "{comma}{}", if *value { "t" } else { "f" })?,
                Value::Text(text) => write!(f, "{comma}{}", array_element_text(text))?,
                value => write!(f, "{comma}{value}")?,
            }
        }
        f.write_str("}")
    }
}

/// A text as an element in PostgreSQL's text form of an array: in quotes if it would be ambiguous
/// otherwise.
///
/// ```
/// assert_eq!(fleetdb_engine::array_element_text("a b"), "\"a b\"");
/// ```
pub fn array_element_text(text: &str) -> String {
    let is_special = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | ',' | '"' | '\\');
    if text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(is_special) {
        return format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    }
    text.to_owned()
}

/// The error code of a value that does not fit: invalid text, or otherwise out of range.
pub(crate) fn misfit_code(value: &Value, column_type: ColumnType) -> Code {
    match value {
        Value::Text(_) if column_type.time_unit().is_some() || column_type == ColumnType::Date32 => Code::InvalidTime,
        Value::Text(_) => Code::InvalidText,
        _ => Code::OutOfRange,
    }
}

/// The error for a value that does not fit its column.
pub(crate) fn misfit(row: usize, value: &Value, column_type: ColumnType) -> Error {
    Error::new(
        misfit_code(value, column_type),
        format!("row {}: '{value}' does not fit a column of type {}", row + 1, column_type.sql_name()),
    )
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
