//! E1's fleet for a year in fast motion: late rows, duplicates, a retention that is shortened, and
//! backups in between.
//!
//! Every row is a function of its meter and hour, so the model needs no memory: it computes whether
//! a row has been delivered by now, whether retention still keeps it, and its values. The engine's
//! clock shows the simulated time.

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::{disk_bytes, peak_memory_bytes};
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_engine::backup::restore;
use fleetdb_engine::io::{Clock, Io};
use fleetdb_engine::{Batch, ColumnType, Database, Durability, Settings, TableDefinition, Unit, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;
const START_S: i64 = 1_735_689_600;
const FIELDS: [&str; 4] = ["usage_since_read", "total", "voltage", "temperature"];
/// The longest delay of a late row, in hours.
const LATEST_HOURS: u64 = 30 * 24;

#[derive(clap::Args)]
pub struct Args {
    /// Number of meters, each with one reading per hour
    #[arg(long, default_value_t = 6_400)]
    meters: i64,
    /// Number of hours
    #[arg(long, default_value_t = 8_760)]
    hours: i64,
    /// The memory limit in MiB
    #[arg(long, default_value_t = 256)]
    memory_mib: usize,
    /// Directory in which databases are created and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
}

/// The wall clock of the simulated year; monotonic time is the machine's.
struct FastClock {
    wall_ns: AtomicI64,
    start: Instant,
}

impl Clock for FastClock {
    fn wall_ns(&self) -> i64 {
        self.wall_ns.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A pseudo-random number for a meter and an hour (the mixing function of SplitMix64).
fn mix(meter: i64, hour: i64, purpose: u64) -> u64 {
    let mut x = (meter as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (hour as u64) << 20 ^ purpose << 56;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hours between a reading and its arrival; zero for 98 of 100 readings.
fn delay(meter: i64, hour: i64) -> i64 {
    if mix(meter, hour, 1) % 100 < 2 { (1 + mix(meter, hour, 2) % LATEST_HOURS) as i64 } else { 0 }
}

/// Whether a reading is sent twice.
fn is_repeated(meter: i64, hour: i64) -> bool {
    mix(meter, hour, 3).is_multiple_of(100)
}

fn usage(meter: i64, hour: i64) -> f64 {
    (mix(meter, hour, 4) % 3_000) as f64 / 1e3
}

fn time_s(hour: i64) -> i64 {
    START_S + hour * HOUR_S
}

/// The rows of one batch.
fn rows(readings: &[(i64, i64)]) -> Outcome<RecordBatch> {
    let mut fields = vec![
        Field::new("meter_id", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
    ];
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(readings.iter().map(|(meter, _)| *meter))),
        Arc::new(TimestampSecondArray::from_iter_values(readings.iter().map(|(_, hour)| time_s(*hour)))),
    ];
    let mut add = |name: &str, value: &dyn Fn(i64, i64) -> f64| {
        fields.push(Field::new(name, DataType::Float64, true));
        columns.push(Arc::new(Float64Array::from_iter_values(readings.iter().map(|&(m, h)| value(m, h)))));
    };
    add(FIELDS[0], &usage);
    add(FIELDS[1], &|_, hour| hour as f64 * 1.5);
    add(FIELDS[2], &|meter, hour| 2_300.0 + (mix(meter, hour, 5) % 100) as f64 / 10.0);
    add(FIELDS[3], &|meter, hour| (mix(meter, hour, 6) % 400) as f64 / 10.0);
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn meters(meters: i64, hour: i64) -> Outcome<RecordBatch> {
    let fields = vec![Field::new("id", DataType::Int64, true), Field::new("last_usage", DataType::Float64, true)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..meters)),
        Arc::new(Float64Array::from_iter_values((0..meters).map(|meter| usage(meter, hour)))),
    ];
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn create(db: &Database, retention_s: Option<i64>) -> Outcome<()> {
    let table = TableDefinition::new("reads").key("meter_id", ColumnType::Int64).time("ts", Unit::Second);
    let table = FIELDS.into_iter().fold(table, |table, name| table.field(name, ColumnType::Float64));
    db.create_table(&TableDefinition { retention_seconds: retention_s, ..table })?;
    db.create_table(
        &TableDefinition::new("meters").key("id", ColumnType::Int64).field("last_usage", ColumnType::Float64),
    )?;
    Ok(())
}

pub fn run(args: &Args) -> Outcome<()> {
    let scratch = Scratch::new(&args.directory)?;
    year(args, scratch.path())
}

fn year(args: &Args, directory: &Path) -> Outcome<()> {
    println!(
        "{} meters x {} hours, 2 % late by up to 30 days, 1 % twice, retention 180 days, 90 from the middle on, T2",
        args.meters, args.hours
    );
    let clock = Arc::new(FastClock { wall_ns: AtomicI64::new(START_S * 1_000_000_000), start: Instant::now() });
    let io = |place: &str| Io { clock: Arc::clone(&clock) as _, ..Io::files(directory.join(place)) };
    let settings = Settings::with_memory_limit(args.memory_mib << 20);
    let db = Database::open_with(io("db"), settings.clone())?;
    create(&db, Some(180 * DAY_S))?;
    let start = Instant::now();
    let (mut due, mut written): (std::collections::BTreeMap<i64, Vec<(i64, i64)>>, u64) = Default::default();
    let mut retention_s = 180 * DAY_S;
    for hour in 0..args.hours {
        clock.wall_ns.store(time_s(hour) * 1_000_000_000, Ordering::Relaxed);
        let mut readings = due.remove(&hour).unwrap_or_default();
        for meter in 0..args.meters {
            match delay(meter, hour) {
                0 => readings.push((meter, hour)),
                late => due.entry(hour + late).or_default().push((meter, hour)),
            }
            if hour > 0 && is_repeated(meter, hour - 1) && delay(meter, hour - 1) == 0 {
                readings.push((meter, hour - 1));
            }
        }
        written += readings.len() as u64;
        let batch = Batch::new().with("reads", rows(&readings)?).with("meters", meters(args.meters, hour)?);
        db.commit(batch.with_durability(Durability::Interval))?;
        if hour == args.hours / 2 {
            verify(&db, args.meters, hour, retention_s)?;
            retention_s = 90 * DAY_S;
            db.set_retention("reads", Some(retention_s))?;
            verify(&db, args.meters, hour, retention_s)?;
        }
        if hour % (args.hours / 4).max(1) == args.hours / 5 {
            let report = db.backup(&io("backup"), |_, _| ())?;
            println!(
                "hour {hour}: backup of {} segments, {:.0} MB linked, {:.0} MB already there",
                report.segments,
                report.linked_bytes as f64 / 1e6,
                report.kept_bytes as f64 / 1e6
            );
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let last = args.hours - 1;
    verify(&db, args.meters, last, retention_s)?;
    println!("{written} rows in {seconds:.0} s, {:.0} rows/s; all answers match the model", written as f64 / seconds);
    db.flush()?;
    // Let the background catch up: drop what has expired and finish the merges.
    let mut before = u64::MAX;
    while before != db.status().segment_bytes || db.status().compacting.is_some() {
        before = db.status().segment_bytes;
        std::thread::sleep(Duration::from_millis(2_500));
    }
    let status = db.status();
    let used = disk_bytes(&directory.join("db"))?;
    verify(&db, args.meters, last, retention_s)?;
    println!(
        "{} segments; flushed {:.0} MB, compacted {:.0} MB in {} merges",
        status.segments,
        status.flushed_bytes as f64 / 1e6,
        status.compacted_bytes as f64 / 1e6,
        status.compactions
    );
    println!("peak memory {:.0} MiB of {} MiB", peak_memory_bytes()? as f64 / (1 << 20) as f64, args.memory_mib);
    db.close()?;
    let (report, _) = restore(&io("backup"), &io("restored"), |_, _| ())?;
    println!("the last backup ({} segments) was restored and passed the check", report.segments);
    std::fs::remove_dir_all(directory.join("restored"))?;
    let fresh = freshly_written(&io("fresh"), settings, args.meters, last, retention_s)?;
    println!(
        "on disk {:.1} MB; the live rows freshly written {:.1} MB: {:.2} times",
        used as f64 / 1e6,
        fresh as f64 / 1e6,
        used as f64 / fresh as f64
    );
    Ok(())
}

/// The hours of a meter's readings that exist at hour `now`.
fn live(meter: i64, now: i64, retention_s: i64) -> impl Iterator<Item = i64> {
    let first = (now - retention_s / HOUR_S).max(0);
    (first..=now).filter(move |&hour| hour + delay(meter, hour) <= now)
}

fn verify(db: &Database, meters: i64, now: i64, retention_s: i64) -> Outcome<()> {
    let view = db.view();
    let table = view.table("reads")?;
    let mut all = 0;
    for meter in 0..meters {
        if meter % 31 != 0 {
            all += live(meter, now, retention_s).count() as u64;
            continue;
        }
        let hours: Vec<i64> = live(meter, now, retention_s).collect();
        all += hours.len() as u64;
        let container = table.container(&[Value::Int(meter)])?;
        let found = container.aggregate(FIELDS[0], i64::MIN, i64::MAX)?;
        let sum: f64 = hours.iter().map(|&hour| usage(meter, hour)).sum();
        if found.count != hours.len() as u64 || (found.sum.unwrap_or(0.0) - sum).abs() > 1e-6 * sum.max(1.0) {
            return Err(format!(
                "hour {now}, meter {meter}: {found:?}, but the model has {} rows, sum {sum}",
                hours.len()
            )
            .into());
        }
    }
    let count = table.count()?;
    if count != all {
        return Err(format!("hour {now}: {count} rows, but the model has {all}").into());
    }
    let last = view.table("meters")?.container(&[Value::Int(meters - 1)])?.last()?.ok_or("a meter is missing")?;
    use arrow::array::AsArray;
    let last = last.column(1).as_primitive::<arrow::datatypes::Float64Type>().value(0);
    if last != usage(meters - 1, now) { Err("a meter's last usage is wrong".into()) } else { Ok(()) }
}

/// Size on disk of a database with the live rows, written in order and merged.
fn freshly_written(io: &Io, settings: Settings, count: i64, now: i64, retention_s: i64) -> Outcome<u64> {
    let db = Database::open_with(io.clone(), settings)?;
    create(&db, None)?;
    for meter in 0..count {
        let readings: Vec<(i64, i64)> = live(meter, now, retention_s).map(|hour| (meter, hour)).collect();
        db.commit(Batch::new().with("reads", rows(&readings)?).with_durability(Durability::Os))?;
    }
    db.commit(Batch::new().with("meters", meters(count, now)?).with_durability(Durability::Os))?;
    db.compact()?;
    db.close()?;
    disk_bytes(io.storage.directory().ok_or("a database in memory")?)
}
