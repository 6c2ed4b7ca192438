//! The experiments: what is written and queried, in which order, and what is measured.

pub mod acquisition;
pub mod billing;
mod draws;
pub mod durability;
pub mod edge;
pub mod own;
pub mod scale;
pub mod statements;
pub mod tsbs;
mod workers;

use crate::Outcome;
use crate::answer::{AnswerBuilder, Cell};
use crate::driver::{Driven, Limit, Watch, Worker, drive};
use crate::meters::{Meter, Metered, write_back};
use crate::oracle::difference;
use crate::query::Query;
use crate::results::{Figure, Phase};
use crate::target::{Profile, Target};
use arrow::array::RecordBatch;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use workers::{Answers, Asker};

/// How to run an experiment, independent of the target.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The directory in which the target writes.
    pub directory: &'a Path,
    /// The settings to use.
    pub profile: Profile,
    /// The seed of all rows.
    pub seed: u64,
    /// Whether sizes that are not given default to the published ones.
    pub is_full: bool,
    /// Time after which a phase of queries starts no more of them, however many are left.
    pub query_time: Duration,
}

impl Plan<'_> {
    /// A size: the given one, the published one, or one that takes minutes.
    fn size<T>(&self, given: Option<T>, full: T, small: T) -> T {
        given.unwrap_or(if self.is_full { full } else { small })
    }
}

/// A run of an experiment with one target.
pub struct Run<'a> {
    /// The target, which is empty at the start.
    target: &'a mut dyn Target,
    plan: Plan<'a>,
    watch: &'a Watch,
    announce: &'a dyn Fn(&str, Size),
    /// The measurements.
    pub phases: Vec<Phase>,
    /// What was measured besides them.
    pub figures: Vec<Figure>,
    /// The answers, with the phase they belong to. They are compared after all measurements, so
    /// that the oracle's memory and time affect no number.
    asked: Vec<(usize, Answers)>,
}

/// The amount of work in a phase.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// A number of operations.
    Operations(u64),
    /// A number of seconds.
    Seconds(u64),
}

/// The name of a phase, the meaning of one operation, and the amount of work.
#[derive(Clone, Copy)]
struct Job<'a> {
    name: &'a str,
    operation: &'a str,
    size: Size,
}

/// The operation of query phases.
const QUERY: &str = "query";

/// Operations of each worker's warm-up, limited to this fraction of the measured time.
const WARM_UP_OPERATIONS: u32 = 100;
const WARM_UP_SHARE: u32 = 10;

/// A worker limited to a number of further operations.
impl<W: Worker> Worker for (&mut W, u32) {
    fn prepare(&mut self) -> Outcome<bool> {
        Ok(self.1 > 0 && self.0.prepare()?)
    }

    fn operate(&mut self) -> Outcome<u64> {
        self.1 -= 1;
        self.0.operate()
    }
}

impl<'a> Run<'a> {
    /// A run without measurements; `announce` is told what is being done and how much work it is.
    pub fn new(target: &'a mut dyn Target, plan: Plan<'a>, watch: &'a Watch, announce: &'a dyn Fn(&str, Size)) -> Self {
        Self { target, plan, watch, announce, phases: Vec::new(), figures: Vec::new(), asked: Vec::new() }
    }

    /// Measures what the target and this process use while idle.
    pub fn idle(&self) -> Metered {
        let seconds = if self.plan.is_full { 10 } else { 1 };
        self.metered("idle", Size::Seconds(seconds), || std::thread::sleep(Duration::from_secs(seconds))).1
    }
}

