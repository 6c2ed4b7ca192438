//! Meters: processor time, memory, bytes moved and context switches of processes and all that they started, sampled each
//! second; bytes on disk; what an fsync costs here. All figures are the kernel's (proc(5)).

use crate::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two samples.
const SAMPLE: Duration = Duration::from_secs(1);

/// What processes have used so far, or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Usage {
    pub processor_s: f64,
    pub resident_bytes: u64,
    /// The largest resident set of any sample.
    pub peak_bytes: u64,
    /// Read from and written to the disk.
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub context_switches: u64,
}

/// A second of a [`Meter`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Sample {
    pub second: f64,
    pub server: Usage,
    pub client: Usage,
    pub load_average: f64,
}

/// What a [`Meter`] saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Metered {
    /// The target's own processes; nothing if it runs inside the client's.
    pub server: Usage,
    /// This process.
    pub client: Usage,
    /// Bytes over the loopback interface, of all programs here.
    pub network_bytes: u64,
    /// Bytes that the disk itself has written, for all programs here; `None` where the kernel does not say it of the file
    /// system. A process' own count is too large where the page cache has large folios: a byte changed in one counts as
    /// all of it.
    pub disk_written_bytes: Option<u64>,
    /// The largest load average of a minute.
    pub load_average: f64,
    /// Each second, counted from the begin.
    pub samples: Vec<Sample>,
}

/// Has everything that the file system of a directory holds back written to the disk, so that a [`Meter`] that starts then
/// does not count what others wrote before.
///
/// # Errors
/// The directory cannot be opened, or the disk fails.
pub fn write_back(directory: &Path) -> Outcome<()> {
    Ok(nix::unistd::syncfs(File::open(directory)?)?)
}

/// Reads the meters of a target's processes and of this one each second.
pub struct Meter {
    stop: Sender<()>,
    thread: JoinHandle<Metered>,
}

impl Meter {
    /// Begins to read; `server` are the target's processes, whose children count too, and `directory` is where it writes.
    pub fn start(server: Vec<u32>, directory: &Path) -> Self {
        let (stop, stopped) = channel();
        let begin = Instant::now();
        let (server_begin, client_begin, network_begin) = (used(&server), own(), network_bytes());
        let device = device(directory);
        let disk_begin = device.as_deref().and_then(disk_bytes_written);
        let thread = std::thread::spawn(move || {
            let mut metered = Metered::default();
            loop {
                let is_last = stopped.recv_timeout(SAMPLE) != Err(RecvTimeoutError::Timeout);
                let sample = Sample {
                    second: begin.elapsed().as_secs_f64(),
                    server: used(&server).since(&server_begin),
                    client: own().since(&client_begin),
                    load_average: load_average(),
                };
                metered.server.follow(&sample.server);
                metered.client.follow(&sample.client);
                metered.load_average = metered.load_average.max(sample.load_average);
                metered.samples.push(sample);
                if is_last {
                    metered.network_bytes = network_bytes().saturating_sub(network_begin);
                    let disk = device.as_deref().and_then(disk_bytes_written);
                    metered.disk_written_bytes = disk.zip(disk_begin).map(|(end, begin)| end.saturating_sub(begin));
                    return metered;
                }
            }
        });
        Self { stop, thread }
    }

    /// The last sample, and all together.
    pub fn stop(self) -> Metered {
        self.stop.send(()).ok();
        self.thread.join().unwrap_or_default()
    }
}

