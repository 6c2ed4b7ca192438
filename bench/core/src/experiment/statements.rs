//! Everyday statements ([`FORMS`]): how long each takes, prepared and unprepared, on one connection
//! and on several.
//!
//! 1. The tables are filled, unmeasured.
//! 2. One connection runs each statement a few times. Then it runs those that read again. A digest of
//!    all answers becomes a figure; [`compare_answers`] voids the run of a target whose digest differs
//!    from that of most.
//! 3. Each statement is a phase: prepared, prepared on several connections, and unprepared. With
//!    `new_texts`, it is unprepared with a new text each time.

use super::{Job, QUERY, Run, Size};
use crate::Outcome;
use crate::answer::{AnswerBuilder, Cell, cells};
use crate::driver::{Limit, Worker};
use crate::forms::FORMS;
use crate::results::{Figure, Phase, Results};
use crate::statement::{Draw, Form, HOURS, Parameter, SITES, hour_ns, site, tables};
use crate::table::Table;
use crate::target::Connection;
use arrow::array::RecordBatch;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// The experiment's name in results.
pub(crate) const NAME: &str = "statements";
/// What its report says of the answers.
pub(crate) const COMPARISON: &str = "Before the measurement, ten answers of each statement that reads are compared among \
    the targets, and ten more after all statements that write.";
/// Runs of each statement whose answers are compared.
const COMPARED: usize = 10;
/// Rows per batch while the tables are filled.
const FILL_ROWS: i64 = 1_000;
/// The name of the digest's figure.
const DIGEST: &str = "digest of all answers";

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Number of meters, each with 744 readings [full: 1000]
    #[arg(long)]
    pub meters: Option<i64>,
    /// Connections that run a statement at the same time [full: 32]
    #[arg(long)]
    pub connections: Option<usize>,
    /// Milliseconds for which each statement is run, in each way [full: 2000]
    #[arg(long)]
    pub milliseconds: Option<u64>,
    /// Only statements whose name contains this text
    #[arg(long)]
    pub named: Option<String>,
    /// Run each statement unprepared with a text that is new each time, so that it is planned
    #[arg(long)]
    pub new_texts: bool,
}

/// How a statement is run.
#[derive(Clone, Copy)]
enum Way {
    Prepared {
        connections: usize,
    },
    Unprepared,
    /// Unprepared, with a new text each time.
    NewText,
}

impl Way {
    fn connections(self) -> usize {
        match self {
            Self::Prepared { connections } => connections,
            Self::Unprepared | Self::NewText => 1,
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// Those of the target.
pub fn run(run: &mut Run<'_>, scale: &Scale) -> Outcome<()> {
    let meters = run.plan.size(scale.meters, 1_000, 200).max(1);
    let connections = run.plan.size(scale.connections, 32, 8).max(1);
    let time = Duration::from_millis(run.plan.size(scale.milliseconds, 2_000, 300).max(1));
    let is_asked = |form: &&Form| scale.named.as_ref().is_none_or(|text| form.name.contains(text.as_str()));
    let forms: Vec<&Form> = FORMS.iter().filter(is_asked).collect();
    if forms.is_empty() {
        let names: Vec<&str> = FORMS.iter().map(|form| form.name).collect();
        return Err(format!("no statement has such a name: there are {}", names.join(", ")).into());
    }
    if !run.target.takes_statements() {
        let lacking = Some("it takes no statements of its user's".to_owned());
        let lacking = |form: &&Form| Phase {
            name: form.name.to_owned(),
            operation: QUERY.to_owned(),
            lacking: lacking.clone(),
            ..Phase::default()
        };
        run.phases.extend(forms.iter().map(lacking));
        return Ok(());
    }
    let tables = tables();
    run.target.create(&tables)?;
    fill(run, &tables, meters)?;
    let digest = digest(run, &forms, meters)?;
    run.figures.push(Figure::new(DIGEST, "", digest as f64));
    let ways: &[Way] = match scale.new_texts {
        true => &[Way::NewText],
        false => &[Way::Prepared { connections: 1 }, Way::Prepared { connections }, Way::Unprepared],
    };
    let mut seed = run.plan.seed;
    for form in &forms {
        for &way in ways {
            if run.is_stopped() {
                return Ok(());
            }
            measure(run, form, way, meters, time, &mut seed)?;
        }
    }
    Ok(())
}

fn measure(run: &mut Run<'_>, form: &Form, way: Way, meters: i64, time: Duration, seed: &mut u64) -> Outcome<()> {
    let mut workers = Vec::new();
    for _ in 0..way.connections() {
        // No two draw the same, so that rows that are added are new.
        *seed += 1;
        let seed = *seed;
        let draw = Draw { random: Xoshiro256PlusPlus::seed_from_u64(seed), meters };
        workers.push(Repeater { connection: run.target.connect()?, form, draw, way, next: Vec::new(), runs: 0 });
    }
    run.warm_up(&mut workers, time)?;
    let name = match way {
        Way::Prepared { connections: 1 } => form.name.to_owned(),
        Way::Prepared { connections } => format!("{}, {connections} connections", form.name),
        Way::Unprepared => format!("{}, unprepared", form.name),
        Way::NewText => format!("{}, new text", form.name),
    };
    let job = Job { name: &name, operation: QUERY, size: Size::Seconds(time.as_secs().max(1)) };
    let phase = run.drive(job, &mut workers, Limit { time: Some(time), rate: None })?;
    // The digest has answers of one connection only, and writes have none.
    if way.connections() == 1 && !form.columns.is_empty() {
        phase.verified = COMPARED;
    }
    Ok(())
}

/// Runs one statement again and again.
struct Repeater<'a> {
    connection: Box<dyn Connection>,
    form: &'a Form,
    draw: Draw,
    way: Way,
    next: Vec<Parameter>,
    runs: u64,
}

impl Worker for Repeater<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        self.next = (self.form.draw)(&mut self.draw);
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        self.runs += 1;
        let rows = match self.way {
            Way::Prepared { .. } => self.connection.execute(self.form, &self.next, true),
            Way::Unprepared => self.connection.execute(self.form, &self.next, false),
            Way::NewText => self.connection.execute(&self.form.spaced(self.runs), &self.next, false),
        }?;
        Ok(rows.num_rows().max(1) as u64)
    }
}

