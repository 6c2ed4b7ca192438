//! Parses texts as values of columns.

use crate::errors::misfit;
use crate::values::array_elements::elements;
use crate::values::times::{date_of, read_for};
use crate::values::zone::Zone;
use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::Time64MicrosecondType;
use chrono::DateTime;
use fleetdb_engine::{ArrayElement, ArrayValue, Code, ColumnType, Decimal, DecimalError, Error, Result, Uuid, Value};

/// Parses a text as a value of a column, as SQL does. A time without a zone is in UTC.
///
/// # Errors
/// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that says what the column accepts.
pub fn value_of_text(text: &str, column_type: ColumnType) -> Result<Value> {
    value_of_text_in(text, column_type, Zone::Utc)
}

/// Like [`value_of_text`], in a session with this zone: for a column with a zone, a time without
/// one is local time.
///
/// # Errors
/// Those of [`value_of_text`].
pub fn value_of_text_in(text: &str, column_type: ColumnType, zone: Zone) -> Result<Value> {
    let trimmed = text.trim();
    let value = match column_type {
        ColumnType::Utf8 | ColumnType::Json | ColumnType::Jsonb => Some(Value::Text(text.to_owned())),
        ColumnType::Uuid => Uuid::try_parse(trimmed).ok().map(Value::Uuid),
        ColumnType::Array(element) => return array_of_text(text, element, zone).map(Value::Array),
        ColumnType::Time => clock_time(trimmed).map(Value::Int),
        ColumnType::Binary => bytes_of(text).map(Value::Binary),
        ColumnType::Boolean => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Some(Value::Boolean(true)),
            "f" | "false" | "n" | "no" | "off" | "0" => Some(Value::Boolean(false)),
            _ => None,
        },
        ColumnType::Float32 | ColumnType::Float64 => return number_of(text, column_type),
        ColumnType::UInt64 => trimmed.parse().ok().map(Value::UInt),
        ColumnType::Decimal { precision, scale } => return decimal_of(text, precision, scale).map(Value::Decimal),
        ColumnType::Timestamp(_) | ColumnType::TimestampUtc(_) => {
            return read_for(text, column_type, zone).value(text, column_type).map(Value::Int);
        }
        ColumnType::Date32 => {
            let days =
                date_of(trimmed).map(|date| date.signed_duration_since(DateTime::UNIX_EPOCH.date_naive()).num_days());
            days.map(Value::Int)
        }
        _ => trimmed.parse().ok().map(Value::Int),
    };
    value.ok_or_else(|| misfit(text, &column_type.to_arrow()))
}

/// Parses an array in PostgreSQL's text form.
fn array_of_text(text: &str, element: ArrayElement, zone: Zone) -> Result<ArrayValue> {
    let value = |text: Option<String>| match text {
        None => Ok(Value::Null),
        Some(text) => value_of_text_in(&text, element.column_type(), zone),
    };
    let values = elements(text)?.into_iter().map(value).collect::<Result<Vec<_>>>()?;
    ArrayValue::new(element, &values)
}

/// Parses a decimal number, rounded to a column's digits.
pub fn decimal_of(text: &str, precision: u8, scale: u8) -> Result<Decimal> {
    Decimal::parse(text, precision, scale).map_err(|error| match error {
        DecimalError::Malformed => misfit(text, &ColumnType::Decimal { precision, scale }.to_arrow()),
        DecimalError::OutOfRange => numeric_overflow(precision, scale),
    })
}

/// The error for a number with too many digits for a NUMERIC column.
pub fn numeric_overflow(precision: u8, scale: u8) -> Error {
    let most = Decimal { unscaled: 10i64.pow(precision.into()) - 1, scale };
    Error::new(Code::OutOfRange, "numeric field overflow")
        .with_hint(format!("A numeric of {precision} digits holds no more: max {most}."))
}

/// Parses a float. A number out of the column's range, such as `1e400`, is rejected instead of
/// becoming infinity or zero.
fn number_of(text: &str, column_type: ColumnType) -> Result<Value> {
    let trimmed = text.trim();
    let value = match column_type {
        ColumnType::Float32 => trimmed.parse::<f32>().ok().map(f64::from),
        _ => trimmed.parse().ok(),
    };
    let value = value.ok_or_else(|| misfit(text, &column_type.to_arrow()))?;
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let is_beyond = match value {
        infinite if infinite.is_infinite() => trimmed.contains(|c: char| c.is_ascii_digit()),
        0.0 => mantissa.contains(|c: char| matches!(c, '1'..='9')),
        _ => false,
    };
    if is_beyond {
        let message = format!("\"{text}\" is out of range for type {}", column_type.sql_name());
        return Err(Error::new(Code::OutOfRange, message));
    }
    Ok(Value::Float(value))
}

/// A time of day in microseconds. Without colons, four digits are hours and minutes, and six also seconds, as
/// in PostgreSQL.
fn clock_time(text: &str) -> Option<i64> {
    let (digits, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Time64MicrosecondType::parse(text);
    }
    let (hours, minutes) = (digits.get(..2)?, digits.get(2..4)?);
    match digits.get(4..)? {
        "" if fraction.is_empty() => Time64MicrosecondType::parse(&format!("{hours}:{minutes}")),
        seconds if seconds.len() == 2 => {
            Time64MicrosecondType::parse(&format!("{hours}:{minutes}:{seconds}{fraction}"))
        }
        _ => None,
    }
}

/// Parses bytes in PostgreSQL's forms: `\x` and hexadecimal digits; or UTF-8, where `\\` is a
/// backslash and `\001`, with three octal digits, is any byte.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("\\x") else { return unescaped(text.as_bytes()) };
    digits.as_bytes().chunks(2).map(|pair| byte_of(pair, 2, 16)).collect()
}

fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => (b'\\', behind),
            (b'\\', escaped) => {
                let (digits, behind) = escaped.split_at_checked(3)?;
                (byte_of(digits, 3, 8)?, behind)
            }
            (byte, behind) => (byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    Some(bytes)
}

/// Parses `count` digits of a base as a byte.
fn byte_of(digits: &[u8], count: usize, base: u32) -> Option<u8> {
    let digits = str::from_utf8(digits).ok().filter(|digits| digits.len() == count && !digits.starts_with('+'))?;
    u8::from_str_radix(digits, base).ok()
}
