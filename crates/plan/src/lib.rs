//! What DataFusion plans and runs for FleetDB: tables, functions, and rules. Sessions and statements
//! are `fleetdb-query`'s.
//!
//! 1. [`catalog`] shows the engine's tables as of one moment, and [`system`] the database itself as
//!    tables. [`table`] presents a table to DataFusion: which filters are pushed down into the scan
//!    ([`pushdown`]), the [`scan`] itself, and the sink for inserted rows ([`insert`]).
//!    [`temporary`] are the tables of one session.
//! 2. [`metadata`] answers aggregates without a scan. [`runs`] computes aggregates whose groups are
//!    consecutive rows. [`newest_buckets`] runs an aggregate for its newest time buckets first, if
//!    the query limits its answer to these.
//! 3. [`functions`] registers `fleetdb-functions` and GridDB's operations ([`time_rows`]).
//!    [`gapfill`] and [`asof`] add plan nodes, which [`planner`] plans.
//! 4. [`rules`] lists the optimizer rules of a session, which its [`limits`] may stop.
//!    [`logical_optimizer`] and `where_needed` leave out those that cannot change a plan. The plans of
//!    prepared statements take their values from a [`binding`]; [`kept`] says what keeping them needs.

pub mod asof;
pub mod binding;
pub mod catalog;
mod collection_joins;
pub mod computed_columns;
mod concatenate;
pub mod exact_numbers;
pub mod finer_times;
pub mod functions;
pub mod gapfill;
pub mod insert;
mod join_keys;
mod joins;
pub mod kept;
pub mod limits;
pub mod logical_optimizer;
mod metadata;
mod newest_buckets;
pub mod nullable_subqueries;
pub mod numbers;
mod plan_nodes;
pub mod planner;
pub mod pushdown;
pub mod rules;
mod runs;
mod scan;
mod sorts;
pub mod store;
pub mod system;
pub mod table;
pub mod temporary;
mod time_buckets;
mod time_rows;
mod where_needed;
pub mod whole_numbers;
mod wide_rows;
mod wide_values;
mod window;
