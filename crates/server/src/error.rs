//! Converts the engine's errors to the form of each protocol.

use fleetdb_engine::{Code, Error, ErrorKind};
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
    let mut info = ErrorInfo::new("ERROR".to_owned(), error.code().sqlstate().to_owned(), error.to_string());
    if error.code() == Code::PlanChanged {
        // JDBC's driver recognizes this name and prepares the statement again.
        info.routine = Some("RevalidateCachedQuery".to_owned());
    }
    info.hint = error.hint().map(str::to_owned);
    let position = error.position().zip(text).and_then(|(place, text)| place.in_text(text));
    info.position = position.map(|position| position.to_string());
    PgWireError::UserError(Box::new(info))
}

/// An error of the PostgreSQL protocol.
pub(crate) fn user_error(code: &str, message: impl Into<String>) -> PgWireError {
    PgWireError::UserError(Box::new(ErrorInfo::new("ERROR".to_owned(), code.to_owned(), message.into())))
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
