//! Errors of the engine as ADBC has them.

use crate::guard::guarded;
use crate::message::message_of;
use adbc_core::error::{Error as AdbcError, Result as AdbcResult, Status};
use arrow::error::ArrowError;
use fleetdb_engine::{Code, Error, ErrorKind, Result};
use std::ffi::c_char;

/// Does a call of a program: a panic is an error, and errors have their status and SQLSTATE.
///
/// # Errors
/// Those of the call.
pub(super) fn call<T>(work: impl FnOnce() -> Result<T>) -> AdbcResult<T> {
    guarded(work).flatten().map_err(|error| in_adbc(&error))
}

/// An error with its status and SQLSTATE.
pub(super) fn in_adbc(error: &Error) -> AdbcError {
    let mut sqlstate = [0; 5];
    for (place, letter) in sqlstate.iter_mut().zip(error.code().sqlstate().bytes()) {
        *place = letter as c_char;
    }
    // C's texts have no NUL.
    let message = message_of(error).replace('\0', " ");
    AdbcError { message, status: status_of(error.code()), vendor_code: 0, sqlstate, details: None }
}

fn status_of(code: Code) -> Status {
    match code {
        Code::NotSupported => Status::NotImplemented,
        Code::UndefinedTable
        | Code::UndefinedColumn
        | Code::UndefinedFunction
        | Code::UndefinedObject
        | Code::UndefinedSchema
        | Code::UndefinedStatement
        | Code::UndefinedSavepoint
        | Code::UndefinedCursor => Status::NotFound,
        Code::DuplicateTable | Code::DuplicateColumn | Code::DuplicateObject | Code::DuplicateStatement => {
            Status::AlreadyExists
        }
        Code::NoTransaction
        | Code::InTransaction
        | Code::FailedTransaction
        | Code::ReadOnlyTransaction
        | Code::LockNotAvailable
        | Code::PlanChanged
        | Code::Closed => Status::InvalidState,
        Code::InvalidText
        | Code::InvalidTime
        | Code::InvalidCopy
        | Code::OutOfRange
        | Code::TimeOutOfRange
        | Code::DivisionByZero
        | Code::InvalidPower => Status::InvalidData,
        Code::NotNull | Code::Check | Code::DuplicateKey | Code::GeneratedAlways | Code::Cardinality => {
            Status::Integrity
        }
        Code::Denied => Status::Unauthorized,
        Code::Cancelled => Status::Cancelled,
        other => match other.kind() {
            ErrorKind::Input => Status::InvalidArguments,
            ErrorKind::Retry | ErrorKind::Io | ErrorKind::Damaged => Status::IO,
            _ => Status::Internal,
        },
    }
}

/// What ADBC has and FleetDB has not.
pub(super) fn not_implemented<T>(what: &str) -> AdbcResult<T> {
    Err(in_adbc(&Error::new(Code::NotSupported, format!("{what} is not supported"))))
}

/// The error of rows that a program's stream does not give.
pub(super) fn unreadable(error: &ArrowError) -> Error {
    Error::new(Code::InvalidParameter, format!("the rows cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleetdb_engine::TextPosition;

    #[test]
    fn an_error_has_its_status_its_sqlstate_and_its_hint() {
        let error = Error::new(Code::UndefinedTable, "no\0 table").with_hint("Create it.");
        let given = in_adbc(&error.at(TextPosition::At { line: 2, column: 3 }));
        assert_eq!(given.message, "no  table (line 2, column 3)\nHINT: Create it.");
        assert_eq!(given.status, Status::NotFound);
        assert_eq!(given.sqlstate.map(|letter| letter as u8), *b"42P01");
        for code in [Code::OutOfMemory, Code::Busy, Code::DiskFull, Code::Conflict] {
            assert_eq!(in_adbc(&Error::new(code, "m")).status, Status::IO, "{code:?}");
        }
        let panicked: AdbcResult<()> = call(|| panic!("seven"));
        assert_eq!(panicked.unwrap_err().status, Status::Internal);
    }
}
