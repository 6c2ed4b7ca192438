//! E1's bills by local time: a fleet's months in Europe/Berlin over a year with both clock changes,
//! by a prepared statement on data at rest.
//!
//! Each month is one statement over all meters, with `time_bucket('1 month', ts, 'Europe/Berlin')`.
//! `bills.py` computes the same bills with Python's zoneinfo, from the formula of the readings
//! alone, and compares all of them.

use super::Test;
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, TimeUnit, TimestampSecondType};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::Worker;
use fleetdb_bench_core::experiment::Size;
use fleetdb_bench_core::results::Figure;
use fleetdb_bench_core::target::Tier;
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, Durability, Settings, Value};
use fleetdb_postgres::Postgres;
use fleetdb_query::{Prepared, Session};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The size of the test.
#[derive(clap::Args, Clone, Serialize)]
pub struct Scale {
    /// Number of meters
    #[arg(long, default_value_t = 6_400, value_parser = clap::value_parser!(i64).range(1..))]
    meters: i64,
}

/// 2026-01-01T00:00 in Berlin.
const START_S: i64 = 1_767_222_000;
const HOUR_S: i64 = 3_600;
const HOURS: i64 = 8_760;
const MONTHS: usize = 12;
/// The goal for a month of all meters.
const GOAL_MS: f64 = 1_000.0;
const MONTH: &str = "SELECT time_bucket('1 month', to_timestamp_seconds($1), 'Europe/Berlin')";
const BILL: &str = "SELECT meter, time_bucket('1 month', ts, 'Europe/Berlin') AS month, count(*) AS hours, \
                    sum(kwh) AS kwh FROM reads WHERE ts >= $1 AND ts < $2 GROUP BY meter, month";

/// Bills month after month, and writes the bills to a file.
struct Months<'a> {
    month: Prepared<&'a Session>,
    bill: Prepared<&'a Session>,
    out: BufWriter<File>,
    left: usize,
    /// The next month.
    window_s: (i64, i64),
    bills: Vec<RecordBatch>,
}

impl Worker for Months<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        for rows in self.bills.drain(..) {
            let (meter, hours) =
                (rows.column(0).as_primitive::<Int64Type>(), rows.column(2).as_primitive::<Int64Type>());
            let month = rows.column(1).as_primitive::<TimestampSecondType>();
            let kwh = rows.column(3).as_primitive::<Float64Type>();
            for row in 0..rows.num_rows() {
                let (meter, month) = (meter.value(row), month.value(row));
                writeln!(self.out, "{meter},{month},{},{}", hours.value(row), kwh.value(row))?;
            }
        }
        if self.left == 0 {
            self.out.flush()?;
            return Ok(false);
        }
        let (_, from) = self.window_s;
        // Whatever the month's length, 40 days after its start is in the next month.
        let next = self.month.query(&[Value::Int(from + 40 * 24 * HOUR_S)])?;
        let to = next.first().ok_or("a month has no start")?.column(0).as_primitive::<TimestampSecondType>().value(0);
        (self.window_s, self.left) = ((from, to), self.left - 1);
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let (from, to) = self.window_s;
        self.bills = self.bill.query(&[Value::Int(from), Value::Int(to)])?;
        Ok(self.bills.iter().map(|rows| rows.num_rows() as u64).sum())
    }
}

pub fn run(test: &mut Test<'_>, scale: &Scale) -> Outcome<()> {
    let meters = scale.meters;
    test.describe(Tier::T1, &["durability = os".to_owned()]);
    let settings = Settings { durability: Durability::Os, ..Settings::default() };
    let db = Arc::new(Database::open_with(Io::files(test.directory.join("fleetdb")), settings)?);
    let session = Session::new(Arc::clone(&db), Postgres::new())?;
    session.sql("CREATE TABLE reads (meter BIGINT, ts TIMESTAMP(0), kwh DOUBLE, PRIMARY KEY (meter, ts))")?;
    fill(test, &db, meters)?;
    if test.is_stopped() {
        return Ok(());
    }
    let path = test.directory.join("bills.csv");
    let (month, bill) = (session.prepare(MONTH)?, session.prepare(BILL)?);
    let out = BufWriter::new(File::create(&path)?);
    let mut months = Months { month, bill, out, left: MONTHS, window_s: (0, START_S), bills: Vec::new() };
    let phase = test.drive("bills of a month", "query", MONTHS as u64, &mut months)?;
    let slowest_us = phase.driven.latency.max_us;
    drop(months);
    if test.is_stopped() {
        return Ok(());
    }
    test.figure(Figure::new("bills of the slowest month", "ms", slowest_us / 1e3).at_most(GOAL_MS));
    test.figure(Figure::new("a bill of it", "us", slowest_us / meters as f64));
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("bills.py")]).arg(path).arg(meters.to_string());
    let compared = python.output().map_err(|e| format!("python3: {e}"))?;
    let phase = test.phase()?;
    phase.verified = MONTHS * meters as usize;
    if !compared.status.success() {
        let said = String::from_utf8_lossy(&compared.stderr).trim().to_owned();
        phase.wrong = Some(format!("the bills differ from Python's: {said}"));
    }
    Ok(())
}

/// Writes the readings of the year, and merges them.
fn fill(test: &Test<'_>, db: &Database, meters: i64) -> Outcome<()> {
    test.progress.announce("a year of readings", Size::Operations(HOURS as u64));
    let schema = Arc::new(Schema::new(vec![
        Field::new("meter", DataType::Int64, true),
        Field::new("ts", DataType::Timestamp(TimeUnit::Second, None), false),
        Field::new("kwh", DataType::Float64, true),
    ]));
    for hour in 0..HOURS {
        if test.is_stopped() {
            return Ok(());
        }
        // `bills.py` contains the same formula. Quarters add up exactly in any order.
        let kwh = (0..meters).map(|meter| ((meter * 7_919 + hour * 104_729) % 1_000) as f64 * 0.25);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(0..meters)),
            Arc::new(TimestampSecondArray::from_value(START_S + hour * HOUR_S, meters as usize)),
            Arc::new(Float64Array::from_iter_values(kwh)),
        ];
        db.commit(Batch::new().with("reads", RecordBatch::try_new(Arc::clone(&schema), columns)?))?;
        test.watch.operations.fetch_add(1, Ordering::Relaxed);
        test.watch.rows.fetch_add(meters as u64, Ordering::Relaxed);
    }
    Ok(db.compact()?)
}