/// Fills the tables, the readings meter by meter.
fn fill(run: &Run<'_>, [meters, readings]: &[Table; 2], count: i64) -> Outcome<()> {
    (run.announce)("fill", Size::Operations(count as u64));
    let mut connection = run.target.connect()?;
    let mut rows = AnswerBuilder::new(&meters.columns);
    for id in 0..count {
        let site = site(id % SITES);
        let row = [Cell::Int(id), Cell::Text(&site), Cell::Int(0), Cell::Float(0.0), Cell::Time(hour_ns(HOURS - 1))];
        row.into_iter().try_for_each(|cell| rows.push(cell))?;
    }
    connection.write(&[(meters, rows.finish()?)])?;
    let total = count * HOURS;
    for first in (0..total).step_by(FILL_ROWS as usize) {
        let mut rows = AnswerBuilder::new(&readings.columns);
        for row in first..(first + FILL_ROWS).min(total) {
            let (id, hour) = (row / HOURS, row % HOURS);
            let kwh = Cell::Float(((id * 7 + hour * 3) % 80) as f64 / 8.0);
            [Cell::Int(id), Cell::Time(hour_ns(hour)), kwh, Cell::Null]
                .into_iter()
                .try_for_each(|cell| rows.push(cell))?;
        }
        connection.write(&[(readings, rows.finish()?)])?;
    }
    Ok(())
}

/// A digest of the statements' answers, each run a few times in both ways. The reads are run again in
/// the end, so that they see what was written.
fn digest(run: &Run<'_>, forms: &[&Form], meters: i64) -> Outcome<u64> {
    let mut draw = Draw { random: Xoshiro256PlusPlus::seed_from_u64(run.plan.seed), meters };
    let mut connection = run.target.connect()?;
    let mut hasher = DefaultHasher::new();
    let reads = forms.iter().filter(|form| !form.columns.is_empty());
    for form in forms.iter().chain(reads) {
        for number in 0..COMPARED {
            let values = (form.draw)(&mut draw);
            let rows = connection.execute(form, &values, number % 2 == 0);
            let rows = rows.map_err(|error| format!("{}: {error}", form.name))?;
            hash(&rows, &mut hasher);
        }
    }
    // A float holds integers of 53 bits.
    Ok(hasher.finish() >> 11)
}

fn hash(rows: &RecordBatch, hasher: &mut impl Hasher) {
    for row in 0..rows.num_rows() {
        for cell in cells(rows, row) {
            match cell {
                Cell::Float(value) => format!("{value:.6}").hash(hasher),
                other => format!("{other:?}").hash(hasher),
            }
        }
    }
}

/// Voids the runs of targets whose answers differ from those of most targets.
pub fn compare_answers(results: &mut Results) {
    let digest_of =
        |run: &crate::results::Run| run.figures.iter().find(|figure| figure.name == DIGEST).map(|figure| figure.value);
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for digest in results.runs.iter().filter_map(digest_of) {
        *counts.entry(digest as u64).or_default() += 1;
    }
    let runs: usize = counts.values().sum();
    // If no digest is that of most, none is right.
    let usual = counts.into_iter().find(|(_, count)| 2 * count > runs).map(|(digest, _)| digest);
    for run in &mut results.runs {
        if digest_of(run).is_some_and(|digest| Some(digest as u64) != usual) {
            let wrong = "its answers differ from those of most targets".to_owned();
            run.phases.iter_mut().for_each(|phase| phase.wrong = Some(wrong.clone()));
        }
    }
}

#[cfg(test)]
#[path = "statements_tests.rs"]
mod tests;
