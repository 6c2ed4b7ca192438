//! Python's exceptions for the engine's errors. Their classes are in `python/fleetdb/_errors.py`.

use fleetdb_engine::{Code, Error};
use pyo3::intern;
use pyo3::prelude::*;

/// The exception for an error of the engine. `text` is the statement that it is about, if it is
/// about one.
pub(crate) fn raised(py: Python<'_>, error: &Error, text: Option<&str>) -> PyErr {
    let position = text.zip(error.position()).and_then(|(text, place)| place.in_text(text));
    let arguments = (error.code().sqlstate(), error.to_string(), error.hint(), position);
    let made = py
        .import(intern!(py, "fleetdb._errors"))
        .and_then(|module| module.call_method1(intern!(py, "error_of"), arguments));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    }
}

/// The exception for an error that is not about a statement.
pub(crate) fn plain(py: Python<'_>, error: &Error) -> PyErr {
    raised(py, error, None)
}

/// The exception of a batch, or of reading it, after rows that were written before it.
pub(crate) fn after(py: Python<'_>, error: PyErr, rows: u64) -> PyErr {
    let module = py.import(intern!(py, "fleetdb._errors"));
    let after = module.and_then(|module| module.call_method1(intern!(py, "after"), (error.value(py), rows)));
    after.map_or_else(|failed| failed, PyErr::from_value)
}

/// The error of a connection that was closed.
pub(crate) fn closed() -> Error {
    Error::closed("the connection is closed")
}

/// The error of a connection that a child process inherited.
pub(crate) fn forked(opened_in: u32) -> Error {
    let message = format!("the connection was opened in process {opened_in}, and this is a fork of it");
    Error::closed(message).with_hint(
        "Open the database in this process, read-only while the other one has it open, or start processes with the \
         method \"spawn\".",
    )
}

/// The error of rows that were read before.
pub(crate) fn read_before() -> Error {
    Error::new(Code::Invalid, "the rows were read already").with_hint("Keep what was read, or run the statement again.")
}

/// The error of rows that a caller's stream does not give.
pub(crate) fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::new(Code::InvalidParameter, format!("the rows cannot be read: {error}"))
}