impl Run<'_> {
    /// Whether the run is to end early.
    fn is_stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    fn metered<T>(&self, name: &str, size: Size, work: impl FnOnce() -> T) -> (T, Metered) {
        (self.announce)(name, size);
        // If the file system cannot be told to write back, it does so in its own time.
        write_back(self.plan.directory).ok();
        let (server, helpers) = (self.target.processes(), self.target.client_processes());
        let meter = Meter::start_with(server, helpers, self.plan.directory);
        let done = work();
        (done, meter.stop())
    }

    fn keep(&mut self, job: Job<'_>, driven: Outcome<Driven>, metered: Metered) -> Outcome<&mut Phase> {
        self.phases.push(Phase {
            name: job.name.to_owned(),
            operation: job.operation.to_owned(),
            driven: driven.map_err(|e| format!("{}: {e}", job.name))?,
            metered,
            ..Phase::default()
        });
        Ok(self.phases.last_mut().expect("one was just added"))
    }

    /// Warms up the workers before a measured phase of length `time`: statements get prepared,
    /// caches filled and threads started. What they write counts as part of the workload.
    fn warm_up(&self, workers: &mut [impl Worker], time: Duration) -> Outcome<()> {
        let mut beginners: Vec<_> = workers.iter_mut().map(|worker| (worker, WARM_UP_OPERATIONS)).collect();
        let watch = Watch { stop: Arc::clone(&self.watch.stop), ..Watch::default() };
        let limit = Limit { time: Some(time / WARM_UP_SHARE), rate: None };
        drive(&mut beginners, limit, &watch).map(drop).map_err(|e| format!("warm-up: {e}").into())
    }

    /// Runs workers and records the result as a phase.
    fn drive(&mut self, job: Job<'_>, workers: &mut [impl Worker], limit: Limit) -> Outcome<&mut Phase> {
        let (driven, metered) = self.metered(job.name, job.size, || drive(workers, limit, self.watch));
        self.keep(job, driven, metered)
    }

    /// Like [`drive`](Self::drive), for work that writes: the phase includes flushing and merging.
    fn drive_and_settle(&mut self, job: Job<'_>, workers: &mut [impl Worker], limit: Limit) -> Outcome<&mut Phase> {
        self.drive(job, workers, limit)?;
        let begin = std::time::Instant::now();
        self.target.settle()?;
        let (settle_s, disk_bytes) = (begin.elapsed().as_secs_f64(), self.target.disk_bytes()?);
        let phase = self.phases.last_mut().expect("one was just added");
        (phase.settle_s, phase.disk_bytes) = (settle_s, disk_bytes);
        Ok(phase)
    }

    /// Runs a writer while another connection repeats queries. Records two phases, each with the
    /// meters of both.
    fn drive_while_asked(
        &mut self,
        job: Job<'_>,
        writer: &mut impl Worker,
        limit: Limit,
        name: &str,
        queries: &[Query],
    ) -> Outcome<()> {
        if self.is_stopped() || self.cannot(name, queries) {
            return Ok(());
        }
        let mut asker = self.asker(name, queries, usize::MAX)?;
        let (driven, metered) = self.metered(job.name, job.size, || {
            std::thread::scope(|scope| {
                let writing = scope.spawn(|| drive(std::slice::from_mut(writer), limit, self.watch));
                let asking = Limit { time: limit.time, rate: None };
                let asked = drive(std::slice::from_mut(&mut asker), asking, self.watch);
                (writing.join().unwrap_or_else(|_| Err("the writer's thread panicked".into())), asked)
            })
        });
        let (written, asked) = driven;
        self.keep(job, written, metered.clone())?;
        self.keep(Job { name, operation: QUERY, size: job.size }, asked, metered)?;
        self.asked.push((self.phases.len() - 1, asker.answers()));
        Ok(())
    }

    /// Asks queries over several connections. Each asks its share one after another, the first
    /// query twice, as far as time permits. [`verify`](Self::verify) compares the answers.
    fn ask(&mut self, name: &str, queries: &[Query], connections: usize) -> Outcome<()> {
        if self.is_stopped() || queries.is_empty() || self.cannot(name, queries) {
            return Ok(());
        }
        let mut askers = Vec::new();
        for queries in queries.chunks(queries.len().div_ceil(connections)) {
            askers.push(self.asker(name, queries, queries.len())?);
        }
        let job = Job { name, operation: QUERY, size: Size::Operations(queries.len() as u64) };
        let limit = Limit { time: Some(self.plan.query_time), rate: None };
        self.drive(job, &mut askers, limit)?;
        let phase = self.phases.len() - 1;
        self.asked.extend(askers.into_iter().map(|asker| (phase, asker.answers())));
        Ok(())
    }

    /// A connection that has asked its first query once, so that statements are prepared and pages
    /// read.
    fn asker<'q>(&self, name: &str, queries: &'q [Query], count: usize) -> Outcome<Asker<'q>> {
        let mut asker = Asker::new(self.target.connect()?, queries, count);
        asker.connection.query(&queries[0]).map_err(|e| format!("{name}: {e}"))?;
        Ok(asker)
    }

    /// Whether the target cannot answer these queries; if so, the phase records the reason.
    fn cannot(&mut self, name: &str, queries: &[Query]) -> bool {
        let lacking = queries.first().and_then(|query| self.target.unsupported(query)).map(str::to_owned);
        let is_lacking = lacking.is_some();
        if is_lacking {
            let (name, operation) = (name.to_owned(), QUERY.to_owned());
            self.phases.push(Phase { name, operation, lacking, ..Phase::default() });
        }
        is_lacking
    }

    /// Compares all answers with the right ones.
    fn verify(&mut self, right: &dyn Fn(&Query) -> Outcome<RecordBatch>) -> Outcome<()> {
        for (phase, answers) in std::mem::take(&mut self.asked) {
            let mut wrong = answers.differing;
            for (query, answer) in &answers.answers {
                wrong = wrong.or(difference(query, &right(query)?, answer));
            }
            self.judge(phase, answers.count, wrong);
        }
        Ok(())
    }

    /// Asks for the number of rows of a table, to check the last phase that wrote.
    fn check_count(&mut self, table: &'static str, rows: u64) -> Outcome<()> {
        let query = Query::Count(table);
        if self.is_stopped() || self.target.unsupported(&query).is_some() {
            return Ok(());
        }
        self.target.settle()?;
        let answer = self.target.connect()?.query(&query)?;
        let wrong = difference(&query, &one(&query, Cell::Int(rows as i64))?, &answer);
        let last = self.phases.iter().rposition(|phase| phase.operation != QUERY);
        self.judge(last.ok_or("nothing was written")?, 1, wrong);
        Ok(())
    }

    fn judge(&mut self, phase: usize, verified: usize, wrong: Option<String>) {
        let phase = &mut self.phases[phase];
        phase.verified += verified;
        phase.wrong = phase.wrong.take().or(wrong);
    }
}

/// An answer with one cell.
fn one(query: &Query, cell: Cell<'_>) -> Outcome<RecordBatch> {
    let mut answer = AnswerBuilder::new(&query.columns());
    answer.push(cell)?;
    answer.finish()
}
