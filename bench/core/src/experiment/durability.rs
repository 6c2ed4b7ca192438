//! Tests durability instead of trusting it: is every acknowledged write still there after `kill
//! -9`?
//!
//! 1. A separate process ([`write`]) starts the target and writes E3's records over several
//!    connections, one per transaction. It prints each acknowledgement on standard output.
//! 2. At a random moment it is killed, together with every process of the target.
//! 3. The target is started again on the same data, and every acknowledged record is read back and
//!    compared.
//!
//! Data that a killed process handed to the kernel survives. So this finds targets that acknowledge
//! data held only in their memory, and targets that do not start again. What a power cut would
//! leave is not tested; the tier states that.

use super::{QUERY, Size};
use crate::Outcome;
use crate::driver::{Driven, Latency, Limit, Watch, Worker, drive};
use crate::meters::with_children;
use crate::oracle::difference;
use crate::query::{Key, Query};
use crate::results::Phase;
use crate::table::Table;
use crate::target::{Connection, Info, Target, Tier};
use crate::workload::series::{Series, record_time_ns, records};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The command of this program that runs [`write`].
pub const COMMAND: &str = "write-until-killed";

/// Time limit for killed processes to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The size of the experiment.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Scale {
    /// Maximum number of seconds until the target is killed; at least half of them pass
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// Number of connections that write
    #[arg(long, default_value_t = 8)]
    pub connections: usize,
}

/// Writes until it is killed. Prints a line with the processes of the target, then one line per
/// acknowledgement with the container and the number of the record.
///
/// # Errors
/// Those of the target.
pub fn write(target: &mut dyn Target, seed: u64, connections: usize) -> Outcome<()> {
    let table = Series::Records.table();
    target.create(std::slice::from_ref(&table))?;
    let processes: Vec<String> = target.processes().iter().map(u32::to_string).collect();
    println!("{}", processes.join(" "));
    let mut writers = Vec::new();
    for container in 0..connections as i64 {
        writers.push(Acknowledging { connection: target.connect()?, table: &table, seed, container, written: 0 });
    }
    drive(&mut writers, Limit::default(), &Watch::default())?;
    Ok(())
}

struct Acknowledging<'a> {
    connection: Box<dyn Connection>,
    table: &'a Table,
    seed: u64,
    container: i64,
    written: u64,
}

impl Worker for Acknowledging<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let rows = records(self.seed, self.container, self.written..self.written + 1)?;
        self.connection.write(&[(self.table, rows)])?;
        // A line is written at once and in full.
        writeln!(std::io::stdout(), "{} {}", self.container, self.written)?;
        self.written += 1;
        Ok(1)
    }
}

/// The acknowledgements a killed writer had received, by container.
struct Killed {
    acknowledged: Vec<u64>,
    seconds: f64,
}

