//! E1's bill: sums 744 hourly rows of one container through the container API, on data at rest,
//! with warm caches.

use super::process::run_pinned;
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::peak_memory_bytes;
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_bench_core::statistics::median;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, ColumnType, Database, Durability, Settings, TableDefinition, Unit, Value};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const HOURS: i64 = 744;
const HOUR_NS: i64 = 3_600_000_000_000;
const FIELDS: [&str; 7] = ["usage_since_read", "hour", "day", "week", "month", "year", "all_time"];
/// Containers to ask repeatedly.
const ASKED: usize = 64;

#[derive(clap::Args)]
pub struct Args {
    /// Numbers of containers, one run each
    #[arg(long, value_delimiter = ',', default_value = "1000,100000")]
    containers: Vec<i64>,
    /// How the rows arrive: a month of a device at once, or all devices hour by hour
    #[arg(long, value_delimiter = ',', default_value = "device,hour")]
    arrival: Vec<String>,
    /// Merge everything before measuring, instead of leaving it to the background
    #[arg(long)]
    settle: bool,
    /// Directory in which databases are created and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    #[arg(long, hide = true)]
    child: bool,
}

pub fn run(args: &Args) -> Outcome<()> {
    if args.child {
        let scratch = Scratch::new(&args.directory)?;
        return measure(args.containers[0], &args.arrival[0], args.settle, scratch.path());
    }
    println!("E1 bill through the container API: {HOURS} rows summed, data at rest, warm, one core");
    println!(
        "{:>10} {:>8} {:>9} {:>10} {:>10} {:>9}",
        "containers", "arrival", "segments", "p50 us", "p99 us", "peak MB"
    );
    for arrival in &args.arrival {
        for containers in &args.containers {
            let containers = containers.to_string();
            let mut arguments = vec!["container", "--child", "--containers", &containers, "--arrival", arrival];
            arguments.extend(args.settle.then_some("--settle"));
            run_pinned(&arguments, Some(&args.directory))?;
        }
    }
    Ok(())
}

fn measure(containers: i64, arrival: &str, settle: bool, directory: &Path) -> Outcome<()> {
    let db = Database::open_with(Io::files(directory), Settings::default())?;
    let table = TableDefinition::new("reads").key("meter_id", ColumnType::Int64).time("ts", Unit::Nanosecond);
    db.create_table(&FIELDS.into_iter().fold(table, |table, name| table.field(name, ColumnType::Float64)))?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut write = |ids: Vec<i64>, times: Vec<i64>| -> Outcome<()> {
        db.commit(Batch::new().with("reads", rows(ids, times, &mut random)?).with_durability(Durability::Os))?;
        Ok(())
    };
    if arrival == "device" {
        for id in 0..containers {
            write(vec![id; HOURS as usize], (0..HOURS).map(|hour| hour * HOUR_NS).collect())?;
        }
    } else {
        for hour in 0..HOURS {
            for first in (0..containers).step_by(10_000) {
                let ids: Vec<i64> = (first..(first + 10_000).min(containers)).collect();
                let times = vec![hour * HOUR_NS; ids.len()];
                write(ids, times)?;
            }
        }
    }
    db.flush()?;
    if settle {
        db.compact()?;
    }
    let view = db.view();
    let table = view.table("reads")?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let asked: Vec<i64> = (0..ASKED).map(|_| random.random_range(0..containers)).collect();
    let mut times = Vec::new();
    for round in 0..20 {
        for &id in &asked {
            let start = Instant::now();
            let sum = table.container(&[Value::Int(id)])?.aggregate(FIELDS[0], 1, (HOURS - 1) * HOUR_NS)?;
            let took = start.elapsed().as_secs_f64() * 1e6;
            if sum.count != (HOURS - 1) as u64 {
                return Err(format!("container {id} has {} rows", sum.count).into());
            }
            // The first round warms the cache.
            if round > 0 {
                times.push(took);
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let p99 = times[times.len() * 99 / 100];
    let (segments, peak) = (table.segments(), peak_memory_bytes()? as f64 / 1e6);
    println!("{containers:>10} {arrival:>8} {segments:>9} {:>10.1} {p99:>10.1} {peak:>9.0}", median(times));
    Ok(())
}

fn rows(ids: Vec<i64>, times: Vec<i64>, random: &mut Xoshiro256PlusPlus) -> Outcome<RecordBatch> {
    let rows = ids.len();
    let mut fields = vec![
        Field::new("meter_id", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
    ];
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(ids)), Arc::new(TimestampNanosecondArray::from(times))];
    for name in FIELDS {
        fields.push(Field::new(name, DataType::Float64, true));
        let values = (0..rows).map(|_| f64::from(random.random_range(0..5000u32)) / 1e3);
        columns.push(Arc::new(Float64Array::from_iter_values(values)));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
