//! Stored results: a JSON file in a versioned format.

use crate::Outcome;
use crate::driver::Driven;
use crate::meters::Metered;
use crate::target::{Info, Profile};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The version of the format; a reader refuses other versions.
pub const VERSION: u32 = 1;

/// One run of an experiment, with its targets and repetitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// See [`VERSION`].
    pub version: u32,
    /// The version of the suite.
    pub suite: String,
    /// The name of the experiment.
    pub experiment: String,
    /// The settings that were used.
    pub profile: Profile,
    /// Start time in seconds since 1970.
    pub began_s: u64,
    /// The seed of all rows.
    pub seed: u64,
    /// The sizes as given.
    pub scale: serde_json::Value,
    /// The price of the machine per hour, if given.
    #[serde(default)]
    pub price_per_hour: Option<f64>,
    /// The machine it ran on.
    pub machine: Machine,
    /// Every repetition of every target, in the order they ran.
    pub runs: Vec<Run>,
}

/// The machine, as far as it affects the numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// The median time to append 4 KiB and fdatasync, on the disk with the databases.
    pub fsync_us: f64,
}

/// One repetition of one target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The target's name on the command line.
    pub target: String,
    /// The number of the repetition, from 0.
    pub repetition: usize,
    /// The target's description of itself; `None` if it did not start.
    pub info: Option<Info>,
    /// Whether the target is a floor, not a database.
    #[serde(default)]
    pub is_floor: bool,
    /// What the target and the client used while idle.
    #[serde(default)]
    pub idle: Option<Metered>,
    /// Whether the run was completed.
    pub is_complete: bool,
    /// The error that ended it.
    pub error: Option<String>,
    /// The measurements.
    pub phases: Vec<Phase>,
    /// What was measured besides rates and latencies.
    #[serde(default)]
    pub figures: Vec<Figure>,
}

/// A figure that is neither a rate nor a latency of a phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The unit, such as `MB`.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// The largest value that meets the goal, if there is a goal.
    #[serde(default)]
    pub at_most: Option<f64>,
}

impl Figure {
    /// A figure without a goal.
    pub fn new(name: &str, unit: &str, value: f64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), value, at_most: None }
    }

    /// Sets the goal.
    #[must_use]
    pub fn at_most(self, goal: f64) -> Self {
        Self { at_most: Some(goal), ..self }
    }
}

/// A measured part of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// The name of the phase, such as `ingest` or `LAST_POINT_ALL`.
    pub name: String,
    /// The meaning of one operation.
    pub operation: String,
    /// Operations, rows, time and latency.
    pub driven: Driven,
    /// Seconds of flushing and compaction afterwards.
    pub settle_s: f64,
    /// Size of the target's data after settling; 0 if nothing was written.
    pub disk_bytes: u64,
    /// Resources of server and client.
    pub metered: Metered,
    /// Datapoints that a bounded queue in front of the target could not take, if there is a queue.
    #[serde(default)]
    pub lost: Option<u64>,
    /// Number of answers compared with the oracle's.
    pub verified: usize,
    /// The first wrong answer, which voids the number.
    pub wrong: Option<String>,
    /// Why the target cannot run this phase.
    pub lacking: Option<String>,
}

impl Run {
    /// A repetition without measurements.
    pub fn new(target: &str, repetition: usize) -> Self {
        Self {
            target: target.to_owned(),
            repetition,
            info: None,
            is_floor: false,
            idle: None,
            is_complete: false,
            error: None,
            phases: Vec::new(),
            figures: Vec::new(),
        }
    }
}

impl Phase {
    /// Operations per second, including the time to settle.
    pub fn rate(&self) -> f64 {
        self.driven.operations as f64 / (self.driven.seconds + self.settle_s)
    }

    /// Rows per second, including the time to settle.
    pub fn row_rate(&self) -> f64 {
        self.driven.rows as f64 / (self.driven.seconds + self.settle_s)
    }

    /// Whether the numbers are valid.
    pub fn is_valid(&self) -> bool {
        self.wrong.is_none() && self.lacking.is_none() && self.driven.operations > 0
    }
}

impl Machine {
    /// Describes this machine; `directory` is where databases are created.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn this(directory: &Path) -> Outcome<Self> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
            line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned())).unwrap_or_default()
        };
        let memory_kb = field(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse::<u64>();
        Ok(Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism()?.get(),
            memory_bytes: memory_kb.unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            fsync_us: crate::meters::fsync_us(directory)?,
        })
    }
}

impl Results {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is not a result file, or has another version.
    pub fn read(path: &Path) -> Outcome<Self> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| named(&e))?;
        let version = value["version"].as_u64().unwrap_or(0);
        if version != u64::from(VERSION) {
            return Err(named(&format!(
                "the results have version {version}, but this program reads version {VERSION}"
            ))
            .into());
        }
        Ok(serde_json::from_value(value).map_err(|e| named(&e))?)
    }

    /// The targets, in the order they first ran.
    pub fn targets(&self) -> Vec<&str> {
        let mut targets: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !targets.contains(&run.target.as_str()) {
                targets.push(&run.target);
            }
        }
        targets
    }

    /// The phases of all runs, in the order they were measured.
    pub fn phases(&self) -> Vec<&str> {
        let mut phases: Vec<&str> = Vec::new();
        for phase in self.runs.iter().flat_map(|run| &run.phases) {
            if !phases.contains(&phase.name.as_str()) {
                phases.push(&phase.name);
            }
        }
        phases
    }

    /// All complete repetitions of a target's phase.
    pub fn repetitions(&self, target: &str, phase: &str) -> Vec<&Phase> {
        let runs = self.runs.iter().filter(|run| run.target == target && run.is_complete);
        runs.flat_map(|run| &run.phases).filter(|found| found.name == phase).collect()
    }

    /// The [`repetitions`](Self::repetitions) whose numbers are valid.
    pub fn valid(&self, target: &str, phase: &str) -> Vec<&Phase> {
        self.repetitions(target, phase).into_iter().filter(|phase| phase.is_valid()).collect()
    }

    /// Whether a target is a floor, not a database.
    pub fn is_floor(&self, target: &str) -> bool {
        self.runs.iter().any(|run| run.target == target && run.is_floor)
    }

    /// A target's description of itself at its first start.
    pub fn info(&self, target: &str) -> Option<&Info> {
        self.runs.iter().filter(|run| run.target == target).find_map(|run| run.info.as_ref())
    }
}
