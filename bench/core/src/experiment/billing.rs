//! E1: meters report every hour and are billed every month.
//!
//! 1. `ingest`: each connection takes one meter after another and reports its hours as fast as they
//!    are acknowledged. An operation upserts the meter and adds a reading, in one transaction.
//! 2. The hours that are still missing are written in larger batches, unmeasured.
//! 3. `bill`: computes the usage of each meter in each complete month by Berlin time; every sum is
//!    compared.

use super::{Job, Plan, Run, Size, one};
use crate::Outcome;
use crate::answer::Cell;
use crate::driver::{Limit, Worker};
use crate::query::Query;
use crate::table::Table;
use crate::target::Connection;
use crate::workload::meters::{Meters, YEAR_HOURS, hour, months, tables, time_ns};
use arrow::array::RecordBatch;
use serde::Serialize;
use std::time::Duration;

/// Hours of a meter created at a time.
const CHUNK_HOURS: i64 = 256;
/// Readings per transaction when filling in missing hours.
const FILL_ROWS: i64 = 1_000;

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Number of meters [full: 1600]
    #[arg(long)]
    pub meters: Option<i64>,
    /// Hourly readings per meter; only months that they cover completely are billed [full: 8760]
    #[arg(long)]
    pub hours: Option<i64>,
    /// Number of connections that report [full: 160]
    #[arg(long)]
    pub connections: Option<usize>,
    /// Maximum number of seconds for which they report
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Maximum number of bills [full: all]
    #[arg(long)]
    pub bills: Option<usize>,
}

/// The sizes with defaults filled in.
#[derive(Clone, Copy)]
struct Sizes {
    meters: i64,
    hours: i64,
    connections: usize,
    seconds: u64,
    bills: usize,
}

impl Scale {
    fn sizes(&self, plan: Plan<'_>) -> Sizes {
        Sizes {
            meters: plan.size(self.meters, 1_600, 160).max(1),
            hours: plan.size(self.hours, YEAR_HOURS, 768).clamp(1, YEAR_HOURS),
            connections: plan.size(self.connections, 160, 32).max(1),
            seconds: plan.size(self.seconds, 60, 5).max(1),
            bills: plan.size(self.bills, usize::MAX, 1_000),
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// Those of the target.
pub fn run(run: &mut Run<'_>, scale: &Scale) -> Outcome<()> {
    let sizes = scale.sizes(run.plan);
    let [meters, reads] = tables();
    run.target.create(&[meters.clone(), reads.clone()])?;
    let workload = Meters::new(run.plan.seed);
    let mut reporters = Vec::new();
    for number in 0..sizes.connections {
        reporters.push(Reporter {
            connection: run.target.connect()?,
            tables: (&meters, &reads),
            workload,
            sizes,
            meter: number as i64,
            hour: 0,
            chunk: None,
        });
    }
    let time = Duration::from_secs(sizes.seconds);
    run.warm_up(&mut reporters, time)?;
    let job =
        Job { name: "ingest", operation: "a meter upserted and a reading added", size: Size::Seconds(sizes.seconds) };
    run.drive_and_settle(job, &mut reporters, Limit { time: Some(time), rate: None })?;
    fill(run, reporters, sizes)?;
    if run.is_stopped() {
        return Ok(());
    }
    // Each row must be there once, whether it was reported or filled in.
    run.check_count("meter_reads", (sizes.meters * sizes.hours) as u64)?;
    run.check_count("meters", sizes.meters as u64)?;
    let months = months(sizes.hours);
    let bills = months.iter().flat_map(|month| {
        let window_ns = (time_ns(month.hours.start), time_ns(month.hours.end));
        (0..sizes.meters).map(move |meter| Query::Bill { meter, window_ns })
    });
    let bills: Vec<Query> = bills.take(sizes.bills).collect();
    run.ask("bill", &bills, 1)?;
    run.verify(&|query| match query {
        Query::Bill { meter, window_ns: (from, to) } => {
            one(query, Cell::Float(workload.usage(*meter, hour(*from)..hour(*to))))
        }
        _ => Err("only bills can be queried here".into()),
    })
}

/// One connection. With n connections, it owns every n-th meter.
struct Reporter<'a> {
    connection: Box<dyn Connection>,
    tables: (&'a Table, &'a Table),
    workload: Meters,
    sizes: Sizes,
    meter: i64,
    hour: i64,
    /// A chunk of the meter's rows and readings, with the first hour in it.
    chunk: Option<(i64, RecordBatch, RecordBatch)>,
}

impl Reporter<'_> {
    /// Advances to the next meter once this one has reported all its hours.
    fn turn(&mut self) -> bool {
        if self.hour == self.sizes.hours {
            (self.hour, self.chunk) = (0, None);
            self.meter += self.sizes.connections as i64;
        }
        self.meter < self.sizes.meters
    }
}

impl Worker for Reporter<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if !self.turn() {
            return Ok(false);
        }
        if self.chunk.as_ref().is_none_or(|(first, ..)| self.hour >= first + CHUNK_HOURS) {
            let hours = self.hour..(self.hour + CHUNK_HOURS).min(self.sizes.hours);
            let rows = self.workload.rows(self.meter, hours.clone())?;
            self.chunk = Some((self.hour, rows, self.workload.readings(self.meter, hours)?));
        }
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let (first, rows, readings) = self.chunk.as_ref().ok_or("nothing was prepared")?;
        let at = (self.hour - first) as usize;
        let writes = [(self.tables.0, rows.slice(at, 1)), (self.tables.1, readings.slice(at, 1))];
        self.connection.write(&writes)?;
        self.hour += 1;
        Ok(2)
    }
}

/// Writes the hours that were not reported.
fn fill(run: &mut Run<'_>, reporters: Vec<Reporter<'_>>, sizes: Sizes) -> Outcome<()> {
    let all = (sizes.meters * sizes.hours) as u64;
    let reported = run.phases.last().map_or(0, |phase| phase.driven.operations);
    (run.announce)("filling in", Size::Operations((all - reported.min(all)) / FILL_ROWS as u64));
    for mut reporter in reporters {
        while reporter.turn() {
            if run.is_stopped() {
                return Ok(());
            }
            let hours = reporter.hour..(reporter.hour + FILL_ROWS).min(sizes.hours);
            let row = reporter.workload.rows(reporter.meter, hours.end - 1..hours.end)?;
            let readings = reporter.workload.readings(reporter.meter, hours.clone())?;
            reporter.connection.write(&[(reporter.tables.0, row), (reporter.tables.1, readings)])?;
            reporter.hour = hours.end;
            run.watch.operations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    Ok(())
}