impl Usage {
    fn since(&self, begin: &Self) -> Self {
        Self {
            // A child's counters go when it ends; its processor time goes to its parent.
            processor_s: (self.processor_s - begin.processor_s).max(0.0),
            read_bytes: self.read_bytes.saturating_sub(begin.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(begin.written_bytes),
            context_switches: self.context_switches.saturating_sub(begin.context_switches),
            ..*self
        }
    }

    fn follow(&mut self, now: &Self) {
        *self = Self { peak_bytes: self.peak_bytes.max(now.peak_bytes), ..*now };
    }
}

impl Metered {
    /// What was written to the disk: the disk's own count, or the processes'.
    pub fn written_bytes(&self) -> u64 {
        self.disk_written_bytes.unwrap_or(self.server.written_bytes + self.client.written_bytes)
    }
}

/// The counters of the block device that a directory lies on (Documentation/block/stat.rst).
fn device(directory: &Path) -> Option<PathBuf> {
    let device = std::fs::metadata(directory).ok()?.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let counters = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
    counters.is_file().then_some(counters)
}

/// The seventh counter are sectors of 512 bytes written.
fn disk_bytes_written(counters: &Path) -> Option<u64> {
    let sectors: u64 = std::fs::read_to_string(counters).ok()?.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

fn own() -> Usage {
    let mut usage = Usage::default();
    usage.add(std::process::id(), false);
    usage
}

/// The sum over processes and all that they started.
pub fn used(processes: &[u32]) -> Usage {
    let mut usage = Usage::default();
    for process in with_children(processes) {
        usage.add(process, true);
    }
    usage
}

/// Processes, and all that they started and that run still, each once.
pub fn with_children(processes: &[u32]) -> Vec<u32> {
    let mut all = processes.to_vec();
    if processes.is_empty() {
        return all;
    }
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // The parent is the second figure behind the name.
        if let Some(parent) = stat(process).and_then(|figures| figures.get(1)?.parse::<u32>().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut next = 0;
    while let Some(process) = all.get(next) {
        // One may have been given with the one that started it.
        let new = children.remove(process).unwrap_or_default().into_iter().filter(|child| !all.contains(child));
        all.extend(new.collect::<Vec<_>>());
        next += 1;
    }
    all
}

impl Usage {
    /// Adds a process; one that has ended adds nothing.
    fn add(&mut self, process: u32, with_ended_children: bool) {
        /// Linux counts in hundredths of a second.
        const TICK_S: f64 = 0.01;
        let name = process.to_string();
        // The 12th and 13th figure behind the name are the ticks of the program and of the system for it, the next two
        // those of children that have ended.
        let ticks = |figures: Vec<String>| {
            let count = if with_ended_children { 4 } else { 2 };
            figures.iter().skip(11).take(count).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
        };
        self.processor_s += stat(process).map_or(0.0, ticks) * TICK_S;
        let resident_bytes = memory_bytes(&name, "VmRSS:").unwrap_or(0);
        self.resident_bytes += resident_bytes;
        self.peak_bytes += resident_bytes;
        let io = std::fs::read_to_string(format!("/proc/{name}/io")).unwrap_or_default();
        self.read_bytes += figure(&io, "read_bytes: ");
        self.written_bytes += figure(&io, "write_bytes: ");
        for thread in std::fs::read_dir(format!("/proc/{name}/task")).into_iter().flatten().flatten() {
            let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            self.context_switches +=
                figure(&status, "voluntary_ctxt_switches:") + figure(&status, "nonvoluntary_ctxt_switches:");
        }
    }
}

/// The figures behind a process' name, which ends with the last parenthesis.
fn stat(process: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn figure(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|figure| figure.trim().parse().ok()).unwrap_or(0)
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Bytes that the loopback interface has taken.
fn network_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The largest resident set of this process so far, in bytes.
pub fn peak_memory_bytes() -> Outcome<u64> {
    memory_bytes("self", "VmHWM:")
}

/// A figure of a process (by number, or `self`) from its status: `VmRSS:` is its resident set, `VmHWM:` the largest so far.
pub fn memory_bytes(process: &str, figure: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).ok_or("the process has no memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// The processor time that a process (by number, or `self`) has used, in microseconds.
pub fn processor_us(process: &str) -> Outcome<f64> {
    let process = if process == "self" { std::process::id() } else { process.parse()? };
    let mut usage = Usage::default();
    usage.add(process, false);
    Ok(usage.processor_s * 1e6)
}

/// Bytes of all files below a directory.
pub fn disk_bytes(directory: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Bytes that this process has had written to the disk.
pub fn written_bytes() -> Outcome<u64> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).ok_or("no write_bytes")?;
    Ok(line.parse()?)
}

/// The median of 200 times 4 KiB appended and fdatasync, in microseconds.
pub fn fsync_us(directory: &Path) -> Outcome<f64> {
    let path = directory.join("fsync-probe");
    let mut file = File::create(&path)?;
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(path)?;
    Ok(crate::statistics::median(times))
}

#[cfg(test)]
#[path = "meters_tests.rs"]
mod tests;
