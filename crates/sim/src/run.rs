//! One run: random work, crashes, recoveries, comparisons.

use crate::definitions::Definitions;
use crate::disk::{Disk, MODES, Mode};
use crate::model::{Change, Fate, Model, Row};
use crate::operations::{Forgotten, PRICE_DIGITS, burst, doc, price, read, tag};
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Clock, Io, MemoryStorage, Random, StepClock, Storage};
use fleetdb_engine::{
    ArrayElement, ArrayValue, Batch, ColumnType, Database, Durability, ErrorKind, Merge, Result, Rows, Settings,
    TableDefinition, Unit, Value,
};
use rand::{Rng, RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

const INTERVAL_MS: u64 = 50;

/// What a run does in a step.
#[derive(Clone, Copy)]
enum Action {
    Write,
    Flush,
    Compact,
    Wait,
    Close,
    Fill,
    Fail,
    Alter,
    Retain,
    BackUp,
    DeleteValues,
    Define,
}

/// The frequency of writes.
const WRITES: u32 = 20;
/// The other actions, each with the most that its frequency may be.
const OTHERS: [(Action, u32); 11] = [
    (Action::Flush, 4),
    (Action::Compact, 3),
    (Action::Wait, 6),
    (Action::Close, 2),
    (Action::Fill, 2),
    (Action::Fail, 2),
    (Action::Alter, 2),
    (Action::Retain, 2),
    (Action::BackUp, 2),
    (Action::DeleteValues, 3),
    (Action::Define, 3),
];

/// One seed in this many writes long containers.
const LONG_EVERY_SEEDS: u64 = 7;
/// The share of their batches with a long container.
const LONG_BATCHES: f64 = 0.05;
/// Rows of a batch of a long container: more than a page. Such a batch exceeds the memtable's size, so
/// the next one flushes it.
const LONG_ROWS: i64 = 4_200;
/// The spans of time in which such batches lie.
const LONG_SPANS: i64 = 12;
/// Length of partitions in seconds, and of those with long containers.
const PARTITION_S: i64 = 500;
const LONG_PARTITION_S: i64 = 1_000_000;

/// The relative frequencies of a run's actions, drawn once per seed.
struct Weights {
    actions: Vec<(Action, u32)>,
    large: f64,
    delete: f64,
    late: f64,
    /// Whether some batches write more than a page of rows of one device. The engine does not merge
    /// runs of such long containers while their times do not overlap. Other batches then write rows of
    /// the same device only.
    has_long: bool,
    durability: Durability,
}

/// Statistics of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Crashes survived.
    pub crashes: u64,
    /// Batches that the log accepted.
    pub batches: u64,
    /// Syncs requested from the disk.
    pub syncs: u64,
    /// A checksum over all requests to the disks; equal for equal seeds.
    pub trace: u32,
}

struct SeededRandom(parking_lot::Mutex<Xoshiro256PlusPlus>);

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        self.0.lock().next_u64()
    }
}

pub(crate) struct Run {
    pub(crate) random: Xoshiro256PlusPlus,
    weights: Weights,
    pub(crate) disk: Disk,
    pub(crate) clock: Arc<StepClock>,
    db: Option<Database>,
    pub(crate) model: Model,
    pub(crate) forgotten: Forgotten,
    pub(crate) definitions: Definitions,
    /// The destination of backups: a disk that never fails.
    pub(crate) backup: Arc<MemoryStorage>,
    /// When the log last had a chance to sync.
    stepped_ns: u64,
    report: Report,
}

/// Where and how to crash.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// At the sync after this many.
    pub after_syncs: u64,
    /// What happens to unsynced changes.
    pub mode: Mode,
}

/// Runs a seed with `crashes` crashes at random syncs in random modes.
///
/// # Panics
/// If the engine breaks a promise; the message says which.
pub fn random_crashes(seed: u64, crashes: u64) -> Report {
    let mut run = Run::new(seed);
    for _ in 0..crashes {
        let crash =
            Crash { after_syncs: run.random.random_range(0..60), mode: MODES[run.random.random_range(0..MODES.len())] };
        run.until_crash(crash);
    }
    run.finish()
}

