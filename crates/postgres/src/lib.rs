//! PostgreSQL's SQL for FleetDB's sessions: syntax, types and operators.
//! [`Postgres`] is the dialect that a session takes.
//!
//! 1. [`rewrite`] changes parsed statements that DataFusion cannot plan, or interprets differently.
//! 2. [`types`] gives parameters and texts their types, and adapts operators, in the plan.
//! 3. [`column_names`] names a query's columns as PostgreSQL does.
//!
//! `fleetdb-pg-catalog` is the system catalog.

mod column_names;
mod postgres;
mod rewrite;
mod types;

pub use column_names::{ColumnNames, column_names};
pub use fleetdb_pg_catalog::{AdvisoryLocks, Client, ClientState, Clients, SessionUser, setting};
pub use postgres::Postgres;
