//! FleetDB for C: `fleetdb.h` (`c_api`), twenty functions in the manner of SQLite.
//!
//! They open databases through `open`, run statements through `work` and convert values with
//! `values`. `unsafe` is in `c_api::ffi`, which takes pointers from C. `docs/c.md` is the manual.
//!
//! The library is `libfleetdb_c` in Cargo's target folder, because the command's library is already called
//! `libfleetdb` there. It is distributed as `libfleetdb.so` and `libfleetdb.a`.

mod c_api;
mod open;
mod values;
mod work;

pub use c_api::ffi::*;
pub use c_api::types::*;
