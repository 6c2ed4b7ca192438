//! `run`: every repetition of every target in a process of its own, interleaved, so that a slow minute of the machine
//! strikes all alike.
//!
//! 1. The parent finds the targets, and starts itself again for each repetition of each ([`one`]), which prints a
//!    [`Run`](results::Run) as JSON.
//! 2. Ctrl-C reaches both: the child ends its phase and what it started, the parent writes what there is, marked as broken
//!    off.
//! 3. The results are written as JSON, Markdown and HTML, and printed.

use crate::progress::Progress;
use fleetdb_bench_core::driver::Watch;
use fleetdb_bench_core::experiment::{self, acquisition, billing, edge, scale};
use fleetdb_bench_core::results::{self, Machine, Results, VERSION};
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_bench_core::target::{Entry, Profile, Start};
use fleetdb_bench_core::{Outcome, report};
use fleetdb_bench_targets::{all, named};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The experiments, as `list` shows them.
pub const EXPERIMENTS: [(&str, &str); 4] = [
    ("billing", "E1: hourly meter readings and monthly bills"),
    ("edge", "E2: TSBS cpu rows on one core, seven queries"),
    ("scale", "E3: records of 200 bytes written and read"),
    ("acquisition", "E4: a thousand datapoints a second through a bounded queue"),
];

#[derive(clap::Subcommand, Clone)]
pub enum Experiment {
    /// E1: hourly meter readings, each with its meter's row in one transaction, and monthly bills
    Billing {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        scale: billing::Scale,
    },
    /// E2: TSBS cpu rows in batches of 1,000 on one core, and seven queries
    Edge {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        scale: edge::Scale,
    },
    /// E3: records of 200 bytes, one container a connection, written and read back
    Scale {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        scale: scale::Scale,
    },
    /// E4: a sampler of a thousand datapoints a second, a bounded queue, a writer
    Acquisition {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        scale: acquisition::Scale,
    },
}

#[derive(clap::Args, Clone)]
pub struct Common {
    /// Targets to measure; `fleetdb-bench list` shows all [default: those that can start here]
    #[arg(long, value_delimiter = ',')]
    targets: Vec<String>,
    /// Whose settings: those of the publication, or one durability for all
    #[arg(long, value_enum, default_value = "fair")]
    profile: Profile,
    /// The published size, as far as one machine goes
    #[arg(long)]
    full: bool,
    /// Repetitions of each target [default: 5 in fair, 3 in published]
    #[arg(long)]
    repetitions: Option<usize>,
    /// Cores that client and server share [default: 1 for edge, all for others]
    #[arg(long)]
    cores: Option<usize>,
    /// The seed of all rows
    #[arg(long, default_value_t = 123)]
    seed: u64,
    /// What the machine costs an hour, for the cost of operations
    #[arg(long)]
    price_per_hour: Option<f64>,
    /// Where databases are made and removed: the disk that is measured
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Where results are written [default: fleetdb-bench-results/EXPERIMENT-PROFILE]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Run this repetition of one target in this process and this directory (used by the command itself)
    #[arg(long, hide = true)]
    repetition: Option<usize>,
    #[arg(long, hide = true)]
    only: Option<String>,
    #[arg(long, hide = true)]
    scratch: Option<PathBuf>,
}

impl Experiment {
    fn name(&self) -> &'static str {
        match self {
            Self::Billing { .. } => "billing",
            Self::Edge { .. } => "edge",
            Self::Scale { .. } => "scale",
            Self::Acquisition { .. } => "acquisition",
        }
    }

    fn common(&self) -> &Common {
        match self {
            Self::Billing { common, .. }
            | Self::Edge { common, .. }
            | Self::Scale { common, .. }
            | Self::Acquisition { common, .. } => common,
        }
    }

    /// Sizes that were given.
    fn scale(&self) -> Outcome<serde_json::Value> {
        let mut scale = match self {
            Self::Billing { scale, .. } => serde_json::to_value(scale)?,
            Self::Edge { scale, .. } => serde_json::to_value(scale)?,
            Self::Scale { scale, .. } => serde_json::to_value(scale)?,
            Self::Acquisition { scale, .. } => serde_json::to_value(scale)?,
        };
        if let Some(sizes) = scale.as_object_mut() {
            sizes.retain(|_, size| !size.is_null());
            sizes.insert("full".to_owned(), self.common().full.into());
            sizes.insert("cores".to_owned(), self.cores()?.into());
        }
        Ok(scale)
    }

    fn cores(&self) -> Outcome<usize> {
        let all = std::thread::available_parallelism()?.get();
        let default = if matches!(self, Self::Edge { .. }) { 1 } else { all };
        Ok(self.common().cores.unwrap_or(default).clamp(1, all))
    }
}

