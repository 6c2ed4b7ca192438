//! SQL for FleetDB's engine. This is the only crate that uses DataFusion.
//!
//! 1. [`Session::parse`] splits a text into statements ([`parse`]); [`Session::execute`] runs one,
//!    and [`Session::prepare`] keeps a query's plan. A session's settings are in [`settings`], its
//!    named statements in [`named`].
//! 2. Tables are created and altered in [`ddl`] and [`alter`]. Writes that depend on existing rows
//!    read and write in one step ([`dml`]). DataFusion plans queries.
//! 3. [`table`] presents a table to DataFusion: which filters are pushed down into the scan
//!    ([`pushdown`]), the scan itself ([`scan`]), and the sink for inserted rows ([`insert`]).
//!    [`metadata`] answers aggregates without a scan, and [`runs`] those whose groups are
//!    consecutive.
//! 4. [`functions`] adds functions that DataFusion lacks. [`gapfill`] and [`asof`] add plan nodes,
//!    which [`planner`] plans. [`system`] presents the database itself as tables.
//! 5. PostgreSQL syntax that DataFusion cannot plan, or interprets differently, is rewritten in
//!    [`dialect`].
//!
//! All public functions are non-generic and take plain types, so that programs that use this crate
//! do not compile DataFusion's generic code again.

mod alter;
mod answer;
pub mod array_literals;
mod array_texts;
mod asof;
mod binding;
mod built;
pub mod catalog;
mod chains;
pub mod clauses;
mod computed_columns;
mod conflict;
mod copy_from;
mod copy_stream;
mod csv;
mod ddl;
mod delete;
pub mod depth;
pub mod dialect;
mod dml;
pub mod errors;
mod export;
pub mod expressions;
mod files;
mod finer_times;
pub mod functions;
mod gapfill;
pub mod generated;
pub mod grammar;
mod guard;
mod insert;
mod joins;
mod json;
mod limits;
pub mod literals;
mod long_lists;
mod metadata;
mod named;
mod named_queries;
pub mod names;
mod not_null;
mod options;
mod parse;
mod plain_text;
mod plan_nodes;
pub mod planned_names;
mod planner;
mod planning;
mod prepared;
mod pushdown;
mod returning;
pub mod rounding;
mod rows;
mod rules;
mod runs;
mod runtime;
mod scan;
pub mod session;
pub mod setting_names;
mod settings;
mod sorts;
pub mod stack;
pub mod statement;
mod statement_memory;
mod store;
mod system;
mod table;
mod table_parameters;
pub mod texts;
pub mod times;
mod transaction;
mod usages;
mod values;
pub mod walk;
mod whole_numbers;
mod wide_rows;
mod window;
pub mod words;
pub mod zone;

pub use answer::Answer;
pub use array_texts::array_text_form;
pub use copy_stream::{CopyForm, CopyFormat, CopyIn, CopyOut};
pub use csv::{CellReader, CsvCell, CsvError, CsvReader, CsvRow, csv_cell, csv_header, csv_rows};
pub use depth::is_light;
pub use dialect::{Dialect, Plain};
pub use export::{FileFormat, write_file};
pub use files::Files;
pub use json::{distinct_names, json_lines, with_names};
pub use limits::Canceller;
pub use literals::{value_of_text, value_of_text_in};
pub use not_null::check_not_null;
pub use prepared::Prepared;
pub use returning::check_described;
pub use session::Session;
pub use settings::{SessionSettings, SettingsBefore, SharedSettings};
pub use statement::{Access, Declare, Kind, Statement};
pub use texts::{split_days, text_form, text_form_in};
pub use values::InsertValues;
pub use zone::{CurrentZone, Zone};
