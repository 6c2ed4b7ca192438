//! Converts the errors of DataFusion, Arrow and sqlparser to the engine's, with a code and in SQL's
//! terms.
//!
//! 1. An engine error that passed through DataFusion is returned unchanged.
//! 2. The error's variant decides, if it tells enough. sqlparser, and DataFusion's planner in
//!    `Plan`, give only a text. Then the words that the library puts at its beginning or end decide
//!    ([`syntax`], [`planned`], [`values`]), never words that may come from a user.
//! 3. Types get their SQL names ([`types`]). The position is kept next to the message, never in it.
//!
//! No other folder inspects the text of messages.

mod planned;
mod syntax;
mod types;
mod values;

pub use types::sql_name;
pub use values::misfit;

use crate::planned_names::written_text;

use arrow::error::ArrowError;
use datafusion::common::{Column, Location, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use fleetdb_engine::{Code, Error, ErrorKind, TextPosition, listed};
use planned::{are_close, missing_from, planned_error};
use std::error::Error as StdError;
use values::{arrow_error, executed_error};

/// How DataFusion's error begins for an expression in a place where it cannot be executed.
const NO_STEP: &str = "Physical plan does not support logical expression ";

/// Converts DataFusion's error to the engine's. An error that came from the engine is returned
/// unchanged. Names appear as the user wrote them.
pub fn engine_error(error: DataFusionError) -> Error {
    let error = converted(error);
    let hint = error.hint().map(|hint| written_text(hint).into_owned());
    let error = error.map_message(|message| written_text(message).into_owned());
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

fn converted(error: DataFusionError) -> Error {
    match error {
        // Planning has resolved all names; a rule that misses a column has lost it.
        DataFusionError::Context(_, inner) if is_missing_column(&inner) => unsupported_form(),
        // The names of DataFusion's steps help only in finding a bug.
        DataFusionError::Context(context, inner) => match converted(*inner) {
            error if error.kind() == ErrorKind::Bug => error.context(context),
            error => error,
        },
        DataFusionError::Diagnostic(_, inner) => converted(*inner),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => converted(first),
            None => Error::bug("the query engine: an error without a cause"),
        },
        DataFusionError::Internal(message) => internal_error(&message),
        DataFusionError::SchemaError(inner, _) => schema_error(&inner),
        DataFusionError::SQL(inner, _) => syntax_error(*inner),
        DataFusionError::NotImplemented(message) => not_implemented(&message),
        DataFusionError::Plan(message) => planned_error(&message, Code::Invalid),
        DataFusionError::Configuration(message) => Error::new(Code::InvalidParameter, message),
        other => own(&other).unwrap_or_else(|| match other.find_root() {
            DataFusionError::ArrowError(arrow, _) => arrow_error(arrow),
            DataFusionError::Plan(message) => planned_error(message, Code::Invalid),
            DataFusionError::SchemaError(inner, _) => schema_error(inner),
            DataFusionError::External(root) => external_error(root.as_ref()),
            DataFusionError::Execution(message) => executed_error(message),
            DataFusionError::Internal(message) => internal_error(message),
            DataFusionError::NotImplemented(message) => not_implemented(message),
            DataFusionError::ResourcesExhausted(message) => {
                Error::new(Code::OutOfMemory, format!("the query needs more memory than it may have: {message}"))
            }
            root => Error::invalid(root.strip_backtrace()),
        }),
    }
}

/// Like [`engine_error`], with the position in the statement's text.
pub fn placed_error(error: DataFusionError) -> Error {
    let start = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| span.start);
    let error = engine_error(error);
    match start {
        Some(Location { line, column }) if error.kind() == ErrorKind::Input && error.position().is_none() => {
            error.at(TextPosition::At { line, column })
        }
        _ => error,
    }
}

/// Converts sqlparser's error to the engine's.
pub fn syntax_error(error: ParserError) -> Error {
    match error {
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => syntax::text_error(&message),
        ParserError::RecursionLimitExceeded => {
            too_deep(format_args!("parentheses, calls and subqueries within others"))
        }
    }
}

