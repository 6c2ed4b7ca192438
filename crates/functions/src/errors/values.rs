//! Converts libraries' run-time errors about values to PostgreSQL's wording.

use super::types::{name_of, sql_name, type_of};
use crate::values::times::{unknown_zone, unreadable};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use fleetdb_engine::{Code, Error};

/// Converts Arrow's error about values.
pub(super) fn arrow_error(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::new(Code::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => {
            let of = message.strip_prefix("Overflow happened on: ").unwrap_or(message);
            Error::new(Code::OutOfRange, format!("out of range: {of}"))
        }
        ArrowError::CastError(message) => cast_error(message),
        ArrowError::ParseError(message) => parse_error(message),
        ArrowError::InvalidArgumentError(message)
            if message.ends_with("declared as non-nullable but contains null values") =>
        {
            Error::new(Code::NotNull, message.as_str())
        }
        ArrowError::InvalidArgumentError(message) => numeric_error(message)
            .or_else(|| pattern_error(message))
            .unwrap_or_else(|| Error::new(Code::InvalidParameter, message.as_str())),
        ArrowError::OffsetOverflowError(_) => {
            Error::new(Code::LimitExceeded, "the rows of one batch would have more than 2 GiB of text: ask for less")
        }
        ArrowError::NotYetImplemented(message) => Error::new(Code::NotSupported, message.as_str()),
        ArrowError::ComputeError(message) => executed_error(message),
        ArrowError::ExternalError(inner) => executed_error(&inner.to_string()),
        other => Error::invalid(other.to_string()),
    }
}

/// Converts the message of an operator or a function that failed at run time.
pub(super) fn executed_error(message: &str) -> Error {
    let message = message.strip_prefix("Execution error: ").unwrap_or(message).trim_end_matches('.');
    if message.starts_with("Scalar subquery returned more than one row") {
        return Error::new(Code::Cardinality, "more than one row returned by a subquery used as an expression");
    }
    if let Some((place, _)) = message.strip_prefix("Invalid batch column at '").and_then(|rest| rest.split_once('\'')) {
        let place = place.parse::<usize>().map_or_else(|_| place.to_owned(), |place| (place + 1).to_string());
        return Error::new(Code::NotNull, format!("null value in column {place} violates not-null constraint"));
    }
    if let Some(name) = message
        .strip_prefix("Placeholder '")
        .and_then(|rest| rest.strip_suffix("' was not provided a value for execution"))
    {
        return Error::new(Code::UndefinedParameter, format!("there is no parameter {name}"));
    }
    let unit = message.strip_prefix("Date part '").and_then(|rest| rest.strip_suffix("' not supported"));
    let unit = unit.or_else(|| {
        message.strip_prefix("Unsupported date_trunc granularity: '").and_then(|rest| rest.split("'. ").next())
    });
    if let Some(unit) = unit {
        return Error::new(Code::InvalidParameter, format!("unit \"{unit}\" not recognized"));
    }
    if let Some(of) = message.strip_prefix("Overflow happened on ") {
        return Error::new(Code::OutOfRange, format!("out of range: {of}"));
    }
    if message.starts_with("Timestamp out of range") {
        return Error::new(Code::TimeOutOfRange, "timestamp out of range");
    }
    let is_of_date = ["Month value '", "Day value '", "Year value '"].iter().any(|begin| message.starts_with(begin));
    if is_of_date && message.ends_with("is out of range") {
        return Error::new(Code::TimeOutOfRange, format!("date field value out of range: {message}"));
    }
    if message.starts_with("Percentile value must be between") {
        return Error::new(Code::OutOfRange, "percentile value is not between 0 and 1");
    }
    if message.starts_with("Cannot access field at argument") {
        return Error::new(Code::TypeMismatch, "array subscript must have type integer");
    }
    if ["cannot take square root", "zero raised to"].iter().any(|begin| message.starts_with(begin)) {
        return Error::new(Code::InvalidPower, message);
    }
    if message.starts_with("step can't be 0") {
        return Error::new(Code::InvalidParameter, "step size cannot equal zero");
    }
    if let Some(error) = numeric_error(message).or_else(|| pattern_error(message)).or_else(|| cast_of_types(message)) {
        return error;
    }
    Error::new(Code::InvalidParameter, message)
}