/// Runs the experiment; also returns the target's description of itself. `writer` is the command of
/// this program that runs [`write`]; `start` starts the target on the data that `writer` left.
///
/// # Errors
/// Those of the target: it does not start, or does not start again.
pub fn run(
    scale: &Scale,
    seed: u64,
    writer: &mut Command,
    start: &dyn Fn() -> Outcome<Box<dyn Target>>,
    watch: &Watch,
    announce: &dyn Fn(&str, Size),
) -> Outcome<(Info, Vec<Phase>)> {
    announce("write until killed", Size::Seconds(scale.seconds));
    // The moment differs in every run; a seed could not reproduce it anyway.
    let share = Xoshiro256PlusPlus::seed_from_u64(std::process::id().into()).random_range(0.5..1.0);
    let killed = write_and_kill(writer, Duration::from_secs_f64(scale.seconds as f64 * share), watch)?;
    announce("start again", Size::Operations(1));
    let begin = Instant::now();
    let mut target = start()?;
    let table = Arc::new(Series::Records.table());
    target.create(std::slice::from_ref(&*table))?;
    let info = target.info();
    let mut connection = target.connect()?;
    connection.query(&Query::Count(table.name))?;
    let again_us = begin.elapsed().as_secs_f64() * 1e6;
    let (mut lost, mut wrong) = (0, None);
    for (container, acknowledged) in (0..).zip(&killed.acknowledged) {
        let window_ns = (record_time_ns(0), record_time_ns(*acknowledged));
        let query = Query::Rows { of: Arc::clone(&table), key: Key::Int(container), window_ns };
        let answer = connection.query(&query)?;
        let gone = acknowledged.saturating_sub(answer.num_rows() as u64);
        lost += gone;
        // A tier without a guarantee against this may lose rows; their number is reported.
        if gone == 0 || matches!(info.tier, Tier::T1 | Tier::T3) {
            wrong = wrong.or(difference(&query, &records(seed, container, 0..*acknowledged)?, &answer));
        }
    }
    let written: u64 = killed.acknowledged.iter().sum();
    let driven = |operations, seconds| Driven { operations, rows: operations, seconds, ..Driven::default() };
    let latency = Latency { p50_us: again_us, ..Latency::default() };
    let phases = vec![
        Phase {
            name: "write until killed".to_owned(),
            operation: "a record, acknowledged".to_owned(),
            driven: driven(written, killed.seconds),
            lost: Some(lost),
            verified: written as usize,
            wrong,
            ..Phase::default()
        },
        Phase {
            name: "start again and count".to_owned(),
            operation: QUERY.to_owned(),
            driven: Driven { latency, ..driven(1, again_us / 1e6) },
            ..Phase::default()
        },
    ];
    Ok((info, phases))
}

/// Lets the writer write for `time` after its first acknowledgement, then kills it and its target.
fn write_and_kill(writer: &mut Command, time: Duration, watch: &Watch) -> Outcome<Killed> {
    let mut child = Ended(writer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let output = child.0.stdout.take().ok_or("the writer has no output")?;
    let (said, heard) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            said.send(line).ok();
        }
    });
    let processes = heard.recv().map_err(|_| "the writer exited before it wrote; see above")?;
    let mut processes: Vec<u32> = processes.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    processes.push(child.0.id());
    let mut acknowledged = Vec::new();
    let mut hear = |line: String| -> Outcome<()> {
        let (container, number) = line.split_once(' ').ok_or("unexpected output of the writer")?;
        let (container, number) = (container.parse::<usize>()?, number.parse::<u64>()?);
        acknowledged.resize(acknowledged.len().max(container + 1), 0);
        acknowledged[container] = number + 1;
        watch.rows.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    hear(heard.recv().map_err(|_| "the writer exited before anything was acknowledged")?)?;
    let begin = Instant::now();
    while !watch.stop.load(Ordering::Relaxed) {
        let Some(left) = time.checked_sub(begin.elapsed()) else { break };
        match heard.recv_timeout(left) {
            Ok(line) => hear(line)?,
            Err(RecvTimeoutError::Timeout) => break,
            Err(RecvTimeoutError::Disconnected) => return Err("the writer exited before it was killed".into()),
        }
    }
    let is_there = |process: &u32| Path::new("/proc").join(process.to_string()).exists();
    if !processes.iter().all(is_there) {
        return Err("a process of the target exited before it was killed".into());
    }
    let processes = with_children(&processes);
    for process in &processes {
        match kill(Pid::from_raw(i32::try_from(*process)?), Signal::SIGKILL) {
            // Some processes end with their parent.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    child.0.wait()?;
    // Acknowledgements printed before the kill.
    heard.iter().try_for_each(hear)?;
    reader.join().map_err(|_| "the reader's thread panicked")?;
    let begin = Instant::now();
    // PostgreSQL refuses to start while the process id of an earlier server exists, even if that
    // process is only a zombie.
    while processes.iter().any(is_there) {
        if begin.elapsed() > END_LIMIT {
            return Err("a process of the target did not exit when it was killed".into());
        }
        std::thread::yield_now();
    }
    Ok(Killed { acknowledged, seconds })
}

/// A child that is killed when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