/// Wraps the engine's error in DataFusion's.
pub fn query_error(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error that DataFusion reports as its own bug. A call with unsupported types is reported this
/// way but is not a bug.
fn internal_error(message: &str) -> Error {
    match planned_error(message, Code::Bug) {
        known if known.code() == Code::UndefinedFunction => known,
        _ => Error::bug(format!("the query engine: {message}")),
    }
}

fn not_implemented(message: &str) -> Error {
    let Some(step) = message.strip_prefix(NO_STEP) else { return planned_error(message, Code::NotSupported) };
    if step.starts_with("AggregateFunction") {
        return Error::new(Code::Grouping, "aggregate functions are not allowed here: they stand in SELECT and HAVING");
    }
    if step.starts_with("WindowFunction") {
        let message = "window functions are not allowed here: they stand in SELECT and ORDER BY";
        return Error::new(Code::Windowing, message);
    }
    unsupported_subquery()
}

fn unsupported_subquery() -> Error {
    Error::new(
        Code::NotSupported,
        "a subquery in this place, or of this form, is not supported: one that looks at the rows around it compares \
         them by =; IN stands in WHERE",
    )
}

fn is_missing_column(error: &DataFusionError) -> bool {
    let DataFusionError::SchemaError(inner, _) = error.find_root() else { return false };
    matches!(**inner, SchemaError::FieldNotFound { .. })
}

fn unsupported_form() -> Error {
    let message = "a subquery or a grouping set of this form is not supported";
    Error::new(Code::NotSupported, message).with_hint(
        "Compare with the rows around a subquery in its own WHERE, not in a subquery's FROM; group by columns, \
         computed in a subquery.",
    )
}

/// The error for exceeding a depth limit.
pub fn too_deep(what: std::fmt::Arguments<'_>) -> Error {
    let message =
        format!("the statement is nested too deeply: {what}; write it with IN, with VALUES, or as several statements");
    Error::new(Code::TooDeep, message)
}

/// The error for a statement that FleetDB does not support.
pub fn unsupported(what: &str) -> Error {
    let error = Error::new(Code::NotSupported, format!("{what} is not supported"));
    error.with_hint("docs/sql.md lists the supported statements.")
}

fn schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::AmbiguousReference { field } => {
            Error::new(Code::AmbiguousColumn, format!("column reference \"{}\" is ambiguous", field.name))
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            let message = format!("table name \"{}\" specified more than once", qualifier.table());
            Error::new(Code::DuplicateAlias, message)
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(Code::DuplicateColumn, format!("column \"{name}\" specified more than once"))
        }
        SchemaError::FieldNotFound { field, valid_fields } => undefined_column(field, valid_fields),
    }
}

fn undefined_column(column: &Column, valid: &[Column]) -> Error {
    let message = match &column.relation {
        Some(table) if !valid.iter().any(|other| other.relation.as_ref() == Some(table)) => {
            return missing_from(table.table());
        }
        Some(table) => format!("column {}.{} does not exist", table.table(), column.name),
        None => format!("column \"{}\" does not exist", column.name),
    };
    let mut names: Vec<String> = Vec::new();
    for name in valid.iter().map(Column::flat_name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let error = Error::new(Code::UndefinedColumn, message);
    match valid.iter().find(|other| are_close(&column.name, &other.name)) {
        Some(meant) => error.with_hint(format!("Perhaps you meant to reference the column \"{}\".", meant.flat_name())),
        None if names.is_empty() => error,
        None => error.with_hint(format!("The columns are: {}.", listed(names.iter().map(String::as_str)))),
    }
}

/// Converts an error that is neither the engine's nor DataFusion's.
fn external_error(error: &(dyn StdError + 'static)) -> Error {
    match error.downcast_ref::<ArrowError>() {
        Some(arrow) => arrow_error(arrow),
        None => executed_error(&error.to_string()),
    }
}

/// Finds the engine's error, or an I/O error of a temporary file, among an error's causes.
/// Operators share errors, and Arrow's errors may contain others.
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
            "the query needs more room for temporary files than it may have: ask for less, or raise the setting \
             memory_limit",
        )),
        other => Some(Error::io("a temporary file of the query", other)),
    }
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
