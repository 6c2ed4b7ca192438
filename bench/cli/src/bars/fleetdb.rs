//! Embedded FleetDB.

use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::workload::cpu::cpu_table;
use fleetdb_bench_targets::fleetdb::definition;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, Durability, Settings};
use std::path::Path;

/// Opens a database with E2's table.
pub fn open_with(directory: &Path, settings: Settings) -> Outcome<Database> {
    let db = Database::open_with(Io::files(directory), settings)?;
    db.create_table(&definition(&cpu_table()))?;
    Ok(db)
}

/// Writes a batch, acknowledged at `sync`.
pub fn write(db: &Database, table: &str, rows: RecordBatch) -> Outcome<()> {
    db.commit(Batch::new().with(table, rows).with_durability(Durability::Sync))?;
    Ok(())
}
