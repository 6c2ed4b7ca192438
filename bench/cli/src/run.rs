//! `run`: runs every repetition of every target in its own process, interleaved, so that a slow
//! minute of the machine affects all targets alike.
//!
//! 1. The parent finds the targets and starts itself again for each repetition of each target
//!    ([`one`]), which prints a [`Run`](results::Run) as JSON.
//! 2. On Ctrl-C or SIGTERM ([`interrupt`](crate::interrupt)), the child ends its phase and the
//!    processes it started; the parent writes the results so far and marks them as incomplete.
//! 3. The results are written as JSON, Markdown and HTML, and printed.

use crate::interrupt::{Parent, set_when_asked};
use crate::progress::Progress;
use crate::soak::{Soak, Test};
use fleetdb_bench_core::driver::Watch;
use fleetdb_bench_core::experiment::{
    self, Plan, acquisition, billing, durability, edge, own, scale, statements, tsbs,
};
use fleetdb_bench_core::results::{self, Machine, Results, VERSION};
use fleetdb_bench_core::scratch::Scratch;
use fleetdb_bench_core::target::{Entry, Profile, Start, Target};
use fleetdb_bench_core::{Outcome, report};
use fleetdb_bench_targets::{all, named};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The experiment and its size.
#[derive(clap::Subcommand, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// E1: hourly meter readings, each with its meter's row in one transaction, and monthly bills
    Billing(billing::Scale),
    /// E2: TSBS cpu rows in batches of 1,000 on one core, and seven queries
    Edge(edge::Scale),
    /// TSBS' other queries of cpu rows, and its queries of trucks, on settled data
    Tsbs(tsbs::Scale),
    /// E3: records of 200 bytes, one container per connection, written and read back
    Scale(scale::Scale),
    /// E4: a sampler of a thousand datapoints per second, a bounded queue, a writer
    Acquisition(acquisition::Scale),
    /// Everyday statements: short reads and writes by key, prepared and not
    Statements(statements::Scale),
    /// Your own rows from a file, written and queried
    Own(own::Scale),
    /// Count the acknowledged records that survive kill -9
    Durability(durability::Scale),
    /// FleetDB alone: vehicles hand their rows over to a server through a bucket
    #[cfg(feature = "cluster")]
    Fleet(crate::fleet::Scale),
    /// FleetDB alone: a database that survives the loss of its machine, by a log in a bucket
    #[cfg(feature = "cluster")]
    Failover(crate::failover::Scale),
    /// FleetDB alone: a year in fast motion, a million containers, bills by local time
    #[command(subcommand)]
    Soak(Soak),
}

/// How an experiment is run.
#[derive(clap::Args, Clone)]
pub struct Common {
    /// Targets to measure; `fleetdb-bench list` shows all [default: the databases that can start
    /// here and those with a URL]
    #[arg(long, global = true, value_delimiter = ',')]
    targets: Vec<String>,
    /// Measure a running instance of a target, such as mariadb=mysql://root@host:3306/test; may be
    /// given several times
    #[arg(long, global = true, value_name = "TARGET=URL", value_parser = named_url)]
    url: Vec<(String, String)>,
    /// Settings to use: those of the publication, or the same durability for all targets
    #[arg(long, global = true, value_enum, default_value = "fair")]
    profile: Profile,
    /// Use the published sizes, as far as one machine permits
    #[arg(long, global = true)]
    full: bool,
    /// Repetitions per target [default: 5 in fair, 3 in published, 1 of soak]
    #[arg(long, global = true)]
    repetitions: Option<usize>,
    /// Number of cores that client and server share [default: 1 for edge, tsbs, soak many and soak
    /// bills, all for others]
    #[arg(long, global = true)]
    cores: Option<usize>,
    /// Seconds after which a phase of queries starts no more of them [default: 60, with --full 600]
    #[arg(long, global = true)]
    query_seconds: Option<u64>,
    /// The seed of all rows
    #[arg(long, global = true, default_value_t = 123)]
    seed: u64,
    /// Price of the machine per hour, to compute the cost of operations
    #[arg(long, global = true)]
    price_per_hour: Option<f64>,
    /// Directory in which databases are created and removed; its disk is measured
    #[arg(long, global = true, default_value = ".")]
    directory: PathBuf,
    /// Directory for the results [default: fleetdb-bench-results/EXPERIMENT-PROFILE]
    #[arg(long, global = true)]
    out: Option<PathBuf>,
    /// Run this repetition of one target in this process and this directory (used by the command
    /// itself)
    #[arg(long, global = true, hide = true)]
    repetition: Option<usize>,
    #[arg(long, global = true, hide = true)]
    only: Option<String>,
    #[arg(long, global = true, hide = true)]
    scratch: Option<PathBuf>,
}

