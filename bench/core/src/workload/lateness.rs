//! Late data, which is common in fleets but nearly absent from TSBS data: devices go offline for
//! minutes to days and then send everything they kept, clocks are wrong by seconds to years, and
//! rows are sent twice.

use super::cpu::{Cpu, STEP_NS, TAGS};
use super::mix;
use crate::Outcome;
use arrow::array::{ArrayRef, AsArray, RecordBatch, TimestampNanosecondArray};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::TimestampNanosecondType;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::Range;
use std::sync::Arc;

const SECOND_NS: i64 = 1_000_000_000;
/// Probability that a device goes offline after a row, about once in three hours.
const OFFLINE: f64 = 0.001;
/// How long it stays offline, from two minutes to two days, uniform on a logarithmic scale.
const OFFLINE_S: Range<f64> = 120.0..172_800.0;
/// Probability that rows are sent again with the next ones.
const TWICE: f64 = 0.01;
/// Probability that a device's clock is wrong.
const WRONG_CLOCK: f64 = 0.02;
/// The error of a wrong clock, from seconds to two years, fast or slow.
const CLOCK_S: Range<f64> = 2.0..63_072_000.0;

/// Rows of hosts in order of arrival. What happens to a host depends only on the seed and its
/// index.
pub struct Arrivals {
    cpu: Cpu,
    /// Empty if all rows arrive on time.
    devices: Vec<Device>,
    repeated: u64,
}

struct Device {
    random: Xoshiro256PlusPlus,
    clock_ns: i64,
    /// Epochs for which it stays offline.
    offline: u64,
    /// Rows kept until it is online again.
    kept: Vec<Row>,
    /// Rows to send again with the next ones, because no acknowledgement arrived.
    unheard: Vec<Row>,
}

/// A row of a shared batch.
type Row = (Arc<RecordBatch>, usize);

/// A random value between the bounds, uniform on a logarithmic scale.
fn spread(random: &mut Xoshiro256PlusPlus, bounds: Range<f64>) -> f64 {
    random.random_range(bounds.start.ln()..bounds.end.ln()).exp()
}

impl Arrivals {
    /// The rows of these hosts from now on, each on time and once.
    pub fn punctual(cpu: Cpu) -> Self {
        Self { cpu, devices: Vec::new(), repeated: 0 }
    }

    /// The rows of these hosts from now on, delayed as the seed determines.
    pub fn late(seed: u64, cpu: Cpu) -> Self {
        let device = |place: usize| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(seed ^ mix(place as u64)));
            let is_wrong = random.random_bool(WRONG_CLOCK);
            let sign = if random.random_bool(0.5) { 1 } else { -1 };
            let seconds = spread(&mut random, CLOCK_S) as i64;
            let clock_ns = if is_wrong { sign * seconds * SECOND_NS } else { 0 };
            Device { random, clock_ns, offline: 0, kept: Vec::new(), unheard: Vec::new() }
        };
        Self { devices: (0..cpu.hosts()).map(device).collect(), cpu, repeated: 0 }
    }

    /// The rows that arrive together next. Their number varies and may be zero.
    ///
    /// # Errors
    /// There are no hosts.
    pub fn batch(&mut self) -> Outcome<RecordBatch> {
        if self.devices.is_empty() {
            return self.cpu.batch();
        }
        let first = self.cpu.next_host();
        let made = self.cpu.batch()?;
        let times = made.column(TAGS.len()).as_primitive::<TimestampNanosecondType>().values().iter();
        let clocks = self.devices[first..].iter().map(|device| device.clock_ns);
        let times: TimestampNanosecondArray = times.zip(clocks).map(|(time, clock_ns)| Some(time + clock_ns)).collect();
        let mut columns: Vec<ArrayRef> = made.columns().to_vec();
        columns[TAGS.len()] = Arc::new(times);
        let made = Arc::new(RecordBatch::try_new(made.schema(), columns)?);
        let mut sent: Vec<Row> = Vec::new();
        for (row, device) in self.devices[first..].iter_mut().take(made.num_rows()).enumerate() {
            device.kept.push((Arc::clone(&made), row));
            if device.offline > 0 {
                device.offline -= 1;
                continue;
            }
            self.repeated += device.unheard.len() as u64;
            sent.append(&mut device.unheard);
            if device.random.random_bool(TWICE) {
                device.unheard.clone_from(&device.kept);
            }
            sent.append(&mut device.kept);
            if device.random.random_bool(OFFLINE) {
                let epochs = spread(&mut device.random, OFFLINE_S) * SECOND_NS as f64 / STEP_NS as f64;
                device.offline = epochs as u64;
            }
        }
        let batches: Vec<&RecordBatch> = sent.iter().map(|(batch, _)| &**batch).chain([&*made]).collect();
        let places: Vec<(usize, usize)> = sent.iter().enumerate().map(|(place, (_, row))| (place, *row)).collect();
        Ok(interleave_record_batch(&batches, &places)?)
    }

    /// The number of rows so far that had been sent before.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The remaining rows, on time.
    pub fn into_cpu(self) -> Cpu {
        self.cpu
    }
}

#[cfg(test)]
#[path = "lateness_tests.rs"]
mod tests;
