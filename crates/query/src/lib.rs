//! SQL for FleetDB's engine: sessions, statements and transactions.
//!
//! 1. [`Session::parse`] splits a text into statements ([`parse`]); [`Session::execute`] runs one,
//!    and [`Session::prepare`] keeps a query's plan. A session's settings are in [`settings`], its
//!    named statements in [`named`].
//! 2. Tables are created and altered in [`ddl`] and [`alter`]. Writes that depend on existing rows
//!    read and write in one step ([`dml`]).
//! 3. DataFusion plans queries, with the tables, functions and rules of `fleetdb-plan`.
//! 4. What differs from DataFusion's SQL comes from a [`Dialect`]. `fleetdb-postgres` is
//!    PostgreSQL's. The public modules are for dialects.
//!
//! All public functions are non-generic and take plain types, so that programs that use this crate
//! do not compile DataFusion's generic code again.

mod alter;
mod answer;
mod array_texts;
mod asof_joins;
mod built;
mod chains;
pub mod clauses;
mod conflict;
mod copy_from;
mod copy_stream;
mod csv;
mod ddl;
mod delete;
pub mod depth;
pub mod dialect;
mod dml;
mod export;
mod files;
pub mod generated;
pub mod grammar;
mod guard;
mod json;
mod long_lists;
mod named;
mod named_queries;
pub mod names;
mod not_null;
mod options;
mod parse;
mod plain_text;
mod planning;
mod prepared;
mod returning;
mod rows;
mod runtime;
pub mod session;
pub mod setting_names;
mod settings;
pub mod stack;
pub mod statement;
mod statement_memory;
mod table_parameters;
mod transaction;
mod values;
pub mod walk;
pub mod words;

pub use answer::Answer;
pub use array_texts::array_text_form;
pub use copy_stream::{CopyForm, CopyFormat, CopyIn, CopyOut};
pub use csv::{CellReader, CsvCell, CsvError, CsvReader, CsvRow, csv_cell, csv_header, csv_rows};
pub use depth::is_light;
pub use dialect::{Dialect, Plain};
pub use export::{FileFormat, write_file};
pub use files::Files;
pub use fleetdb_plan::limits::Canceller;
pub use fleetdb_plan::literals::{value_of_text, value_of_text_in};
pub use fleetdb_plan::texts::{split_days, text_form, text_form_in};
pub use fleetdb_plan::zone::{CurrentZone, Zone};
pub use json::{distinct_names, json_lines, with_names};
pub use not_null::check_not_null;
pub use prepared::Prepared;
pub use returning::check_described;
pub use session::Session;
pub use settings::{SessionSettings, SettingsBefore, SharedSettings};
pub use statement::{Access, Declare, Kind, Statement};
pub use values::InsertValues;
