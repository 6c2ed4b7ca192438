//! `fleetdb._native`: what the Python package `fleetdb` needs of Rust.
//!
//! 1. A [`Connection`](connection::Connection) is a database that is open in this process, with a
//!    session. Its statements run on a thread of their own ([`worker`]), so that the caller's
//!    thread can look for Ctrl-C while it waits, without the GIL.
//! 2. A [`Stream`](stream::Stream) has the rows of a result, which are computed as they are read.
//!    It gives them in Arrow's C stream interface, or as Python objects ([`rows`]).
//! 3. [`columns`] makes Arrow arrays of Python objects. [`batches`] cuts rows into batches, which are
//!    written here, or sent to a server as Arrow's IPC streams ([`ipc`]).
//!
//! Everything about frames, dictionaries, notebooks, PEP 249 and HTTP is in Python, in
//! `python/fleetdb`.

mod batches;
mod columns;
mod command;
mod connection;
mod container;
mod errors;
mod ipc;
mod rows;
mod state;
mod stream;
mod values;
mod worker;

use pyo3::prelude::*;

/// The part of the package that is written in Rust. Its names may change: use those of `fleetdb`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::columns::from_columns;
    #[pymodule_export]
    use super::command::main;
    #[pymodule_export]
    use super::connection::Connection;
    #[pymodule_export]
    use super::container::Container;
    #[pymodule_export]
    use super::ipc::{IpcBodies, read_ipc};
    #[pymodule_export]
    use super::stream::{Batch, Stream, stream};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::worker::note_main_thread(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
