//! Meters: time, processor time and memory of this process, bytes on disk, and what an fsync costs here.

use crate::Outcome;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

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
    /// Linux counts in hundredths of a second.
    const TICK_US: f64 = 10_000.0;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name, which ends with the last parenthesis, the 12th and 13th figures are the ticks of the program
    // and of the system for it (proc(5)).
    let figures = stat.rsplit_once(')').map_or("", |(_, figures)| figures);
    let ticks = figures.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? * TICK_US)
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
    Ok(median(times))
}

/// The middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
