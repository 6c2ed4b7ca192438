//! The experiments: what is written and asked, in which order, and what is measured of it.

pub mod acquisition;
pub mod billing;
pub mod edge;
pub mod scale;

use crate::Outcome;
use crate::answer::{Cell, Gather};
use crate::driver::{Limit, Watch, Worker, drive};
use crate::meters::Meter;
use crate::oracle::difference;
use crate::query::Query;
use crate::results::Phase;
use crate::target::{Connection, Profile, Target};
use arrow::array::RecordBatch;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A run of an experiment with one target.
pub struct Run<'a> {
    /// The target, which holds nothing yet.
    pub target: &'a mut dyn Target,
    /// Where the target writes.
    directory: &'a Path,
    /// Whose settings.
    pub profile: Profile,
    /// The seed of all rows.
    pub seed: u64,
    /// Who looks on.
    pub watch: &'a Watch,
    announce: &'a dyn Fn(&str, Size),
    /// What was measured.
    pub phases: Vec<Phase>,
    /// What was answered and is not compared yet.
    asked: Vec<Asked>,
}

/// The answers of a phase. They are compared when all is measured, so that the oracle's memory and time are in no number.
struct Asked {
    phase: usize,
    answers: Vec<(Query, RecordBatch)>,
    /// Answers that were not equal to an earlier one of the same query.
    differing: Option<String>,
    count: usize,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// So many operations.
    Operations(u64),
    /// So many seconds.
    Seconds(u64),
}

/// What a phase is called, what one operation of it is, and how much there is to do.
#[derive(Clone, Copy)]
struct Job<'a> {
    name: &'a str,
    operation: &'a str,
    size: Size,
}

impl<'a> Run<'a> {
    /// A run that has measured nothing yet; `announce` is told what is done now, and how much of it there is.
    pub fn new(
        target: &'a mut dyn Target,
        directory: &'a Path,
        profile: Profile,
        seed: u64,
        watch: &'a Watch,
        announce: &'a dyn Fn(&str, Size),
    ) -> Self {
        Self { target, directory, profile, seed, watch, announce, phases: Vec::new(), asked: Vec::new() }
    }
}

