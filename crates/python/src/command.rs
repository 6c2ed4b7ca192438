//! The `fleetdb` command of the wheel.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command with these arguments, which begin with its name. Returns the exit status.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| fleetdb::run(arguments))
}
