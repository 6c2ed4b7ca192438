//! Loads and queries each target, in its own process.

use super::checksum::{Checksum, float};
use super::texts::{Dialect, Query, cpu, e2, iot, window};
use super::{Results, Sizes};
use crate::bars::fleetdb;
use crate::bars::sqlite::{Mode, Sqlite};
use ::fleetdb_postgres::Postgres;
use ::fleetdb_query::Session;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::statistics::median;
use fleetdb_bench_core::workload::cpu::{BATCH_ROWS, Cpu};
use fleetdb_bench_core::workload::trucks::{self, Trucks};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Database, Projection, ScanRequest, Settings, TableView, Value};
use rusqlite::types::ValueRef;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A query is repeated for at least this time and this often, unless `LIMIT` is reached first.
const REPEAT: Duration = Duration::from_millis(500);
const MIN_REPEATS: usize = 5;
const LIMIT: Duration = Duration::from_secs(10);
/// Epochs per batch of trucks.
const BATCH_EPOCHS: usize = 20;

/// All queries of a target.
fn all(sizes: Sizes, dialect: Dialect) -> Vec<Query> {
    let mut queries = e2(sizes.rows, dialect);
    queries.extend(cpu(sizes.rows, dialect));
    queries.extend(iot(sizes.iot_rows, dialect));
    queries
}

/// The names of the queries, in the order of the table.
pub fn names(sizes: Sizes) -> Vec<&'static str> {
    all(sizes, Dialect::FleetDb).into_iter().map(|query| query.name).collect()
}

/// The queries for `ask_duckdb.py`: name, text, and whether the order counts.
pub fn for_duckdb(sizes: Sizes) -> Vec<String> {
    let queries = all(sizes, Dialect::DuckDb).into_iter();
    queries.flat_map(|query| [query.name.to_owned(), query.text, query.ordered.to_string()]).collect()
}

/// Loads FleetDB and SQLite. DuckDB's tables are made later from FleetDB's files.
pub fn load(sizes: Sizes, directory: &Path) -> Outcome<()> {
    std::fs::create_dir(directory.join("fleetdb"))?;
    std::fs::create_dir(directory.join("sqlite"))?;
    let db = fleetdb::open(&directory.join("fleetdb"))?;
    let mut sqlite = Sqlite::open(&directory.join("sqlite"), Mode::Queries)?;
    let mut workload = Cpu::edge();
    for _ in 0..sizes.rows / BATCH_ROWS {
        let batch = workload.batch()?;
        sqlite.write(&batch)?;
        fleetdb::write(&db, "cpu", batch)?;
    }
    fleetdb::create_trucks(&db)?;
    let mut trucks = Trucks::at_start();
    for _ in 0..sizes.iot_rows / 2 / trucks::TRUCKS / BATCH_EPOCHS {
        let (readings, diagnostics) = trucks.next(BATCH_EPOCHS)?;
        for (table, rows) in [("readings", readings), ("diagnostics", diagnostics)] {
            sqlite.add_to(table, &rows)?;
            fleetdb::write(&db, table, rows)?;
        }
    }
    sqlite.finish()?;
    db.compact()?;
    println!("{} segments", db.status().segments);
    db.close()?;
    Ok(())
}

