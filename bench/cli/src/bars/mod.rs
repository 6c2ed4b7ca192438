//! FleetDB's own performance goals, measured next to SQLite, DuckDB and MariaDB.
//!
//! `edge`: E2's ingest (TSBS cpu-only). `container`: E1's bill through the container API.
//! `resident`: memory of the edge profile. `queries`: the queries of E2 and TSBS. `bills`: months
//! by local time. `served`: a server under load. `many`: many containers. `year`: a year in fast
//! motion. `generator`: speed of row generation. Each target runs in its own process, pinned to one
//! core with `taskset`, so that its peak memory is its own.

mod bills;
mod container;
mod edge;
mod fleetdb;
mod generator;
mod many;
mod process;
mod queries;
mod resident;
mod served;
mod sqlite;
mod year;

use fleetdb_bench_core::Outcome;

#[derive(clap::Subcommand)]
pub enum Bar {
    /// E2: ingest TSBS cpu-only rows
    Edge(edge::Args),
    /// E1: sum a container's month through the container API
    Container(container::Args),
    /// E2 with the edge profile: resident memory seen from outside, queries in between, bytes
    /// written
    Resident(resident::Args),
    /// E1's bills by local time, compared with Python's
    Bills(bills::Args),
    /// E2's seven queries and the other TSBS queries, in SQL and through the container API, next to
    /// SQLite and DuckDB
    Queries(queries::Args),
    /// A server under load over the network: E1's ingest and bills, E2's rows as line protocol
    Served(served::Args),
    /// A million containers of ten rows each
    Many(many::Args),
    /// How fast the workloads generate rows
    Generator(generator::Args),
    /// E1's fleet for a year in fast motion: late rows, duplicates, retention, backups
    Year(year::Args),
}

pub fn run(bar: &Bar) -> Outcome<()> {
    match bar {
        Bar::Edge(args) => edge::run(args),
        Bar::Container(args) => container::run(args),
        Bar::Resident(args) => resident::run(args),
        Bar::Bills(args) => bills::run(args),
        Bar::Queries(args) => queries::run(args),
        Bar::Served(args) => served::run(args),
        Bar::Many(args) => many::run(args),
        Bar::Generator(args) => generator::run(args),
        Bar::Year(args) => year::run(args),
    }
}
