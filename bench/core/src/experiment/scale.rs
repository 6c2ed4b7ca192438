//! E3: records of 200 bytes, one container per thread; here on a single machine, and with durable
//! writes.
//!
//! 1. `write`: each connection writes the records of its container, a batch per transaction, as
//!    fast as they are acknowledged.
//! 2. `write at half the rate`: the same in an open loop, where latency counts from when a
//!    transaction was due.
//! 3. `read`: each connection reads records of its container back, a batch per query, at random
//!    places; every record is compared.

use super::workers::Writer;
use super::{Job, Run, Size};
use crate::Outcome;
use crate::driver::Limit;
use crate::query::{Key, Query};
use crate::workload::series::{Series, record_number, record_time_ns, records};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Number of records [full: 10000000]
    #[arg(long)]
    pub records: Option<u64>,
    /// Number of connections, each with a container [full: 32]
    #[arg(long)]
    pub connections: Option<usize>,
    /// Records per transaction and per query
    #[arg(long)]
    pub batch: Option<u64>,
    /// Number of queries over all connections [full: 10000]
    #[arg(long)]
    pub reads: Option<usize>,
    /// Seconds at half the rate [full: 30]
    #[arg(long)]
    pub rate_seconds: Option<u64>,
}

/// Runs the experiment.
///
/// # Errors
/// Those of the target.
pub fn run(run: &mut Run<'_>, scale: &Scale) -> Outcome<()> {
    let plan = run.plan;
    let connections = plan.size(scale.connections, 32, 8).max(1);
    let batch = scale.batch.unwrap_or(100).max(1);
    let transactions = (plan.size(scale.records, 10_000_000, 200_000) / connections as u64 / batch).max(1);
    let reads = plan.size(scale.reads, 10_000, 1_000).max(1);
    let rate_seconds = plan.size(scale.rate_seconds, 30, 3);
    let table = Arc::new(Series::Records.table());
    run.target.create(std::slice::from_ref(&*table))?;
    let mut writers = Vec::new();
    for container in 0..connections as i64 {
        let make = move |written| records(plan.seed, container, written * batch..(written + 1) * batch);
        writers.push(Writer::new(run.target.connect()?, &table, transactions, make));
    }
    let operation = format!("{batch} records");
    let size = Size::Operations(transactions * connections as u64);
    let job = Job { name: "write", operation: &operation, size };
    let phase = run.drive_and_settle(job, &mut writers, Limit::default())?;
    let rate = phase.driven.operations as f64 / phase.driven.seconds / 2.0;
    writers.iter_mut().for_each(|writer| writer.left = u64::MAX);
    let job = Job { name: "write at half the rate", operation: &operation, size: Size::Seconds(rate_seconds) };
    let limit = Limit { time: Some(Duration::from_secs(rate_seconds)), rate: Some(rate) };
    run.drive_and_settle(job, &mut writers, limit)?;
    let written: Vec<u64> = writers.iter().map(|writer| writer.written * batch).collect();
    drop(writers);
    run.check_count("records", written.iter().sum())?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let queries: Vec<Query> = (0..reads)
        .map(|number| {
            let container = number % connections;
            let first = random.random_range(0..=written[container].saturating_sub(batch));
            let window_ns = (record_time_ns(first), record_time_ns(first + batch));
            Query::Rows { of: Arc::clone(&table), key: Key::Int(container as i64), window_ns }
        })
        .collect();
    run.ask("read", &queries, connections)?;
    run.verify(&|query| match query {
        Query::Rows { key: Key::Int(key), window_ns: (from, to), .. } => {
            records(plan.seed, *key, record_number(*from)..record_number(*to))
        }
        _ => Err("only records can be queried here".into()),
    })
}
