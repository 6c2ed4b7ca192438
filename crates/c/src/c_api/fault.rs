//! Why a call failed: the result code, the SQLSTATE and the message, which each thread keeps.

use super::types::{
    FLEETDB_BUG, FLEETDB_BUSY, FLEETDB_CANCELLED, FLEETDB_CLOSED, FLEETDB_CONFLICT, FLEETDB_DAMAGED, FLEETDB_FULL,
    FLEETDB_INVALID, FLEETDB_IO, FLEETDB_MEMORY, FLEETDB_MISUSE,
};
use crate::message::message_of;
use fleetdb_engine::{Code, Error, ErrorKind};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

/// The SQLSTATE of a call in a wrong way (ISO 9075-3: function sequence error).
const MISUSE_STATE: &str = "HY010";

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Fault {
    code: c_int,
    state: &'static str,
    message: String,
}

impl Fault {
    /// The library was called in a wrong way.
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self { code: FLEETDB_MISUSE, state: MISUSE_STATE, message: message.into() }
    }

    /// Statements are not finalized yet.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self { code: FLEETDB_BUSY, state: Code::Busy.sqlstate(), message: message.into() }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self { code: code_of(error.code()), state: error.code().sqlstate(), message: message_of(&error) }
    }
}

fn code_of(code: Code) -> c_int {
    match code {
        Code::Busy | Code::LockNotAvailable => FLEETDB_BUSY,
        Code::Conflict => FLEETDB_CONFLICT,
        Code::Cancelled => FLEETDB_CANCELLED,
        Code::OutOfMemory => FLEETDB_MEMORY,
        Code::DiskFull => FLEETDB_FULL,
        other => match other.kind() {
            ErrorKind::Retry => FLEETDB_BUSY,
            ErrorKind::Input => FLEETDB_INVALID,
            ErrorKind::Damaged => FLEETDB_DAMAGED,
            ErrorKind::Closed => FLEETDB_CLOSED,
            ErrorKind::Io => FLEETDB_IO,
            _ => FLEETDB_BUG,
        },
    }
}

/// The message and the SQLSTATE of a failed call.
struct Kept {
    message: CString,
    state: CString,
}

thread_local! {
    /// The last failed call of this thread.
    static LAST: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// A text as C takes it, without NULs in it.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Keeps the error of a call; gives its result code.
pub(crate) fn keep(fault: &Fault) -> c_int {
    let kept = Kept { message: c_text(&fault.message), state: c_text(fault.state) };
    // A thread that ends keeps nothing.
    LAST.try_with(|last| last.replace(Some(kept))).ok();
    fault.code
}

/// The message and the SQLSTATE of the last failed call of this thread; a message without characters and
/// the SQLSTATE of success if there is none.
pub(crate) fn last() -> (*const c_char, *const c_char) {
    let pointers = |kept: &Kept| (kept.message.as_ptr(), kept.state.as_ptr());
    let last = LAST.try_with(|last| last.try_borrow().ok().and_then(|last| last.as_ref().map(pointers)));
    last.ok().flatten().unwrap_or((c"".as_ptr(), c"00000".as_ptr()))
}

/// Checks that a pointer to a place for a result is not NULL.
///
/// # Errors
/// It is.
pub(crate) fn required<T>(place: *mut T, name: &str) -> Result<(), Fault> {
    match place.is_null() {
        true => Err(Fault::misuse(format!("{name} is NULL: give the address of a variable"))),
        false => Ok(()),
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
