//! E2: an embedded database on a small board takes TSBS' cpu rows and answers seven queries.
//!
//! 1. `ingest`: batches of 1,000 rows (of all hosts, if they are fewer) over one connection, each acknowledged; the size on
//!    disk afterwards.
//! 2. The seven queries, each with other hosts and windows every time; every answer is compared.
//! 3. `ingest, 4 connections`: a quarter as many rows more, over four.
//! 4. `43,000 rows/s`: the published rate, in an open loop: processor time and memory at a rate that leaves room.

use super::{Job, Run, Size};
use crate::Outcome;
use crate::driver::{Limit, Worker};
use crate::oracle::CpuOracle;
use crate::query::Query;
use crate::table::Table;
use crate::target::{Connection, Profile};
use crate::workload::cpu::{BATCH_ROWS, Cpu, HOSTS, START_NS, cpu_table};
use arrow::array::RecordBatch;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::time::Duration;

const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Connections of the concurrent ingest.
const CONNECTIONS: usize = 4;
/// The published rate.
const RATE: usize = 43_000;

/// How large.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Rows of the first ingest [full: 10000000]
    #[arg(long)]
    pub rows: Option<usize>,
    /// Hosts [full: 4000]
    #[arg(long)]
    pub hosts: Option<usize>,
    /// How often each query is asked [full: 50]
    #[arg(long)]
    pub asked: Option<usize>,
    /// Seconds at 43,000 rows/s [full: 60]
    #[arg(long)]
    pub rate_seconds: Option<u64>,
}

/// Runs it.
///
/// # Errors
/// The target's.
pub fn run(run: &mut Run<'_>, scale: &Scale, is_full: bool) -> Outcome<()> {
    let hosts = scale.hosts.unwrap_or(if is_full { HOSTS } else { 1_000 }).max(8);
    let batch_rows = BATCH_ROWS.min(hosts);
    let epoch_batches = hosts.div_ceil(batch_rows);
    let rows = scale.rows.unwrap_or(if is_full { 10_000_000 } else { 500_000 });
    let batches = (rows / hosts).max(1) * epoch_batches;
    let asked = scale.asked.unwrap_or(if is_full { 50 } else { 10 }).max(1);
    let rate_seconds = scale.rate_seconds.unwrap_or(if is_full { 60 } else { 3 });
    let table = cpu_table();
    run.target.create(std::slice::from_ref(&table))?;
    let rows = Cpu::part(run.seed, 0..hosts, batch_rows);
    let mut writer = Writer { connection: run.target.connect()?, table: &table, rows, left: batches, next: None };
    let operation = format!("{batch_rows} rows");
    let size = |count| Size::Operations(count as u64);
    let job = Job { name: "ingest", operation: &operation, size: size(batches) };
    run.drive_and_settle(job, vec![Box::new(&mut writer)], Limit::default())?;
    if run.is_stopped() {
        return Ok(());
    }
    let (rows, connection) = (writer.rows, writer.connection);
    drop(connection);
    let queries = queries(run, hosts, rows.end_ns(), asked);
    for (name, queries) in &queries {
        run.ask(name, queries, 1)?;
    }
    let mut total = (batches / epoch_batches * hosts) as u64;
    let mut writers = Vec::new();
    for rows in rows.split(CONNECTIONS) {
        let left = batches / 4 / CONNECTIONS;
        writers.push(Writer { connection: run.target.connect()?, table: &table, rows, left, next: None });
    }
    let job = Job { name: "ingest, 4 connections", operation: &operation, size: size(batches / 4) };
    let workers = writers.iter_mut().map(|writer| Box::new(writer) as Box<dyn Worker>).collect();
    total += run.drive_and_settle(job, workers, Limit::default())?.driven.rows;
    let writer = writers.first_mut().ok_or("there are no rows")?;
    writer.left = usize::MAX;
    let rate = Limit { time: Some(Duration::from_secs(rate_seconds)), rate: Some(RATE as f64 / batch_rows as f64) };
    let job = Job { name: "43,000 rows/s", operation: &operation, size: Size::Seconds(rate_seconds) };
    total += run.drive(job, vec![Box::new(writer)], rate)?.driven.rows;
    drop(writers);
    run.check_count("cpu", total)?;
    if run.is_stopped() {
        return Ok(());
    }
    let mut oracle = CpuOracle::new(queries.iter().flat_map(|(_, queries)| queries));
    let mut again = Cpu::part(run.seed, 0..hosts, batch_rows);
    for _ in 0..batches {
        oracle.feed(again.batch()?);
    }
    run.verify(&|query| oracle.answer(query))
}

