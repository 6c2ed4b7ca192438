//! SQL over FleetDB's engine: the only crate that sees DataFusion.
//!
//! 1. [`Session::parse`] splits a text into statements ([`parse`]); [`Session::execute`] runs one, [`Session::prepare`]
//!    keeps a query's plan. What a session has set is in [`settings`], what it keeps by name in [`named`].
//! 2. Tables are made and changed here ([`ddl`], [`alter`]); what writes depending on rows that are there is read and
//!    written in one step ([`dml`]); queries are planned by DataFusion.
//! 3. [`table`] gives DataFusion a table: which filters the scan takes over ([`pushdown`]), the scan itself
//!    ([`scan`]), and where inserted rows go ([`insert`]); [`metadata`] answers aggregates without a scan, [`runs`] those
//!    whose groups come one after the other.
//! 4. [`functions`] has what DataFusion has not; [`gapfill`] and [`asof`] are steps of a plan that it has not, which
//!    [`planner`] lets it plan; [`system`] shows the database as tables.
//! 5. What PostgreSQL says and DataFusion does not plan, or takes for something else, is written in other words ([`dialect`]).
//!
//! Everything public is a plain function over plain types, so that a program which uses this crate
//! does not compile DataFusion's generic code again.

#[cfg(feature = "pg-catalog")]
mod advisory;
mod alter;
mod answer;
mod array_texts;
mod asof;
mod binding;
mod catalog;
#[cfg(feature = "pg-catalog")]
mod clients;
mod column_names;
mod conflict;
mod copy_from;
mod copy_stream;
mod csv;
mod ddl;
mod delete;
mod depth;
mod dialect;
mod dml;
mod errors;
mod export;
mod files;
mod functions;
mod gapfill;
mod grammar;
mod guard;
mod insert;
mod joins;
mod json;
mod limits;
mod metadata;
mod named;
mod named_queries;
mod options;
mod parse;
#[cfg(feature = "pg-catalog")]
mod pg_catalog;
mod planner;
mod prepared;
mod pushdown;
mod returning;
mod runs;
mod runtime;
mod scan;
mod session;
mod settings;
mod sorts;
mod stack;
mod statement;
mod statement_memory;
mod stop;
mod store;
mod system;
mod table;
mod table_parameters;
mod texts;
mod transaction;
mod values;
mod whole_numbers;
mod window;

#[cfg(feature = "pg-catalog")]
pub use advisory::AdvisoryLocks;
pub use answer::Answer;
pub use array_texts::array_text_form;
#[cfg(feature = "pg-catalog")]
pub use clients::{Client, ClientState, Clients, SessionUser};
pub use column_names::ColumnNames;
pub use copy_stream::{CopyForm, CopyFormat, CopyIn, CopyOut};
pub use csv::{CellReader, CsvCell, CsvError, CsvReader, CsvRow, csv_cell, csv_header, csv_rows};
pub use depth::is_light;
pub use export::{FileFormat, write_file};
pub use files::Files;
pub use json::{distinct_names, json_lines, with_names};
pub use limits::Canceller;
#[cfg(feature = "pg-catalog")]
pub use pg_catalog::setting;
pub use prepared::Prepared;
pub use returning::check_described;
pub use session::Session;
pub use settings::SessionSettings;
pub use statement::{Access, Declare, Kind, Statement};
pub use texts::{split_days, text_form};
pub use values::{InsertValues, value_of_text};