impl Run<'_> {
    /// Whether the run is to end before its time.
    fn is_stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    /// Runs workers and keeps what they did as a phase.
    fn drive(&mut self, job: Job<'_>, workers: Vec<Box<dyn Worker + '_>>, limit: Limit) -> Outcome<&mut Phase> {
        (self.announce)(job.name, job.size);
        let meter = Meter::start(self.target.processes(), self.directory);
        let driven = drive(workers, limit, self.watch);
        let metered = meter.stop();
        self.phases.push(Phase {
            name: job.name.to_owned(),
            operation: job.operation.to_owned(),
            driven: driven.map_err(|e| format!("{}: {e}", job.name))?,
            metered,
            ..Phase::default()
        });
        Ok(self.phases.last_mut().expect("one was just added"))
    }

    /// As [`drive`](Self::drive), for work that writes: it ends when nothing is left to be flushed or merged.
    fn drive_and_settle(
        &mut self,
        job: Job<'_>,
        workers: Vec<Box<dyn Worker + '_>>,
        limit: Limit,
    ) -> Outcome<&mut Phase> {
        self.drive(job, workers, limit)?;
        let begin = std::time::Instant::now();
        self.target.settle()?;
        let (settle_s, disk_bytes) = (begin.elapsed().as_secs_f64(), self.target.disk_bytes()?);
        let phase = self.phases.last_mut().expect("one was just added");
        (phase.settle_s, phase.disk_bytes) = (settle_s, disk_bytes);
        Ok(phase)
    }

    /// Asks queries over some connections, each its share of them one after the other, the first of them twice;
    /// [`verify`](Self::verify) compares the answers.
    fn ask(&mut self, name: &str, queries: &[Query], connections: usize) -> Outcome<()> {
        let Some(first) = queries.first() else { return Ok(()) };
        if self.is_stopped() {
            return Ok(());
        }
        if let Some(lacking) = self.target.lacks(first) {
            let (operation, lacking) = ("query".to_owned(), Some(lacking.to_owned()));
            self.phases.push(Phase { name: name.to_owned(), operation, lacking, ..Phase::default() });
            return Ok(());
        }
        let mut askers = Vec::new();
        for queries in queries.chunks(queries.len().div_ceil(connections)) {
            let mut connection = self.target.connect()?;
            // Statements are prepared and pages read.
            connection.query(&queries[0]).map_err(|e| format!("{name}: {e}"))?;
            let asked = Asked { phase: self.phases.len(), answers: Vec::new(), differing: None, count: 0 };
            askers.push(Asker { connection, queries: queries.iter(), next: None, answer: None, asked });
        }
        let job = Job { name, operation: "query", size: Size::Operations(queries.len() as u64) };
        let workers = askers.iter_mut().map(|asker| Box::new(asker) as Box<dyn Worker>).collect();
        self.drive(job, workers, Limit::default())?;
        self.asked.extend(askers.into_iter().map(|asker| asker.asked));
        Ok(())
    }

    /// Compares all answers with the right ones.
    fn verify(&mut self, right: &dyn Fn(&Query) -> Outcome<RecordBatch>) -> Outcome<()> {
        for asked in std::mem::take(&mut self.asked) {
            let mut wrong = asked.differing;
            for (query, answer) in &asked.answers {
                wrong = wrong.or(difference(query, &right(query)?, answer));
            }
            self.judge(asked.phase, asked.count, wrong);
        }
        Ok(())
    }

    /// Asks how many rows a table has, as a check of the last phase that wrote.
    fn check_count(&mut self, table: &'static str, rows: u64) -> Outcome<()> {
        let query = Query::Count(table);
        if self.is_stopped() || self.target.lacks(&query).is_some() {
            return Ok(());
        }
        let answer = self.target.connect()?.query(&query)?;
        let wrong = difference(&query, &one(&query, Cell::Int(rows as i64))?, &answer);
        let last = self.phases.iter().rposition(|phase| phase.operation != "query");
        self.judge(last.ok_or("nothing was written")?, 1, wrong);
        Ok(())
    }

    fn judge(&mut self, phase: usize, verified: usize, wrong: Option<String>) {
        let phase = &mut self.phases[phase];
        phase.verified += verified;
        phase.wrong = phase.wrong.take().or(wrong);
    }
}

/// An answer of one cell.
fn one(query: &Query, cell: Cell<'_>) -> Outcome<RecordBatch> {
    let mut answer = Gather::new(&query.columns());
    answer.push(cell)?;
    answer.finish()
}

/// Asks one query after the other, and keeps the answers.
struct Asker<'a> {
    connection: Box<dyn Connection>,
    queries: std::slice::Iter<'a, Query>,
    next: Option<&'a Query>,
    answer: Option<RecordBatch>,
    asked: Asked,
}

impl Worker for &mut Asker<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if let (Some(query), Some(answer)) = (self.next.take(), self.answer.take()) {
            self.asked.add(query, answer);
        }
        self.next = self.queries.next();
        Ok(self.next.is_some())
    }

    fn operate(&mut self) -> Outcome<u64> {
        let query = self.next.ok_or("nothing was prepared")?;
        let answer = self.connection.query(query)?;
        let rows = answer.num_rows() as u64;
        self.answer = Some(answer);
        Ok(rows)
    }
}

impl Asked {
    /// Keeps an answer; one to a query that was asked before must be the same, and need not be kept.
    fn add(&mut self, query: &Query, answer: RecordBatch) {
        self.count += 1;
        match self.answers.iter().find(|(known, _)| known == query) {
            Some((_, first)) => self.differing = self.differing.take().or(difference(query, first, &answer)),
            None => self.answers.push((query.clone(), answer)),
        }
    }
}
