//! E3: records of 200 bytes, one container a thread; on one machine here, and durable before they count.
//!
//! 1. `write`: each connection writes its own container's records, so many a transaction, as fast as they are acknowledged.
//! 2. `write at half the rate`: the same in an open loop, whose latency counts from when a transaction was due.
//! 3. `read`: each connection reads its container's records back, as many a query, at drawn places; every one is compared.

use super::{Job, Run, Size};
use crate::Outcome;
use crate::driver::{Limit, Worker};
use crate::query::Query;
use crate::table::Table;
use crate::target::Connection;
use crate::workload::series::{Series, record_time_ns, records};
use arrow::array::RecordBatch;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::time::Duration;

/// How large.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Records [full: 10000000]
    #[arg(long)]
    pub records: Option<u64>,
    /// Connections, each with a container [full: 32]
    #[arg(long)]
    pub connections: Option<usize>,
    /// Records of one transaction and of one query
    #[arg(long)]
    pub batch: Option<u64>,
    /// Queries of all connections together [full: 10000]
    #[arg(long)]
    pub reads: Option<usize>,
    /// Seconds at half the rate [full: 30]
    #[arg(long)]
    pub rate_seconds: Option<u64>,
}

/// Runs it.
///
/// # Errors
/// The target's.
pub fn run(run: &mut Run<'_>, scale: &Scale, is_full: bool) -> Outcome<()> {
    let connections = scale.connections.unwrap_or(if is_full { 32 } else { 8 }).max(1);
    let batch = scale.batch.unwrap_or(100).max(1);
    let all = scale.records.unwrap_or(if is_full { 10_000_000 } else { 200_000 });
    let transactions = (all / connections as u64 / batch).max(1);
    let reads = scale.reads.unwrap_or(if is_full { 10_000 } else { 1_000 }).max(1);
    let rate_seconds = scale.rate_seconds.unwrap_or(if is_full { 30 } else { 3 });
    let table = Series::Records.table();
    run.target.create(std::slice::from_ref(&table))?;
    let mut writers = Vec::new();
    for container in 0..connections as i64 {
        let connection = run.target.connect()?;
        let (seed, left, written) = (run.seed, transactions, 0);
        writers.push(Writer { connection, table: &table, seed, container, batch, written, left, next: None });
    }
    let operation = format!("{batch} records");
    let size = Size::Operations(transactions * connections as u64);
    let job = Job { name: "write", operation: &operation, size };
    let phase = run.drive_and_settle(job, workers(&mut writers), Limit::default())?;
    let rate = phase.driven.operations as f64 / phase.driven.seconds / 2.0;
    writers.iter_mut().for_each(|writer| writer.left = u64::MAX);
    let job = Job { name: "write at half the rate", operation: &operation, size: Size::Seconds(rate_seconds) };
    let limit = Limit { time: Some(Duration::from_secs(rate_seconds)), rate: Some(rate) };
    run.drive_and_settle(job, workers(&mut writers), limit)?;
    run.check_count("records", writers.iter().map(|writer| writer.written * batch).sum())?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.seed);
    let queries: Vec<Query> = (0..reads)
        .map(|number| {
            let container = number % connections;
            let first = random.random_range(0..=(writers[container].written * batch).saturating_sub(batch));
            let window_ns = (record_time_ns(first), record_time_ns(first + batch));
            Query::Series { of: Series::Records, key: container as i64, window_ns }
        })
        .collect();
    drop(writers);
    run.ask("read", &queries, connections)?;
    let seed = run.seed;
    run.verify(&|query| match query {
        Query::Series { key, window_ns: (from, to), .. } => records(seed, *key, number(*from)..number(*to)),
        _ => Err("only records are asked here".into()),
    })
}

/// The record that is at a time.
fn number(time_ns: i64) -> u64 {
    ((time_ns - record_time_ns(0)) / (record_time_ns(1) - record_time_ns(0))) as u64
}

fn workers<'a>(writers: &'a mut [Writer<'_>]) -> Vec<Box<dyn Worker + 'a>> {
    writers.iter_mut().map(|writer| Box::new(writer) as Box<dyn Worker>).collect()
}

/// Writes one container's records.
struct Writer<'a> {
    connection: Box<dyn Connection>,
    table: &'a Table,
    seed: u64,
    container: i64,
    batch: u64,
    /// Transactions that were acknowledged, and that are left.
    written: u64,
    left: u64,
    next: Option<RecordBatch>,
}

impl Worker for &mut Writer<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if self.left > 0 && self.next.is_none() {
            let first = self.written * self.batch;
            self.next = Some(records(self.seed, self.container, first..first + self.batch)?);
        }
        Ok(self.left > 0)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let rows = self.next.take().ok_or("nothing was prepared")?;
        self.connection.write(&[(self.table, rows)])?;
        (self.written, self.left) = (self.written + 1, self.left - 1);
        Ok(self.batch)
    }
}
