//! The databases to measure, one file each.
//!
//! To add one, write a file with a [`Target`](fleetdb_bench_core::target::Target) and its
//! connection, and add its entry to [`all`]. Shared code is in [`sql`] and [`tsbs`] (texts and
//! parameters by dialect), [`lines`] (line protocol), [`postgres_client`] and [`lean`] (clients of the
//! PostgreSQL protocol), [`http`] and [`process`] (a server started here).
//! CONTRIBUTING.md explains it step by step.

mod channels;
pub mod duckdb;
pub mod fleetdb;
pub mod fleetdb_api;
mod fleetdb_lines;
pub mod fleetdb_server;
pub mod floor;
pub mod greptimedb;
pub mod griddb;
mod griddb_program;
mod http;
pub mod influxdb;
mod lean;
mod lines;
pub mod mariadb;
pub mod mongodb;
pub mod postgres;
mod postgres_client;
mod procedure;
mod process;
pub mod questdb;
mod sql;
pub mod sqlite;
mod tsbs;

use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::target::Entry;

/// All databases, in the order of the reports.
pub fn all() -> Vec<Entry> {
    vec![
        fleetdb::ENTRY,
        fleetdb_api::ENTRY,
        fleetdb_server::ENTRY,
        sqlite::ENTRY,
        duckdb::ENTRY,
        mariadb::ENTRY,
        postgres::ENTRY,
        griddb::ENTRY,
        influxdb::ENTRY,
        questdb::ENTRY,
        greptimedb::ENTRY,
        mongodb::FERRETDB,
        mongodb::MONGODB,
    ]
}

/// Variants of targets that are measured only when they are named.
pub fn variants() -> Vec<Entry> {
    let others = [fleetdb_lines::ENTRY, mariadb::TRANSACTIONS, floor::BYTES, floor::LOG];
    [fleetdb::EDGE].into_iter().chain(fleetdb_server::WIRE).chain(others).collect()
}

/// The target with a name.
///
/// # Errors
/// There is no such target; the error lists all names.
pub fn named(name: &str) -> Outcome<Entry> {
    let all: Vec<Entry> = all().into_iter().chain(variants()).collect();
    let names: Vec<&str> = all.iter().map(|entry| entry.name).collect();
    let unknown = format!("target '{name}' does not exist; the targets are {}", names.join(", "));
    all.into_iter().find(|entry| entry.name == name).ok_or_else(|| unknown.into())
}

/// Nothing is missing: the target is part of this program.
fn nothing() -> Option<String> {
    None
}
