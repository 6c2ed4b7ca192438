//! `fleetdb-bench`: measures FleetDB beside SQLite, DuckDB and MariaDB, in one run on one machine.
//!
//! `edge`: E2's ingest (TSBS cpu-only). `container`: E1's bill through the container API. `resident`: the edge profile's
//! memory. `queries`: E2's queries and TSBS'. `bills`: months by local time. `served`: a server under load. `many`, `year`: many containers, a year in fast motion. Each target runs in a process of its own, pinned to one core with `taskset`, so that its peak memory is its own.

mod bills;
mod container;
mod edge;
mod fleetdb;
mod many;
mod measure;
mod process;
mod queries;
mod resident;
mod served;
mod sqlite;
mod trucks;
mod workload;
mod year;

use clap::{Parser, Subcommand};
use std::error::Error;

/// Measures FleetDB beside SQLite, DuckDB and MariaDB.
#[derive(Parser)]
#[command(name = "fleetdb-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
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
    /// E1's fleet for a year in fast motion: late rows, duplicates, retention, backups
    Year(year::Args),
}

/// What every benchmark may fail with: it is printed and ends the program.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    match Cli::parse().command {
        Command::Edge(args) => edge::run(&args),
        Command::Container(args) => container::run(&args),
        Command::Resident(args) => resident::run(&args),
        Command::Bills(args) => bills::run(&args),
        Command::Queries(args) => queries::run(&args),
        Command::Served(args) => served::run(&args),
        Command::Many(args) => many::run(&args),
        Command::Year(args) => year::run(&args),
    }
}
