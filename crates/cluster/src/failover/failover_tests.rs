//! Nodes that crash, pause and lose their disks, and a store that loses answers and applies writes
//! late. In the end a new node must have every batch that was acknowledged as shared, and none
//! twice.

use super::node::Parts;
use super::*;
use crate::bucket::Bucket;
use crate::unreliable::Unreliable;
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use fleetdb_engine::io::{Io, MemoryStorage, Random};
use fleetdb_engine::{
    Alteration, Batch, ColumnType, Database, Durability, Role, Rows, ScanRequest, Settings, TableDefinition, Value,
    View,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NODES: usize = 3;
const STEPS: usize = 400;

/// Gives each machine numbers of its own.
struct Numbers(AtomicU64);

impl Random for Numbers {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A machine: its disk, and what runs on it.
struct Machine {
    storage: Arc<MemoryStorage>,
    io: Io,
    node: Option<Node>,
    serving: Option<(Arc<Database>, Parts)>,
    /// A copy of the disk, as a backup of the machine is.
    image: Option<Arc<MemoryStorage>>,
}

/// All machines, and what they were told.
struct Fleet {
    random: Xoshiro256PlusPlus,
    store: Arc<Unreliable>,
    bucket: Bucket,
    machines: Vec<Machine>,
    /// Machines that were ever bought.
    bought: u64,
    crashes: u64,
    /// The number of the next batch.
    next: i64,
    acknowledged: Arc<Mutex<BTreeSet<i64>>>,
    /// What the columns of the table may be: what the last acknowledged change made of them, or a
    /// later one of unknown outcome.
    columns: BTreeSet<Vec<String>>,
    /// Batches whose rows were deleted.
    deleted: BTreeSet<i64>,
    /// The newest epoch that was served.
    epoch: u64,
}

fn options() -> NodeOptions {
    NodeOptions { takeover_after: Duration::from_secs(3600), ship_interval: Duration::ZERO, addresses: BTreeMap::new() }
}

fn settings() -> Settings {
    Settings { durability: Durability::Shared, ..Settings::default() }
}

impl Machine {
    fn new(number: u64, storage: Arc<MemoryStorage>) -> Self {
        let random = Arc::new(Numbers(AtomicU64::new(number << 32)));
        let io = Io { random, ..Io::memory(Arc::clone(&storage)) };
        Self { storage, io, node: None, serving: None, image: None }
    }
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let (store, bucket) = Unreliable::new(seed);
        let mut fleet = Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            store,
            bucket,
            machines: Vec::new(),
            bought: 0,
            crashes: 0,
            next: 1,
            acknowledged: Arc::default(),
            columns: BTreeSet::from([Vec::new()]),
            deleted: BTreeSet::new(),
            epoch: 0,
        };
        for _ in 0..NODES {
            let machine = fleet.buy();
            fleet.machines.push(machine);
        }
        fleet
    }

    fn buy(&mut self) -> Machine {
        self.bought += 1;
        Machine::new(self.bought, MemoryStorage::new())
    }

    fn pick(&mut self, of: usize) -> usize {
        (self.random.next_u64() >> 8) as usize % of
    }

    /// Takes over with a machine that does not serve. Every step may fail.
    fn take_over(&mut self, number: usize) -> fleetdb_engine::Result<()> {
        let machine = &mut self.machines[number];
        if machine.node.is_none() {
            machine.node = Some(Node::open(&self.bucket, machine.io.clone(), options())?);
        }
        let Some(node) = &mut machine.node else { return Ok(()) };
        let before = owner::read(&node.requests(), Duration::from_secs(60))?;
        let Some(claim) = node.claim(before.as_ref())? else { return Ok(()) };
        let taken = node.take_over(claim)?;
        let db = Arc::new(Database::open_with(machine.io.clone(), settings())?);
        let parts = taken.parts(node, &db, |_| ());
        let epoch = crate::lock(&parts.lease).owner().epoch;
        machine.serving = Some((db, parts));
        if epoch > self.epoch {
            self.epoch = epoch;
            self.check(number);
        }
        Ok(())
    }

    /// Whether the machine, which has just taken over, has everything.
    fn check(&self, number: usize) {
        let Some((db, _)) = &self.machines[number].serving else { return };
        let columns = columns(db);
        assert!(self.columns.contains(&columns), "the columns are {columns:?}, but may be {:?}", self.columns);
        let acknowledged = self.acknowledged.lock().unwrap().clone();
        let rows = contents(db);
        let back: Vec<_> = self.deleted.iter().filter(|batch| rows.contains_key(batch)).collect();
        assert!(back.is_empty(), "machine {number} took over with rows {back:?}, which were deleted");
        let lost: Vec<_> = acknowledged.iter().filter(|batch| !rows.contains_key(batch)).collect();
        assert!(lost.is_empty(), "machine {number} took over without batches {lost:?}");
        if let Some(last) = acknowledged.last() {
            assert!(rows[&0] >= *last, "row 0 is of batch {}, but batch {last} was acknowledged", rows[&0]);
        }
    }

    fn write(&mut self, number: usize) {
        let Some((db, _)) = &self.machines[number].serving else { return };
        let Ok(table) = db.table("t") else { return };
        let batch = self.next;
        self.next += 1;
        let mut rows = Rows::new(&table);
        for id in [0, batch] {
            let mut row = vec![Value::Int(id), Value::Int(batch)];
            row.resize(table.columns.len(), Value::Int(batch));
            rows.push(&row).unwrap();
        }
        let acknowledged = Arc::clone(&self.acknowledged);
        let done = move |outcome: fleetdb_engine::Result<_>| {
            if outcome.is_ok() {
                acknowledged.lock().unwrap().insert(batch);
            }
        };
        // A node that was fenced refuses it.
        db.commit_async(Batch::new().with_rows(rows), done).ok();
    }

    /// One step of what copies the log of a machine.
    fn copy(&mut self, number: usize) {
        if let Some((db, parts)) = &mut self.machines[number].serving {
            parts.appender.step(Arc::clone(db)).ok();
        }
    }

    fn ship(&mut self, number: usize) {
        if let Some((db, parts)) = &mut self.machines[number].serving {
            parts.covering.ship(db).ok();
        }
    }

    /// Makes a change that waits until it is shared; the bucket is kept up to date meanwhile.
    /// Sometimes the machine crashes before that. Returns whether the change was acknowledged.
    fn change(&mut self, number: usize, change: impl FnOnce(&Database) -> fleetdb_engine::Result<()> + Send) -> bool {
        let (mut steps, loses_disk) = (self.pick(12), self.pick(2) == 0);
        let random = &mut self.random;
        let Machine { storage, serving, .. } = &mut self.machines[number];
        let Some((db, parts)) = serving else { return false };
        let (mut crashed, mut is_done) = (None, false);
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| change(db));
            while !changing.is_finished() {
                steps = steps.wrapping_sub(1);
                if steps == 0 && self.store.state().failing > 0 {
                    crashed = Some(storage.crash());
                    parts.copied.fence(fleetdb_engine::Error::closed("the machine crashed"));
                }
                if parts.copied.needs_manifest() || random.next_u64() >> 8 & 1 == 0 {
                    parts.covering.ship(db).ok();
                } else {
                    parts.appender.step(Arc::clone(db)).ok();
                }
                // It may have been replaced.
                crate::lock(&parts.lease).run();
                self.store.state().outage = false;
            }
            is_done = changing.join().unwrap().is_ok();
        });
        if let Some(storage) = crashed {
            self.restart(number, if loses_disk { MemoryStorage::new() } else { storage });
        }
        is_done
    }

    /// Changes the definition of the table.
    fn redefine(&mut self, number: usize) {
        let (name, drops) = (format!("c{}", self.next), self.pick(3) > 0);
        let Some((db, _)) = &self.machines[number].serving else { return };
        let before = columns(db);
        let dropped = before.get(2).filter(|_| drops).cloned();
        let after = match (before.len(), &dropped) {
            (0, _) => vec!["id".to_owned(), "v".to_owned()],
            (_, Some(_)) => [&before[..2], &before[3..]].concat(),
            (_, None) => [&before[..], std::slice::from_ref(&name)].concat(),
        };
        let is_done = self.change(number, |db| {
            if before.is_empty() {
                let table = TableDefinition::new("t").key("id", ColumnType::Int64).field("v", ColumnType::Int64);
                return db.create_table(&table).map(|_| ());
            }
            // Dropping one rewrites rows.
            let alteration = match dropped {
                Some(name) => Alteration::DropColumn(name),
                None => {
                    let column = TableDefinition::new("t").field(&name, ColumnType::Int64).columns.remove(0);
                    Alteration::AddColumn(column, Role::Field)
                }
            };
            db.alter("t", &[alteration]).map(|_| ())
        });
        if is_done {
            self.columns.clear();
        }
        self.columns.insert(after);
    }

    /// Deletes a row by rewriting the segment that has it.
    fn delete(&mut self, number: usize) {
        let all: Vec<i64> = self.acknowledged.lock().unwrap().iter().copied().collect();
        if all.is_empty() || self.machines[number].serving.is_none() {
            return;
        }
        let batch = all[self.pick(all.len())];
        // It is unknown whether the row is there until the delete is acknowledged.
        self.acknowledged.lock().unwrap().remove(&batch);
        let is_done = self.change(number, |db| {
            let find = |view: &View, delete: &mut dyn FnMut(&RecordBatch) -> fleetdb_engine::Result<()>| {
                for rows in view.table("t")?.scan(&ScanRequest::all())? {
                    let rows = rows?;
                    let row = numbers(&rows, "id").iter().position(|id| *id == batch);
                    row.map_or(Ok(()), |row| delete(&rows.slice(row, 1)))?;
                }
                Ok(())
            };
            match db.delete_rows("t", find, || Ok(()))? {
                0 => Err(fleetdb_engine::Error::retry("a node that was replaced does not have the row")),
                _ => Ok(()),
            }
        });
        if is_done {
            self.deleted.insert(batch);
        }
    }

    /// The machine starts again with a disk.
    fn restart(&mut self, number: usize, storage: Arc<MemoryStorage>) {
        self.crashes += 1;
        self.bought += 1;
        let image = self.machines[number].image.take();
        self.machines[number] = Machine { image, ..Machine::new(self.bought, storage) };
    }

    /// The machine loses its power, and with `disk`, its disk.
    fn crash(&mut self, number: usize, disk: bool) {
        let after = if disk { MemoryStorage::new() } else { self.machines[number].storage.crash() };
        self.restart(number, after);
    }

    /// Copies the disk of a machine, or starts the machine with such a copy.
    fn image(&mut self, number: usize) {
        match self.machines[number].image.take() {
            Some(image) => self.restart(number, image),
            None => self.machines[number].image = Some(self.machines[number].storage.crash()),
        }
    }

    fn step(&mut self) {
        let number = self.pick(NODES);
        self.store.state().outage &= self.pick(4) > 0;
        let is_serving = self.machines[number].serving.is_some();
        match self.pick(100) {
            0..40 => self.write(number),
            40..80 => self.copy(number),
            80..88 => self.ship(number),
            88..91 => {
                if let Some((db, _)) = &self.machines[number].serving {
                    db.flush().ok();
                }
            }
            91 => {
                if let Some((db, _)) = &self.machines[number].serving {
                    db.compact().ok();
                }
            }
            92 => self.redefine(number),
            93 => self.crash(number, false),
            94 => self.crash(number, true),
            95 => {
                if let (false, Some(node)) = (is_serving, &mut self.machines[number].node) {
                    node.follow().ok();
                }
            }
            96 => {
                if let Some((_, parts)) = &mut self.machines[number].serving {
                    crate::lock(&parts.lease).run();
                }
            }
            97 => self.image(number),
            98 => self.delete(number),
            _ if !is_serving => {
                self.take_over(number).ok();
            }
            _ => self.copy(number),
        }
    }
}

