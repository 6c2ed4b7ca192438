//! Load: one thread a worker, closed loop (the next operation when the last is acknowledged) or open loop (at given
//! times, whether or not the last is done).
//!
//! In an open loop an operation's latency counts from when it was to begin, not from when a thread came to it: a target
//! that stops for a second is late for every operation of that second (Tene's "coordinated omission").

use crate::Outcome;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One client. `prepare` makes the next operation's rows and is not timed; `operate` runs it and says how many rows it
/// wrote or got.
pub trait Worker: Send {
    /// Makes the next operation ready; `false` if there is none left.
    ///
    /// # Errors
    /// The rows cannot be made.
    fn prepare(&mut self) -> Outcome<bool>;

    /// Runs it.
    ///
    /// # Errors
    /// The target's.
    fn operate(&mut self) -> Outcome<u64>;
}

/// Who looks on: what is done so far, and whether to stop.
#[derive(Default)]
pub struct Watch {
    /// Operations done.
    pub operations: AtomicU64,
    /// Rows written or got.
    pub rows: AtomicU64,
    /// Set when the run is to end before its time.
    pub stop: Arc<AtomicBool>,
}

/// How long and how fast.
#[derive(Clone, Copy, Default)]
pub struct Limit {
    /// No operation that is due later begins, and none at all after twice as long; `None` until the workers have none left.
    pub time: Option<Duration>,
    /// Operations a second of all workers together; `None` for a closed loop.
    pub rate: Option<f64>,
}

/// How long operations took, in microseconds.
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

/// What was done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Driven {
    /// Operations that were acknowledged or answered.
    pub operations: u64,
    /// Rows written or got.
    pub rows: u64,
    /// From the first operation's begin to the last one's end. With one worker, less the time in which it made rows.
    pub seconds: f64,
    /// Each operation's time.
    pub latency: Latency,
    /// Rows of each whole second since the begin, as far as they were timed.
    pub rows_by_second: Vec<u64>,
}

struct Timed {
    latency_ns: Histogram<u64>,
    rows_by_second: Vec<u64>,
    operations: u64,
    preparing: Duration,
}

/// Runs the workers to the limit, a thread each.
///
/// # Errors
/// The first worker's that fails; the others stop.
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
        if count == 1 && limit.rate.is_none() {
            driven.seconds -= timed.preparing.as_secs_f64();
        }
    }
    driven.latency = Latency::of(&latency_ns);
    Ok(driven)
}

/// When one of several workers is to begin its operations.
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

/// From a nanosecond to ten minutes, with three digits.
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
