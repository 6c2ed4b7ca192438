//! `fleetdb-sim`: runs seeds of the crash simulator and prints statistics.

use clap::Parser;
use fleetdb_sim::run::{Report, random_crashes};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Crashes the engine on a simulated disk and checks that nothing acknowledged is lost.
#[derive(Parser)]
#[command(name = "fleetdb-sim")]
struct Args {
    /// Number of seeds
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// First seed; by default a fresh one
    #[arg(long)]
    first: Option<u64>,
    /// Crashes per seed
    #[arg(long, default_value_t = 20)]
    crashes: u64,
    /// Number of threads
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let first = args.first.unwrap_or_else(fresh);
    println!("seeds {first} to {}, {} crashes each", first.wrapping_add(args.seeds).wrapping_sub(1), args.crashes);
    let start = Instant::now();
    let threads = args.threads.max(1);
    let workers: Vec<_> = (0..threads)
        .map(|worker| {
            std::thread::spawn(move || {
                let (mut total, mut failed) = (Report::default(), Vec::new());
                for seed in (worker..args.seeds).step_by(threads as usize).map(|n| first.wrapping_add(n)) {
                    match std::panic::catch_unwind(|| random_crashes(seed, args.crashes)) {
                        Ok(report) => {
                            total.crashes += report.crashes;
                            total.batches += report.batches;
                            total.syncs += report.syncs;
                        }
                        Err(_) => {
                            println!("failed: --first {seed} --seeds 1 --crashes {}", args.crashes);
                            failed.push(seed);
                        }
                    }
                }
                (total, failed)
            })
        })
        .collect();
    let (mut total, mut failed) = (Report::default(), Vec::new());
    for worker in workers {
        match worker.join() {
            Ok((report, seeds)) => {
                total.crashes += report.crashes;
                total.batches += report.batches;
                total.syncs += report.syncs;
                failed.extend(seeds);
            }
            Err(_) => return ExitCode::FAILURE,
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} crashes, {} batches, {} syncs in {seconds:.1} s: {:.0} seeds/s, {:.0} crashes/s",
        total.crashes,
        total.batches,
        total.syncs,
        args.seeds as f64 / seconds,
        total.crashes as f64 / seconds
    );
    if failed.is_empty() {
        println!("no acknowledged write was lost and no invariant was violated");
        return ExitCode::SUCCESS;
    }
    println!("{} of {} seeds failed", failed.len(), args.seeds);
    ExitCode::FAILURE
}
