//! SQL for FleetDB's engine: sessions, statements and transactions.
//!
//! 1. [`session`] parses the statements of a text, runs them, and prepares queries. It has a
//!    [`transaction`] and [`settings`]; its results are [`Answer`]s.
//! 2. [`tables`] creates, alters and drops tables. [`write`] inserts, updates and deletes rows; a write that
//!    depends on existing rows reads and writes in one step.
//! 3. [`transfer`] reads and writes files and streams: COPY, CSV, Parquet and JSON.
//! 4. DataFusion plans queries, with the tables, functions and rules of `fleetdb-plan`. What differs
//!    from DataFusion's SQL comes from a [`dialect`]; `fleetdb-postgres` is PostgreSQL's. The public
//!    modules are for dialects.
//!
//! The functions of [`Session`], [`Prepared`] and [`Answer`] take plain types, so that programs that
//! use them do not compile DataFusion's generic code again.

mod answer;
pub mod dialect;
mod runtime;
pub mod session;
mod settings;
mod tables;
mod transaction;
mod transfer;
mod write;

pub use answer::Answer;
pub use dialect::{Dialect, Plain, SessionParts};
pub use fleetdb_direct::keyed::KeyedWrite;
pub use fleetdb_direct::values::InsertValues;
pub use fleetdb_functions::uuids::{rows_with_texts, schema_with_texts};
pub use fleetdb_functions::values::literals::{value_of_text, value_of_text_in};
pub use fleetdb_functions::values::texts::{split_days, text_form, text_form_in};
pub use fleetdb_functions::values::zone::{CurrentZone, Zone};
pub use fleetdb_plan::limits::Canceller;
pub use fleetdb_plan::store::{Refresh, Store, refuse_node};
pub use fleetdb_statement::{
    Access, Command, ComparedLiterals, CopyForm, CopyFormat, CopyIn, CopyOut, Declare, Kind, Statement, is_light,
};
pub use session::Session;
pub use session::column_types::ColumnTypes;
pub use session::kept_plans::may_have_effects;
pub use session::plan_cache::{Cached, KeptMemory, PlanCache, held_bytes};
pub use session::planning_state::SpareState;
pub use session::prepared::Prepared;
pub use settings::{SessionSettings, SettingsBefore};
pub use transaction::SharedSettings;
pub use transfer::array_texts::{array_text_form, with_array_texts};
pub use transfer::csv::{
    CellReader, CsvCell, CsvError, CsvReader, CsvRow, NumberForms, csv_cell, csv_header, csv_rows,
};
pub use transfer::export::{FileFormat, write_file, write_rows};
pub use transfer::files::Files;
pub use transfer::json::{distinct_names, json_lines, with_names};
pub use write::not_null::check_not_null;
pub use write::returning::check_described;
