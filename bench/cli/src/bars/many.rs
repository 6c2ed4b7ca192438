//! A million containers of ten rows each: ingest, reopening, reading one container, memory.

use super::process::run_pinned;
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::{disk_bytes, peak_memory_bytes};
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_bench_core::statistics::median;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, ColumnType, Database, Settings, TableDefinition, Unit, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: i64 = 10;
const BATCH_ROWS: i64 = 10_000;

#[derive(clap::Args)]
pub struct Args {
    /// Number of containers
    #[arg(long, default_value_t = 1_000_000)]
    containers: i64,
    /// Directory in which the database is created and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// The part to run in this process (used by the command itself)
    #[arg(long, hide = true)]
    part: Option<String>,
}

pub fn run(args: &Args) -> Outcome<()> {
    match args.part.as_deref() {
        Some("ingest") => return ingest(args.containers, &args.directory),
        Some(_) => return read(args.containers, &args.directory),
        None => {}
    }
    println!("{} containers, {ROUNDS} rows each, arriving round by round, T3, one core", args.containers);
    let scratch = Scratch::new(&args.directory)?;
    for part in ["ingest", "read"] {
        run_pinned(&["many", "--part", part, "--containers", &args.containers.to_string()], Some(scratch.path()))?;
    }
    println!("on disk {:.1} MB", disk_bytes(scratch.path())? as f64 / 1e6);
    Ok(())
}

fn ingest(containers: i64, directory: &Path) -> Outcome<()> {
    let db = Database::open_with(Io::files(directory), Settings::default())?;
    let table = TableDefinition::new("reads").key("id", ColumnType::Int64).time("ts", Unit::Second);
    db.create_table(&table.field("value", ColumnType::Float64))?;
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("value", DataType::Float64, true),
    ]));
    let start = Instant::now();
    for round in 0..ROUNDS {
        for first in (0..containers).step_by(BATCH_ROWS as usize) {
            let ids = first..(first + BATCH_ROWS).min(containers);
            let rows = (ids.end - ids.start) as usize;
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(ids.clone())),
                Arc::new(TimestampSecondArray::from_value(round * 600, rows)),
                Arc::new(Float64Array::from_iter_values(ids.map(|id| (id * ROUNDS + round) as f64))),
            ];
            db.commit(Batch::new().with("reads", RecordBatch::try_new(Arc::clone(&schema), columns)?))?;
        }
    }
    db.flush()?;
    let seconds = start.elapsed().as_secs_f64();
    let status = db.status();
    println!(
        "ingest {:.0} rows/s, {} segments, peak {:.0} MB: {:.0} bytes a container",
        (containers * ROUNDS) as f64 / seconds,
        status.segments,
        peak_memory_bytes()? as f64 / 1e6,
        peak_memory_bytes()? as f64 / containers as f64
    );
    db.compact()?;
    println!("merged into {} segments, peak {:.0} MB", db.status().segments, peak_memory_bytes()? as f64 / 1e6);
    db.close()?;
    Ok(())
}

fn read(containers: i64, directory: &Path) -> Outcome<()> {
    let start = Instant::now();
    let db = Database::open_with(Io::files(directory), Settings::default())?;
    let opened = start.elapsed().as_secs_f64();
    println!("reopened in {:.3} s, {:.0} MB", opened, peak_memory_bytes()? as f64 / 1e6);
    let view = db.view();
    let table = view.table("reads")?;
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    let mut id = 7;
    for _ in 0..2_000 {
        id = (id * 7_919 + 104_729) % containers;
        for times in [&mut cold, &mut warm] {
            let start = Instant::now();
            let sum = table.container(&[Value::Int(id)])?.aggregate("value", i64::MIN, i64::MAX)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            let expected: i64 = (0..ROUNDS).map(|round| id * ROUNDS + round).sum();
            if sum.count != ROUNDS as u64 || sum.sum != Some(expected as f64) {
                return Err(format!("container {id}: {sum:?}").into());
            }
        }
    }
    println!("one container: first read {:.1} us, again {:.1} us (medians of 2,000)", median(cold), median(warm));
    println!("peak {:.0} MB while reading", peak_memory_bytes()? as f64 / 1e6);
    db.close()?;
    Ok(())
}
