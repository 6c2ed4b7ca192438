//! DataFusion's, Arrow's and sqlparser's errors as the engine's, with a code.
//!
//! 1. An error of the engine that passed through DataFusion comes back as it was.
//! 2. A variant decides where there is one. sqlparser, and DataFusion's planner in `Plan`, give a text only: what
//!    the library itself wrote at the text's beginning or end decides there ([`PLANNED`], [`place_of`],
//!    [`cast_error`]). A text never decides by what users may have written in it.
//!
//! No other file asks a message what it contains.

use crate::column_names::written_text;
use crate::depth::too_deep;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::{Location, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use fleetdb_engine::{Code, Error, ErrorKind, TextPosition};
use std::error::Error as StdError;

/// How messages of DataFusion's planner begin and end that have a code. (DataFusion 55: `SqlToRel`, type coercion.)
const PLANNED: [(&str, &str, Code); 12] = [
    ("table '", "' not found", Code::UndefinedTable),
    ("table function '", "' not found", Code::UndefinedFunction),
    ("Invalid function '", "", Code::UndefinedFunction),
    ("Function '", "", Code::UndefinedFunction),
    ("Failed to coerce arguments", "", Code::UndefinedFunction),
    ("No function matches the given name and argument types", "", Code::UndefinedFunction),
    ("Cannot coerce arithmetic expression", "", Code::UndefinedFunction),
    ("Column in ", "must be in GROUP BY or an aggregate function", Code::Grouping),
    ("Aggregate function", "", Code::Grouping),
    ("HAVING clause references", "", Code::Grouping),
    ("Unsupported ", "", Code::NotSupported),
    ("This feature is not implemented", "", Code::NotSupported),
];

/// How DataFusion says that it has found no way to do without a subquery.
const NO_SUBQUERY: &str = "Physical plan does not support logical expression";

/// DataFusion's error as the engine's: an error that came from the engine is given back as it was. Names are as they were
/// written.
pub(crate) fn engine_error(error: DataFusionError) -> Error {
    converted(error).map_message(|message| written_text(message).into_owned())
}

fn converted(error: DataFusionError) -> Error {
    match error {
        // Names of DataFusion's steps, which say something to those who look for a bug.
        DataFusionError::Context(context, inner) => match converted(*inner) {
            error if error.kind() == ErrorKind::Bug => error.context(context),
            error => error,
        },
        DataFusionError::Diagnostic(_, inner) => converted(*inner),
        DataFusionError::Internal(message) => Error::bug(format!("the query engine: {message}")),
        DataFusionError::SchemaError(inner, _) => Error::new(schema_code(&inner), inner.to_string()),
        DataFusionError::SQL(inner, _) => syntax_error(*inner),
        DataFusionError::NotImplemented(message) if message.starts_with(NO_SUBQUERY) => Error::new(
            Code::NotSupported,
            "a subquery in this place, or of this form, is not supported: one that looks at the rows around it compares them \
             by =; IN stands in WHERE",
        ),
        DataFusionError::NotImplemented(message) => Error::new(Code::NotSupported, message),
        DataFusionError::Plan(message) => Error::new(plan_code(&message), message),
        DataFusionError::Configuration(message) => Error::new(Code::InvalidParameter, message),
        other => own(&other).unwrap_or_else(|| match other.find_root() {
            DataFusionError::ArrowError(arrow, _) => arrow_error(arrow),
            DataFusionError::Plan(message) => Error::new(plan_code(message), message),
            DataFusionError::SchemaError(inner, _) => Error::new(schema_code(inner), inner.to_string()),
            DataFusionError::External(root) => external_error(root.as_ref()),
            DataFusionError::Execution(message) => Error::new(executed_code(message), message),
            DataFusionError::ResourcesExhausted(message) => {
                Error::new(Code::OutOfMemory, format!("the query needs more memory than it may have: {message}"))
            }
            root => Error::invalid(root.strip_backtrace()),
        }),
    }
}

/// As [`engine_error`], with the place in the statement's text.
pub(crate) fn placed_error(error: DataFusionError) -> Error {
    let start = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| span.start);
    let error = engine_error(error);
    match start {
        Some(Location { line, column }) if error.kind() == ErrorKind::Input && error.position().is_none() => {
            let message = error.to_string();
            let message = format!("{} at Line: {line}, Column: {column}", message.trim_end_matches('.'));
            Error::new(error.code(), message).at(TextPosition::At { line, column })
        }
        _ => error,
    }
}

/// sqlparser's error as the engine's.
pub(crate) fn syntax_error(error: ParserError) -> Error {
    match error {
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
            let place = place_of(&message);
            let error = Error::new(Code::Syntax, format!("syntax: {message}"));
            match place {
                Some(place) => error.at(place),
                None => error,
            }
        }
        ParserError::RecursionLimitExceeded => {
            too_deep(format_args!("parentheses, calls and subqueries within others"))
        }
    }
}