/// The names of the table's columns.
fn columns(db: &Database) -> Vec<String> {
    let table = db.table("t").map(|table| table.columns.iter().map(|column| column.name.clone()).collect());
    table.unwrap_or_default()
}

/// A column of whole numbers.
fn numbers(rows: &RecordBatch, column: &str) -> Vec<i64> {
    rows.column_by_name(column).unwrap().as_primitive::<Int64Type>().values().to_vec()
}

/// The batch that wrote each row.
fn contents(db: &Database) -> BTreeMap<i64, i64> {
    let view = db.view();
    let Ok(table) = view.table("t") else { return BTreeMap::new() };
    let mut rows = BTreeMap::new();
    for batch in table.scan(&ScanRequest::all()).unwrap() {
        let batch = batch.unwrap();
        for (id, by) in numbers(&batch, "id").into_iter().zip(numbers(&batch, "v")) {
            assert_eq!(rows.insert(id, by), None, "row {id} is there twice");
        }
    }
    rows
}

/// Runs one history. Returns how many machines crashed, took over, and how many batches were
/// acknowledged.
fn run(seed: u64) -> [u64; 3] {
    let mut fleet = Fleet::new(seed);
    fleet.take_over(0).unwrap();
    fleet.redefine(0);
    fleet.store.state().failing = 6;
    for _ in 0..STEPS {
        fleet.step();
    }
    {
        let mut state = fleet.store.state();
        (state.failing, state.outage) = (0, false);
    }
    // Whoever still serves goes on for a while, also if it was replaced.
    for number in 0..NODES {
        fleet.write(number);
        for _ in 0..4 {
            fleet.copy(number);
        }
    }
    let last = fleet.buy();
    fleet.machines.push(last);
    // Late requests of others may come in between.
    for _ in 0..20 {
        if fleet.machines[NODES].serving.is_none() {
            fleet.take_over(NODES).unwrap();
        }
    }
    assert!(fleet.machines[NODES].serving.is_some(), "the last machine did not take over");
    fleet.check(NODES);
    // Everyone else is excluded now.
    for number in 0..NODES {
        fleet.write(number);
        let before = fleet.acknowledged.lock().unwrap().len();
        for _ in 0..4 {
            fleet.copy(number);
        }
        assert_eq!(fleet.acknowledged.lock().unwrap().len(), before, "a node that was replaced acknowledged a batch");
    }
    let acknowledged = fleet.acknowledged.lock().unwrap().len() + fleet.deleted.len();
    [fleet.crashes, fleet.epoch, acknowledged as u64]
}

/// The seeds that are tried: `FLEETDB_SEED` gives the first one, and `FLEETDB_SEEDS` how many.
fn seeds() -> std::ops::Range<u64> {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("FLEETDB_SEED"), number("FLEETDB_SEEDS")) {
        (Some(seed), count) => seed..seed + count.unwrap_or(1),
        (None, count) => 0..count.unwrap_or(300),
    }
}

#[test]
fn nothing_acknowledged_is_lost_whatever_crashes() {
    let mut totals = [0; 3];
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| run(seed));
        let counts = outcome.unwrap_or_else(|_| panic!("failed with seed {seed}: repeat with FLEETDB_SEED={seed}"));
        totals = std::array::from_fn(|place| totals[place] + counts[place]);
    }
    let [crashes, epochs, batches] = totals;
    println!("{crashes} crashes, {epochs} epochs, {batches} batches acknowledged");
    assert!(batches > 0);
}
