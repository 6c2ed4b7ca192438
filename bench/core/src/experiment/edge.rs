//! E2: an embedded database on a small board ingests TSBS cpu rows and answers seven queries.
//!
//! 1. `ingest`: batches of 1,000 rows (or of all hosts, if there are fewer) over one connection,
//!    each acknowledged; then the size on disk.
//! 2. The seven queries, each time with other hosts and windows; every answer is compared.
//! 3. `ingest, 4 connections`: a quarter as many additional rows, over four connections.
//! 4. `43,000 rows/s`: the published rate, in an open loop; measures processor time and memory at a
//!    rate that leaves headroom. Then the same while another connection continuously asks
//!    FIVE_MINUTE_1.

use super::workers::Writer;
use super::{Job, Plan, Run, Size, draws};
use crate::Outcome;
use crate::driver::Limit;
use crate::oracle::CpuOracle;
use crate::query::{Key, Query};
use crate::table::Table;
use crate::target::Profile;
use crate::workload::cpu::{BATCH_ROWS, Cpu, HOSTS, START_NS, STEP_NS, cpu_table};
use crate::workload::lateness::Arrivals;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

const SECOND_NS: i64 = 1_000_000_000;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const HOUR_NS: i64 = 60 * MINUTE_NS;
/// Connections of the concurrent ingest.
const CONNECTIONS: usize = 4;
/// The published rate, in rows per second.
const RATE: usize = 43_000;

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Rows of the first ingest [full: 10000000]
    #[arg(long)]
    pub rows: Option<usize>,
    /// Number of hosts [full: 4000]
    #[arg(long)]
    pub hosts: Option<usize>,
    /// Number of times each query is asked [full: 50]
    #[arg(long)]
    pub asked: Option<usize>,
    /// Let devices go offline for a while, have wrong clocks and send rows twice; runs only the
    /// first ingest and the queries
    #[arg(long)]
    pub late: bool,
    /// Seconds at 43,000 rows/s [full: 60]
    #[arg(long)]
    pub rate_seconds: Option<u64>,
}

/// Runs the experiment.
///
/// # Errors
/// Those of the target.
pub fn run(run: &mut Run<'_>, scale: &Scale) -> Outcome<()> {
    let plan = run.plan;
    let hosts = plan.size(scale.hosts, HOSTS, 1_000).max(8);
    let batch_rows = BATCH_ROWS.min(hosts);
    let epochs = (plan.size(scale.rows, 10_000_000, 500_000) / hosts).max(1);
    let batches = (epochs * hosts.div_ceil(batch_rows)) as u64;
    let asked = plan.size(scale.asked, 50, 10).max(1);
    let arrivals = || {
        let cpu = Cpu::part(plan.seed, 0..hosts, batch_rows);
        if scale.late { Arrivals::late(plan.seed, cpu) } else { Arrivals::punctual(cpu) }
    };
    let table = Arc::new(cpu_table());
    run.target.create(std::slice::from_ref(&*table))?;
    let operation = if scale.late { format!("what comes of {batch_rows} hosts") } else { format!("{batch_rows} rows") };
    let mut rows = arrivals();
    let mut writer = [Writer::new(run.target.connect()?, &table, batches, |_| rows.batch())];
    let job = Job { name: "ingest", operation: &operation, size: Size::Operations(batches) };
    run.drive_and_settle(job, &mut writer, Limit::default())?;
    drop(writer);
    if run.is_stopped() {
        return Ok(());
    }
    let queries = queries(plan, &table, hosts, START_NS + epochs as i64 * STEP_NS, asked);
    for (name, queries) in &queries {
        run.ask(name, queries, 1)?;
    }
    let repeated = rows.repeated();
    if !scale.late {
        let seconds = plan.size(scale.rate_seconds, 60, 3);
        more(run, &table, &operation, rows.into_cpu(), (batches / 4, batch_rows), seconds, &queries[0])?;
    }
    let written: u64 = run.phases.iter().filter(|p| p.operation == operation).map(|p| p.driven.rows).sum();
    run.check_count("cpu", written - repeated)?;
    if run.is_stopped() {
        return Ok(());
    }
    let mut oracle = CpuOracle::new(queries.iter().flat_map(|(_, queries)| queries));
    let mut again = arrivals();
    for _ in 0..batches {
        oracle.feed(again.batch()?);
    }
    oracle.forget(repeated);
    run.verify(&|query| oracle.answer(query))
}

