//! The time from the loss of an owner to the first write that the next one acknowledges.

use super::owner::{Owned, bucket};
use crate::fleet::rows;
use crate::soak::Test;
use arrow::array::{ArrayRef, AsArray, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::TimestampNanosecondType;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::Worker;
use fleetdb_bench_core::results::Figure;
use fleetdb_bench_core::workload::cpu::Cpu;
use fleetdb_engine::{Batch, Database, Durability, Projection, ScanRequest};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The command of this program that stands by, takes over and writes.
pub const NODE: &str = "failover-node";
/// The goal for the time of a takeover.
const GOAL_S: f64 = 10.0;
/// For how long each owner writes before it is killed.
const WRITES_FOR: Duration = Duration::from_secs(3);
/// How long the parent waits for a line of a node.
const LINE_LIMIT: Duration = Duration::from_secs(120);
/// The rows of each owner are later than those of the one before.
const LATER_NS: i64 = 100_000_000_000_000_000;

/// Arguments of the process.
#[derive(clap::Args)]
pub struct NodeArguments {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    bucket: Option<String>,
    #[arg(long)]
    takeover_after_ms: u64,
}

/// Stands by until it is the owner, and then writes until it is killed. Tells on standard output how
/// many rows it has found, and after each write how many it has.
pub fn run_node(arguments: &NodeArguments) -> Outcome<()> {
    let parent = arguments.directory.parent().ok_or("the directory is in no other")?;
    let bucket = bucket(arguments.bucket.as_deref(), parent)?;
    let owned = Owned::wait(&bucket, &arguments.directory, Duration::from_millis(arguments.takeover_after_ms))?;
    let mut cpu = Cpu::edge();
    let first = cpu.batch()?;
    if owned.db.table(rows::TABLE).is_err() {
        owned.db.create_table(&rows::table(&first))?;
    }
    let mut batch = later(&first, owned.epoch)?;
    let mut is_first = true;
    loop {
        let count = batch.num_rows();
        owned.db.commit(Batch::new().with(rows::TABLE, batch).with_durability(Durability::Shared))?;
        if std::mem::take(&mut is_first) {
            println!("writes");
            println!("{}", rows_of(&owned.db)?);
        }
        println!("{count}");
        batch = later(&cpu.batch()?, owned.epoch)?;
    }
}

/// Rows at times of an epoch.
fn later(batch: &RecordBatch, epoch: u64) -> Outcome<RecordBatch> {
    let place = batch.schema_ref().index_of("ts")?;
    let mut columns = batch.columns().to_vec();
    let times = columns[place].as_primitive::<TimestampNanosecondType>();
    let times: TimestampNanosecondArray = times.unary(|time| time + epoch as i64 * LATER_NS);
    columns[place] = Arc::new(times) as ArrayRef;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

fn rows_of(db: &Database) -> Outcome<usize> {
    let request = ScanRequest { projection: Projection::Names(vec!["ts".to_owned()]), ..ScanRequest::all() };
    let mut rows = 0;
    for batch in db.view().table(rows::TABLE)?.scan(&request)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// A node in a process of its own.
struct Node {
    process: Child,
    lines: Receiver<String>,
    directory: PathBuf,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Node {
    fn start(directory: PathBuf, url: Option<&str>, takeover_after: Duration) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(NODE).arg("--directory").arg(&directory);
        command.args(["--takeover-after-ms", &takeover_after.as_millis().to_string()]);
        command.args(url.iter().flat_map(|url| ["--bucket", url]));
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("the process has no output")?;
        let (send, lines) = channel();
        // It ends with the process.
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Ok(Self { process, lines, directory })
    }

    fn wait_for_first_write(&self) -> Outcome<()> {
        match self.line()? == "writes" {
            true => Ok(()),
            false => Err("the node that took over did not write first".into()),
        }
    }

    fn line(&self) -> Outcome<String> {
        self.lines.recv_timeout(LINE_LIMIT).map_err(|_| "a node says nothing any more".into())
    }
}

/// Loses the owner again and again: its process is killed, and its directory is removed.
struct Losses<'a> {
    directory: &'a Path,
    url: Option<&'a str>,
    takeover_after: Duration,
    /// The owner, and the node that stands by. After a loss, these are the lost node and the new owner.
    nodes: [Node; 2],
    /// Nodes that were started.
    started: usize,
    is_lost: bool,
    /// Rows that were acknowledged.
    acknowledged: usize,
    left: u64,
    lost: Option<String>,
}

fn start(number: usize, parent: &Path, url: Option<&str>, takeover_after: Duration) -> Outcome<Node> {
    let directory = parent.join(format!("node-{number}"));
    std::fs::create_dir_all(&directory)?;
    Node::start(directory, url, takeover_after)
}

impl<'a> Losses<'a> {
    fn new(directory: &'a Path, url: Option<&'a str>, takeover_after: Duration, left: u64) -> Outcome<Self> {
        let owner = start(0, directory, url, takeover_after)?;
        owner.wait_for_first_write()?;
        let nodes = [owner, start(1, directory, url, takeover_after)?];
        Ok(Self {
            directory,
            url,
            takeover_after,
            nodes,
            started: 2,
            is_lost: false,
            acknowledged: 0,
            left,
            lost: None,
        })
    }

    /// Replaces the owner that was lost.
    fn replace(&mut self) -> Outcome<()> {
        self.nodes.swap(0, 1);
        let lost = &self.nodes[1];
        // What it had told before it was killed.
        self.acknowledged += lost.lines.iter().map(|line| line.parse::<usize>()).sum::<Result<usize, _>>()?;
        std::fs::remove_dir_all(&lost.directory)?;
        self.nodes[1] = start(self.started, self.directory, self.url, self.takeover_after)?;
        self.started += 1;
        Ok(())
    }

    /// Checks what a new owner has found.
    fn check(&mut self) -> Outcome<()> {
        let found = self.nodes[0].line()?.parse()?;
        if found < self.acknowledged {
            self.lost = Some(format!("of {} acknowledged rows, {found} are there", self.acknowledged));
        }
        self.acknowledged = found;
        // Its first write is among them.
        self.nodes[0].line().map(|_| ())
    }
}

impl Worker for Losses<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if std::mem::take(&mut self.is_lost) {
            self.replace()?;
        }
        self.check()?;
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let until = Instant::now() + WRITES_FOR;
        while Instant::now() < until {
            self.acknowledged += self.nodes[0].line()?.parse::<usize>()?;
        }
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let [owner, standby] = &mut self.nodes;
        owner.process.kill()?;
        owner.process.wait()?;
        standby.wait_for_first_write()?;
        self.is_lost = true;
        Ok(1)
    }
}

/// Measures a number of takeovers.
pub fn run(test: &mut Test<'_>, url: Option<&str>, takeover_after: Duration, count: u64) -> Outcome<()> {
    let mut losses = Losses::new(test.directory, url, takeover_after, count)?;
    let phase =
        test.drive("takeover, shared (T4)", "loss of the owner, until a write is acknowledged", count, &mut losses)?;
    (phase.wrong, phase.verified) = (losses.lost.take(), count as usize);
    let latency = phase.driven.latency;
    for (name, us) in [("median", latency.p50_us), ("longest", latency.max_us)] {
        let name = format!("takeover, from the loss of the owner to the first acknowledged write: {name}");
        test.figure(Figure::new(&name, "s", us / 1e6).at_most(GOAL_S));
    }
    Ok(())
}
