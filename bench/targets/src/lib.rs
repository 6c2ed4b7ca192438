//! The databases that are measured: a file each.
//!
//! To add one: write a file with a [`Target`](fleetdb_bench_core::target::Target) and its connection, and add its line to [`all`]. What several share is in
//! [`sql`] (texts and parameters by dialect), [`lines`] (line protocol), [`http`] and [`process`] (a server started here). CONTRIBUTING.md shows it step by
//! step.

mod channels;
pub mod duckdb;
pub mod fleetdb;
pub mod fleetdb_server;
pub mod greptimedb;
mod http;
pub mod influxdb;
mod lines;
pub mod mariadb;
pub mod mongodb;
pub mod postgres;
mod procedure;
mod process;
pub mod questdb;
mod sql;
pub mod sqlite;

use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::target::Entry;

/// Every target, in the order in which reports show them.
pub fn all() -> Vec<Entry> {
    vec![
        fleetdb::ENTRY,
        fleetdb_server::ENTRY,
        sqlite::ENTRY,
        duckdb::ENTRY,
        mariadb::ENTRY,
        postgres::ENTRY,
        influxdb::ENTRY,
        questdb::ENTRY,
        greptimedb::ENTRY,
        mongodb::FERRETDB,
        mongodb::MONGODB,
    ]
}

/// The target of a name.
///
/// # Errors
/// There is none; the error lists those that there are.
pub fn named(name: &str) -> Outcome<Entry> {
    let all = all();
    let names: Vec<&str> = all.iter().map(|entry| entry.name).collect();
    let unknown = format!("there is no target '{name}'; there are {}", names.join(", "));
    all.into_iter().find(|entry| entry.name == name).ok_or_else(|| unknown.into())
}

/// Nothing is missing: the target is in this program.
fn nothing() -> Option<String> {
    None
}
