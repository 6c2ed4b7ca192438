//! E4: a board samples five channels a thousand times per second. A writer moves the datapoints
//! from a bounded queue to the database. Datapoints that do not fit into the queue are lost, and
//! counted.
//!
//! 1. The sampler is a separate process ([`sample`]) with absolute deadlines: a late sample does
//!    not delay the next.
//! 2. The queue is a pipe of 16 KB. The sampler never waits for it; a datapoint that does not fit
//!    is an overrun.
//! 3. The writer is this process. It writes in two [modes](WriteMode), one after the other.
//! 4. Everything is read back and compared, and single datapoints are queried by their time.

use super::{Job, Run, Size};
use crate::Outcome;
use crate::driver::{Limit, Worker};
use crate::query::{Key, Query};
use crate::table::Table;
use crate::target::{Connection, Profile};
use crate::workload::series::{Datapoint, SECOND_NS, Series, by_second, datapoints, seconds};
use arrow::array::RecordBatch;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The command of this program that runs [`sample`].
pub const SAMPLER: &str = "sample";

/// Size of the queue in the publication.
const QUEUE_BYTES: usize = 16 << 10;
const MICROSECOND_NS: i64 = 1_000;
/// Number of datapoints to query by their time.
const ASKED: usize = 100;

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Seconds for each way of writing [full: 600]
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Datapoints per second
    #[arg(long)]
    pub rate: Option<u64>,
}

/// How datapoints are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    /// One transaction per datapoint, as published.
    Single,
    /// One transaction for all datapoints that arrived since the last acknowledgement, as an
    /// engineer would write it today.
    Batched,
    /// One document per second, written when the second is over; also published. Its datapoints
    /// cannot be queried by time.
    Bulk,
}

impl WriteMode {
    fn of(profile: Profile) -> [Self; 2] {
        match profile {
            Profile::Published => [Self::Single, Self::Bulk],
            Profile::Fair => [Self::Single, Self::Batched],
        }
    }

    /// The name of its phase, and the meaning of one operation.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Single => ("single", "a datapoint"),
            Self::Batched => ("batched", "the datapoints that have come"),
            Self::Bulk => ("bulk", "a second's datapoints as a document"),
        }
    }

    fn series(self) -> Series {
        match self {
            Self::Single | Self::Batched => Series::Datapoints,
            Self::Bulk => Series::Seconds,
        }
    }

    fn rows(self, board: i64, points: &[Datapoint]) -> Outcome<RecordBatch> {
        match self {
            Self::Single | Self::Batched => datapoints(board, points),
            Self::Bulk => seconds(board, points),
        }
    }
}

/// The task of a sampler.
#[derive(clap::Args)]
pub struct Sampling {
    /// Datapoints per second
    #[arg(long)]
    rate: u64,
    /// Number of datapoints
    #[arg(long)]
    count: u64,
    #[arg(long)]
    seed: u64,
}

/// The result of a sampler, which it reports as JSON on standard error.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Sampled {
    sampled: u64,
    lost: u64,
    seconds: f64,
}

/// The sampler: writes datapoints to standard output, which is the queue.
///
/// # Errors
/// The reader of the queue is gone.
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
        // Two late samples may fall into the same microsecond, but each needs a distinct time,
        // which is a key.
        stamp_us = (SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as i64).max(stamp_us + 1);
        let point = Datapoint::sampled(sampling.seed, number, stamp_us * 1_000);
        done.sampled += 1;
        // A datapoint is smaller than a page, so the pipe takes all of it or nothing.
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

