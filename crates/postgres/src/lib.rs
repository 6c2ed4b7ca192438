//! PostgreSQL's SQL for FleetDB's sessions: syntax, types and operators, and the system catalog.
//! [`Postgres`] is the dialect that a session takes.
//!
//! 1. [`rewrite`] changes parsed statements that DataFusion cannot plan, or interprets differently.
//! 2. [`types`] gives parameters and texts their types, and adapts operators, in the plan.
//! 3. [`column_names`] names a query's columns as PostgreSQL does.
//! 4. [`catalog`] is `pg_catalog`, as clients query it. [`advisory`] and [`clients`] are the state
//!    of a server that it shows.

mod advisory;
mod catalog;
mod clients;
mod column_names;
mod postgres;
mod rewrite;
mod types;

pub use advisory::AdvisoryLocks;
pub use catalog::setting;
pub use clients::{Client, ClientState, Clients, SessionUser};
pub use column_names::{ColumnNames, column_names};
pub use postgres::Postgres;
