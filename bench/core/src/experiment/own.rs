//! A user's own rows: whether a database suits them.
//!
//! 1. `ingest`: all rows in the order in which they are, a thousand a transaction, over one connection.
//! 2. `COUNT`, `ROWS` (whole rows of a key, a hundred or so, at drawn places) and `LAST` (the newest row of a key); every
//!    answer is compared.

use super::workers::Writer;
use super::{Job, Run, Size};
use crate::Outcome;
use crate::driver::Limit;
use crate::oracle::RowsOracle;
use crate::query::Query;
use crate::workload::own::Own;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// Rows that a query's window has, if the key has as many.
const WINDOW_ROWS: usize = 100;

/// Whose.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// A file of rows: CSV with a line of names, Parquet, or line protocol, by its ending (.csv, .parquet, any other)
    #[arg(long)]
    pub data: PathBuf,
    /// Which of its columns are what, as TOML: key = "device", time = "at", time_unit = "ms", columns = ["speed"]
    #[arg(long)]
    pub mapping: PathBuf,
    /// How often each query is asked
    #[arg(long, default_value_t = 100)]
    pub asked: usize,
}

/// Runs it.
///
/// # Errors
/// The target's.
pub fn run(run: &mut Run<'_>, scale: &Scale, own: &Own) -> Outcome<()> {
    run.target.create(std::slice::from_ref(&*own.table))?;
    let mut batches = own.batches.iter().cloned();
    let count = own.batches.len() as u64;
    let make = |_| batches.next().ok_or_else(|| "there are no more rows".into());
    let mut writer = [Writer::new(run.target.connect()?, &own.table, count, make)];
    let job = Job { name: "ingest", operation: "up to 1,000 rows", size: Size::Operations(count) };
    run.drive_and_settle(job, &mut writer, Limit::default())?;
    drop(writer);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.plan.seed);
    let oracle = RowsOracle::of(own);
    run.check_count(own.table.name, oracle.count())?;
    let (mut rows, mut last) = (Vec::new(), Vec::new());
    for _ in 0..scale.asked.max(1) {
        let (key, window_ns) = oracle.window(random.random(), WINDOW_ROWS).ok_or("there are no rows")?;
        rows.push(Query::Rows { of: Arc::clone(&own.table), key: key.clone(), window_ns });
        last.push(Query::Last { of: Arc::clone(&own.table), key });
    }
    run.ask("COUNT", &vec![Query::Count(own.table.name); rows.len()], 1)?;
    run.ask("ROWS", &rows, 1)?;
    run.ask("LAST", &last, 1)?;
    run.verify(&|query| oracle.answer(query))
}