/// Converts an error of the regular-expression library. Its message shows the pattern and ends with
/// the cause.
fn pattern_error(message: &str) -> Option<Error> {
    if !["regex parse error:", "Regular expression did not compile"].iter().any(|begin| message.starts_with(begin)) {
        return None;
    }
    let why = message.lines().rev().find_map(|line| line.strip_prefix("error: ")).unwrap_or("it cannot be read");
    Some(Error::new(Code::InvalidPattern, format!("invalid regular expression: {why}")))
}

fn numeric_error(message: &str) -> Option<Error> {
    let (_, rest) = message.split_once(" to store in a Decimal")?;
    let rest = rest.split_once(" of precision ")?.1;
    let (precision, bound) = rest.split_once(". ")?;
    let bound = bound.trim_end_matches('.');
    let hint =
        format!("A numeric of {precision} digits holds no more: {}.", bound.to_lowercase().replacen("is ", "", 1));
    Some(Error::new(Code::OutOfRange, "numeric field overflow").with_hint(hint))
}

/// Converts Arrow's error for a text that is not a time.
fn parse_error(message: &str) -> Error {
    let text = message.strip_prefix("Error parsing timestamp from '").and_then(|rest| rest.rsplit_once("': "));
    if let Some((value, _)) = text {
        return unreadable("timestamp", value);
    }
    if let Some((zone, _)) = message.strip_prefix("Invalid timezone \"").and_then(|rest| rest.rsplit_once("\": ")) {
        return unknown_zone(zone);
    }
    if let Some(value) = message.strip_prefix("Invalid input syntax for type interval: ") {
        return Error::new(Code::InvalidTime, format!("invalid input syntax for type interval: {value}"));
    }
    Error::new(Code::InvalidTime, message)
}

/// An unsupported cast, which Arrow and DataFusion describe by its types.
pub(super) fn cast_of_types(message: &str) -> Option<Error> {
    let begins = ["Unsupported CAST from ", "Casting from ", "Cannot automatically convert "];
    let types = begins.iter().find_map(|begin| message.strip_prefix(begin))?;
    let (from, to) = types.split_once(" to ")?;
    let to = to.strip_suffix(" not supported").unwrap_or(to);
    type_of(from)?;
    let message = format!("cannot cast type {} to {}", name_of(from), name_of(to));
    Some(Error::new(Code::CannotCast, message))
}

/// Converts a cast's error. Arrow's message says only which value could not become which type.
pub(super) fn cast_error(message: &str) -> Error {
    let texts = ["Cannot cast string '", "Cannot cast value '"];
    let text = texts.iter().find_map(|begin| message.strip_prefix(begin)).and_then(|rest| rest.strip_suffix(" type"));
    if let Some((value, to)) = text.and_then(|rest| rest.rsplit_once("' to value of ")) {
        return text_error(value, to);
    }
    if let Some((value, to)) = message.strip_prefix("Can't cast value ").and_then(|rest| rest.rsplit_once(" to type "))
    {
        let message = format!("value \"{value}\" is out of range for type {}", name_of(to));
        return Error::new(Code::OutOfRange, message);
    }
    cast_of_types(message).or_else(|| numeric_error(message)).unwrap_or_else(|| match message {
        parsed if parsed.starts_with("Error parsing ") || parsed.starts_with("Invalid ") => parse_error(parsed),
        other => Error::new(Code::InvalidText, other),
    })
}

/// The error for a text that is not a valid value of a type; `to` is the type as Arrow writes it.
fn text_error(value: &str, to: &str) -> Error {
    match type_of(to) {
        Some(of) => misfit(value, &of),
        None => Error::new(Code::InvalidText, format!("invalid input syntax: \"{value}\"")),
    }
}

/// The error for a text that is not a valid value of a type.
pub fn misfit(value: &str, of: &DataType) -> Error {
    let digits = value.trim().trim_start_matches(['-', '+']);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let name = sql_name(of);
    match of {
        DataType::Date32 | DataType::Date64 => unreadable("date", value),
        DataType::Timestamp(_, None) => unreadable("timestamp", value),
        DataType::Timestamp(..) => unreadable("timestamp with time zone", value),
        DataType::Time32(_) | DataType::Time64(_) => unreadable("time", value),
        of if is_whole && of.is_integer() => {
            Error::new(Code::OutOfRange, format!("value \"{value}\" is out of range for type {name}"))
        }
        _ => Error::new(Code::InvalidText, format!("invalid input syntax for type {name}: \"{value}\"")),
    }
}
