//! `fleetdb-bench`: the four experiments against the databases that a team has, and FleetDB's own bars.
//!
//! `run` measures ([`run`]), `list` says what there is, `report` and `compare` read results again, `bars` are what this
//! project holds itself to ([`bars`]).

mod bars;
mod progress;
mod run;

use clap::{Parser, Subcommand};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::experiment::acquisition;
use fleetdb_bench_core::report;
use fleetdb_bench_core::results::Results;
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures databases for sensor data, with answers that are compared and tiers of durability that are named.
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
        #[command(subcommand)]
        experiment: run::Experiment,
    },
    /// List experiments and targets, and what is missing here
    List,
    /// Make the reports of a results.json again, and print it
    Report {
        /// A results.json
        results: PathBuf,
    },
    /// Say which differences between two results.json are more than chance
    Compare {
        /// The first
        a: PathBuf,
        /// The second
        b: PathBuf,
    },
    /// FleetDB's own bars
    Bars {
        #[command(subcommand)]
        bar: bars::Bar,
    },
    /// A sampler of datapoints (used by the suite itself)
    #[command(name = acquisition::SAMPLER, hide = true)]
    Sample(acquisition::Sampling),
    /// A server to be measured (used by the suite itself)
    #[command(name = fleetdb_bench_targets::fleetdb_server::COMMAND, hide = true)]
    ServeFleetdb {
        #[arg(long)]
        directory: PathBuf,
        #[arg(long)]
        durability: String,
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
        Command::Run { experiment } => return run::run(&experiment),
        Command::List => list(),
        Command::Report { results: path } => {
            let results = Results::read(&path)?;
            run::write_reports(&results, path.parent().ok_or("a file lies in a directory")?)?;
            print!("{}", report::text(&results));
        }
        Command::Compare { a, b } => print!("{}", report::compare(&Results::read(&a)?, &Results::read(&b)?)),
        Command::Bars { bar } => bars::run(&bar)?,
        Command::Sample(sampling) => acquisition::sample(&sampling)?,
        Command::ServeFleetdb { directory, durability } => {
            fleetdb_bench_targets::fleetdb_server::serve(&directory, &durability)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list() {
    println!("Experiments");
    for (name, about) in run::EXPERIMENTS {
        println!("  {name:<16} {about}");
    }
    println!("Targets");
    for entry in fleetdb_bench_targets::all() {
        let missing = (entry.missing)().map(|missing| format!("; {missing}")).unwrap_or_default();
        println!("  {:<16} {}{missing}", entry.name, entry.about);
    }
}