/// The engine's error as DataFusion's.
pub(crate) fn query_error(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn schema_code(error: &SchemaError) -> Code {
    match error {
        SchemaError::AmbiguousReference { .. } => Code::AmbiguousColumn,
        SchemaError::DuplicateQualifiedField { .. } => Code::DuplicateAlias,
        SchemaError::DuplicateUnqualifiedField { .. } => Code::DuplicateColumn,
        SchemaError::FieldNotFound { .. } => Code::UndefinedColumn,
    }
}

fn plan_code(message: &str) -> Code {
    let message = message.strip_prefix("Error during planning: ").unwrap_or(message);
    let found = PLANNED.iter().find(|(begin, end, _)| message.starts_with(begin) && message.ends_with(end));
    found.map_or(Code::Invalid, |(.., code)| *code)
}

/// The codes of what operators say while they run, in a text only.
fn executed_code(message: &str) -> Code {
    if message.starts_with("Scalar subquery returned more than one row") {
        Code::Cardinality
    } else if message.starts_with("Invalid batch column at '") && message.ends_with("schema specifies non-nullable") {
        Code::NotNull
    } else {
        Code::Invalid
    }
}

/// An error that is neither the engine's nor DataFusion's.
fn external_error(error: &(dyn StdError + 'static)) -> Error {
    match error.downcast_ref::<ArrowError>() {
        Some(arrow) => arrow_error(arrow),
        None => Error::invalid(error.to_string()),
    }
}

/// Arrow's error about values.
fn arrow_error(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => Error::new(Code::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => {
            let of = message.strip_prefix("Overflow happened on: ").unwrap_or(message);
            Error::new(Code::OutOfRange, format!("out of range: {of}"))
        }
        ArrowError::CastError(message) => cast_error(message),
        ArrowError::ParseError(message) => Error::new(Code::InvalidTime, message.as_str()),
        ArrowError::InvalidArgumentError(message)
            if message.ends_with("declared as non-nullable but contains null values") =>
        {
            Error::new(Code::NotNull, message.as_str())
        }
        ArrowError::NotYetImplemented(message) => Error::new(Code::NotSupported, message.as_str()),
        other => Error::invalid(other.to_string()),
    }
}

/// A cast's error: Arrow says in its text only which value did not become which type.
fn cast_error(message: &str) -> Error {
    let text = message.strip_prefix("Cannot cast string '").and_then(|rest| rest.strip_suffix(" type"));
    if let Some((value, to)) = text.and_then(|rest| rest.rsplit_once("' to value of ")) {
        let name = type_name(to);
        let code = if matches!(name, "date" | "timestamp" | "time") { Code::InvalidTime } else { Code::InvalidText };
        return Error::new(code, format!("invalid input for type {name}: '{value}'"));
    }
    if let Some((value, to)) = message.strip_prefix("Can't cast value ").and_then(|rest| rest.rsplit_once(" to type "))
    {
        return Error::new(Code::OutOfRange, format!("{value} is out of range for type {}", type_name(to)));
    }
    Error::new(Code::InvalidText, message)
}

/// An Arrow type, as Arrow writes it, in SQL's words.
fn type_name(arrow: &str) -> &str {
    match arrow.parse() {
        Ok(DataType::Boolean) => "boolean",
        Ok(DataType::Int8) => "tinyint",
        Ok(DataType::Int16) => "smallint",
        Ok(DataType::Int32) => "integer",
        Ok(DataType::Int64) => "bigint",
        Ok(DataType::Float32) => "real",
        Ok(DataType::Float64) => "double precision",
        Ok(DataType::Date32 | DataType::Date64) => "date",
        Ok(DataType::Timestamp(..)) => "timestamp",
        Ok(DataType::Time32(_) | DataType::Time64(_)) => "time",
        Ok(DataType::Interval(_) | DataType::Duration(_)) => "interval",
        Ok(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => "text",
        Ok(DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => "bytea",
        _ => arrow,
    }
}

/// The engine's error that is behind another one, however deep, or that of a temporary file: operators share errors, and
/// Arrow's hold some.
fn own(error: &DataFusionError) -> Option<Error> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    let mut of_file = None;
    while let Some(error) = next {
        if let Some(own) = error.downcast_ref::<Error>() {
            return Some(own.clone());
        }
        of_file = error.downcast_ref::<std::io::Error>().or(of_file);
        next = error.source();
    }
    match of_file? {
        limit if limit.to_string().contains("exceeded the allowable limit") => Some(Error::new(
            Code::DiskFull,
            "the query needs more room for temporary files than it may have: ask for less, or raise the setting memory_limit",
        )),
        other => Some(Error::io("a temporary file of the query", other)),
    }
}

/// The place that sqlparser ends its message with (" at Line: 1, Column: 8"; nothing but the token's name at the end of the text).
fn place_of(message: &str) -> Option<TextPosition> {
    if message.ends_with("found: EOF") {
        return Some(TextPosition::End);
    }
    let (line, column) = message.rsplit_once(" at Line: ")?.1.split_once(", Column: ")?;
    let digits = column.find(|c: char| !c.is_ascii_digit()).unwrap_or(column.len());
    Some(TextPosition::At { line: line.parse().ok()?, column: column[..digits].parse().ok()? })
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
