//! How fast the workloads generate rows on one core. The generator must not be the bottleneck of a
//! measurement.

use super::process::run_pinned;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::workload::cpu::{BATCH_ROWS, Cpu, SEED};
use fleetdb_bench_core::workload::meters::{Meters, YEAR_HOURS};
use fleetdb_bench_core::workload::series::{Datapoint, datapoints, records};
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Rows of each workload
    #[arg(long, default_value_t = 10_000_000)]
    rows: usize,
    #[arg(long, hide = true)]
    child: bool,
}

pub fn run(args: &Args) -> Outcome<()> {
    if !args.child {
        println!("rows made on one core, as Arrow, in batches of {BATCH_ROWS}");
        return run_pinned(&["generator", "--child", "--rows", &args.rows.to_string()], None);
    }
    let batches = (args.rows / BATCH_ROWS).max(1);
    let mut cpu = Cpu::edge();
    timed("E2's cpu rows", batches, |_| Ok(cpu.batch()?.num_rows()))?;
    let meters = Meters::new(SEED);
    let chunks = YEAR_HOURS as usize / BATCH_ROWS;
    timed("E1's readings", batches / 10, |number| {
        let first = ((number % chunks) * BATCH_ROWS) as i64;
        Ok(meters.readings((number / chunks) as i64, first..first + BATCH_ROWS as i64)?.num_rows())
    })?;
    timed("E3's records", batches / 10, |number| {
        let first = (number * BATCH_ROWS) as u64;
        Ok(records(SEED, 1, first..first + BATCH_ROWS as u64)?.num_rows())
    })?;
    timed("E4's datapoints", batches / 10, |number| {
        let first = (number * BATCH_ROWS) as u64;
        let points = (first..first + BATCH_ROWS as u64).map(|number| Datapoint::sampled(SEED, number, number as i64));
        Ok(datapoints(1, &points.collect::<Vec<_>>())?.num_rows())
    })
}

fn timed(what: &str, batches: usize, mut make: impl FnMut(usize) -> Outcome<usize>) -> Outcome<()> {
    let (start, mut rows) = (Instant::now(), 0);
    for number in 0..batches.max(1) {
        rows += make(number)?;
    }
    println!("{what:<16} {:>12.0} rows/s", rows as f64 / start.elapsed().as_secs_f64());
    Ok(())
}
