//! E1: meters report every hour and are billed every month.
//!
//! 1. `ingest`: each connection takes one meter after another and reports its hours as fast as they
//!    are acknowledged. An operation upserts the meter and adds a reading, in one transaction. With
//!    several numbers of connections, there is a phase for each, with meters of its own.
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
use std::iter::StepBy;
use std::ops::Range;
use std::time::Duration;

/// Hours of a meter created at a time.
const CHUNK_HOURS: i64 = 256;
/// Readings per transaction when filling in missing hours.
const FILL_ROWS: i64 = 1_000;

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Number of meters for each number of connections [full: 1600]
    #[arg(long)]
    pub meters: Option<i64>,
    /// Hourly readings per meter; only months that they cover completely are billed [full: 8760]
    #[arg(long)]
    pub hours: Option<i64>,
    /// Numbers of connections that report, such as 1,32,160, one phase each [full: 160]
    #[arg(long, value_delimiter = ',')]
    pub connections: Option<Vec<usize>>,
    /// Maximum number of seconds for which they report, in each phase
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Maximum number of bills [full: all]
    #[arg(long)]
    pub bills: Option<usize>,
}

/// The sizes with defaults filled in.
#[derive(Clone, Copy)]
struct Sizes {
    /// Meters of each phase.
    meters: i64,
    hours: i64,
    seconds: u64,
    bills: usize,
}

impl Scale {
    fn sizes(&self, plan: Plan<'_>) -> Sizes {
        Sizes {
            meters: plan.size(self.meters, 1_600, 160).max(1),
            hours: plan.size(self.hours, YEAR_HOURS, 768).clamp(1, YEAR_HOURS),
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
    let numbers = run.plan.size(scale.connections.clone(), vec![160], vec![32]);
    let mut all = Vec::new();
    for (place, connections) in numbers.iter().enumerate() {
        let first = place as i64 * sizes.meters;
        let mut reporters = Vec::new();
        for number in 0..(*connections).max(1) as i64 {
            reporters.push(Reporter {
                connection: run.target.connect()?,
                tables: (&meters, &reads),
                workload,
                hours: sizes.hours,
                meters: (first + number..first + sizes.meters).step_by((*connections).max(1)),
                meter: None,
                hour: sizes.hours,
                chunk: None,
            });
        }
        let time = Duration::from_secs(sizes.seconds);
        run.warm_up(&mut reporters, time)?;
        let name = if numbers.len() == 1 { "ingest".to_owned() } else { format!("ingest, connections: {connections}") };
        let (operation, size) = ("a meter upserted and a reading added", Size::Seconds(sizes.seconds));
        let job = Job { name: &name, operation, size };
        run.drive_and_settle(job, &mut reporters, Limit { time: Some(time), rate: None })?;
        all.extend(reporters);
        if run.is_stopped() {
            return Ok(());
        }
    }
    let count = sizes.meters * numbers.len() as i64;
    fill(run, all, count * sizes.hours)?;
    if run.is_stopped() {
        return Ok(());
    }
    // Each row must be there once, whether it was reported or filled in.
    run.check_count("meter_reads", (count * sizes.hours) as u64)?;
    run.check_count("meters", count as u64)?;
    let months = months(sizes.hours);
    let bills = months.iter().flat_map(|month| {
        let window_ns = (time_ns(month.hours.start), time_ns(month.hours.end));
        (0..count).map(move |meter| Query::Bill { meter, window_ns })
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
    /// Hours of each meter.
    hours: i64,
    /// The meters after the current one.
    meters: StepBy<Range<i64>>,
    /// The meter that reports, and its next hour.
    meter: Option<i64>,
    hour: i64,
    /// A chunk of the meter's rows and readings, with the first hour in it.
    chunk: Option<(i64, RecordBatch, RecordBatch)>,
}

impl Reporter<'_> {
    /// The meter that reports: the next one once this one has reported all its hours.
    fn turn(&mut self) -> Option<i64> {
        if self.hour == self.hours {
            (self.meter, self.hour, self.chunk) = (self.meters.next(), 0, None);
        }
        self.meter
    }
}

impl Worker for Reporter<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        let Some(meter) = self.turn() else { return Ok(false) };
        if self.chunk.as_ref().is_none_or(|(first, ..)| self.hour >= first + CHUNK_HOURS) {
            let hours = self.hour..(self.hour + CHUNK_HOURS).min(self.hours);
            let rows = self.workload.rows(meter, hours.clone())?;
            self.chunk = Some((self.hour, rows, self.workload.readings(meter, hours)?));
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

/// Writes the hours that were not reported, of so many.
fn fill(run: &mut Run<'_>, reporters: Vec<Reporter<'_>>, all: i64) -> Outcome<()> {
    let reported: u64 = run.phases.iter().map(|phase| phase.driven.operations).sum();
    let left = (all as u64).saturating_sub(reported);
    (run.announce)("filling in", Size::Operations(left / FILL_ROWS as u64));
    for mut reporter in reporters {
        while let Some(meter) = reporter.turn() {
            if run.is_stopped() {
                return Ok(());
            }
            let hours = reporter.hour..(reporter.hour + FILL_ROWS).min(reporter.hours);
            let row = reporter.workload.rows(meter, hours.end - 1..hours.end)?;
            let readings = reporter.workload.readings(meter, hours.clone())?;
            reporter.connection.write(&[(reporter.tables.0, row), (reporter.tables.1, readings)])?;
            reporter.hour = hours.end;
            run.watch.operations.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    Ok(())
}
