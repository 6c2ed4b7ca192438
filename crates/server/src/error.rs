//! The engine's errors in the words of each protocol.

use crate::access::DENIED;
use fleetdb_engine::{Error, ErrorKind};
use hyper::StatusCode;
use pgwire::error::{ErrorInfo, PgWireError};

/// How the error of a statement begins whose columns are not as they were prepared.
const CACHED_PLAN: &str = "cached plan must not change result type";

/// Seconds after which one who was told to come again may do so.
pub(crate) const RETRY_AFTER_S: u64 = 1;

/// The status of an HTTP answer.
pub(crate) fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Input if error.to_string().starts_with(DENIED) => StatusCode::FORBIDDEN,
        ErrorKind::Input => StatusCode::BAD_REQUEST,
        ErrorKind::Retry | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The code that InfluxDB's clients know.
pub(crate) fn influx_code(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "invalid",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not found",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::TOO_MANY_REQUESTS => "too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        _ => "internal error",
    }
}

/// The error of the PostgreSQL protocol, with an SQLSTATE.
pub(crate) fn postgres_error(error: &Error) -> PgWireError {
    let message = error.to_string();
    let code = match error.kind() {
        ErrorKind::Input => input_code(&message),
        ErrorKind::Retry if message.contains("cancelled") || message.contains("statement_timeout") => "57014",
        ErrorKind::Retry if message.starts_with("another transaction has changed rows") => "40001",
        ErrorKind::Retry if message.contains("temporary file") => "53100",
        ErrorKind::Retry if message.contains("memory") => "53200",
        ErrorKind::Retry => "53000",
        ErrorKind::Closed => "57P03",
        ErrorKind::Damaged => "XX001",
        ErrorKind::Io => "58030",
        _ => "XX000",
    };
    let mut error = ErrorInfo::new("ERROR".to_owned(), code.to_owned(), message);
    if error.message.starts_with(CACHED_PLAN) {
        // By this name JDBC's driver knows that it has to prepare the statement again.
        error.routine = Some("RevalidateCachedQuery".to_owned());
    }
    PgWireError::UserError(Box::new(error))
}

/// The engine has one kind for all wrong input; drivers tell some of it apart by SQLSTATE.
fn input_code(message: &str) -> &'static str {
    let starts = [
        (DENIED, "42501"),
        ("syntax", "42601"),
        (CACHED_PLAN, "0A000"),
        ("there is no table", "42P01"),
        ("there is no column", "42703"),
        ("there is no transaction", "25P01"),
        ("there is no prepared statement", "26000"),
        ("prepared statement", "42P05"),
        ("EXECUTE", "42601"),
        ("cannot execute", "25006"),
        ("there is no savepoint", "3B001"),
        ("there is a transaction", "25001"),
        ("a statement of this transaction failed", "25P02"),
        ("another session holds the advisory lock", "55P03"),
    ];
    let contains = [
        ("not found", "42P01"),
        ("No field named", "42703"),
        ("exists already", "42P07"),
        ("is not supported", "0A000"),
        ("Unsupported", "0A000"),
        ("the most is ", "54000"),
        ("Invalid function", "42883"),
        ("failed to match any signature", "42883"),
        ("No function matches", "42883"),
        ("Cannot coerce arithmetic expression", "42883"),
        ("Divide by zero", "22012"),
        ("must be in GROUP BY", "42803"),
        ("Aggregate function", "42803"),
        ("Ambiguous reference", "42702"),
        ("duplicate qualified field name", "42712"),
        ("duplicate unqualified field name", "42701"),
        ("Scalar subquery returned more than one row", "21000"),
        ("cannot change a row twice", "21000"),
        ("' does not fit", "22P02"),
        ("\") does not fit", "22P02"),
        ("does not fit", "22003"),
        ("Can't cast value", "22003"),
        ("verflow", "22003"),
        ("out of range", "22003"),
        ("Cast error", "22P02"),
        ("is NULL", "23502"),
        ("must not be NULL", "23502"),
        ("has null but schema specifies non-nullable", "23502"),
        ("declared as non-nullable but contains null", "23502"),
    ];
    let start = starts.iter().find(|(text, _)| message.starts_with(text));
    let found = start.or_else(|| contains.iter().find(|(text, _)| message.contains(text)));
    found.map_or("42000", |(_, code)| code)
}

/// The error with the place that its message ends with in the field that drivers look at.
pub(crate) fn placed(mut error: PgWireError, text: &str) -> PgWireError {
    if let PgWireError::UserError(info) = &mut error {
        info.position = position(&info.message, text).map(|position| position.to_string());
    }
    error
}

/// A place as sqlparser says it (" at Line: 1, Column: 8", nothing for the end), as PostgreSQL does: a count of the text's
/// characters, from 1.
fn position(message: &str, text: &str) -> Option<usize> {
    if message.ends_with("found: EOF") {
        return Some(text.chars().count() + 1);
    }
    let (line, column) = message.rsplit_once(" at Line: ")?.1.split_once(", Column: ")?;
    let digits = column.find(|c: char| !c.is_ascii_digit()).unwrap_or(column.len());
    let (line, column): (usize, usize) = (line.parse().ok()?, column[..digits].parse().ok()?);
    let lines_before = text.split_inclusive('\n').take(line.checked_sub(1)?);
    let position = column.checked_add(lines_before.map(|line| line.chars().count()).sum())?;
    (1..=text.chars().count()).contains(&position).then_some(position)
}

/// An error of the PostgreSQL protocol.
pub(crate) fn user_error(code: &str, message: impl Into<String>) -> PgWireError {
    PgWireError::UserError(Box::new(ErrorInfo::new("ERROR".to_owned(), code.to_owned(), message.into())))
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