/// Writes batches.
struct Writer<'a> {
    connection: Box<dyn Connection>,
    table: &'a Table,
    rows: Cpu,
    /// Batches.
    left: usize,
    next: Option<RecordBatch>,
}

impl Worker for &mut Writer<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        // One that the last phase made and had no time for comes first.
        if self.next.is_none() {
            self.next = Some(self.rows.batch()?);
        }
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let rows = self.next.take().ok_or("nothing was prepared")?;
        let count = rows.num_rows() as u64;
        self.connection.write(&[(self.table, rows)])?;
        self.left -= 1;
        Ok(count)
    }
}

/// The seven queries; hosts and windows are drawn in `fair`, and always the same in `published`. Windows lie in the data,
/// or are as long as they are.
fn queries(run: &Run<'_>, hosts: usize, end_ns: i64, asked: usize) -> Vec<(&'static str, Vec<Query>)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.seed);
    let is_fixed = run.profile == Profile::Published;
    let host = |random: &mut Xoshiro256PlusPlus| format!("host_{}", random.random_range(0..hosts));
    let window = |random: &mut Xoshiro256PlusPlus, width_ns: i64| {
        // Whole seconds, for targets that keep fewer digits.
        let latest_s = ((end_ns - width_ns - START_NS) / SECOND_NS).max(0);
        let from_ns = START_NS + random.random_range(0..=latest_s) * SECOND_NS;
        (from_ns, (from_ns + width_ns).min(end_ns))
    };
    let eight = |random: &mut Xoshiro256PlusPlus| {
        let first = random.random_range(0..hosts);
        (0..8).map(|place| format!("host_{}", (first + place * hosts / 8) % hosts)).collect()
    };
    type Draw<'a> = Box<dyn Fn(&mut Xoshiro256PlusPlus) -> Query + 'a>;
    let draws: [(&'static str, Draw<'_>); 7] = [
        ("FIVE_MINUTE_1", Box::new(|r| Query::HostRows { host: host(r), window_ns: window(r, 5 * MINUTE_NS) })),
        ("COUNT", Box::new(|_| Query::Count("cpu"))),
        (
            "CPU_MAX_ALL_1",
            Box::new(|r| Query::HourlyMaxima { hosts: vec![host(r)], window_ns: window(r, 8 * HOUR_NS) }),
        ),
        ("CPU_MAX_ALL_8", Box::new(|r| Query::HourlyMaxima { hosts: eight(r), window_ns: window(r, 8 * HOUR_NS) })),
        ("SINGLE_GROUP_BY_1_1_1", Box::new(|r| Query::MinuteMaxima { host: host(r), window_ns: window(r, HOUR_NS) })),
        ("LAST_POINT_ALL", Box::new(|_| Query::LastOfAll)),
        ("LAST_POINT_ONE", Box::new(|r| Query::LastOf(host(r)))),
    ];
    let mut queries = Vec::new();
    for (name, draw) in draws {
        let first = draw(&mut random);
        let rest = (1..asked).map(|_| if is_fixed { first.clone() } else { draw(&mut random) });
        queries.push((name, std::iter::once(first.clone()).chain(rest.collect::<Vec<_>>()).collect()));
    }
    queries
}
