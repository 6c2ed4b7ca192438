//! Results as they are kept: a JSON file of a versioned form.

use crate::Outcome;
use crate::driver::Driven;
use crate::meters::Metered;
use crate::target::{Info, Profile};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The form's version; a reader refuses another.
pub const VERSION: u32 = 1;

/// One run of an experiment: some targets, some repetitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// See [`VERSION`].
    pub version: u32,
    /// The suite's version.
    pub suite: String,
    /// Which experiment.
    pub experiment: String,
    /// Whose settings.
    pub profile: Profile,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// The seed of all rows.
    pub seed: u64,
    /// Sizes as they were given.
    pub scale: serde_json::Value,
    /// What the machine costs an hour, if that was given.
    #[serde(default)]
    pub price_per_hour: Option<f64>,
    /// Where it ran.
    pub machine: Machine,
    /// Every repetition of every target, in the order in which they ran.
    pub runs: Vec<Run>,
}

/// The machine, as far as it bears on the numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    /// The median of 4 KiB appended and fdatasync, where the databases lay.
    pub fsync_us: f64,
}

/// One repetition of one target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its name on the command line.
    pub target: String,
    /// From 0.
    pub repetition: usize,
    /// What the target said of itself; `None` if it did not start.
    pub info: Option<Info>,
    /// What it and the client used while nothing was asked of them.
    #[serde(default)]
    pub idle: Option<Metered>,
    /// Whether it ran to its end.
    pub is_complete: bool,
    /// What broke it off.
    pub error: Option<String>,
    /// What was measured.
    pub phases: Vec<Phase>,
}

/// A measured part of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Phase {
    /// What was done, as in `ingest` or `LAST_POINT_ALL`.
    pub name: String,
    /// What one operation is.
    pub operation: String,
    /// Operations, rows, time, latency.
    pub driven: Driven,
    /// What flushing and compaction took afterwards.
    pub settle_s: f64,
    /// Of the target, after settling; 0 where nothing was written.
    pub disk_bytes: u64,
    /// Server and client.
    pub metered: Metered,
    /// What a bounded queue in front of the target could not take, where there is one.
    #[serde(default)]
    pub lost: Option<u64>,
    /// Answers that were compared with the oracle's.
    pub verified: usize,
    /// The first wrong answer, which voids the number.
    pub wrong: Option<String>,
    /// Why the target cannot do it.
    pub lacking: Option<String>,
}

impl Run {
    /// A repetition in which nothing was measured yet.
    pub fn new(target: &str, repetition: usize) -> Self {
        let target = target.to_owned();
        Self { target, repetition, info: None, idle: None, is_complete: false, error: None, phases: Vec::new() }
    }
}

impl Phase {
    /// Operations a second, the settling counted.
    pub fn rate(&self) -> f64 {
        self.driven.operations as f64 / (self.driven.seconds + self.settle_s)
    }

    /// Rows a second, the settling counted.
    pub fn row_rate(&self) -> f64 {
        self.driven.rows as f64 / (self.driven.seconds + self.settle_s)
    }

    /// Whether its numbers count.
    pub fn is_valid(&self) -> bool {
        self.wrong.is_none() && self.lacking.is_none() && self.driven.operations > 0
    }
}

impl Machine {
    /// This machine; `directory` is where databases are made.
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
    /// It cannot be read, is no such file, or is of another version.
    pub fn read(path: &Path) -> Outcome<Self> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| named(&e))?;
        let version = value["version"].as_u64().unwrap_or(0);
        if version != u64::from(VERSION) {
            return Err(named(&format!("version {version} of the results; this program reads {VERSION}")).into());
        }
        Ok(serde_json::from_value(value).map_err(|e| named(&e))?)
    }

    /// The targets, in the order in which they first ran.
    pub fn targets(&self) -> Vec<&str> {
        let mut targets: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !targets.contains(&run.target.as_str()) {
                targets.push(&run.target);
            }
        }
        targets
    }

    /// The phases that any run has, in the order in which they were measured.
    pub fn phases(&self) -> Vec<&str> {
        let mut phases: Vec<&str> = Vec::new();
        for phase in self.runs.iter().flat_map(|run| &run.phases) {
            if !phases.contains(&phase.name.as_str()) {
                phases.push(&phase.name);
            }
        }
        phases
    }

    /// All repetitions of a phase of a target, the broken-off ones left out.
    pub fn repetitions(&self, target: &str, phase: &str) -> Vec<&Phase> {
        let runs = self.runs.iter().filter(|run| run.target == target && run.is_complete);
        runs.flat_map(|run| &run.phases).filter(|found| found.name == phase).collect()
    }

    /// The [`repetitions`](Self::repetitions) whose numbers count.
    pub fn valid(&self, target: &str, phase: &str) -> Vec<&Phase> {
        self.repetitions(target, phase).into_iter().filter(|phase| phase.is_valid()).collect()
    }

    /// What a target said of itself when it first started.
    pub fn info(&self, target: &str) -> Option<&Info> {
        self.runs.iter().filter(|run| run.target == target).find_map(|run| run.info.as_ref())
    }
}
