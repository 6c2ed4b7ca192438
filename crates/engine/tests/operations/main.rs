//! Long-term operation: retention, deletes that free space, backups, readers alongside a writer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, with a writer that is a real process")]

mod arrays;
mod backup;
mod columns;
mod compaction;
mod definitions;
mod log_files;
mod parallel_scan;
mod processes;
mod space;

use arrow::array::AsArray;
use arrow::datatypes::TimestampSecondType;
use fleetdb_engine::io::{Io, MemoryStorage, StepClock};
use fleetdb_engine::{
    Batch, ColumnType, Database, Rows, ScanRequest, Settings, TableDefinition, TableView, Unit, Value,
};
use std::sync::Arc;

const DAY_S: i64 = 86_400;

/// A database in memory, and its clock.
fn with_clock(storage: &Arc<MemoryStorage>, now_s: i64) -> (Database, Arc<StepClock>) {
    let clock = Arc::new(StepClock::default());
    clock.advance(now_s as u64 * 1_000_000_000);
    let io = Io { clock: Arc::clone(&clock) as _, ..Io::memory(Arc::clone(storage)) };
    (Database::open_with(io, Settings::default()).unwrap(), clock)
}

fn create(db: &Database, name: &str) {
    create_with_partitions(db, name, DAY_S);
}

fn create_with_partitions(db: &Database, name: &str, seconds: i64) {
    let table = TableDefinition::new(name).key("id", ColumnType::Int64).time("ts", Unit::Second);
    let table = table.field("v", ColumnType::Int64);
    db.create_table(&TableDefinition { partition_seconds: Some(seconds), ..table }).unwrap();
}

fn write(db: &Database, table: &str, rows: impl IntoIterator<Item = (i64, i64, i64)>) {
    let schema = db.tables().into_iter().find(|schema| schema.name == table).unwrap();
    let mut out = Rows::new(&schema);
    for (id, ts, v) in rows {
        out.push(&[Value::Int(id), Value::Int(ts), Value::Int(v)]).unwrap();
    }
    db.commit(Batch::new().with(table, out.finish().unwrap())).unwrap();
}

fn times(table: &TableView) -> Vec<i64> {
    let mut times = Vec::new();
    for batch in table.scan(&ScanRequest::all()).unwrap() {
        times.extend_from_slice(batch.unwrap().column(1).as_primitive::<TimestampSecondType>().values());
    }
    times
}

fn read(db: &Database) -> Vec<i64> {
    times(db.view().table("t").unwrap())
}