/// Runs an experiment; fails if an answer was wrong or a target broke off.
pub fn run(experiment: &Experiment) -> Outcome<ExitCode> {
    let common = experiment.common();
    if let (Some(repetition), Some(target), Some(scratch)) = (common.repetition, &common.only, &common.scratch) {
        println!("{}", serde_json::to_string(&one(experiment, target, repetition, scratch)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop))?;
    let entries = entries(common)?;
    let scratch = Scratch::new(&common.directory)?;
    let mut results = Results {
        version: VERSION,
        suite: env!("CARGO_PKG_VERSION").to_owned(),
        experiment: experiment.name().to_owned(),
        profile: common.profile,
        began_s: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        seed: common.seed,
        scale: experiment.scale()?,
        price_per_hour: common.price_per_hour,
        machine: Machine::this(scratch.path())?,
        runs: Vec::new(),
    };
    let default = if common.profile == Profile::Fair { 5 } else { 3 };
    let repetitions = common.repetitions.unwrap_or(default).max(1);
    'all: for repetition in 0..repetitions {
        for entry in &entries {
            if stop.load(Ordering::Relaxed) {
                break 'all;
            }
            eprintln!("{}, {} of {repetitions}", entry.name, repetition + 1);
            results.runs.push(child(experiment, entry, repetition, scratch.path())?);
        }
    }
    drop(scratch);
    let default = || Path::new("fleetdb-bench-results").join(format!("{}-{}", results.experiment, profile(common)));
    let out = common.out.clone().unwrap_or_else(default);
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("results.json"), serde_json::to_string_pretty(&results)?)?;
    write_reports(&results, &out)?;
    print!("{}", report::text(&results));
    println!("\nWritten: {0}/results.json, {0}/report.md, {0}/report.html", out.display());
    let phases = || results.runs.iter().flat_map(|run| &run.phases);
    let is_good = results.runs.iter().all(|run| run.is_complete) && phases().all(|phase| phase.wrong.is_none());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn profile(common: &Common) -> &'static str {
    match common.profile {
        Profile::Fair => "fair",
        Profile::Published => "published",
    }
}

/// Writes `report.md` and `report.html`.
pub fn write_reports(results: &Results, directory: &Path) -> Outcome<()> {
    std::fs::write(directory.join("report.md"), report::markdown(results))?;
    Ok(std::fs::write(directory.join("report.html"), report::html(results)?)?)
}

/// The targets that were named, or those that can start here.
fn entries(common: &Common) -> Outcome<Vec<Entry>> {
    if common.targets.is_empty() {
        let mut there = Vec::new();
        for entry in all() {
            match (entry.missing)() {
                Some(missing) => eprintln!("left out: {}: {missing}", entry.name),
                None => there.push(entry),
            }
        }
        return Ok(there);
    }
    let mut entries = Vec::new();
    for name in &common.targets {
        let entry = named(name)?;
        if let Some(missing) = (entry.missing)() {
            return Err(format!("{name}: {missing}").into());
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// A repetition in a process of its own; one that fails is part of the results.
fn child(experiment: &Experiment, entry: &Entry, repetition: usize, scratch: &Path) -> Outcome<results::Run> {
    let cores = experiment.cores()?;
    let own = std::env::current_exe()?;
    let mut command = Command::new("taskset");
    command.arg("-c").arg(format!("0-{}", cores - 1)).arg(own);
    command.args(std::env::args_os().skip(1));
    command.args(["--only", entry.name, "--repetition", &repetition.to_string()]).arg("--scratch").arg(scratch);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|e| format!("taskset: {e}"))?;
    serde_json::from_slice(&output.stdout).or_else(|error| {
        Ok(results::Run {
            target: entry.name.to_owned(),
            repetition,
            info: None,
            is_complete: false,
            error: Some(format!("its process ended without results ({}): {error}", output.status)),
            phases: Vec::new(),
        })
    })
}

/// One repetition, in this process.
fn one(experiment: &Experiment, target: &str, repetition: usize, scratch: &Path) -> Outcome<results::Run> {
    let common = experiment.common();
    let watch = Arc::new(Watch::default());
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&watch.stop))?;
    let scratch = Scratch::new(scratch)?;
    let entry = named(target)?;
    let mut run = results::Run {
        target: target.to_owned(),
        repetition,
        info: None,
        is_complete: false,
        error: None,
        phases: Vec::new(),
    };
    let start = Start { directory: scratch.path(), profile: common.profile };
    let mut started = match fleetdb_bench_targets::start(&entry, &start) {
        Ok(started) => started,
        Err(error) => {
            run.error = Some(error.to_string());
            return Ok(run);
        }
    };
    run.info = Some(started.info());
    let progress = Progress::new(target, &watch);
    let announce = |phase: &str, size| progress.announce(phase, size);
    let mut context =
        experiment::Run::new(&mut *started, scratch.path(), common.profile, common.seed, &watch, &announce);
    let ended = match experiment {
        Experiment::Billing { scale, .. } => billing::run(&mut context, scale, common.full),
        Experiment::Edge { scale, .. } => edge::run(&mut context, scale, common.full),
        Experiment::Scale { scale, .. } => scale::run(&mut context, scale, common.full),
        Experiment::Acquisition { scale, .. } => acquisition::run(&mut context, scale, common.full),
    };
    run.phases = context.phases;
    run.is_complete = ended.is_ok() && !watch.stop.load(Ordering::Relaxed);
    run.error = ended.err().map(|error| error.to_string());
    Ok(run)
}
