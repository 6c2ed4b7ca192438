//! E1's fleet for a year in fast motion: 2 % of the rows are late by up to 30 days, 1 % are sent
//! twice, retention is 180 days and 90 from the middle on, and there are backups in between (T2).
//!
//! The engine's clock shows the simulated time; the model is the [`Fleet`].

use super::Test;
use super::fleet::{DAY_S, Fleet, create, time_s};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::driver::Worker;
use fleetdb_bench_core::meters::{disk_bytes, peak_memory_bytes};
use fleetdb_bench_core::results::Figure;
use fleetdb_bench_core::target::Tier;
use fleetdb_engine::backup::restore;
use fleetdb_engine::io::{Clock, Io};
use fleetdb_engine::{Batch, Database, Durability, Settings};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

const SECOND_NS: i64 = 1_000_000_000;
const MB: f64 = 1e6;
const MIB: f64 = (1 << 20) as f64;
/// How long nothing changes once the background has caught up.
const QUIET: Duration = Duration::from_millis(2_500);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The size of the test.
#[derive(clap::Args, Clone, Serialize)]
pub struct Scale {
    /// Number of meters, each with one reading per hour
    #[arg(long, default_value_t = 6_400)]
    meters: i64,
    /// Number of hours
    #[arg(long, default_value_t = 8_760, value_parser = clap::value_parser!(i64).range(20..))]
    hours: i64,
    /// The memory limit in MiB
    #[arg(long, default_value_t = 256)]
    memory_mib: usize,
}

/// The wall clock of the simulated year; monotonic time is the machine's.
struct FastClock {
    wall_ns: AtomicI64,
    start: Instant,
}

impl Clock for FastClock {
    fn wall_ns(&self) -> i64 {
        self.wall_ns.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Writes hour after hour; an operation is the batch of an hour.
struct Year<'a> {
    db: &'a Database,
    clock: &'a FastClock,
    backup: Io,
    fleet: Fleet,
    hours: i64,
    /// The next hour.
    hour: i64,
    retention_s: i64,
    /// Late readings by the hour in which they arrive.
    due: BTreeMap<i64, Vec<(i64, i64)>>,
    /// The batch of the next hour, and its number of readings.
    next: Option<(Batch, u64)>,
    /// Answers compared with the model.
    verified: usize,
    linked_bytes: u64,
    kept_bytes: u64,
}

impl Year<'_> {
    /// What follows an hour: comparing, shortening the retention, a backup.
    fn look_back(&mut self, hour: i64) -> Outcome<()> {
        if hour == self.hours / 2 {
            self.verified += self.fleet.verify(self.db, hour, self.retention_s)?;
            self.retention_s = 90 * DAY_S;
            self.db.set_retention("reads", Some(self.retention_s))?;
            self.verified += self.fleet.verify(self.db, hour, self.retention_s)?;
        }
        if hour % (self.hours / 4) == self.hours / 5 {
            let report = self.db.backup(&self.backup, |_, _| ())?;
            self.linked_bytes += report.linked_bytes;
            self.kept_bytes += report.kept_bytes;
        }
        Ok(())
    }

    /// The readings that arrive in an hour.
    fn readings(&mut self, hour: i64) -> Vec<(i64, i64)> {
        let fleet = self.fleet;
        let mut readings = self.due.remove(&hour).unwrap_or_default();
        for meter in 0..fleet.meters {
            match fleet.delay(meter, hour) {
                0 => readings.push((meter, hour)),
                late => self.due.entry(hour + late).or_default().push((meter, hour)),
            }
            if hour > 0 && fleet.is_repeated(meter, hour - 1) && fleet.delay(meter, hour - 1) == 0 {
                readings.push((meter, hour - 1));
            }
        }
        readings
    }
}

impl Worker for Year<'_> {
    fn prepare(&mut self) -> Outcome<bool> {
        if self.hour > 0 {
            self.look_back(self.hour - 1)?;
        }
        if self.hour == self.hours {
            return Ok(false);
        }
        self.clock.wall_ns.store(time_s(self.hour) * SECOND_NS, Ordering::Relaxed);
        let readings = self.readings(self.hour);
        let batch = Batch::new().with("reads", self.fleet.rows(&readings)?);
        let batch = batch.with("meters", self.fleet.meters(self.hour)?).with_durability(Durability::Interval);
        self.next = Some((batch, readings.len() as u64));
        Ok(true)
    }

    fn operate(&mut self) -> Outcome<u64> {
        let (batch, readings) = self.next.take().ok_or("nothing was prepared")?;
        self.db.commit(batch)?;
        self.hour += 1;
        Ok(readings)
    }
}