/// A scripted run with one crash; the script is the same for every crash. `None` if it ends before
/// the crash.
///
/// # Panics
/// If the engine breaks a promise; the message says which.
pub fn one_crash(seed: u64, crash: Crash, steps: u64) -> Option<Report> {
    let mut run = Run::new(seed);
    run.disk.crash_in(Some(crash.after_syncs));
    if run.open().is_ok() {
        for _ in 0..steps {
            if run.disk.has_crashed() {
                break;
            }
            run.step();
        }
    }
    if !run.disk.has_crashed() {
        return None;
    }
    run.recover(crash.mode);
    Some(run.finish())
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut often = |most: u32| if random.random_bool(0.3) { 0 } else { random.random_range(1..=most) };
        let others = OTHERS.map(|(action, most)| (action, often(most)));
        let weights = Weights {
            actions: [(Action::Write, WRITES)].into_iter().chain(others).collect(),
            large: random.random_range(0.0..0.3),
            delete: random.random_range(0.0..0.3),
            late: random.random_range(0.0..0.3),
            has_long: seed.is_multiple_of(LONG_EVERY_SEEDS),
            durability: [Durability::Sync, Durability::Interval, Durability::Os][random.random_range(0..3)],
        };
        Self {
            random,
            weights,
            disk: Disk::new(),
            clock: Arc::default(),
            db: None,
            model: Model::new(seed % 2 == 1),
            forgotten: Forgotten::default(),
            definitions: Definitions::default(),
            backup: MemoryStorage::new(),
            stepped_ns: 0,
            report: Report::default(),
        }
    }

    fn io(&mut self) -> Io {
        let disk = Arc::new(self.disk.clone());
        self.io_over(disk)
    }

    /// The simulated machine on top of a storage.
    pub(crate) fn io_over(&mut self, storage: Arc<dyn Storage>) -> Io {
        let random = SeededRandom(parking_lot::Mutex::new(Xoshiro256PlusPlus::seed_from_u64(self.random.next_u64())));
        Io {
            storage,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            random: Arc::new(random),
            // No threads: every step runs on this thread, in the same order each time. Only long
            // scans have helper threads, which read files that are open.
            ..Io::memory(MemoryStorage::new())
        }
    }

    /// Opens the database and creates what is missing.
    fn open(&mut self) -> Result<()> {
        let settings = Settings {
            memtable_bytes: 64 << 10,
            cache_bytes: if self.random.random_bool(0.5) { 0 } else { 1 << 20 },
            sync_interval_ms: INTERVAL_MS,
            durability: self.weights.durability,
            write_wait_ms: 0,
            // Small batches, so that scans are long.
            scan_batch_rows: 16,
            scan_threads: 2,
            ..Settings::default()
        };
        let db = Database::open_with(self.io(), settings)?;
        let tables = db.tables();
        if tables.is_empty() {
            let series = TableDefinition::new("series").key("device", ColumnType::Int64).time("ts", Unit::Second);
            let series = series.field("value", ColumnType::Int64).field("text", ColumnType::Utf8);
            let partition_s = if self.weights.has_long { LONG_PARTITION_S } else { PARTITION_S };
            let merge = if self.model.merges_fields() { Merge::Fields } else { Merge::Rows };
            db.create_table(&TableDefinition { partition_seconds: Some(partition_s), merge, ..series })?;
        }
        if tables.len() < 2 {
            let items = TableDefinition::new("items").key("id", ColumnType::Int64).field("value", ColumnType::Int64);
            let (precision, scale) = PRICE_DIGITS;
            let items = items.field("price", ColumnType::Decimal { precision, scale });
            let items = items.field("tag", ColumnType::Uuid).field("doc", ColumnType::Jsonb);
            db.create_table(&items.field("burst", ColumnType::Array(ArrayElement::Utf8)))?;
        }
        self.db = Some(db);
        Ok(())
    }

    fn until_crash(&mut self, crash: Crash) {
        self.disk.crash_in(Some(crash.after_syncs));
        if self.db.is_none() && self.open().is_err() {
            assert!(self.disk.has_crashed(), "opening failed without a crash");
        }
        while !self.disk.has_crashed() {
            self.step();
        }
        self.recover(crash.mode);
    }

    /// One random step of work. It may return errors; each is checked where it occurs.
    fn step(&mut self) {
        let all: u32 = self.weights.actions.iter().map(|(_, weight)| weight).sum();
        let mut choice = self.random.random_range(0..all);
        let chosen = self.weights.actions.iter().find(|(_, weight)| {
            let is_chosen = choice < *weight;
            choice = choice.saturating_sub(*weight);
            is_chosen
        });
        match chosen.map_or(Action::Write, |(action, _)| *action) {
            Action::Write => self.write(),
            Action::Flush => {
                if self.db().flush().is_ok() {
                    self.model.all_durable();
                }
            }
            Action::Compact => {
                if self.db().compact().is_ok() {
                    self.model.all_durable();
                }
            }
            Action::Wait => self.clock.advance(self.random.random_range(1..100_000_000)),
            Action::Close => {
                let Some(db) = self.db.take() else { return };
                if db.close().is_ok() {
                    self.model.all_durable();
                }
                self.reopen_after("close");
            }
            Action::Fill => self.fill_up(),
            Action::Fail => self.disk.fail_in(Some(self.random.random_range(0..5))),
            Action::Alter => self.alter(),
            Action::Retain => self.retain(),
            Action::BackUp => self.back_up(),
            Action::DeleteValues => self.delete_values(),
            Action::Define => self.define(),
        }
        self.heal();
    }

    pub(crate) fn db(&self) -> &Database {
        self.db.as_ref().expect("a database is open between steps")
    }

    /// Reopens the database without a crash: everything written must be there.
    fn reopen_after(&mut self, what: &str) {
        self.disk.fail_in(None);
        if self.disk.has_crashed() {
            return;
        }
        match self.open() {
            Ok(()) => self.compare(Mode::Kept),
            Err(error) => assert!(self.disk.has_crashed(), "after {what}: opening failed: {error}"),
        }
    }

    /// After a failed fsync the database accepts no more writes: reopens it, as its message says.
    fn heal(&mut self) {
        if self.disk.has_crashed() || self.db.is_none() {
            return;
        }
        let broken = match self.db().commit(Batch::new()) {
            Err(error) if error.kind() == ErrorKind::Retry => false,
            outcome => outcome.is_err() || self.db().status().flush_error.is_some_and(|e| e.kind() != ErrorKind::Retry),
        };
        if broken && !self.disk.has_crashed() {
            drop(self.db.take());
            self.reopen_after("a failed fsync");
        }
    }

    fn write(&mut self) {
        let durability = match self.random.random_range(0..4) {
            0 => Durability::Os,
            1 => Durability::Interval,
            2 => Durability::Sync,
            _ => self.weights.durability,
        };
        let (changes, batch) = self.batch();
        let before = self.db().view().sequence().0;
        let outcome = self.db().commit(batch.with_durability(durability));
        let now_ns = self.clock.monotonic_ns();
        let after = self.db().view().sequence().0;
        // A refused batch has no sequence; one that failed while being logged has one.
        assert!(after == before || after == before + 1, "a batch took sequences {before} to {after}");
        assert!(outcome.is_err() || after == before + 1, "an acknowledged batch has no sequence number");
        if after > before {
            let fate = match (&outcome, durability) {
                (Err(_), _) => Fate::Unknown,
                (Ok(_), Durability::Os) => Fate::Os,
                (Ok(_), Durability::Interval) => Fate::Interval(now_ns),
                (Ok(_), Durability::Sync | Durability::Shared) => Fate::Sync,
            };
            self.model.push(changes, fate);
            assert_eq!(self.model.sequence(), after, "the engine counts batches as the model does");
            self.report.batches += 1;
        }
        if outcome.is_ok() {
            self.stepped_ns = now_ns;
        }
    }

    fn batch(&mut self) -> (Vec<Change>, Batch) {
        let schemas = self.db().tables();
        let (mut series, mut items) = (Rows::new(&schemas[0]), Rows::new(&schemas[1]));
        let (mut changes, mut batch) = (Vec::new(), Batch::new());
        if self.random.random_bool(self.weights.delete) {
            let device = self.random.random_bool(0.8).then(|| self.random.random_range(0..6));
            let from = self.random.random_range(-100..3_000);
            let to = from + self.random.random_range(0..400);
            let key = device.map(|device| [Value::Int(device)]);
            batch = batch.delete("series", key.as_ref().map(|key| &key[..]), from..=to);
            changes.push(Change::Delete(device, from, to));
        }
        if self.random.random_bool(self.weights.delete / 2.0) {
            let id = self.random.random_range(0..40);
            batch = batch.delete("items", Some(&[Value::Int(id)]), ..);
            changes.push(Change::DeleteItem(id));
        }
        let is_long = self.weights.has_long && self.random.random_bool(LONG_BATCHES);
        let (start, rows, devices) = if is_long {
            (self.random.random_range(0..LONG_SPANS) * LONG_ROWS, LONG_ROWS, 1)
        } else {
            let most = if self.random.random_bool(self.weights.large) { 400 } else { 10 };
            let devices = if self.weights.has_long { 1 } else { 6 };
            (self.random.random_range(0..2_000), self.random.random_range(1..=most), devices)
        };
        for row in 0..rows {
            let late = if !is_long && self.random.random_bool(self.weights.late) { -900 } else { 0 };
            let (device, time) = (self.random.random_range(0..devices), start + row + late);
            let (value, text) = (self.random.random(), format!("text {}", self.random.random_range(0..50)));
            let mut values = vec![Value::Int(device), Value::Int(time), Value::Int(value), Value::Text(text.clone())];
            let mut extra = None;
            if let Some(column) = schemas[0].columns.get(values.len()) {
                let number = self.random.random_range(0..1_000);
                values.push(Value::Int(number));
                extra = Some((column.id.0, number));
            }
            series.push(&values).expect("it fits");
            changes.push(Change::Row(device, time, Row { value, text, extra }));
            if !is_long && self.random.random_bool(0.2) {
                let (id, value) = (self.random.random_range(0..40), self.random.random());
                let (price, tag, doc) =
                    (Value::Decimal(price(value)), Value::Uuid(tag(value)), Value::Text(doc(value)));
                let burst = burst(value).into_iter().map(Value::Text).collect::<Vec<_>>();
                let burst = ArrayValue::new(ArrayElement::Utf8, &burst).expect("texts");
                let row = [Value::Int(id), Value::Int(value), price, tag, doc, Value::Array(burst)];
                items.push(&row).expect("it fits");
                changes.push(Change::Item(id, value));
            }
        }
        let series = series.finish().expect("it fits");
        (changes, batch.with("series", series).with("items", items.finish().expect("it fits")))
    }

    /// Lets the disk be full for some writes, then frees space: nothing may be lost, and writing
    /// resumes.
    fn fill_up(&mut self) {
        self.disk.set_room(Some(self.random.random_range(0..20_000)));
        for _ in 0..self.random.random_range(1..6) {
            if self.disk.has_crashed() {
                return;
            }
            self.write();
        }
        self.disk.set_room(None);
        if self.disk.has_crashed() {
            return;
        }
        self.heal();
        if self.disk.has_crashed() {
            return;
        }
        self.write();
        let error = self.db().commit(Batch::new()).err();
        let stuck = error.as_ref().is_some_and(|error| error.kind() == ErrorKind::Retry);
        assert!(!stuck || self.disk.has_crashed(), "writes are still refused although there is space again: {error:?}");
    }

    /// Restarts the machine after a crash.
    fn recover(&mut self, mode: Mode) {
        // The process is gone: the crashed disk refuses whatever closing the database tries to
        // write.
        assert!(self.disk.has_crashed());
        drop(self.db.take());
        self.report.syncs += self.disk.syncs();
        self.disk = self.disk.after_crash(mode, self.random.next_u64());
        self.report.crashes += 1;
        if let Err(error) = self.open() {
            panic!("after a crash ({mode:?}) the database does not open: {error}");
        }
        self.compare(mode);
        let io = self.io();
        let report = check(&io, |_, _| ()).expect("the manifest reads");
        assert!(report.problems.is_empty(), "after a crash ({mode:?}): {:?}", report.problems);
    }

    /// What is there must be a prefix of the batches that includes all that this kind of crash must
    /// keep.
    fn compare(&mut self, mode: Mode) {
        let sequence = self.db().view().sequence().0;
        let must = self.model.must_keep(mode != Mode::Kept, self.stepped_ns, INTERVAL_MS * 1_000_000);
        assert!(sequence >= must, "({mode:?}) batches up to {sequence} exist, but {must} were acknowledged");
        assert!(sequence <= self.model.sequence(), "({mode:?}) the database holds batches that were never written");
        self.model.cut(sequence);
        self.compare_definitions();
        let before = self.expired();
        let (series, items) = read(self.db());
        self.settle(&series);
        let (expected_series, expected_items) = self.visible();
        let hidden = series.keys().find(|(_, time)| before.is_some_and(|before| *time <= before));
        assert!(hidden.is_none(), "({mode:?}) {hidden:?} has expired but is still there");
        let series = self.forgotten.leave_out(series);
        assert!(
            series == expected_series,
            "({mode:?}) the rows of the series differ from those of the batches up to {sequence}"
        );
        assert!(
            items == expected_items,
            "({mode:?}) the rows of the collection differ from those of the batches up to {sequence}"
        );
    }

    fn finish(mut self) -> Report {
        // Whatever happened, the database still works.
        self.disk.crash_in(None);
        self.write();
        self.db().compact().expect("nothing fails any more");
        self.model.all_durable();
        self.compare(Mode::Lost);
        self.report.syncs += self.disk.syncs();
        self.report.trace = self.disk.trace();
        self.report
    }
}
