//! The functions of `fleetdb.h`.
//!
//! 1. [`ffi`] has the functions, and reads what C hands over. It is the only module here with `unsafe`.
//! 2. [`handles`] finds what a handle stands for. A handle is a number in the form of a pointer and is
//!    never followed, so a wrong one is an error and no more. A call also ends here: panics are caught, and
//!    the error is kept for `fleetdb_error_message` ([`fault`]).
//! 3. [`database`] and [`statement`] do the work; [`reads`] reads containers without SQL.
//!
//! `include/fleetdb.h` is generated from [`types`] and [`ffi`] by cbindgen (`tests/header.rs`).

mod database;
mod fault;
pub(crate) mod ffi;
mod handles;
mod reads;
mod statement;
pub(crate) mod types;
