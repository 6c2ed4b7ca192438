//! The engine's errors in the words of each protocol.

use fleetdb_engine::{Code, Error, ErrorKind, TextPosition};
use hyper::StatusCode;
use pgwire::error::{ErrorInfo, PgWireError};

/// Seconds after which one who was told to come again may do so.
pub(crate) const RETRY_AFTER_S: u64 = 1;

/// The status of an HTTP answer.
pub(crate) fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Input if error.code() == Code::Denied => StatusCode::FORBIDDEN,
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

/// The error of the PostgreSQL protocol. Its position is the engine's [`TextPosition`] until
/// [`placed`] knows the text.
pub(crate) fn postgres_error(error: &Error) -> PgWireError {
    let mut info = ErrorInfo::new("ERROR".to_owned(), sqlstate(error.code()).to_owned(), error.to_string());
    if error.code() == Code::PlanChanged {
        // By this name JDBC's driver knows that it has to prepare the statement again.
        info.routine = Some("RevalidateCachedQuery".to_owned());
    }
    info.position = error.position().map(|place| match place {
        TextPosition::At { line, column } => format!("{line}:{column}"),
        TextPosition::End => "end".to_owned(),
    });
    PgWireError::UserError(Box::new(info))
}

/// PostgreSQL's name of a code (its manual, appendix A).
pub(crate) fn sqlstate(code: Code) -> &'static str {
    match code {
        Code::Syntax => "42601",
        Code::UndefinedTable => "42P01",
        Code::UndefinedColumn => "42703",
        Code::UndefinedFunction => "42883",
        Code::UndefinedObject => "42704",
        Code::InvalidParameter => "22023",
        Code::DuplicateTable => "42P07",
        Code::DuplicateColumn => "42701",
        Code::DuplicateAlias => "42712",
        Code::AmbiguousColumn => "42702",
        Code::Grouping => "42803",
        Code::NotSupported | Code::PlanChanged => "0A000",
        Code::InvalidText => "22P02",
        Code::InvalidCopy => "22P04",
        Code::InvalidTime => "22007",
        Code::TimeOutOfRange => "22008",
        Code::OutOfRange => "22003",
        Code::DivisionByZero => "22012",
        Code::NotNull => "23502",
        Code::Cardinality => "21000",
        Code::LimitExceeded => "54000",
        Code::TooDeep => "54001",
        Code::Denied => "42501",
        Code::NoTransaction => "25P01",
        Code::InTransaction => "25001",
        Code::FailedTransaction => "25P02",
        Code::ReadOnlyTransaction => "25006",
        Code::UndefinedSavepoint => "3B001",
        Code::UndefinedStatement => "26000",
        Code::DuplicateStatement => "42P05",
        Code::LockNotAvailable => "55P03",
        Code::Busy => "53000",
        Code::Conflict => "40001",
        Code::Cancelled => "57014",
        Code::OutOfMemory => "53200",
        Code::DiskFull => "53100",
        Code::Closed => "57P03",
        Code::Damaged => "XX001",
        Code::Io => "58030",
        Code::Bug => "XX000",
        // Invalid, and codes that are newer than this table.
        _ => "42000",
    }
}

/// The error with its position in the statement's text, as drivers show it.
pub(crate) fn placed(mut error: PgWireError, text: &str) -> PgWireError {
    if let PgWireError::UserError(info) = &mut error {
        let place = info.position.take().and_then(|place| place_of(&place));
        info.position = place.and_then(|place| position(place, text)).map(|at| at.to_string());
    }
    error
}

/// The error without a place that [`placed`] has not seen.
pub(crate) fn without_place(mut error: PgWireError) -> PgWireError {
    if let PgWireError::UserError(info) = &mut error {
        info.position = info.position.take().filter(|position| position.parse::<usize>().is_ok());
    }
    error
}

/// The place that [`postgres_error`] has written.
fn place_of(written: &str) -> Option<TextPosition> {
    let Some((line, column)) = written.split_once(':') else { return Some(TextPosition::End) };
    Some(TextPosition::At { line: line.parse().ok()?, column: column.parse().ok()? })
}

/// A place in a text as PostgreSQL counts: in characters, from 1.
pub(crate) fn position(place: TextPosition, text: &str) -> Option<usize> {
    let TextPosition::At { line, column } = place else { return Some(text.chars().count() + 1) };
    let (line, column) = (usize::try_from(line).ok()?, usize::try_from(column).ok()?);
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
