//! Meters: processor time, memory, bytes transferred and context switches of processes and their
//! descendants, sampled every second; bytes on disk; and the cost of an fsync on this machine. All
//! figures come from the kernel (proc(5)).

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

/// Interval between two samples.
const SAMPLE: Duration = Duration::from_secs(1);

/// Resources that processes have used so far, or between two points in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Usage {
    pub processor_s: f64,
    pub resident_bytes: u64,
    /// The largest resident set seen in a sample. For this process, the kernel's own peak, where the
    /// kernel lets a process restart it.
    pub peak_bytes: u64,
    /// Bytes read from the disk; `written_bytes` are those written to it.
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub context_switches: u64,
}

/// One sample of a [`Meter`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Sample {
    pub second: f64,
    pub server: Usage,
    pub client: Usage,
    pub load_average: f64,
}

/// The result of a [`Meter`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Metered {
    /// The target's own processes; zero if the target runs inside the client.
    pub server: Usage,
    /// This process, and the others of the target's client.
    pub client: Usage,
    /// Bytes over the loopback interface, from all programs on the machine.
    pub network_bytes: u64,
    /// Bytes written by the disk itself, for all programs on the machine; `None` if the kernel does
    /// not report them for the file system. The count of a process is too high if the page cache
    /// uses large folios: changing one byte counts as writing the whole folio.
    pub disk_written_bytes: Option<u64>,
    /// The largest one-minute load average.
    pub load_average: f64,
    /// The samples, one per second since the start.
    pub samples: Vec<Sample>,
}

/// Writes back everything that the file system of a directory has buffered, so that a [`Meter`]
/// started afterwards does not count earlier writes.
///
/// # Errors
/// The directory cannot be opened, or the disk fails.
pub fn write_back(directory: &Path) -> Outcome<()> {
    Ok(nix::unistd::syncfs(File::open(directory)?)?)
}

/// Samples the resources of a target's processes and of its client's every second.
pub struct Meter {
    stop: Sender<()>,
    thread: JoinHandle<Metered>,
}

impl Meter {
    /// Starts sampling. `server` are the target's processes, whose descendants count as well;
    /// `directory` is where the target writes.
    pub fn start(server: Vec<u32>, directory: &Path) -> Self {
        Self::start_with(server, Vec::new(), directory)
    }

    /// Like [`start`](Self::start); `helpers` are processes other than this one that are its client.
    pub fn start_with(server: Vec<u32>, helpers: Vec<u32>, directory: &Path) -> Self {
        let (stop, stopped) = channel();
        let has_own_peak = restart_peak().is_ok();
        let begin = Instant::now();
        let (server_begin, client_begin, network_begin) = (used(&server), client(&helpers), network_bytes());
        let device = device(directory);
        let disk_begin = device.as_deref().and_then(disk_bytes_written);
        let thread = std::thread::spawn(move || {
            let mut metered = Metered::default();
            loop {
                let is_last = stopped.recv_timeout(SAMPLE) != Err(RecvTimeoutError::Timeout);
                let sample = Sample {
                    second: begin.elapsed().as_secs_f64(),
                    server: used(&server).since(&server_begin),
                    client: client(&helpers).since(&client_begin),
                    load_average: load_average(),
                };
                metered.server.follow(&sample.server);
                metered.client.follow(&sample.client);
                metered.load_average = metered.load_average.max(sample.load_average);
                metered.samples.push(sample);
                if is_last {
                    // The kernel's peak is that of this process alone; a sample with helpers may be higher.
                    if let Some(peak) = has_own_peak.then(peak_memory_bytes).and_then(Result::ok) {
                        metered.client.peak_bytes = metered.client.peak_bytes.max(peak);
                    }
                    metered.network_bytes = network_bytes().saturating_sub(network_begin);
                    let disk = device.as_deref().and_then(disk_bytes_written);
                    metered.disk_written_bytes = disk.zip(disk_begin).map(|(end, begin)| end.saturating_sub(begin));
                    return metered;
                }
            }
        });
        Self { stop, thread }
    }

    /// Takes the last sample and returns the result.
    pub fn stop(self) -> Metered {
        self.stop.send(()).ok();
        self.thread.join().unwrap_or_default()
    }
}

impl Usage {
    fn since(&self, begin: &Self) -> Self {
        Self {
            // A child's counters disappear when it ends, but its processor time is added to its
            // parent's.
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
    /// The median of this process's resident set over all samples, in bytes.
    pub fn client_median_bytes(&self) -> f64 {
        crate::statistics::median(self.samples.iter().map(|sample| sample.client.resident_bytes as f64).collect())
    }

    /// Bytes written to disk: the disk's own count, or else that of the processes.
    pub fn written_bytes(&self) -> u64 {
        self.disk_written_bytes.unwrap_or(self.server.written_bytes + self.client.written_bytes)
    }
}

/// The statistics file of the block device that holds a directory (Documentation/block/stat.rst).
fn device(directory: &Path) -> Option<PathBuf> {
    let device = std::fs::metadata(directory).ok()?.dev();
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
    let counters = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
    counters.is_file().then_some(counters)
}

/// The seventh counter is the number of sectors of 512 bytes written.
fn disk_bytes_written(counters: &Path) -> Option<u64> {
    let sectors: u64 = std::fs::read_to_string(counters).ok()?.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

/// The sum over this process, without its descendants, and helpers.
fn client(helpers: &[u32]) -> Usage {
    let mut usage = used(helpers);
    usage.add(std::process::id(), false);
    usage
}

/// The sum over processes and their descendants.
pub fn used(processes: &[u32]) -> Usage {
    let mut usage = Usage::default();
    for process in with_children(processes) {
        usage.add(process, true);
    }
    usage
}

/// Processes and their descendants that still run, each once.
pub fn with_children(processes: &[u32]) -> Vec<u32> {
    let mut all = processes.to_vec();
    if processes.is_empty() {
        return all;
    }
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // The parent is the second field after the name.
        if let Some(parent) = stat(process).and_then(|figures| figures.get(1)?.parse::<u32>().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut next = 0;
    while let Some(process) = all.get(next) {
        // A child may have been given together with its parent.
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
        // The 12th and 13th fields after the name are user and system ticks; the next two are those
        // of children that have ended.
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

/// The fields after a process's name, which ends with the last parenthesis.
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

/// Bytes received by the loopback interface.
fn network_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Sets the kernel's record of this process's peak resident set to its current size (proc(5)).
fn restart_peak() -> std::io::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
}

/// The peak resident set of this process in bytes, since its start or that of the last [`Meter`].
pub fn peak_memory_bytes() -> Outcome<u64> {
    memory_bytes("self", "VmHWM:")
}

/// A figure from the status of a process (by number, or `self`): `VmRSS:` is its resident set,
/// `VmHWM:` the peak.
pub fn memory_bytes(process: &str, figure: &str) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).ok_or("the process has no memory")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// The processor time used by a process (by number, or `self`), in microseconds.
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

/// Bytes that this process has caused to be written to disk.
pub fn written_bytes() -> Outcome<u64> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).ok_or("no write_bytes")?;
    Ok(line.parse()?)
}

/// The median time to append 4 KiB and fdatasync, over 200 attempts, in microseconds.
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
