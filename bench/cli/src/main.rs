//! `fleetdb-bench`: four experiments with FleetDB and other databases, and tests of FleetDB alone.
//!
//! `run` measures ([`run`], [`soak`]), `list` shows experiments and targets, `report` and `compare`
//! read stored results.

#[cfg(feature = "cluster")]
mod failover;
#[cfg(feature = "cluster")]
mod fleet;
mod interrupt;
mod own;
mod progress;
mod run;
mod soak;

use clap::{Parser, Subcommand};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::experiment::{acquisition, durability};
use fleetdb_bench_core::report;
use fleetdb_bench_core::results::Results;
use fleetdb_bench_core::target::Entry;
use std::path::PathBuf;
use std::process::ExitCode;

/// The allocator of `fleetdb`, so that FleetDB is measured in the suite as it runs. Databases in C
/// keep their own.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Benchmarks databases for sensor data; verifies every answer and states the durability of every
/// number.
#[derive(Parser)]
#[command(name = "fleetdb-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment
    Run {
        #[command(flatten)]
        common: Box<run::Common>,
        #[command(subcommand)]
        experiment: run::Experiment,
    },
    /// List experiments and targets, and what is missing on this machine
    List,
    /// Create the reports of a results.json again and print them
    Report {
        /// A results.json
        results: PathBuf,
    },
    /// Show which differences between two results.json are more than chance
    Compare {
        /// The first results.json
        a: PathBuf,
        /// The second results.json
        b: PathBuf,
    },
    /// A sampler of datapoints (used by the suite itself)
    #[command(name = acquisition::SAMPLER, hide = true)]
    Sample(acquisition::Sampling),
    /// A target that is written to until it is killed (used by the suite itself)
    #[command(name = durability::COMMAND, hide = true)]
    WriteUntilKilled(run::WriteUntilKilled),
    /// Reads what `run soak many` has written (used by the suite itself)
    #[command(name = soak::many::COMMAND, hide = true)]
    ReadMany(soak::many::Reading),
    /// The vehicles of `run fleet` (used by the suite itself)
    #[cfg(feature = "cluster")]
    #[command(name = fleet::DEVICES, hide = true)]
    FleetDevices(fleet::Devices),
    /// The server of `run fleet` (used by the suite itself)
    #[cfg(feature = "cluster")]
    #[command(name = fleet::SERVER, hide = true)]
    FleetServer(fleet::Adopting),
    /// A node of `run failover` (used by the suite itself)
    #[cfg(feature = "cluster")]
    #[command(name = failover::NODE, hide = true)]
    FailoverNode(failover::NodeArguments),
    /// A server to be measured (used by the suite itself)
    #[command(name = fleetdb_bench_targets::fleetdb_server::COMMAND, hide = true)]
    ServeFleetdb {
        #[arg(long)]
        directory: PathBuf,
        #[arg(long)]
        durability: String,
    },
    /// A server that stores nothing (used by the suite itself)
    #[command(name = fleetdb_bench_targets::floor::COMMAND, hide = true)]
    ServeFloor {
        #[arg(long)]
        directory: PathBuf,
        #[arg(long)]
        log: bool,
    },
}

fn main() -> ExitCode {
    match command(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command(command: Command) -> Outcome<ExitCode> {
    match command {
        Command::Run { common, experiment } => return run::run(&experiment, &common),
        Command::List => list(),
        Command::Report { results: path } => {
            let results = Results::read(&path)?;
            run::write_reports(&results, path.parent().ok_or("a file lies in a directory")?)?;
            print!("{}", report::text(&results));
        }
        Command::Compare { a, b } => print!("{}", report::compare(&Results::read(&a)?, &Results::read(&b)?)),
        Command::Sample(sampling) => acquisition::sample(&sampling)?,
        Command::WriteUntilKilled(arguments) => run::write_until_killed(&arguments)?,
        Command::ReadMany(reading) => soak::many::read(&reading)?,
        #[cfg(feature = "cluster")]
        Command::FleetDevices(devices) => fleet::run_devices(&devices)?,
        #[cfg(feature = "cluster")]
        Command::FleetServer(adopting) => fleet::run_server(&adopting)?,
        #[cfg(feature = "cluster")]
        Command::FailoverNode(arguments) => failover::run_node(&arguments)?,
        Command::ServeFleetdb { directory, durability } => {
            fleetdb_bench_targets::fleetdb_server::serve(&directory, &durability)?;
        }
        Command::ServeFloor { directory, log } => fleetdb_bench_targets::floor::serve(&directory, log)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list() {
    println!("Experiments");
    for experiment in run::Experiment::augment_subcommands(clap::Command::new("run")).get_subcommands() {
        println!("  {:<20} {}", experiment.get_name(), experiment.get_about().unwrap_or_default());
    }
    list_targets("Targets", fleetdb_bench_targets::all());
    list_targets("Targets that are measured only when they are named", fleetdb_bench_targets::variants());
}

fn list_targets(title: &str, entries: Vec<Entry>) {
    println!("{title}");
    for entry in entries {
        let url = entry.url.map(|url| format!("; by URL, as {url}")).unwrap_or_default();
        let lacking = match entry.missing {
            Some(missing) => missing().map(|missing| format!("; {missing}")),
            None => Some("; not started by the suite".to_owned()),
        };
        let lacking = lacking.unwrap_or_default();
        println!("  {:<20} {}{url}{lacking}", entry.name, entry.about);
    }
}
