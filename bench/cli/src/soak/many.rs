//! A million containers of ten rows each, arriving round by round (T3): ingest, memory, and, in a
//! process of its own ([`read`]), reopening and reading single containers.

use super::Test;
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::Worker;
use fleetdb_bench_core::meters::{disk_bytes, peak_memory_bytes};
use fleetdb_bench_core::results::Figure;
use fleetdb_bench_core::statistics::median;
use fleetdb_bench_core::target::Tier;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, ColumnType, Database, Settings, TableDefinition, Unit, Value};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// The command of this program that runs [`read`].
pub const COMMAND: &str = "read-many";

const ROUNDS: i64 = 10;
const ROUND_S: i64 = 600;
const BATCH_ROWS: i64 = 10_000;
/// Containers to read, each twice.
const READS: usize = 2_000;
const MB: f64 = 1e6;

/// The size of the test.
#[derive(clap::Args, Clone, Serialize)]
pub struct Scale {
    /// Number of containers
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(i64).range(1..))]
    containers: i64,
}

/// Arguments of the process that reads.
#[derive(clap::Args)]
pub struct Reading {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    containers: i64,
}

/// Writes round after round; an operation is a batch of containers.
struct Rounds<'a> {
    db: &'a Database,
    schema: SchemaRef,
    containers: i64,
    round: i64,
    /// The first container of the next batch.
    first: i64,
    next: Option<RecordBatch>,
}

impl Worker for Rounds<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if self.first >= self.containers {
            (self.round, self.first) = (self.round + 1, 0);
        }
        if self.round == ROUNDS {
            return Ok(false);
        }
        let ids = self.first..(self.first + BATCH_ROWS).min(self.containers);
        let round = self.round;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(TimestampSecondArray::from_value(round * ROUND_S, ids.clone().count())),
            Arc::new(Float64Array::from_iter_values(ids.map(|id| (id * ROUNDS + round) as f64))),
        ];
        self.next = Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let rows = self.next.take().ok_or("nothing was prepared")?;
        let count = rows.num_rows() as u64;
        self.db.commit(Batch::new().with("reads", rows))?;
        self.first += BATCH_ROWS;
        Ok(count)
    }
}

pub fn run(test: &mut Test<'_>, scale: &Scale) -> Outcome<()> {
    test.describe(Tier::T3, &[]);
    let (directory, containers) = (test.directory, scale.containers);
    let db = Database::open_with(Io::files(directory), Settings::default())?;
    let table = TableDefinition::new("reads").key("id", ColumnType::Int64).time("ts", Unit::Second);
    db.create_table(&table.field("value", ColumnType::Float64))?;
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("value", DataType::Float64, true),
    ]));
    let mut rounds = Rounds { db: &db, schema, containers, round: 0, first: 0, next: None };
    let batches = ROUNDS as u64 * (containers as u64).div_ceil(BATCH_ROWS as u64);
    let operation = format!("a row of each of {BATCH_ROWS} containers");
    test.drive("ingest", &operation, batches, &mut rounds)?;
    if test.is_stopped() {
        return Ok(());
    }
    let begin = Instant::now();
    db.flush()?;
    test.phase()?.settle_s = begin.elapsed().as_secs_f64();
    let peak = peak_memory_bytes()? as f64;
    test.figure(Figure::new("peak memory of the ingest", "MB", peak / MB));
    test.figure(Figure::new("its memory for a container", "bytes", peak / containers as f64));
    test.figure(Figure::new("segments after the ingest", "", db.status().segments as f64));
    db.compact()?;
    test.figure(Figure::new("segments after merging", "", db.status().segments as f64));
    test.figure(Figure::new("peak memory with merging", "MB", peak_memory_bytes()? as f64 / MB));
    db.close()?;
    let mut reading = Command::new(std::env::current_exe()?);
    reading.args([COMMAND, "--containers", &containers.to_string()]).arg("--directory").arg(directory);
    let output = reading.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the containers were not read; see above".into());
    }
    let figures: Vec<Figure> = serde_json::from_slice(&output.stdout)?;
    figures.into_iter().for_each(|figure| test.figure(figure));
    let phase = test.phase()?;
    (phase.verified, phase.disk_bytes) = (1 + 2 * READS, disk_bytes(directory)?);
    Ok(())
}

/// Opens what the test has written, counts the rows and reads containers; [`COMMAND`] runs this in
/// a process of its own. Prints its figures as JSON.
pub fn read(reading: &Reading) -> Outcome<()> {
    println!("{}", serde_json::to_string(&figures(&reading.directory, reading.containers)?)?);
    Ok(())
}

fn figures(directory: &Path, containers: i64) -> Outcome<Vec<Figure>> {
    let begin = Instant::now();
    let db = Database::open_with(Io::files(directory), Settings::default())?;
    let opened_ms = begin.elapsed().as_secs_f64() * 1e3;
    let opened_bytes = peak_memory_bytes()? as f64;
    let view = db.view();
    let table = view.table("reads")?;
    let (count, all) = (table.count()?, (containers * ROUNDS) as u64);
    if count != all {
        return Err(format!("{count} rows are there, but {all} were written").into());
    }
    let (mut first, mut again) = (Vec::new(), Vec::new());
    let mut id = 7;
    for _ in 0..READS {
        id = (id * 7_919 + 104_729) % containers;
        for times in [&mut first, &mut again] {
            let begin = Instant::now();
            let sum = table.container(&[Value::Int(id)])?.aggregate("value", i64::MIN, i64::MAX)?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
            let expected: i64 = (0..ROUNDS).map(|round| id * ROUNDS + round).sum();
            if sum.count != ROUNDS as u64 || sum.sum != Some(expected as f64) {
                return Err(format!("container {id}: {sum:?}").into());
            }
        }
    }
    let figures = vec![
        Figure::new("reopened in", "ms", opened_ms),
        Figure::new("memory when reopened", "MB", opened_bytes / MB),
        Figure::new("first read of a container, median", "us", median(first)),
        Figure::new("the same again, median", "us", median(again)),
        Figure::new("peak memory while reading", "MB", peak_memory_bytes()? as f64 / MB),
    ];
    db.close()?;
    Ok(figures)
}
