//! FleetDB for C, and for every language that speaks to C: one library with two faces.
//!
//! 1. `fleetdb.h` (`c_api`): twenty functions in the manner of SQLite, for programs without Arrow.
//! 2. An ADBC driver ([`adbc`]): Arrow's database interface, for Python, R, Go and others.
//!
//! Both open databases through `open`, run statements through `work` and convert values with `values`;
//! `guard` contains panics. `unsafe` is in `c_api::ffi`, which takes pointers from C, and in
//! `adbc::export`, which exports the driver. `docs/c.md` is the manual.
//!
//! The library is `libfleetdb_c` in Cargo's target folder, because the command's library is already called
//! `libfleetdb` there. It is distributed as `libfleetdb.so` and `libfleetdb.a`.

pub mod adbc;
mod c_api;
mod guard;
mod message;
mod open;
mod stop;
mod values;
mod work;

pub use c_api::ffi::*;
pub use c_api::types::*;
