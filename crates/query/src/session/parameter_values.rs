//! Values of parameters, in the types that a prepared statement gives them.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use fleetdb_engine::{ColumnType, Decimal, MAX_DECIMAL_DIGITS, Result, Value};
use fleetdb_functions::errors::engine_error;
use fleetdb_functions::uuids::uuid_literal;
use fleetdb_functions::values::array_literals::array_of_text;
use fleetdb_functions::values::times::{TimeText, read_exact, read_for};
use fleetdb_functions::values::zone::Zone;
use fleetdb_plan::pushdown::scalar;
use std::sync::Arc;

/// A parameter's value for the statement's text, where a count cannot stand for a time.
pub(super) fn written(number: usize, value: &Value, data_type: Option<&DataType>, zone: Zone) -> Result<Value> {
    match (data_type, value) {
        (Some(DataType::Timestamp(..)), Value::Int(_)) => {
            let text = bound(number, value, data_type, zone)?.cast_to(&DataType::Utf8).map_err(engine_error)?;
            Ok(text.try_as_str().flatten().map_or(Value::Null, |text| Value::Text(text.to_owned())))
        }
        _ => Ok(value.clone()),
    }
}

/// Converts a parameter's value to the type that the statement gives it.
pub(super) fn bound(number: usize, value: &Value, data_type: Option<&DataType>, session: Zone) -> Result<ScalarValue> {
    let plain = scalar(value);
    match (data_type, value) {
        // The integer already counts this unit. A cast would create arrays.
        (Some(DataType::Timestamp(unit, zone)), Value::Int(count)) => Ok(time(*count, *unit, zone.clone())),
        (Some(&ColumnType::UUID), Value::Text(text)) => {
            uuid_literal(text).map_err(|e| engine_error(e).context(format_args!("parameter ${}", number + 1)))
        }
        (Some(DataType::Utf8), Value::Uuid(uuid)) => Ok(ScalarValue::Utf8(Some(uuid.to_string()))),
        (Some(DataType::List(element)), Value::Text(text)) => array_of_text(text, element.data_type(), session)
            .map_err(|e| engine_error(e).context(format_args!("parameter ${}", number + 1))),
        (Some(data_type), _) if *data_type != plain.data_type() => {
            plain.cast_to(data_type).map_err(|e| engine_error(e).context(format_args!("parameter ${}", number + 1)))
        }
        _ => Ok(plain),
    }
}

/// A parameter as a decimal number of a type, if that is exact.
pub(super) fn exact(value: &Value, precision: u8, scale: i8) -> Option<ScalarValue> {
    let number = match number_of(value) {
        Value::Null => return ScalarValue::try_from(&DataType::Decimal128(precision, scale)).ok(),
        value => value.decimal()?,
    };
    let digits = precision.min(MAX_DECIMAL_DIGITS);
    let unscaled = number.with_scale(digits, u8::try_from(scale).ok()?)?.unscaled;
    Some(ScalarValue::Decimal128(Some(unscaled.into()), precision, scale))
}

/// A text or a float as the decimal number that it says; other values as they are.
pub(super) fn number_of(value: &Value) -> Value {
    let number = match value {
        Value::Text(text) => Decimal::read(text),
        Value::Float(float) => Decimal::read(&float.to_string()),
        _ => None,
    };
    number.map_or_else(|| value.clone(), Value::Decimal)
}

/// A timestamp from a count of its unit.
pub(super) fn time(count: i64, unit: TimeUnit, zone: Option<Arc<str>>) -> ScalarValue {
    let time = Some(count);
    match unit {
        TimeUnit::Second => ScalarValue::TimestampSecond(time, zone),
        TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(time, zone),
        TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(time, zone),
        TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(time, zone),
    }
}

/// Parses a parameter that is a timestamp. Only as a `bound` of a comparison, a time may be out of
/// the type's range, or have more digits and therefore another unit.
pub(super) fn read_parameter(
    number: usize,
    text: &str,
    data_type: &DataType,
    session: Zone,
    is_bound: bool,
) -> Result<(DataType, TimeText)> {
    let column_type = ColumnType::from_arrow(data_type)?;
    let (exact, read) = match is_bound {
        true => read_exact(text, data_type, session)?,
        false => (data_type.clone(), read_for(text, column_type, session)),
    };
    if !(is_bound && read.far().is_some()) {
        read.value(text, column_type).map_err(|e| e.context(format_args!("parameter ${}", number + 1)))?;
    }
    Ok((exact, read))
}
