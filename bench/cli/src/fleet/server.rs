//! The server, which adopts what the vehicles ship.

use super::rows::TABLE;
use super::side::{bucket, obey};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::{peak_memory_bytes, processor_us};
use fleetdb_cluster::adoption::Adopter;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Settings};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Arguments of the process.
#[derive(clap::Args)]
pub struct Adopting {
    #[arg(long)]
    directory: PathBuf,
}

/// What the server has done since its process was started.
#[derive(Default, Serialize, Deserialize)]
pub struct Adopted {
    pub rows: u64,
    pub processor_us: f64,
    pub peak_bytes: u64,
    /// Size of its segments after compaction.
    pub segment_bytes: u64,
}

/// Adopts as often as the parent says.
pub fn run(adopting: &Adopting) -> Outcome<()> {
    let adopter = Adopter::new(bucket(&adopting.directory)?)?;
    let mut db = Some(Database::open_with(Io::files(adopting.directory.join("server")), Settings::default())?);
    let mut done = Adopted::default();
    let begun = processor_us("self")?;
    obey(|line| {
        if line == "adopt" {
            let pass = adopter.adopt(db.as_ref().ok_or("the database is closed")?)?;
            if let Some((device, error)) = pass.failed.first() {
                return Err(format!("{device}: {error}").into());
            }
            done.rows += pass.rows;
        } else if let Some(db) = db.take() {
            db.settle()?;
            let view = db.view();
            done.segment_bytes = view.table(TABLE)?.segment_entries().map(|entry| entry.bytes).sum();
            drop(view);
            db.close()?;
            done.peak_bytes = peak_memory_bytes()?;
        }
        done.processor_us = processor_us("self")? - begun;
        Ok(serde_json::to_string(&done)?)
    })
}
