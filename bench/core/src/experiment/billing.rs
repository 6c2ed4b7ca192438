//! E1: meters report each hour, and are billed each month.
//!
//! 1. `ingest`: so many connections; each owns one meter after the other and reports its hours as fast as they are
//!    acknowledged. An operation upserts the meter and adds a reading, in one transaction.
//! 2. What is missing of the hours is filled in with larger batches, unmeasured.
//! 3. `bill`: each meter's usage of each month that is whole, months by Berlin's clocks; every sum is compared.

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

/// Hours of a meter that are made at once.
const CHUNK_HOURS: i64 = 256;
/// Readings of one transaction of the filling.
const FILL_ROWS: i64 = 1_000;

/// How large.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Meters [full: 1600]
    #[arg(long)]
    pub meters: Option<i64>,
    /// Hourly readings of each; months that they do not fill are not billed [full: 8760]
    #[arg(long)]
    pub hours: Option<i64>,
    /// Connections that report [full: 160]
    #[arg(long)]
    pub connections: Option<usize>,
    /// Seconds for which they report, at most
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Bills, at most [full: all]
    #[arg(long)]
    pub bills: Option<usize>,
}

/// With nothing left open.
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

/// Runs it.
///
/// # Errors
/// The target's.
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
    // What was acknowledged and what was filled in, each once.
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
        _ => Err("only bills are asked here".into()),
    })
}

/// One connection; it owns every so-manieth meter.
struct Reporter<'a> {
    connection: Box<dyn Connection>,
    tables: (&'a Table, &'a Table),
    workload: Meters,
    sizes: Sizes,
    meter: i64,
    hour: i64,
    /// A chunk of the meter's rows and readings, and the first hour in it.
    chunk: Option<(i64, RecordBatch, RecordBatch)>,
}

impl Reporter<'_> {
    /// Goes on to the next meter when this one has reported all its hours.
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

/// Writes the hours that no reporter came to.
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
