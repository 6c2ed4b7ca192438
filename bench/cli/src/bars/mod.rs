//! FleetDB's own bars: what the issues of this project ask for in figures, measured beside SQLite, DuckDB and MariaDB.
//!
//! `edge`: E2's ingest (TSBS cpu-only). `container`: E1's bill through the container API. `resident`: the edge profile's
//! memory. `queries`: E2's queries and TSBS'. `bills`: months by local time. `served`: a server under load. `many`, `year`:
//! many containers, a year in fast motion. `generator`: how fast rows are made. Each target runs in a process of its own, pinned to one core with `taskset`, so
//! that its peak memory is its own.

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
    /// E2: ingest of TSBS cpu-only rows
    Edge(edge::Args),
    /// E1: a container's month summed through the container API
    Container(container::Args),
    /// E2 with the edge profile: the resident set seen from outside, queries in between, bytes written
    Resident(resident::Args),
    /// E1's bills by local time, compared with Python's
    Bills(bills::Args),
    /// E2's seven queries and TSBS' others, in SQL and through the container API, beside SQLite and DuckDB
    Queries(queries::Args),
    /// A server under load over the network: E1's ingest and bills, E2's rows as line protocol
    Served(served::Args),
    /// A million containers of ten rows each
    Many(many::Args),
    /// How fast the suite's workloads make rows
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