/// Arguments of the process that writes until it is killed; see [`durability`].
#[derive(clap::Args)]
pub struct WriteUntilKilled {
    #[arg(long)]
    target: String,
    #[arg(long, value_enum)]
    profile: Profile,
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    connections: usize,
}

fn named_url(argument: &str) -> Result<(String, String), String> {
    let (name, url) = argument.split_once('=').ok_or("it must have the form TARGET=URL")?;
    let entry = named(name).map_err(|error| error.to_string())?;
    match entry.url {
        Some(_) => Ok((name.to_owned(), url.to_owned())),
        None => Err(format!("{name} has no URL")),
    }
}

impl Experiment {
    /// The name of the experiment, and the sizes that were given.
    fn parts(&self) -> Outcome<(String, serde_json::Map<String, serde_json::Value>)> {
        let serde_json::Value::Object(named) = serde_json::to_value(self)? else {
            return Err("the name is missing".into());
        };
        let (mut name, mut scale) = named.into_iter().next().ok_or("the name is missing")?;
        if let (Self::Soak(_), serde_json::Value::Object(test)) = (self, &mut scale) {
            let (test, sizes) = std::mem::take(test).into_iter().next().ok_or("the name is missing")?;
            (name, scale) = (format!("{name}-{test}"), sizes);
        }
        let sizes = scale.as_object().into_iter().flatten().filter(|(_, size)| !size.is_null());
        Ok((name, sizes.map(|(name, size)| (name.clone(), size.clone())).collect()))
    }

    fn cores(&self, common: &Common) -> Outcome<usize> {
        let all = std::thread::available_parallelism()?.get();
        let default = match self {
            Self::Edge(_) | Self::Tsbs(_) => 1,
            Self::Soak(soak) if soak.is_on_one_core() => 1,
            _ => all,
        };
        Ok(common.cores.unwrap_or(default).clamp(1, all))
    }

    fn repetitions(&self, common: &Common) -> usize {
        let default = match common.profile {
            _ if self.is_of_fleetdb_alone() => 1,
            Profile::Fair => 5,
            Profile::Published => 3,
        };
        common.repetitions.unwrap_or(default).max(1)
    }

    /// Whether it reaches into FleetDB, which is then the only target.
    fn is_of_fleetdb_alone(&self) -> bool {
        match self {
            Self::Soak(_) => true,
            #[cfg(feature = "cluster")]
            Self::Fleet(_) | Self::Failover(_) => true,
            _ => false,
        }
    }

    /// The targets to measure.
    fn entries(&self, common: &Common) -> Outcome<Vec<Entry>> {
        if !self.is_of_fleetdb_alone() {
            return common.entries();
        }
        let has_no_choice =
            common.targets.is_empty() && common.url.is_empty() && common.profile == Profile::Fair && !common.full;
        match has_no_choice {
            true => Ok(vec![named("fleetdb")?]),
            false => {
                Err("this experiment measures FleetDB with its own settings, without --targets, --url, --profile \
                          and --full"
                    .into())
            }
        }
    }
}

impl Common {
    fn url(&self, target: &str) -> Option<&str> {
        self.url.iter().find(|(name, _)| name == target).map(|(_, url)| url.as_str())
    }

    /// The targets that were named, or else those that can be measured here.
    fn entries(&self) -> Outcome<Vec<Entry>> {
        let lacking = |entry: &Entry| if self.url(entry.name).is_some() { None } else { entry.lacking() };
        let mut entries = Vec::new();
        if self.targets.is_empty() {
            for entry in all() {
                match lacking(&entry) {
                    Some(lacking) => eprintln!("skipped: {}: {lacking}", entry.name),
                    None => entries.push(entry),
                }
            }
            return Ok(entries);
        }
        for name in &self.targets {
            let entry = named(name)?;
            if let Some(lacking) = lacking(&entry) {
                return Err(format!("{name}: {lacking}").into());
            }
            entries.push(entry);
        }
        let named: BTreeSet<&str> = entries.iter().map(|entry| entry.name).collect();
        match self.url.iter().find(|(name, _)| !named.contains(name.as_str())) {
            Some((name, _)) => Err(format!("{name} has a URL but is not one of the targets").into()),
            None => Ok(entries),
        }
    }
}

