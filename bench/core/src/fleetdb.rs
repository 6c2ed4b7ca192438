//! FleetDB, embedded.

use crate::Outcome;
use crate::workload::{FIELDS, TAGS};
use arrow::array::RecordBatch;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, ColumnType, Database, Durability, Settings, TableDefinition, Unit};
use std::path::Path;

/// Opens a database with E2's table; its key is (hostname, ts) as in every other engine.
pub fn open(directory: &Path) -> Outcome<Database> {
    open_with(directory, Settings::default())
}

/// The same with other settings.
pub fn open_with(directory: &Path, settings: Settings) -> Outcome<Database> {
    let db = Database::open(Io::files(directory), settings)?;
    let mut table = TableDefinition::new("cpu").key("hostname", ColumnType::Utf8);
    for tag in &TAGS[1..] {
        table = table.field(tag, ColumnType::Utf8);
    }
    table = table.time("ts", Unit::Nanosecond);
    for field in FIELDS {
        table = table.field(field, ColumnType::Int64);
    }
    db.create_table(&table)?;
    Ok(db)
}

/// Writes a batch, acknowledged at `sync`.
pub fn write(db: &Database, rows: RecordBatch) -> Outcome<()> {
    db.commit_with(Batch::new().with("cpu", rows), Durability::Sync)?;
    Ok(())
}
