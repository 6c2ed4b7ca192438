//! E4: a board samples five channels a thousand times a second; a writer takes the datapoints from a bounded queue to the
//! database. Whatever the queue cannot take is lost, and counted.
//!
//! 1. The sampler is a process of its own ([`sample`]), with absolute deadlines: a late sample does not move the next.
//! 2. The queue is a pipe of 16 KB. The sampler never waits for it: what does not fit is an overrun.
//! 3. The writer is this process. `single`: a transaction for each datapoint, as it was published. `batched`: a
//!    transaction for what has come since the last was acknowledged, as an engineer would write it today.
//! 4. Everything is read back and compared, and single datapoints by their time.

use super::{Job, Run, Size};
use crate::Outcome;
use crate::driver::{Limit, Worker};
use crate::query::{Key, Query};
use crate::table::Table;
use crate::target::Connection;
use crate::workload::series::{Datapoint, Series, datapoints};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The command of this program that [`sample`]s.
pub const SAMPLER: &str = "sample";

/// The published queue.
const QUEUE_BYTES: usize = 16 << 10;
const MICROSECOND_NS: i64 = 1_000;
/// Datapoints that are asked for by their time.
const ASKED: usize = 100;

/// How large.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Seconds of each way to write [full: 600]
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Datapoints a second
    #[arg(long)]
    pub rate: Option<u64>,
}

/// What a sampler has to do.
#[derive(clap::Args)]
pub struct Sampling {
    /// Datapoints a second
    #[arg(long)]
    rate: u64,
    /// How many
    #[arg(long)]
    count: u64,
    #[arg(long)]
    seed: u64,
}

/// What a sampler did; it says so as JSON on its standard error.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Sampled {
    sampled: u64,
    lost: u64,
    seconds: f64,
}

