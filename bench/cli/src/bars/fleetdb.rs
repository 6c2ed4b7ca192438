//! FleetDB, embedded.

use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::workload::cpu::{FIELDS, TAGS};
use fleetdb_bench_core::workload::trucks::{self, DIAGNOSTICS, READINGS};
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

/// Makes the tables of TSBS' trucks.
pub fn create_trucks(db: &Database) -> Outcome<()> {
    for (name, fields) in [("readings", READINGS.as_slice()), ("diagnostics", DIAGNOSTICS.as_slice())] {
        let mut table = TableDefinition::new(name).key(trucks::TAGS[0], ColumnType::Utf8);
        for tag in &trucks::TAGS[1..] {
            table = table.field(tag, ColumnType::Utf8);
        }
        table = table.time("ts", Unit::Nanosecond);
        for field in trucks::CAPACITIES.iter().chain(fields) {
            let column_type = if *field == "status" { ColumnType::Int64 } else { ColumnType::Float64 };
            table = table.field(field, column_type);
        }
        db.create_table(&table)?;
    }
    Ok(())
}

/// Writes a batch, acknowledged at `sync`.
pub fn write(db: &Database, table: &str, rows: RecordBatch) -> Outcome<()> {
    db.commit_with(Batch::new().with(table, rows), Durability::Sync)?;
    Ok(())
}
