//! Generates load with one thread per worker. In a closed loop an operation starts when the
//! previous one is acknowledged; in an open loop operations start at given times, whether or not
//! the previous one is done.
//!
//! In an open loop the latency of an operation counts from when it was due, not from when a thread
//! got to it: a target that stalls for a second is late for every operation of that second (Tene's
//! "coordinated omission").

use crate::Outcome;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One client. `prepare` creates the rows of the next operation and is not timed; `operate` runs it
/// and returns the number of rows written or received.
pub trait Worker: Send {
    /// Prepares the next operation; `false` if there is none left.
    ///
    /// # Errors
    /// The rows cannot be created.
    fn prepare(&mut self) -> Outcome<bool>;

    /// Runs the operation.
    ///
    /// # Errors
    /// Those of the target.
    fn operate(&mut self) -> Outcome<u64>;
}

/// Observes a run: its progress, and a request to stop.
#[derive(Default)]
pub struct Watch {
    /// Operations done.
    pub operations: AtomicU64,
    /// Rows written or received.
    pub rows: AtomicU64,
    /// Set to end the run early.
    pub stop: Arc<AtomicBool>,
}

/// The duration and rate of a run.
#[derive(Clone, Copy, Default)]
pub struct Limit {
    /// No operation due later than this starts, and none at all after twice this time. `None` runs
    /// until the workers have no operations left.
    pub time: Option<Duration>,
    /// Operations per second of all workers together; `None` for a closed loop.
    pub rate: Option<f64>,
}

/// The latency of operations, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Latency {
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Driven {
    /// Operations acknowledged or answered.
    pub operations: u64,
    /// Rows written or received.
    pub rows: u64,
    /// From the start of the first operation to the end of the last. With one worker, the time it
    /// spent preparing is subtracted.
    pub seconds: f64,
    /// Seconds that all workers together spent preparing, such as generating rows.
    #[serde(default)]
    pub preparing_s: f64,
    /// Latency of the operations.
    pub latency: Latency,
    /// Rows in each full second since the start, as far as they were timed.
    pub rows_by_second: Vec<u64>,
}

struct Timed {
    latency_ns: Histogram<u64>,
    rows_by_second: Vec<u64>,
    operations: u64,
    preparing: Duration,
}

/// Runs each worker on its own thread up to the limit.
///
/// # Errors
/// The first error of a worker; the others then stop.
pub fn drive<W: Worker>(workers: &mut [W], limit: Limit, watch: &Watch) -> Outcome<Driven> {
    let (count, begin, failed) = (workers.len(), Instant::now(), AtomicBool::new(false));
    let timed: Vec<Outcome<Timed>> = std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .enumerate()
            .map(|(number, worker)| {
                let failed = &failed;
                scope.spawn(move || {
                    let pace = limit.rate.map(|rate| Pace { number, count, rate });
                    let done = one(worker, begin, limit.time, pace, watch, failed);
                    if done.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a worker's thread panicked")?).collect()
    });
    let mut driven = Driven { seconds: begin.elapsed().as_secs_f64(), ..Driven::default() };
    let mut latency_ns = histogram()?;
    for timed in timed {
        let timed = timed?;
        driven.operations += timed.operations;
        driven.rows += timed.rows_by_second.iter().sum::<u64>();
        latency_ns.add(timed.latency_ns)?;
        driven.rows_by_second.resize(driven.rows_by_second.len().max(timed.rows_by_second.len()), 0);
        driven.rows_by_second.iter_mut().zip(timed.rows_by_second).for_each(|(sum, rows)| *sum += rows);
        driven.preparing_s += timed.preparing.as_secs_f64();
        if count == 1 && limit.rate.is_none() {
            driven.seconds -= timed.preparing.as_secs_f64();
        }
    }
    driven.latency = Latency::of(&latency_ns);
    Ok(driven)
}

/// When one of several workers starts its operations.
#[derive(Clone, Copy)]
struct Pace {
    number: usize,
    count: usize,
    rate: f64,
}

impl Pace {
    fn due(self, operation: u64) -> Duration {
        Duration::from_secs_f64((operation as f64 * self.count as f64 + self.number as f64) / self.rate)
    }
}

fn one(
    worker: &mut impl Worker,
    begin: Instant,
    time: Option<Duration>,
    pace: Option<Pace>,
    watch: &Watch,
    failed: &AtomicBool,
) -> Outcome<Timed> {
    let mut timed =
        Timed { latency_ns: histogram()?, rows_by_second: Vec::new(), operations: 0, preparing: Duration::ZERO };
    loop {
        if failed.load(Ordering::Relaxed) || watch.stop.load(Ordering::Relaxed) {
            return Ok(timed);
        }
        let preparing = Instant::now();
        if !worker.prepare()? {
            return Ok(timed);
        }
        timed.preparing += preparing.elapsed();
        let mut start = Instant::now();
        if let Some(pace) = pace {
            let due = begin + pace.due(timed.operations);
            if let Some(early) = due.checked_duration_since(start) {
                std::thread::sleep(early);
            }
            start = due;
        }
        if time.is_some_and(|time| start.duration_since(begin) >= time || begin.elapsed() >= 2 * time) {
            return Ok(timed);
        }
        let rows = worker.operate()?;
        timed.latency_ns.saturating_record(start.elapsed().as_nanos() as u64);
        timed.operations += 1;
        watch.operations.fetch_add(1, Ordering::Relaxed);
        watch.rows.fetch_add(rows, Ordering::Relaxed);
        let second = begin.elapsed().as_secs() as usize;
        timed.rows_by_second.resize((second + 1).max(timed.rows_by_second.len()), 0);
        timed.rows_by_second[second] += rows;
    }
}

/// From a nanosecond to ten minutes, with three significant digits.
fn histogram() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, 600_000_000_000, 3)?)
}

impl Latency {
    fn of(ns: &Histogram<u64>) -> Self {
        let at = |quantile: f64| ns.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean_us: ns.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: ns.max() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
