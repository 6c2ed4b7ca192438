//! kill -9 at random moments: everything acknowledged is there, and a batch over two tables is
//! there whole or not at all.
//!
//! The test starts itself as the writer to be killed. `FLEETDB_SEED=<seed>` repeats a run's
//! choices.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, and the writer is a real process")]

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::Io;
use fleetdb_engine::{
    Batch, ColumnType, Database, Durability, Rows, ScanRequest, Settings, TableDefinition, Unit, Value,
};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const KILLS: usize = 50;
const DEVICES: i64 = 50;
/// Readings per batch. The times of batch `n` are `n * ROWS` to `n * ROWS + ROWS - 1`.
const ROWS: i64 = 40;

fn settings() -> Settings {
    // Small, so that flushes run all the time.
    Settings { memtable_bytes: 64 << 10, sync_interval_ms: 5, ..Settings::default() }
}

fn write_for_ever(directory: &Path, durability: Durability) {
    let db = Database::open_with(Io::files(directory), settings()).unwrap();
    if db.tables().is_empty() {
        let meters = TableDefinition::new("meters").key("id", ColumnType::Int64).field("newest", ColumnType::Int64);
        db.create_table(&meters).unwrap();
        let reads = TableDefinition::new("reads").key("id", ColumnType::Int64).time("ts", Unit::Nanosecond);
        db.create_table(&reads.field("note", ColumnType::Utf8)).unwrap();
    }
    let tables = db.tables();
    let start: i64 = std::env::var("FLEETDB_KILL_START").unwrap().parse().unwrap();
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready").unwrap();
    for n in start.. {
        let (mut meters, mut reads) = (Rows::new(&tables[0]), Rows::new(&tables[1]));
        meters.push(&[Value::Int(n % DEVICES), Value::Int(n)]).unwrap();
        for row in 0..ROWS {
            let note = Value::Text(format!("{}", n * row % 977));
            reads.push(&[Value::Int(n % DEVICES), Value::Int(n * ROWS + row), note]).unwrap();
        }
        let batch = Batch::new().with_rows(meters).with_rows(reads);
        let acknowledged = db.commit(batch.with_durability(durability)).unwrap();
        assert_eq!(acknowledged.durability, durability);
        writeln!(out, "ack {n}").unwrap();
        out.flush().unwrap();
    }
}

/// Not a test on its own: the process to be killed.
#[test]
fn the_writer_that_is_killed() {
    if let Ok(directory) = std::env::var("FLEETDB_KILL_DIRECTORY") {
        write_for_ever(Path::new(&directory), std::env::var("FLEETDB_KILL_LEVEL").unwrap().parse().unwrap());
    }
}

/// Starts a writer, kills it after some acknowledgements, and returns the last one.
fn kill_a_writer(directory: &Path, durability: Durability, start: i64, acknowledgements: usize) -> Option<i64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_writer_that_is_killed", "--nocapture"])
        .env("FLEETDB_KILL_DIRECTORY", directory)
        .env("FLEETDB_KILL_LEVEL", durability.to_string())
        .env("FLEETDB_KILL_START", start.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut last = None;
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The last line may be cut off; a complete line was acknowledged.
        let Ok(line) = line else { break };
        if let Some(number) = line.strip_prefix("ack ").and_then(|n| n.parse().ok()) {
            last = Some(number);
            seen += 1;
            if seen == acknowledgements {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(seen >= acknowledgements, "the writer ended by itself after {seen} acknowledgements");
    last
}

/// The number of the newest batch. Checks that all batches up to it are there, and whole.
fn newest_whole_batch(directory: &Path) -> i64 {
    let db = Database::open_with(Io::files(directory), settings()).unwrap();
    let view = db.view();
    let mut meters = BTreeMap::new();
    for batch in view.table("meters").unwrap().scan(&ScanRequest::all()).unwrap() {
        let batch = batch.unwrap();
        let columns = [0, 1].map(|column| batch.column(column).as_primitive::<Int64Type>().clone());
        meters.extend(columns[0].values().iter().copied().zip(columns[1].values().iter().copied()));
    }
    let mut rows: Vec<i64> = Vec::new();
    let mut newest = BTreeMap::new();
    for batch in view.table("reads").unwrap().scan(&ScanRequest::all()).unwrap() {
        let batch = batch.unwrap();
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let times = batch.column(1).as_primitive::<TimestampNanosecondType>();
        for (&id, &time) in ids.values().iter().zip(times.values()) {
            rows.push(time);
            newest.insert(id, time / ROWS);
        }
    }
    rows.sort_unstable();
    assert!(rows.iter().copied().eq(0..rows.len() as i64), "rows without a gap");
    assert_eq!(rows.len() as i64 % ROWS, 0, "a batch is whole");
    assert_eq!(meters, newest, "a batch over two tables is whole");
    db.close().unwrap();
    rows.len() as i64 / ROWS - 1
}

#[test]
fn a_killed_writer_loses_nothing_acknowledged() {
    let seed = std::env::var("FLEETDB_SEED").ok().and_then(|v| v.parse().ok()).unwrap_or(42);
    println!("FLEETDB_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for durability in [Durability::Os, Durability::Interval, Durability::Sync] {
        let directory = tempfile::tempdir().unwrap();
        let mut start = 0;
        for kill in 0..KILLS {
            let acknowledgements = random.random_range(1..60);
            let last = kill_a_writer(directory.path(), durability, start, acknowledgements).unwrap();
            let newest = newest_whole_batch(directory.path());
            assert!(newest >= last, "kill {kill} at {durability}: {last} was acknowledged, {newest} is there");
            start = newest + 1;
        }
        let report = check(&Io::files(directory.path()), |_, _| ()).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}