/// The ingest over several connections, and the phases at a given rate.
fn more(
    run: &mut Run<'_>,
    table: &Table,
    operation: &str,
    rows: Cpu,
    (batches, batch_rows): (u64, usize),
    seconds: u64,
    (name, queries): &(&'static str, Vec<Query>),
) -> Outcome<()> {
    let mut writers = Vec::new();
    for mut part in rows.split(CONNECTIONS) {
        let left = batches / CONNECTIONS as u64;
        writers.push(Writer::new(run.target.connect()?, table, left, move |_| part.batch()));
    }
    let job = |name, size| Job { name, operation, size };
    let together = job("ingest, 4 connections", Size::Operations(batches));
    run.drive_and_settle(together, &mut writers, Limit::default())?;
    let writer = writers.first_mut().ok_or("there are no rows")?;
    writer.left = u64::MAX;
    let limit = Limit { time: Some(Duration::from_secs(seconds)), rate: Some(RATE as f64 / batch_rows as f64) };
    run.drive(job("43,000 rows/s", Size::Seconds(seconds)), std::slice::from_mut(writer), limit)?;
    let asked = job("43,000 rows/s while asked", Size::Seconds(seconds));
    run.drive_while_asked(asked, writer, limit, &format!("{name} while written"), queries)
}

/// The seven queries. In `fair`, hosts and windows are random, and the windows lie within the data
/// or cover all of it. In `published` they are always the same: windows of eight hours although the
/// data spans seven, and eight hours even for the query meant for one.
fn queries(
    plan: Plan<'_>,
    table: &Arc<Table>,
    hosts: usize,
    end_ns: i64,
    asked: usize,
) -> Vec<(&'static str, Vec<Query>)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let is_published = plan.profile == Profile::Published;
    let grouped_ns = if is_published { 8 * HOUR_NS } else { HOUR_NS };
    let host = |random: &mut Xoshiro256PlusPlus| format!("host_{}", random.random_range(0..hosts));
    let window = |random: &mut Xoshiro256PlusPlus, width_ns: i64| {
        if is_published {
            return (START_NS, START_NS + width_ns);
        }
        draws::window(random, (START_NS, end_ns), width_ns)
    };
    let table = || Arc::clone(table);
    type Draw<'a> = Box<dyn Fn(&mut Xoshiro256PlusPlus) -> Query + 'a>;
    let draws: [(&'static str, Draw<'_>); 7] = [
        (
            "FIVE_MINUTE_1",
            Box::new(|r| Query::Rows { of: table(), key: Key::Text(host(r)), window_ns: window(r, 5 * MINUTE_NS) }),
        ),
        ("COUNT", Box::new(|_| Query::Count("cpu"))),
        (
            "CPU_MAX_ALL_1",
            Box::new(|r| Query::HourlyMaxima { hosts: vec![host(r)], window_ns: window(r, 8 * HOUR_NS) }),
        ),
        (
            "CPU_MAX_ALL_8",
            Box::new(|r| Query::HourlyMaxima { hosts: draws::hosts(r, hosts, 8), window_ns: window(r, 8 * HOUR_NS) }),
        ),
        (
            "SINGLE_GROUP_BY_1_1_1",
            Box::new(|r| Query::MinuteMaxima { host: host(r), window_ns: window(r, grouped_ns) }),
        ),
        ("LAST_POINT_ALL", Box::new(|_| Query::LastOfAll)),
        ("LAST_POINT_ONE", Box::new(|r| Query::Last { of: table(), key: Key::Text(host(r)) })),
    ];
    let mut queries = Vec::new();
    for (name, draw) in draws {
        let first = draw(&mut random);
        let rest = (1..asked).map(|_| if is_published { first.clone() } else { draw(&mut random) });
        queries.push((name, std::iter::once(first.clone()).chain(rest.collect::<Vec<_>>()).collect()));
    }
    queries
}
