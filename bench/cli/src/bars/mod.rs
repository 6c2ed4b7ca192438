//! FleetDB's own performance goals, measured next to SQLite and DuckDB.
//!
//! `edge`: E2's ingest (TSBS cpu-only). `container`: E1's bill through the container API. `queries`:
//! the queries of E2 and TSBS. `generator`: speed of row generation. Each target runs in its own
//! process, pinned to one core with `taskset`, so that its peak memory is its own.

mod container;
mod edge;
mod fleetdb;
mod generator;
mod process;
mod queries;
mod sqlite;

use fleetdb_bench_core::Outcome;

#[derive(clap::Subcommand)]
pub enum Bar {
    /// E2: ingest TSBS cpu-only rows
    Edge(edge::Args),
    /// E1: sum a container's month through the container API
    Container(container::Args),
    /// E2's seven queries and the other TSBS queries, in SQL and through the container API, next to
    /// SQLite and DuckDB
    Queries(queries::Args),
    /// How fast the workloads generate rows
    Generator(generator::Args),
}

pub fn run(bar: &Bar) -> Outcome<()> {
    match bar {
        Bar::Edge(args) => edge::run(args),
        Bar::Container(args) => container::run(args),
        Bar::Queries(args) => queries::run(args),
        Bar::Generator(args) => generator::run(args),
    }
}
