//! SQL over FleetDB's engine: the only crate that sees DataFusion.
//!
//! 1. [`Session::parse`] splits a text into statements; [`Session::execute`] runs one.
//! 2. Tables and their keys are made and dropped here ([`ddl`]); everything else is planned by DataFusion.
//! 3. [`table`] gives DataFusion a table: which filters the scan takes over ([`pushdown`]), the scan itself
//!    ([`scan`]), and where inserted rows go ([`insert`]).
//!
//! Everything public is a plain function over plain types, so that a program which uses this crate
//! does not compile DataFusion's generic code again.

mod alter;
mod answer;
mod binding;
mod catalog;
mod ddl;
mod dml;
mod export;
mod functions;
mod insert;
mod limits;
mod metadata;
mod options;
mod prepared;
mod pushdown;
mod scan;
mod session;
mod store;
mod system;
mod table;
mod transaction;

pub use answer::Answer;
pub use export::{FileFormat, write_file};
pub use limits::Canceller;
pub use prepared::Prepared;
pub use session::{Session, Statement};
