//! `run soak`: FleetDB alone, for long, with much, or against another implementation.
//!
//! These tests reach into the engine (clock, backups, containers), so they do not go through a
//! [`Target`](fleetdb_bench_core::target::Target). They share the options and the reports of the
//! other experiments. A lost row or a wrong answer fails the run.

mod bills;
mod fleet;
pub mod many;
mod year;

use crate::progress::Progress;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::{Limit, Watch, Worker, drive};
use fleetdb_bench_core::experiment::Size;
use fleetdb_bench_core::meters::{Meter, write_back};
use fleetdb_bench_core::results::{Figure, Phase, Run};
use fleetdb_bench_core::target::{Info, Tier};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The test and its size.
#[derive(clap::Subcommand, Clone, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Soak {
    /// A fleet's year in fast motion: late rows, rows sent twice, retention, backups
    Year(year::Scale),
    /// A million containers of ten rows each
    Many(many::Scale),
    /// Bills by local time, compared with Python's zoneinfo
    Bills(bills::Scale),
}

impl Soak {
    /// Whether one core is enough by default.
    pub fn is_on_one_core(&self) -> bool {
        !matches!(self, Self::Year(_))
    }

    /// Runs the test.
    pub fn run(&self, test: &mut Test<'_>) -> Outcome<()> {
        match self {
            Self::Year(scale) => year::run(test, scale),
            Self::Many(scale) => many::run(test, scale),
            Self::Bills(scale) => bills::run(test, scale),
        }
    }
}

/// What a test uses, and the run that it fills.
pub struct Test<'a> {
    /// The directory for its files.
    pub directory: &'a Path,
    /// The seed of the rows.
    pub seed: u64,
    /// Its progress, and the request to stop.
    pub watch: &'a Watch,
    /// Where it shows its progress.
    pub progress: &'a Progress,
    /// The run, without measurements at the start.
    pub run: &'a mut Run,
}

impl Test<'_> {
    /// Tells the tier of the writes and the settings that differ from the defaults.
    pub fn describe(&mut self, tier: Tier, settings: &[String]) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.run.info = Some(Info { version, tier, settings: settings.to_vec() });
    }

    /// Whether the test is to end early.
    pub fn is_stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    /// Runs a worker to its end and records the result as a phase. The progress bar expects `count`
    /// operations.
    pub fn drive(&mut self, name: &str, operation: &str, count: u64, worker: &mut impl Worker) -> Outcome<&mut Phase> {
        self.drive_all(name, operation, Size::Operations(count), std::slice::from_mut(worker))
    }

    /// As [`drive`](Self::drive), with several workers at a time.
    pub fn drive_all<W: Worker>(
        &mut self,
        name: &str,
        operation: &str,
        size: Size,
        workers: &mut [W],
    ) -> Outcome<&mut Phase> {
        self.progress.announce(name, size);
        // If the file system cannot be told to write back, it does so in its own time.
        write_back(self.directory).ok();
        let meter = Meter::start(Vec::new(), self.directory);
        let driven = drive(workers, Limit::default(), self.watch);
        let metered = meter.stop();
        let (name, operation) = (name.to_owned(), operation.to_owned());
        self.run.phases.push(Phase { name, operation, driven: driven?, metered, ..Phase::default() });
        self.phase()
    }

    /// The phase that was recorded last.
    fn phase(&mut self) -> Outcome<&mut Phase> {
        self.run.phases.last_mut().ok_or_else(|| "nothing was measured".into())
    }

    /// Records a figure.
    pub fn figure(&mut self, figure: Figure) {
        self.run.figures.push(figure);
    }
}