/// Runs an experiment; fails if an answer was wrong or a target did not finish.
pub fn run(experiment: &Experiment, common: &Common) -> Outcome<ExitCode> {
    if let (Some(repetition), Some(target), Some(scratch)) = (common.repetition, &common.only, &common.scratch) {
        println!("{}", serde_json::to_string(&one(experiment, common, target, repetition, scratch)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let parent = Parent::listen()?;
    let entries = experiment.entries(common)?;
    let scratch = Scratch::new(&common.directory)?;
    let cores = experiment.cores(common)?;
    let (name, mut scale) = experiment.parts()?;
    scale.insert("full".to_owned(), common.full.into());
    scale.insert("cores".to_owned(), cores.into());
    let mut results = Results {
        version: VERSION,
        suite: env!("CARGO_PKG_VERSION").to_owned(),
        experiment: name,
        profile: common.profile,
        began_s: SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        seed: common.seed,
        scale: scale.into(),
        price_per_hour: common.price_per_hour,
        machine: Machine::this(scratch.path())?,
        runs: Vec::new(),
    };
    let repetitions = experiment.repetitions(common);
    'all: for repetition in 0..repetitions {
        for entry in &entries {
            if parent.is_asked() {
                break 'all;
            }
            eprintln!("{}, repetition {} of {repetitions}", entry.name, repetition + 1);
            results.runs.push(child(&parent, cores, entry, repetition, scratch.path())?);
        }
    }
    drop(scratch);
    statements::compare_answers(&mut results);
    let default = || Path::new("fleetdb-bench-results").join(format!("{}-{}", results.experiment, common.profile));
    let out = common.out.clone().unwrap_or_else(default);
    std::fs::create_dir_all(&out)?;
    std::fs::write(out.join("results.json"), serde_json::to_string_pretty(&results)?)?;
    write_reports(&results, &out)?;
    print!("{}", report::text(&results));
    println!("\nWrote {0}/results.json, {0}/report.md and {0}/report.html", out.display());
    let phases = || results.runs.iter().flat_map(|run| &run.phases);
    let is_good = results.runs.iter().all(|run| run.is_complete) && phases().all(|phase| phase.wrong.is_none());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes `report.md` and `report.html`.
pub fn write_reports(results: &Results, directory: &Path) -> Outcome<()> {
    std::fs::write(directory.join("report.md"), report::markdown(results))?;
    Ok(std::fs::write(directory.join("report.html"), report::html(results)?)?)
}

/// Runs a repetition in its own process; a failure becomes part of the results.
fn child(parent: &Parent, cores: usize, entry: &Entry, repetition: usize, scratch: &Path) -> Outcome<results::Run> {
    let own = std::env::current_exe()?;
    let mut command = Command::new("taskset");
    command.arg("-c").arg(format!("0-{}", cores - 1)).arg(own);
    command.args(std::env::args_os().skip(1));
    command.args(["--only", entry.name, "--repetition", &repetition.to_string()]).arg("--scratch").arg(scratch);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let output = parent.output(&mut command).map_err(|e| format!("taskset: {e}"))?;
    serde_json::from_slice(&output.stdout).or_else(|error| {
        let error = format!("its process exited without results ({}): {error}", output.status);
        Ok(results::Run { error: Some(error), ..results::Run::new(entry.name, repetition) })
    })
}

/// Runs one repetition in this process.
fn one(
    experiment: &Experiment,
    common: &Common,
    target: &str,
    repetition: usize,
    scratch: &Path,
) -> Outcome<results::Run> {
    let watch = Arc::new(Watch::default());
    set_when_asked(&watch.stop)?;
    let scratch = Scratch::new(scratch)?;
    let entry = named(target)?;
    let start = Start { directory: scratch.path(), profile: common.profile, url: common.url(target) };
    let mut run = results::Run::new(target, repetition);
    let mut measure = |work: &dyn Fn(&mut experiment::Run<'_>) -> Outcome<()>| {
        measure(common, &entry, &start, &watch, &mut run, work)
    };
    let ended = match experiment {
        Experiment::Billing(scale) => measure(&|run| billing::run(run, scale)),
        Experiment::Edge(scale) => measure(&|run| edge::run(run, scale)),
        Experiment::Tsbs(scale) => measure(&|run| tsbs::run(run, scale)),
        Experiment::Scale(scale) => measure(&|run| scale::run(run, scale)),
        Experiment::Acquisition(scale) => measure(&|run| acquisition::run(run, scale)),
        Experiment::Statements(scale) => measure(&|run| statements::run(run, scale)),
        Experiment::Own(scale) => measure(&|run| own::run(run, scale, &crate::own::read(scale)?)),
        Experiment::Durability(scale) => kill(scale, common, &entry, &start, &watch, &mut run),
        Experiment::Soak(soak) => alone(&|test| soak.run(test), common, &entry, scratch.path(), &watch, &mut run),
        #[cfg(feature = "cluster")]
        Experiment::Failover(scale) => {
            alone(&|test| crate::failover::run(test, scale), common, &entry, scratch.path(), &watch, &mut run)
        }
        #[cfg(feature = "cluster")]
        Experiment::Fleet(scale) => {
            alone(&|test| crate::fleet::run(test, scale), common, &entry, scratch.path(), &watch, &mut run)
        }
    };
    run.is_complete = ended.is_ok() && !watch.stop.load(Ordering::Relaxed);
    run.error = ended.err().map(|error| error.to_string());
    Ok(run)
}

/// Runs an experiment that reaches into FleetDB.
fn alone(
    work: &dyn Fn(&mut Test<'_>) -> Outcome<()>,
    common: &Common,
    entry: &Entry,
    directory: &Path,
    watch: &Arc<Watch>,
    run: &mut results::Run,
) -> Outcome<()> {
    let progress = &Progress::new(entry.name, watch);
    work(&mut Test { directory, seed: common.seed, watch, progress, run })
}

/// Starts a target, runs an experiment with it, and removes the tables created at a URL.
fn measure(
    common: &Common,
    entry: &Entry,
    start: &Start<'_>,
    watch: &Arc<Watch>,
    run: &mut results::Run,
    work: &dyn Fn(&mut experiment::Run<'_>) -> Outcome<()>,
) -> Outcome<()> {
    let progress = Progress::new(entry.name, watch);
    let announce = |phase: &str, size| progress.announce(phase, size);
    let mut target = started(entry, start)?;
    run.is_floor = target.is_floor();
    let query_time = Duration::from_secs(common.query_seconds.unwrap_or(if common.full { 600 } else { 60 }));
    let (directory, profile, seed, is_full) = (start.directory, common.profile, common.seed, common.full);
    let plan = Plan { directory, profile, seed, is_full, query_time };
    let mut context = experiment::Run::new(&mut *target, plan, watch, &announce);
    run.idle = Some(context.idle());
    let ended = work(&mut context);
    (run.phases, run.figures) = (context.phases, context.figures);
    run.info = Some(target.info());
    ended.and(if start.url.is_some() { target.remove() } else { Ok(()) })
}

/// Counts the records that a target has kept after kill -9.
fn kill(
    scale: &durability::Scale,
    common: &Common,
    entry: &Entry,
    start: &Start<'_>,
    watch: &Arc<Watch>,
    run: &mut results::Run,
) -> Outcome<()> {
    if start.url.is_some() {
        return Err("a target that the suite did not start cannot be killed".into());
    }
    let progress = Progress::new(entry.name, watch);
    let announce = |phase: &str, size| progress.announce(phase, size);
    let mut writer = Command::new(std::env::current_exe()?);
    writer.args([durability::COMMAND, "--target", entry.name, "--profile", &common.profile.to_string()]);
    writer.args(["--seed", &common.seed.to_string(), "--connections", &scale.connections.to_string()]);
    writer.arg("--directory").arg(start.directory);
    let (info, phases) = durability::run(scale, common.seed, &mut writer, &|| started(entry, start), watch, &announce)?;
    (run.info, run.phases) = (Some(info), phases);
    Ok(())
}

/// Starts a target; errors begin with its name.
fn started(entry: &Entry, start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    (entry.start)(start).map_err(|error| format!("{}: {error}", entry.name).into())
}

/// Writes until it is killed.
pub fn write_until_killed(arguments: &WriteUntilKilled) -> Outcome<()> {
    let start = Start { directory: &arguments.directory, profile: arguments.profile, url: None };
    let mut target = started(&named(&arguments.target)?, &start)?;
    durability::write(&mut *target, arguments.seed, arguments.connections)
}
