//! Resident memory of the edge profile: ingests E2's rows with E2's seven queries in between,
//! observed from outside.
//!
//! The rows go to a separate process with [`Settings::edge`]; this process reads its resident set
//! from `/proc` until it ends. The queries are the corrected ones, through the engine's API.

use super::fleetdb;
use super::process::pinned;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::{memory_bytes, written_bytes};
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_bench_core::statistics::median;
use fleetdb_bench_core::workload::cpu::{BATCH_ROWS, Cpu, FIELDS, HOSTS, START_NS};
use fleetdb_engine::{Database, Projection, ScanRequest, Settings, TableView, Value};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SECOND_NS: i64 = 1_000_000_000;
/// Rows between two rounds of queries.
const QUERY_ROWS: usize = 1_000_000;

#[derive(clap::Args)]
pub struct Args {
    /// Number of rows
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    /// Directory in which the database is created and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    #[arg(long, hide = true)]
    child: bool,
}

pub fn run(args: &Args) -> Outcome<()> {
    if args.child {
        return child(args.rows, &args.directory);
    }
    let scratch = Scratch::new(&args.directory)?;
    println!("E2 with the edge profile, T3, batches of {BATCH_ROWS} rows, {} rows", args.rows);
    let arguments = ["resident", "--child", "--rows", &args.rows.to_string()];
    let mut child = pinned(&arguments, Some(scratch.path()))?.spawn()?;
    let process = child.id().to_string();
    let (mut samples, mut most) = (Vec::new(), 0);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // Just before it disappears, the process has no memory left.
        if let (Ok(now), Ok(peak)) = (memory_bytes(&process, "VmRSS:"), memory_bytes(&process, "VmHWM:")) {
            samples.push(now as f64);
            most = most.max(peak);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        return Err("the measurement failed".into());
    }
    println!(
        "resident set seen from outside, {} samples: median {:.1} MiB, maximum {:.1} MiB",
        samples.len(),
        median(samples) / (1 << 20) as f64,
        most as f64 / (1 << 20) as f64
    );
    Ok(())
}

fn child(rows: usize, directory: &Path) -> Outcome<()> {
    let db = fleetdb::open_with(directory, Settings::edge())?;
    let mut workload = Cpu::edge();
    let start = Instant::now();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); QUERIES.len()];
    for batch in 1..=rows / BATCH_ROWS {
        fleetdb::write(&db, "cpu", workload.batch()?)?;
        if (batch * BATCH_ROWS).is_multiple_of(QUERY_ROWS) {
            queries(&db, &mut times)?;
        }
    }
    db.flush()?;
    let seconds = start.elapsed().as_secs_f64();
    let status = db.status();
    println!("{:.0} rows/s with interleaved queries", rows as f64 / seconds);
    for ((name, _), times) in QUERIES.iter().zip(times) {
        println!("  {name:<24} median {:>9.2} ms", median(times));
    }
    let per_row = |bytes: u64| bytes as f64 / rows as f64;
    println!(
        "segments {:.2} B/row; written: WAL {:.2}, flush {:.2}, compaction {:.2} B/row; by the kernel's count {:.2}",
        per_row(status.segment_bytes),
        per_row(status.wal_bytes_written),
        per_row(status.flushed_bytes),
        per_row(status.compacted_bytes),
        per_row(written_bytes()?)
    );
    db.close()?;
    Ok(())
}

type Query = fn(&TableView, i64) -> Outcome<usize>;

/// The queries. Each gets the newest time and returns the number of values it has read or computed.
const QUERIES: [(&str, Query); 7] = [
    ("FIVE_MINUTE_1", |table, now| {
        let host = table.container(&["host_7".into()])?;
        let mut rows = 0;
        for batch in host.range(now - 300 * SECOND_NS, now, Projection::All)? {
            rows += batch?.num_rows();
        }
        Ok(rows)
    }),
    ("COUNT", |table, _| Ok(table.count()? as usize)),
    ("CPU_MAX_ALL_1", |table, now| maxima(table, &[7], &FIELDS, 3600, now)),
    ("CPU_MAX_ALL_8", |table, now| maxima(table, &[1, 2, 3, 5, 8, 13, 21, 34], &FIELDS, 3600, now)),
    ("SINGLE_GROUP_BY_1_1_1", |table, now| maxima(table, &[7], &FIELDS[..1], 60, now)),
    ("LAST_POINT_ALL", |table, _| {
        let mut rows = 0;
        for batch in table.last_rows(&ScanRequest::all())? {
            rows += batch?.num_rows();
        }
        if rows == HOSTS { Ok(rows) } else { Err(format!("{rows} last rows").into()) }
    }),
    ("LAST_POINT_ONE", |table, _| {
        let last = table.container(&["host_7".into()])?.last()?;
        last.map(|batch| batch.num_rows()).ok_or_else(|| "no last row".into())
    }),
];

/// Maxima of fields in windows of `width_s` over the last eight hours of the data, or over the last
/// hour if windows are shorter than an hour.
fn maxima(table: &TableView, hosts: &[i64], fields: &[&str], width_s: i64, now: i64) -> Outcome<usize> {
    let span_s = if width_s < 3600 { 3600 } else { 8 * 3600 };
    let first = START_NS.max(now - span_s * SECOND_NS);
    let mut values = 0;
    for host in hosts {
        let container = table.container(&[Value::Text(format!("host_{host}"))])?;
        for field in fields {
            for from in (first..=now).step_by((width_s * SECOND_NS) as usize) {
                let window = container.aggregate(field, from, from + width_s * SECOND_NS - 1)?;
                values += usize::from(window.max.is_some());
            }
        }
    }
    Ok(values)
}

fn queries(db: &Database, times: &mut [Vec<f64>]) -> Outcome<()> {
    let view = db.view();
    let table = view.table("cpu")?;
    let newest = ScanRequest::all().container(&["host_0".into()]).columns(Projection::Names(vec!["ts".to_owned()]));
    let mut now = START_NS;
    for batch in table.scan(&newest)? {
        use arrow::array::AsArray;
        let batch = batch?;
        let column = batch.column(0).as_primitive::<arrow::datatypes::TimestampNanosecondType>();
        now = column.values().last().copied().unwrap_or(now);
    }
    for ((name, query), times) in QUERIES.iter().zip(times) {
        let start = Instant::now();
        if query(table, now)? == 0 {
            return Err(format!("{name} returned no rows").into());
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}
