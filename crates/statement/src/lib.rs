//! Parsed statements: what they do, how large they may be, and the helpers that read and build their
//! trees. Nothing here knows tables or sessions.
//!
//! 1. [`grammar`] is PostgreSQL's grammar for sqlparser; [`memory`], [`depth`] and [`stack`] bound what a
//!    text may cost before it is parsed and planned.
//! 2. [`Statement`] is a parsed statement. [`command`] says how it is run and what it needs.
//! 3. [`walk`] visits trees, [`names`], [`clauses`] and [`operators`] read them, [`built`] and [`generated`] make new ones.

pub mod built;
pub mod chains;
pub mod clauses;
pub mod command;
pub mod compared;
pub mod copy_stream;
pub mod depth;
pub mod generated;
pub mod grammar;
pub mod long_lists;
pub mod memory;
pub mod merge_form;
pub mod named;
pub mod named_queries;
pub mod names;
pub mod operators;
pub mod plain_text;
mod postgres_forms;
pub mod sequences;
pub mod setting_names;
pub mod stack;
mod statement;
pub mod table_parameters;
pub mod walk;
pub mod words;
pub mod written;

pub use command::{Access, Command, Declare, Kind};
pub use compared::ComparedLiterals;
pub use copy_stream::{CopyForm, CopyFormat, CopyIn, CopyOut};
pub use depth::is_light;
pub use statement::Statement;
