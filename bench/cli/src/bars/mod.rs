//! FleetDB's own performance goals.
//!
//! `resident`: memory of the edge profile. `bills`: months by local time. `served`: a server under
//! load. `many`: many containers. `year`: a year in fast motion. Each target runs in its own
//! process, pinned to one core with `taskset`, so that its peak memory is its own.

mod bills;
mod fleetdb;
mod many;
mod process;
mod resident;
mod served;
mod year;

use fleetdb_bench_core::Outcome;

#[derive(clap::Subcommand)]
pub enum Bar {
    /// E2 with the edge profile: resident memory seen from outside, queries in between, bytes
    /// written
    Resident(resident::Args),
    /// E1's bills by local time, compared with Python's
    Bills(bills::Args),
    /// A server under load over the network: E1's ingest and bills, E2's rows as line protocol
    Served(served::Args),
    /// A million containers of ten rows each
    Many(many::Args),
    /// E1's fleet for a year in fast motion: late rows, duplicates, retention, backups
    Year(year::Args),
}

pub fn run(bar: &Bar) -> Outcome<()> {
    match bar {
        Bar::Resident(args) => resident::run(args),
        Bar::Bills(args) => bills::run(args),
        Bar::Served(args) => served::run(args),
        Bar::Many(args) => many::run(args),
        Bar::Year(args) => year::run(args),
    }
}
