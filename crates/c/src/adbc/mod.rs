//! The ADBC driver: FleetDB behind Arrow's database interface, version 1.1.
//!
//! 1. [`Driver`] opens a [`Database`](database::Database) with its options; each
//!    [`Connection`](connection::Connection) has a session.
//! 2. A [`Statement`](statement::Statement) runs SQL with parameters ([`bound`] has their values, [`reader`]
//!    gives the rows), or writes a stream of rows to a table ([`ingest`]).
//! 3. [`objects`] and [`info`] describe the database; [`options`] reads options, [`errors`] gives errors
//!    their status and SQLSTATE.
//! 4. [`export`] makes it a driver that programs load. It is the only module here with `unsafe`.
//!
//! What ADBC has and FleetDB has not is the error `NotImplemented`: partitions, Substrait and statistics.

mod bound;
mod connection;
mod database;
mod errors;
mod export;
mod info;
mod ingest;
mod objects;
mod options;
mod reader;
mod session;
mod statement;

pub use connection::Connection;
pub use database::{Database, Driver};
pub use statement::Statement;
