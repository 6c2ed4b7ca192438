//! Embedded FleetDB.

use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::workload::cpu::cpu_table;
use fleetdb_bench_core::workload::trucks;
use fleetdb_bench_targets::fleetdb::definition;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, Durability, Settings};
use std::path::Path;

/// Opens a database with E2's table; as in every other engine, its key is (hostname, ts).
pub fn open(directory: &Path) -> Outcome<Database> {
    open_with(directory, Settings::default())
}

/// Like [`open`], with other settings.
pub fn open_with(directory: &Path, settings: Settings) -> Outcome<Database> {
    let db = Database::open_with(Io::files(directory), settings)?;
    db.create_table(&definition(&cpu_table()))?;
    Ok(db)
}

/// Creates the tables of TSBS's trucks.
pub fn create_trucks(db: &Database) -> Outcome<()> {
    trucks::tables().iter().try_for_each(|table| Ok(db.create_table(&definition(table)).map(|_| ())?))
}

/// Writes a batch, acknowledged at `sync`.
pub fn write(db: &Database, table: &str, rows: RecordBatch) -> Outcome<()> {
    db.commit(Batch::new().with(table, rows).with_durability(Durability::Sync))?;
    Ok(())
}
