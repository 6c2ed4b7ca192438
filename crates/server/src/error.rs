//! Converts the engine's errors to the form of each protocol.

use fleetdb_engine::{Code, Error, ErrorKind, TextPosition};
use hyper::StatusCode;
use pgwire::error::{ErrorInfo, PgWireError};

/// The value of `Retry-After`, in seconds.
pub(crate) const RETRY_AFTER_S: u64 = 1;

/// The HTTP status for an error.
pub(crate) fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Input if error.code() == Code::Denied => StatusCode::FORBIDDEN,
        ErrorKind::Input => StatusCode::BAD_REQUEST,
        ErrorKind::Retry | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// InfluxDB's error code for an HTTP status.
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

/// Wraps the engine's error. [`told`] converts it when it is sent, because only then is the
/// statement's text known.
pub(crate) fn postgres_error(error: &Error) -> PgWireError {
    PgWireError::ApiError(Box::new(error.clone()))
}

/// Converts an error to the form that is sent, with its position in this text.
pub(crate) fn told(error: PgWireError, text: Option<&str>) -> PgWireError {
    let PgWireError::ApiError(inner) = error else { return error };
    let Some(error) = inner.downcast_ref::<Error>() else { return PgWireError::ApiError(inner) };
    let mut info = ErrorInfo::new("ERROR".to_owned(), sqlstate(error.code()).to_owned(), error.to_string());
    if error.code() == Code::PlanChanged {
        // JDBC's driver recognizes this name and prepares the statement again.
        info.routine = Some("RevalidateCachedQuery".to_owned());
    }
    info.hint = error.hint().map(str::to_owned);
    let position = error.position().zip(text).and_then(|(place, text)| position(place, text));
    info.position = position.map(|position| position.to_string());
    PgWireError::UserError(Box::new(info))
}

/// The SQLSTATE of a code (PostgreSQL's manual, appendix A).
pub(crate) fn sqlstate(code: Code) -> &'static str {
    match code {
        Code::Syntax => "42601",
        Code::UndefinedTable => "42P01",
        Code::UndefinedColumn => "42703",
        Code::UndefinedFunction => "42883",
        Code::UndefinedObject => "42704",
        Code::UndefinedSchema => "3F000",
        Code::UndefinedParameter => "42P02",
        Code::UndefinedCursor => "34000",
        Code::InvalidParameter => "22023",
        Code::DuplicateTable => "42P07",
        Code::DuplicateColumn => "42701",
        Code::DuplicateAlias => "42712",
        Code::DuplicateObject => "42710",
        Code::AmbiguousColumn => "42702",
        Code::Grouping => "42803",
        Code::Windowing => "42P20",
        Code::TypeMismatch => "42804",
        Code::CannotCast => "42846",
        Code::UnknownType => "42P18",
        Code::InvalidColumnReference => "42P10",
        Code::InvalidDefinition => "42P16",
        Code::WrongObject => "42809",
        Code::NotSupported | Code::PlanChanged => "0A000",
        Code::InvalidText => "22P02",
        Code::InvalidCopy => "22P04",
        Code::InvalidTime => "22007",
        Code::InvalidPattern => "2201B",
        Code::InvalidPower => "2201F",
        Code::InvalidEscape => "22025",
        Code::InvalidLimit => "2201W",
        Code::InvalidOffset => "2201X",
        Code::OutOfRange => "22003",
        Code::TimeOutOfRange => "22008",
        Code::DivisionByZero => "22012",
        Code::NotNull => "23502",
        Code::Check => "23514",
        Code::GeneratedAlways => "428C9",
        Code::DuplicateKey => "23505",
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
        // `Invalid`, and codes that this table does not know yet.
        _ => "42000",
    }
}

/// Converts a position to PostgreSQL's, which counts characters from 1.
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
