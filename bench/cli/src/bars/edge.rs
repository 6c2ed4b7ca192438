//! E2's ingest in batches of 1,000 rows: rows per second, bytes per row, and peak memory.
//!
//! The time runs from the first batch to the end of the last flush, minus the time to generate the
//! same rows alone. On one core that is exact, because background work takes the core from the
//! foreground.

use super::fleetdb;
use super::process::pinned;
use super::sqlite::{Mode, Sqlite};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::{disk_bytes, fsync_us, peak_memory_bytes, written_bytes};
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_bench_core::workload::cpu::{BATCH_ROWS, Cpu, HOSTS};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Rows for FleetDB
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Rows for SQLite, which slows down as it grows
    #[arg(long, default_value_t = 1_000_000)]
    sqlite_rows: usize,
    /// Directory in which databases are created and removed; its disk is measured
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Run one target in this process (used by the command itself)
    #[arg(long, hide = true)]
    target: Option<String>,
}

pub fn run(args: &Args) -> Outcome<()> {
    if let Some(target) = &args.target {
        return one(target, args);
    }
    println!(
        "E2 ingest, one core, batches of {BATCH_ROWS} rows, {HOSTS} hosts; fdatasync {:.0} us",
        fsync_us(&args.directory)?
    );
    println!(
        "{:<20} {:>4} {:>11} {:>10} {:>10} {:>14} {:>9}",
        "target", "tier", "rows", "rows/s", "bytes/row", "written B/row", "peak MB"
    );
    let mut rates = Vec::new();
    for (target, tier, rows) in [
        ("fleetdb", "T3", args.rows),
        ("sqlite-published", "T0", args.sqlite_rows),
        ("sqlite-durable", "T3", args.sqlite_rows),
    ] {
        let arguments = ["edge", "--target", target, "--rows", &rows.to_string()];
        let output = pinned(&arguments, Some(&args.directory))?.output()?;
        if !output.status.success() {
            return Err(format!("{target}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let line: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| line[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{target:<20} {tier:>4} {rows:>11} {:>10.0} {:>10.2} {:>14.2} {:>9.0}",
            number("rate"),
            number("bytes"),
            number("written"),
            number("peak") / 1e6
        );
        rates.push(number("rate"));
    }
    println!(
        "FleetDB to SQLite as published: {:.1}x; at equal durability: {:.1}x",
        rates[0] / rates[1],
        rates[0] / rates[2]
    );
    Ok(())
}

/// Runs one target and prints its figures as JSON.
fn one(target: &str, args: &Args) -> Outcome<()> {
    let generating = time(args.rows, |_| Ok(()))?;
    let scratch = Scratch::new(&args.directory)?;
    let (seconds, written) = ingest(target, args.rows, scratch.path())?;
    let bytes = disk_bytes(scratch.path())?;
    let rows = args.rows as f64;
    println!(
        "{}",
        serde_json::json!({
            "rate": rows / (seconds - generating),
            "bytes": bytes as f64 / rows,
            "written": written as f64 / rows,
            "peak": peak_memory_bytes()?,
        })
    );
    Ok(())
}

fn time(rows: usize, mut each: impl FnMut(arrow::array::RecordBatch) -> Outcome<()>) -> Outcome<f64> {
    let mut workload = Cpu::edge();
    let start = Instant::now();
    for _ in 0..rows / BATCH_ROWS {
        each(workload.batch()?)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds to generate and write the rows, and the bytes written to disk.
fn ingest(target: &str, rows: usize, directory: &Path) -> Outcome<(f64, u64)> {
    let before = written_bytes()?;
    let (seconds, count) = match target {
        "fleetdb" => {
            let db = fleetdb::open(directory)?;
            let writing = time(rows, |batch| fleetdb::write(&db, "cpu", batch))?;
            let start = Instant::now();
            db.flush()?;
            let flushing = start.elapsed().as_secs_f64();
            let count = db.view().table("cpu")?.count()?;
            db.close()?;
            (writing + flushing, count)
        }
        _ => {
            let mode = if target == "sqlite-durable" { Mode::Durable } else { Mode::Published };
            let mut db = Sqlite::open(directory, mode)?;
            let writing = time(rows, |batch| db.write(&batch))?;
            (writing, db.count()?)
        }
    };
    if count != (rows / BATCH_ROWS * BATCH_ROWS) as u64 {
        return Err(format!("{target} holds {count} rows").into());
    }
    Ok((seconds, written_bytes()? - before))
}