/// Runs the experiment.
///
/// # Errors
/// Those of the target.
pub fn run(run: &mut Run<'_>, scale: &Scale) -> Outcome<()> {
    let seconds = run.plan.size(scale.seconds, 600, 5).max(1);
    let rate = scale.rate.unwrap_or(1_000).max(1);
    let modes = WriteMode::of(run.plan.profile);
    let mut tables: Vec<Table> = modes.map(|mode| mode.series().table()).to_vec();
    tables.dedup();
    run.target.create(&tables)?;
    let mut boards = Vec::new();
    for (number, mode) in (1..).zip(modes) {
        if run.is_stopped() {
            return Ok(());
        }
        let mut board = Board { number, mode, table: Arc::new(mode.series().table()), written: Vec::new() };
        let (name, operation) = mode.names();
        // A floor answers no query, but takes the writes.
        if !run.target.is_floor() && run.cannot(name, &[board.query((0, 0))]) {
            continue;
        }
        let disk_bytes = run.target.disk_bytes()?;
        let mut writer = Writer {
            connection: run.target.connect()?,
            sampler: Sampler::start(&Sampling { rate, count: rate * seconds, seed: run.plan.seed })?,
            board: &mut board,
            bytes: Vec::new(),
            waiting: Vec::new(),
            is_over: false,
        };
        let job = Job { name, operation, size: Size::Seconds(seconds) };
        run.drive_and_settle(job, std::slice::from_mut(&mut writer), Limit::default())?;
        let sampled = writer.sampler.end()?;
        let phase = run.phases.last_mut().ok_or("nothing was measured")?;
        // The phase lasts as long as the sampler, whatever the writer does; the time to settle is
        // not counted.
        (phase.driven.seconds, phase.settle_s) = (sampled.seconds, 0.0);
        phase.lost = Some(sampled.lost);
        phase.disk_bytes = phase.disk_bytes.saturating_sub(disk_bytes);
        let written = &board.written;
        if sampled.sampled - sampled.lost != written.len() as u64 && !run.is_stopped() {
            return Err(format!("{sampled:?}, but {} datapoints came out of the queue", written.len()).into());
        }
        let table = board.table.name;
        boards.push(board);
        let sharing = boards.iter().filter(|board| board.table.name == table);
        run.check_count(table, sharing.map(|board| board.count() as u64).sum())?;
    }
    let all: Vec<Query> = boards.iter().filter_map(|board| Some(board.query(board.window()?))).collect();
    run.ask("everything read back", &all, 1)?;
    let single = boards.iter().filter(|board| board.mode != WriteMode::Bulk).flat_map(|board| {
        let step = board.written.len().div_ceil(ASKED).max(1);
        board.written.iter().step_by(step).map(|point| board.query((point.time_ns, point.time_ns + MICROSECOND_NS)))
    });
    run.ask("a datapoint by its time", &single.collect::<Vec<_>>(), 1)?;
    run.verify(&|query| match query {
        Query::Rows { key: Key::Int(key), window_ns: (from, to), .. } => {
            let board = boards.iter().find(|board| board.number == *key).ok_or("no such board")?;
            let place = |time_ns: &i64| board.written.partition_point(|point| point.time_ns < *time_ns);
            board.rows(&board.written[place(from)..place(to)])
        }
        _ => Err("only datapoints can be queried here".into()),
    })
}

/// The rows written in one way.
struct Board {
    /// The key of the rows.
    number: i64,
    mode: WriteMode,
    table: Arc<Table>,
    /// The acknowledged datapoints.
    written: Vec<Datapoint>,
}

impl Board {
    /// A query for its rows.
    fn query(&self, window_ns: (i64, i64)) -> Query {
        Query::Rows { of: Arc::clone(&self.table), key: Key::Int(self.number), window_ns }
    }

    /// A window that holds all its rows and starts at a full second, as documents do.
    fn window(&self) -> Option<(i64, i64)> {
        Some((self.written.first()?.second() * SECOND_NS, self.written.last()?.time_ns + MICROSECOND_NS))
    }

    /// The number of its rows.
    fn count(&self) -> usize {
        match self.mode {
            WriteMode::Single | WriteMode::Batched => self.written.len(),
            WriteMode::Bulk => by_second(&self.written).count(),
        }
    }

    /// Converts datapoints to rows.
    fn rows(&self, points: &[Datapoint]) -> Outcome<RecordBatch> {
        self.mode.rows(self.number, points)
    }
}

/// A sampler in a separate process.
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
        self.0.stderr.take().ok_or("the sampler has exited")?.read_to_string(&mut said)?;
        self.0.wait()?;
        Ok(serde_json::from_str(&said).map_err(|_| format!("the sampler failed: {said}"))?)
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Moves datapoints from the queue to the target.
struct Writer<'a> {
    connection: Box<dyn Connection>,
    sampler: Sampler,
    board: &'a mut Board,
    /// Bytes read from the queue that do not yet form a datapoint.
    bytes: Vec<u8>,
    /// Datapoints read from the queue and not yet written.
    waiting: Vec<Datapoint>,
    /// Whether the queue has ended.
    is_over: bool,
}

impl Writer<'_> {
    /// The number of waiting datapoints to write in the next transaction.
    fn due(&self) -> usize {
        match (self.board.mode, self.waiting.first()) {
            (_, None) => 0,
            (WriteMode::Single, _) => 1,
            (WriteMode::Batched, _) => self.waiting.len(),
            (WriteMode::Bulk, Some(first)) => {
                let second = self.waiting.iter().take_while(|point| point.second() == first.second()).count();
                if second < self.waiting.len() || self.is_over { second } else { 0 }
            }
        }
    }

    /// Waits for more data.
    fn take(&mut self) -> Outcome<()> {
        let queue = self.sampler.0.stdout.as_mut().ok_or("the sampler has no output")?;
        let mut part = [0; QUEUE_BYTES];
        match queue.read(&mut part) {
            Ok(0) => self.is_over = true,
            Ok(count) => self.bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        let (whole, rest) = self.bytes.as_chunks::<{ Datapoint::BYTES }>();
        self.waiting.extend(whole.iter().map(Datapoint::from_bytes));
        self.bytes = rest.to_vec();
        Ok(())
    }
}

impl Worker for Writer<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        while self.due() == 0 && !self.is_over {
            self.take()?;
        }
        Ok(self.due() > 0)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let points: Vec<Datapoint> = self.waiting.drain(..self.due()).collect();
        self.connection.write(&[(&self.board.table, self.board.rows(&points)?)])?;
        self.board.written.extend_from_slice(&points);
        Ok(points.len() as u64)
    }
}