/// Repeats a query; returns the median in microseconds.
fn repeated(mut query: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    query()?;
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || start.elapsed() < LIMIT && (times.len() < MIN_REPEATS || start.elapsed() < REPEAT) {
        let start = Instant::now();
        query()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

fn open(directory: &Path) -> Outcome<Database> {
    Ok(Database::open_with(Io::files(directory.join("fleetdb")), Settings::default())?)
}

/// Runs prepared SQL. E2's queries have the host and the times as parameters, as in a program.
pub fn sql(sizes: Sizes, directory: &Path) -> Outcome<Results> {
    let session = Session::new(Arc::new(open(directory)?), Postgres::new())?;
    let with_parameters = e2(sizes.rows, Dialect::FleetDb).len();
    let mut results = Results::new();
    for (number, query) in all(sizes, Dialect::FleetDb).into_iter().enumerate() {
        let (text, values) =
            if number < with_parameters { parameters(sizes.rows, query.text) } else { (query.text, Vec::new()) };
        let named = |error: fleetdb_engine::Error| format!("{}: {error}", query.name);
        let prepared = session.prepare(&text).map_err(named)?;
        let mut sum = Checksum::new(query.ordered);
        sum.add_batches(&prepared.query(&values).map_err(named)?)?;
        let us = repeated(|| Ok(prepared.query(&values).map(|_| ())?))?;
        results.insert(query.name.to_owned(), (us, sum.value()));
    }
    Ok(results)
}

/// Replaces the host and the times in a text by parameters; returns their values.
fn parameters(rows: usize, mut text: String) -> (String, Vec<Value>) {
    let (_, end) = window(rows, 0);
    let froms = [300, 3600, 6 * 3600].map(|seconds| Value::Int(window(rows, seconds).0));
    let mut values = Vec::new();
    for value in std::iter::once(Value::Text("host_7".to_owned())).chain([Value::Int(end)]).chain(froms) {
        let literal = match &value {
            Value::Int(ns) => Dialect::FleetDb.time(*ns),
            _ => "'host_7'".to_owned(),
        };
        // A host in a list stays a literal.
        let one_of_several = literal == "'host_7'" && text.contains("hostname IN (");
        if text.contains(&literal) && !one_of_several {
            text = text.replace(&literal, &format!("${}", values.len() + 1));
            values.push(value);
        }
    }
    (text, values)
}

/// Runs the queries that the container API has a call for.
pub fn container(sizes: Sizes, directory: &Path) -> Outcome<Results> {
    let db = open(directory)?;
    let (from, end) = window(sizes.rows, 300);
    type Ask = Box<dyn Fn(&TableView) -> Outcome<Vec<RecordBatch>>>;
    let host = || [Value::Text("host_7".to_owned())];
    let queries: [(&str, Ask); 2] = [
        (
            "FIVE_MINUTE_1",
            Box::new(move |table| {
                let range = table.container(&host())?.range(from, end - 1, Projection::All)?;
                Ok(range.collect::<Result<Vec<_>, _>>()?)
            }),
        ),
        ("LAST_POINT_ALL", Box::new(|table| Ok(table.last_rows(&ScanRequest::all())?.collect::<Result<Vec<_>, _>>()?))),
    ];
    let mut results = Results::new();
    for (name, ask) in queries {
        let mut sum = Checksum::new(true);
        sum.add_batches(&ask(db.view().table("cpu")?)?)?;
        let us = repeated(|| ask(db.view().table("cpu")?).map(|_| ()))?;
        results.insert(name.to_owned(), (us, sum.value()));
    }
    let last = || Outcome::Ok(db.view().table("cpu")?.container(&host())?.last_row()?);
    let mut sum = Checksum::new(true);
    sum.add_values(&last()?.unwrap_or_default());
    let us = repeated(|| last().map(|_| ()))?;
    results.insert("LAST_POINT_ONE".to_owned(), (us, sum.value()));
    let count = || Outcome::Ok(db.view().table("cpu")?.count()?);
    let mut sum = Checksum::new(true);
    sum.add_row(format!("{}\0", count()?).as_bytes());
    let us = repeated(|| count().map(|_| ()))?;
    results.insert("COUNT".to_owned(), (us, sum.value()));
    Ok(results)
}

pub fn sqlite(sizes: Sizes, directory: &Path) -> Outcome<Results> {
    let sqlite = Sqlite::reopen(&directory.join("sqlite"))?;
    let mut results = Results::new();
    for query in all(sizes, Dialect::Sqlite) {
        let mut sum = Checksum::new(query.ordered);
        let mut cells = Vec::new();
        sqlite.each(&query.text, |values| {
            cells.clear();
            for value in values {
                match value {
                    ValueRef::Text(text) => cells.extend_from_slice(text),
                    ValueRef::Integer(value) => cells.extend_from_slice(value.to_string().as_bytes()),
                    ValueRef::Real(value) => cells.extend_from_slice(float(*value).as_bytes()),
                    _ => {}
                }
                cells.push(0);
            }
            sum.add_row(&cells);
        })?;
        let us = repeated(|| sqlite.each(&query.text, |_| ()))?;
        results.insert(query.name.to_owned(), (us, sum.value()));
    }
    Ok(results)
}
