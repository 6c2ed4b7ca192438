//! A user's own rows, to see whether a database suits them.
//!
//! 1. `ingest`: all rows in file order, a thousand per transaction, over one connection.
//! 2. `COUNT`, `ROWS` (about a hundred whole rows of a key, at random places) and `LAST` (the
//!    newest row of a key); every answer is compared.

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

/// Rows in a query's window, if the key has that many.
const WINDOW_ROWS: usize = 100;

/// The data to use.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// A file of rows: CSV with a header, Parquet, or line protocol, chosen by its extension (.csv,
    /// .parquet, any other)
    #[arg(long)]
    pub data: PathBuf,
    /// A TOML file that assigns the columns: key = "device", time = "at", time_unit = "ms", columns
    /// = ["speed"]
    #[arg(long)]
    pub mapping: PathBuf,
    /// Number of times each query is asked
    #[arg(long, default_value_t = 100)]
    pub asked: usize,
}

/// Runs the experiment.
///
/// # Errors
/// Those of the target.
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