/// The sampler: datapoints to standard output, which is the queue.
///
/// # Errors
/// The queue's other end is gone.
pub fn sample(sampling: &Sampling) -> Outcome<()> {
    let queue = std::io::stdout();
    fcntl(&queue, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let begin = Instant::now();
    let (mut done, mut stamp_us) = (Sampled::default(), 0);
    for number in 0..sampling.count {
        let due = Duration::from_secs_f64(number as f64 / sampling.rate as f64);
        if let Some(early) = due.checked_sub(begin.elapsed()) {
            std::thread::sleep(early);
        }
        // Two that were late may be taken in the same microsecond, but a time is a key.
        stamp_us = (SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as i64).max(stamp_us + 1);
        let point = Datapoint::sampled(sampling.seed, number, stamp_us * 1_000);
        done.sampled += 1;
        // Less than a page: all of it goes, or nothing.
        match nix::unistd::write(&queue, &point.to_bytes()) {
            Ok(_) => {}
            Err(nix::errno::Errno::EAGAIN) => done.lost += 1,
            Err(error) => return Err(error.into()),
        }
    }
    done.seconds = begin.elapsed().as_secs_f64();
    eprintln!("{}", serde_json::to_string(&done)?);
    Ok(())
}

/// Runs it.
///
/// # Errors
/// The target's.
pub fn run(run: &mut Run<'_>, scale: &Scale) -> Outcome<()> {
    let seconds = run.plan.size(scale.seconds, 600, 5).max(1);
    let rate = scale.rate.unwrap_or(1_000).max(1);
    let table = Arc::new(Series::Datapoints.table());
    run.target.create(std::slice::from_ref(&*table))?;
    let mut boards = Vec::new();
    for (board, (name, most)) in (1..).zip([("single", 1), ("batched", usize::MAX)]) {
        if run.is_stopped() {
            return Ok(());
        }
        let mut writer = Writer {
            connection: run.target.connect()?,
            table: &table,
            sampler: Sampler::start(&Sampling { rate, count: rate * seconds, seed: run.plan.seed })?,
            most,
            board,
            bytes: Vec::new(),
            waiting: Vec::new(),
            written: Vec::new(),
        };
        let operation = if most == 1 { "a datapoint" } else { "the datapoints that have come" };
        let job = Job { name, operation, size: Size::Seconds(seconds) };
        run.drive_and_settle(job, std::slice::from_mut(&mut writer), Limit::default())?;
        let (sampled, written) = (writer.sampler.end()?, writer.written);
        let phase = run.phases.last_mut().ok_or("nothing was measured")?;
        // The sampler's pace is the phase's, not the writer's; and not the time to settle.
        (phase.driven.seconds, phase.settle_s) = (sampled.seconds, 0.0);
        phase.lost = Some(sampled.lost);
        if sampled.sampled - sampled.lost != written.len() as u64 && !run.is_stopped() {
            return Err(format!("{sampled:?}, but {} datapoints came out of the queue", written.len()).into());
        }
        boards.push((board, written));
    }
    run.check_count(table.name, boards.iter().map(|(_, written)| written.len() as u64).sum())?;
    let window = |points: &[Datapoint]| Some((points.first()?.time_ns, points.last()?.time_ns + MICROSECOND_NS));
    let series = |key, window_ns| Query::Rows { of: Arc::clone(&table), key: Key::Int(key), window_ns };
    let all = boards.iter().filter_map(|(board, written)| Some(series(*board, window(written)?)));
    run.ask("everything read back", &all.collect::<Vec<_>>(), 1)?;
    let single = boards.iter().flat_map(|(board, written)| {
        let step = written.len().div_ceil(ASKED).max(1);
        written.iter().step_by(step).map(|point| series(*board, (point.time_ns, point.time_ns + MICROSECOND_NS)))
    });
    run.ask("a datapoint by its time", &single.collect::<Vec<_>>(), 1)?;
    run.verify(&|query| match query {
        Query::Rows { key: Key::Int(key), window_ns: (from, to), .. } => {
            let written = boards.iter().find(|(board, _)| board == key).map_or(&[][..], |(_, written)| written);
            let place = |time_ns: &i64| written.partition_point(|point| point.time_ns < *time_ns);
            datapoints(*key, &written[place(from)..place(to)])
        }
        _ => Err("only datapoints are asked here".into()),
    })
}

/// A sampler in a process of its own.
struct Sampler(Child);

impl Sampler {
    fn start(sampling: &Sampling) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([SAMPLER, "--rate", &sampling.rate.to_string(), "--count", &sampling.count.to_string()]);
        command.args(["--seed", &sampling.seed.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let queue = child.stdout.as_ref().ok_or("the sampler has no output")?;
        fcntl(queue, FcntlArg::F_SETPIPE_SZ(QUEUE_BYTES as i32))?;
        Ok(Self(child))
    }

    fn end(&mut self) -> Outcome<Sampled> {
        let mut said = String::new();
        self.0.stderr.take().ok_or("the sampler has ended")?.read_to_string(&mut said)?;
        self.0.wait()?;
        Ok(serde_json::from_str(&said).map_err(|_| format!("the sampler: {said}"))?)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Takes datapoints from the queue to the target.
struct Writer<'a> {
    connection: Box<dyn Connection>,
    table: &'a Table,
    sampler: Sampler,
    /// Datapoints of one transaction.
    most: usize,
    board: i64,
    /// Taken from the queue: less than a datapoint.
    bytes: Vec<u8>,
    /// Taken from the queue and not written yet.
    waiting: Vec<Datapoint>,
    written: Vec<Datapoint>,
}

impl Worker for Writer<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        let queue = self.sampler.0.stdout.as_mut().ok_or("the sampler has no output")?;
        let mut part = [0; QUEUE_BYTES];
        while self.waiting.is_empty() {
            match queue.read(&mut part) {
                Ok(0) => return Ok(false),
                Ok(count) => self.bytes.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            let (whole, rest) = self.bytes.as_chunks::<{ Datapoint::BYTES }>();
            self.waiting.extend(whole.iter().map(Datapoint::from_bytes));
            self.bytes = rest.to_vec();
        }
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let points: Vec<Datapoint> = self.waiting.drain(..self.most.min(self.waiting.len())).collect();
        self.connection.write(&[(self.table, datapoints(self.board, &points)?)])?;
        self.written.extend_from_slice(&points);
        Ok(points.len() as u64)
    }
}