pub fn run(test: &mut Test<'_>, scale: &Scale) -> Outcome<()> {
    let fleet = Fleet { meters: scale.meters.max(1), seed: test.seed };
    let clock = Arc::new(FastClock { wall_ns: AtomicI64::new(time_s(0) * SECOND_NS), start: Instant::now() });
    let directory = test.directory;
    let io = |place: &str| Io { clock: Arc::clone(&clock) as _, ..Io::files(directory.join(place)) };
    let settings = Settings::with_memory_limit(scale.memory_mib << 20);
    test.describe(Tier::T2, &[format!("memory_limit = {} MiB", scale.memory_mib), "durability = interval".to_owned()]);
    let db = Database::open_with(io("db"), settings.clone())?;
    let retention_s = 180 * DAY_S;
    create(&db, Some(retention_s))?;
    let mut year = Year {
        db: &db,
        clock: &clock,
        backup: io("backup"),
        fleet,
        hours: scale.hours,
        hour: 0,
        retention_s,
        due: BTreeMap::new(),
        next: None,
        verified: 0,
        linked_bytes: 0,
        kept_bytes: 0,
    };
    let begin = Instant::now();
    let phase = test.drive("ingest", "an hour of all meters", scale.hours as u64, &mut year)?;
    // With the generation of the rows, the comparisons and the backups.
    phase.driven.seconds = begin.elapsed().as_secs_f64();
    if test.is_stopped() {
        return Ok(());
    }
    let Year { retention_s, mut verified, linked_bytes, kept_bytes, .. } = year;
    let last = scale.hours - 1;
    verified += fleet.verify(&db, last, retention_s)?;
    let settle_s = settle(&db)?;
    verified += fleet.verify(&db, last, retention_s)?;
    let used = disk_bytes(&directory.join("db"))?;
    let phase = test.phase()?;
    (phase.settle_s, phase.disk_bytes, phase.verified) = (settle_s, used, verified);
    let status = db.status();
    test.figure(Figure::new("peak memory", "MiB", peak_memory_bytes()? as f64 / MIB).at_most(scale.memory_mib as f64));
    test.figure(Figure::new("segments", "", status.segments as f64));
    test.figure(Figure::new("flushed", "MB", status.flushed_bytes as f64 / MB));
    test.figure(Figure::new("compacted", "MB", status.compacted_bytes as f64 / MB));
    test.figure(Figure::new("merges", "", status.compactions as f64));
    test.figure(Figure::new("backups: linked", "MB", linked_bytes as f64 / MB));
    test.figure(Figure::new("backups: already there", "MB", kept_bytes as f64 / MB));
    db.close()?;
    // Restoring checks what it restores.
    let (report, _) = restore(&io("backup"), &io("restored"), |_, _| ())?;
    test.figure(Figure::new("restored segments", "", report.segments as f64));
    std::fs::remove_dir_all(directory.join("restored"))?;
    let fresh = freshly_written(&io("fresh"), settings, fleet, last, retention_s)?;
    test.figure(Figure::new("live rows, freshly written", "MB", fresh as f64 / MB));
    test.figure(Figure::new("disk to freshly written", "", used as f64 / fresh as f64).at_most(1.3));
    Ok(())
}

/// Lets the background drop what has expired and finish the merges. Returns the seconds until its
/// last change.
fn settle(db: &Database) -> Outcome<f64> {
    let begin = Instant::now();
    db.flush()?;
    let (mut before, mut changed) = (db.status().segment_bytes, Instant::now());
    while changed.elapsed() < QUIET {
        std::thread::sleep(LOOK_AGAIN);
        let status = db.status();
        if status.compacting.is_some() || status.segment_bytes != before {
            (before, changed) = (status.segment_bytes, Instant::now());
        }
    }
    Ok((changed - begin).as_secs_f64())
}

/// Size on disk of a database with the live rows, written in order and merged.
fn freshly_written(io: &Io, settings: Settings, fleet: Fleet, now: i64, retention_s: i64) -> Outcome<u64> {
    let db = Database::open_with(io.clone(), settings)?;
    create(&db, None)?;
    for meter in 0..fleet.meters {
        let readings: Vec<(i64, i64)> = fleet.live(meter, now, retention_s).map(|hour| (meter, hour)).collect();
        db.commit(Batch::new().with("reads", fleet.rows(&readings)?).with_durability(Durability::Os))?;
    }
    db.commit(Batch::new().with("meters", fleet.meters(now)?).with_durability(Durability::Os))?;
    db.compact()?;
    db.close()?;
    disk_bytes(io.storage.directory().ok_or("a database in memory")?)
}
