//! E1's bills by local time: a fleet's months in Europe/Berlin over a year with both clock changes.
//!
//! Each month is one statement over all meters, with `time_bucket('1 month', ts, 'Europe/Berlin')`.
//! `bills.py` computes the same bills with Python's zoneinfo, from the formula of the readings
//! alone, and compares all of them.

use super::process::run_pinned;
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimeUnit, TimestampSecondType};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, Durability, Settings, Value};
use fleetdb_postgres::Postgres;
use fleetdb_query::Session;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Number of meters
    #[arg(long, default_value_t = 6_400)]
    meters: i64,
    /// Directory in which the database is created and removed
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Run the measurement in this process (used by the command itself)
    #[arg(long, hide = true)]
    child: bool,
}

/// 2026-01-01T00:00 in Berlin.
const START_S: i64 = 1_767_222_000;
const HOURS: i64 = 8_760;
const BILL: &str = "SELECT meter, time_bucket('1 month', ts, 'Europe/Berlin') AS month, count(*) AS hours, sum(kwh) AS kwh \
                    FROM reads WHERE ts >= $1 AND ts < $2 GROUP BY meter, month";

pub fn run(args: &Args) -> Outcome<()> {
    if args.child {
        return child(args.meters, &args.directory);
    }
    println!("{} meters, {HOURS} hours, bills of Berlin's months, prepared SQL, data at rest, one core", args.meters);
    let scratch = Scratch::new(&args.directory)?;
    let meters = args.meters.to_string();
    run_pinned(&["bills", "--child", "--meters", &meters], Some(scratch.path()))?;
    let mut python = std::process::Command::new("python3");
    let checked =
        python.args(["-c", include_str!("bills.py")]).arg(scratch.path().join("bills.csv")).arg(&meters).status();
    match checked {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the bills differ from Python's".into()),
        Err(error) => Err(format!("python3: {error}").into()),
    }
}

fn child(meters: i64, directory: &Path) -> Outcome<()> {
    let settings = Settings { durability: Durability::Os, ..Settings::default() };
    let db = Arc::new(Database::open_with(Io::files(directory.join("fleetdb")), settings)?);
    let session = Session::new(Arc::clone(&db), Postgres::new())?;
    session.sql("CREATE TABLE reads (meter BIGINT, ts TIMESTAMP(0), kwh DOUBLE, PRIMARY KEY (meter, ts))")?;
    let schema = Arc::new(Schema::new(vec![
        Field::new("meter", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("kwh", DataType::Float64, true),
    ]));
    for hour in 0..HOURS {
        // `bills.py` contains the same formula. Quarters add up exactly in any order.
        let kwh = (0..meters).map(|meter| ((meter * 7_919 + hour * 104_729) % 1_000) as f64 * 0.25);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..meters)),
            Arc::new(TimestampSecondArray::from_value(START_S + hour * 3_600, meters as usize)),
            Arc::new(Float64Array::from_iter_values(kwh)),
        ];
        db.commit(Batch::new().with("reads", RecordBatch::try_new(Arc::clone(&schema), columns)?))?;
    }
    db.compact()?;
    let month = session.prepare("SELECT time_bucket('1 month', to_timestamp_seconds($1), 'Europe/Berlin')")?;
    let bill = session.prepare(BILL)?;
    let mut out = BufWriter::new(std::fs::File::create(directory.join("bills.csv"))?);
    let (mut from, mut worst) = (START_S, 0f64);
    for number in 1..=12 {
        // Whatever the month's length, 40 days after its start is in the next month.
        let next = month.query(&[Value::Int(from + 40 * 86_400)])?;
        let to = next[0].column(0).as_primitive::<TimestampSecondType>().value(0);
        let start = Instant::now();
        let bills = bill.query(&[Value::Int(from), Value::Int(to)])?;
        let seconds = start.elapsed().as_secs_f64();
        worst = worst.max(seconds);
        for rows in &bills {
            let (meter, hours) =
                (rows.column(0).as_primitive::<Int64Type>(), rows.column(2).as_primitive::<Int64Type>());
            let month = rows.column(1).as_primitive::<TimestampSecondType>();
            let kwh = rows.column(3).as_primitive::<Float64Type>();
            for row in 0..rows.num_rows() {
                writeln!(out, "{},{},{},{}", meter.value(row), month.value(row), hours.value(row), kwh.value(row))?;
            }
        }
        println!("month {number:>2}: {} hours, all bills in {:.0} ms", (to - from) / 3_600, seconds * 1e3);
        from = to;
    }
    out.flush()?;
    println!("the slowest month: {:.0} ms, {:.1} us a bill", worst * 1e3, worst * 1e6 / meters as f64);
    drop((month, bill));
    Ok(())
}
