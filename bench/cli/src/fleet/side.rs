//! A process of one side. It does what its standard input says, and answers each line with one.

use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_cluster::bucket::Bucket;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The command of this program that runs the vehicles.
pub const DEVICES: &str = "fleet-devices";
/// The command of this program that runs the server.
pub const SERVER: &str = "fleet-server";

/// Where the files of a part are, and what it generates.
pub struct Place {
    directory: PathBuf,
    pub seed: u64,
    /// The number of hosts, which is the number of different keys.
    pub hosts: u64,
    /// The number of databases that they are spread over.
    pub devices: u64,
}

impl Place {
    pub fn new(parent: &Path, name: &str, seed: u64, (hosts, devices): (u64, u64)) -> Outcome<Self> {
        let directory = parent.join(name);
        std::fs::create_dir_all(directory.join("bucket"))?;
        Ok(Self { directory, seed, hosts, devices })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The size of what the vehicles have sent.
    pub fn sent_bytes(&self) -> Outcome<u64> {
        let bucket = self.directory.join("bucket");
        let mut sent_bytes = disk_bytes(&bucket)?;
        for vehicle in std::fs::read_dir(&bucket)? {
            // The server has written this one, if it came so far.
            sent_bytes -= std::fs::metadata(vehicle?.path().join("outbox/adopted")).map_or(0, |file| file.len());
        }
        Ok(sent_bytes)
    }
}

/// The bucket in a directory of its own below this one.
pub fn bucket(directory: &Path) -> Outcome<Bucket> {
    Ok(Bucket::open(&format!("file://{}", directory.canonicalize()?.join("bucket").display()))?)
}

/// A process that is told what to do.
pub struct Side {
    command: Command,
    running: Running,
}

struct Running {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    fn start(command: &mut Command) -> Outcome<Self> {
        let mut process = command.spawn()?;
        let output = BufReader::new(process.stdout.take().ok_or("the process has no output")?);
        Ok(Self { input: process.stdin.take(), process, output })
    }

    /// Kills the process and waits for its end, so that it holds no locks any more.
    fn kill(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }

    fn tell(&mut self, line: &str) -> Outcome<()> {
        let input = self.input.as_mut().ok_or("the process has no input")?;
        Ok(writeln!(input, "{line}")?)
    }

    /// The next line; an error if the process ended.
    fn answer(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(format!("the process ended: {}", self.process.wait()?).into()),
            _ => Ok(line),
        }
    }
}

impl Side {
    pub fn start(name: &str, place: &Place) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(name).arg("--directory").arg(&place.directory);
        if name == DEVICES {
            command.args(["--hosts", &place.hosts.to_string(), "--devices", &place.devices.to_string()]);
            command.args(["--seed", &place.seed.to_string()]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let running = Running::start(&mut command)?;
        Ok(Self { command, running })
    }

    /// Lets it do something. As long as `kill` gives a time in microseconds, the process is killed
    /// after it, and another one is told the same.
    pub fn ask(&mut self, line: &str, mut kill: impl FnMut() -> Option<u64>) -> Outcome<()> {
        while let Some(after_us) = kill() {
            self.running.tell(line)?;
            std::thread::sleep(Duration::from_micros(after_us));
            self.running.kill();
            self.running = Running::start(&mut self.command)?;
        }
        self.running.tell(line)?;
        self.running.answer().map(|_| ())
    }

    /// Ends it; gives what it has done.
    pub fn finish<T: DeserializeOwned>(&mut self) -> Outcome<T> {
        self.running.tell("finish")?;
        let done = serde_json::from_str(&self.running.answer()?)?;
        let ended = self.running.process.wait()?;
        if !ended.success() {
            return Err(format!("a process of the fleet failed: {ended}").into());
        }
        Ok(done)
    }
}

/// Does what standard input says, until it ends or says `finish`; `work` gives the answer to each
/// line.
pub fn obey(mut work: impl FnMut(&str) -> Outcome<String>) -> Outcome<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = work(&line)?;
        println!("{answer}");
        if line == "finish" {
            break;
        }
    }
    Ok(())
}
