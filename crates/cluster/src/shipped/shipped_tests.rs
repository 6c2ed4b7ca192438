use super::*;
use crate::bucket::Bucket;
use crate::site::Site;
use crate::unreliable::Unreliable;
use fleetdb_engine::backup::restore;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{
    Batch, ColumnType, Database, KeyCondition, KeyPredicate, Reader, Rows, ScanRequest, Settings, TableDefinition,
    Unit, Value, View,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A database in memory with one table.
struct Machine {
    site: Site,
    next: i64,
    /// The rows of each sequence at which something was on disk.
    rows: BTreeMap<u64, Vec<(i64, i64)>>,
    now: Vec<(i64, i64)>,
}

impl Machine {
    fn new() -> Self {
        let storage = MemoryStorage::new();
        let site = Site::new(Arc::clone(&storage), Io::memory(storage));
        let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
        site.db().create_table(&table.field("v", ColumnType::Int64)).unwrap();
        Self { site, next: 0, rows: BTreeMap::new(), now: Vec::new() }
    }

    fn write(&mut self, count: i64) {
        let mut rows = Rows::new(self.db().view().table("t").unwrap().schema());
        for at in self.next..self.next + count {
            rows.push(&[Value::Int(at % 3), Value::Int(at), Value::Int(at * 7)]).unwrap();
            self.now.push((at % 3, at));
        }
        self.next += count;
        self.db().commit(Batch::new().with_rows(rows)).unwrap();
    }

    fn flush(&mut self) {
        self.db().flush().unwrap();
        let sequence = self.db().checkpoint().state().flushed_sequence.0;
        self.rows.insert(sequence, self.now_sorted());
    }

    fn now_sorted(&self) -> Vec<(i64, i64)> {
        let mut rows = self.now.clone();
        rows.sort_unstable();
        rows
    }
}

impl Deref for Machine {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

fn rows_of(view: &View) -> Vec<(i64, i64)> {
    let mut rows = Vec::new();
    for batch in view.table("t").unwrap().scan(&ScanRequest::all()).unwrap() {
        let batch = batch.unwrap();
        let (ids, times) = (ints(batch.column(0)), ints(batch.column(1)));
        rows.extend(ids.into_iter().zip(times));
    }
    rows
}

/// The numbers of a column, whatever its type is.
fn ints(column: &arrow::array::ArrayRef) -> Vec<i64> {
    let numbers = arrow::compute::cast(column, &arrow::datatypes::DataType::Int64).unwrap();
    arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&numbers).values().to_vec()
}

/// The rows of a shipped moment, restored, and read where they are.
fn shipped_rows(bucket: &Bucket, moment: &Moment) -> (u64, Vec<(i64, i64)>) {
    let shipped = ShippedDatabase::open(bucket.clone(), moment).unwrap();
    let to = Io::memory(MemoryStorage::new());
    let (report, _) = shipped.restore(&to, |_, _| ()).unwrap();
    let restored = rows_of(&Database::open_with(to, Settings::default()).unwrap().view());
    let read = rows_of(&Reader::open(shipped.io(), Settings::default()).unwrap().view());
    assert_eq!(restored, read);
    (report.sequence, read)
}

#[test]
fn only_what_is_new_is_sent_and_every_manifest_is_restored() {
    let (_, bucket) = Unreliable::new(0);
    let mut machine = Machine::new();
    let mut shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    machine.write(100);
    machine.flush();
    let first = shipper.ship(machine.db(), |_, _| ()).unwrap();
    assert!(first.is_new && first.number == 1 && first.sent_bytes == first.bytes && first.bytes > 0);
    let again = shipper.ship(machine.db(), |_, _| ()).unwrap();
    assert_eq!((again.is_new, again.number, again.sent_bytes), (false, 1, 0));
    machine.write(10);
    machine.flush();
    // Another process goes on.
    let mut shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    let second = shipper.ship(machine.db(), |_, _| ()).unwrap();
    assert!(second.number == 2 && second.sent_bytes < second.bytes, "{second:?}");
    for number in 1..=2 {
        let (sequence, rows) = shipped_rows(&bucket, &Moment::Number(number));
        assert_eq!(rows, machine.rows[&sequence]);
    }
    assert!(ShippedDatabase::open(bucket.clone(), &Moment::Number(3)).is_err());
    let newest = ShippedDatabase::open(bucket, &Moment::Newest).unwrap();
    let error = newest.create("x").err().unwrap().to_string();
    assert!(error.contains("can only be read"), "{error}");
}

#[test]
fn a_reader_follows_what_is_shipped() {
    let (store, bucket) = Unreliable::new(0);
    let mut machine = Machine::new();
    let mut shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    machine.write(30);
    machine.flush();
    shipper.ship(machine.db(), |_, _| ()).unwrap();
    let reader =
        Reader::open(ShippedDatabase::open(bucket, &Moment::Newest).unwrap().io(), Settings::default()).unwrap();
    let before = reader.view();
    machine.write(30);
    machine.db().compact().unwrap();
    shipper.ship(machine.db(), |_, _| ()).unwrap();
    assert_eq!(rows_of(&reader.view()).len(), 30);
    reader.refresh().unwrap();
    assert_eq!(rows_of(&reader.view()).len(), 60);
    assert_eq!(rows_of(&before).len(), 30);
    // What was read is in the cache.
    let reads = store.state().reads;
    assert_eq!(rows_of(&reader.view()).len(), 60);
    assert_eq!(store.state().reads, reads);
}

/// Whatever the store and the machine do, each manifest is a moment of the database.
fn survives(seed: u64) {
    let (store, bucket) = Unreliable::new(seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(!seed);
    let mut machine = Machine::new();
    machine.flush();
    let mut shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    store.state().failing = 3;
    let mut shipped = 0;
    for _ in 0..60 {
        store.state().outage = false;
        match random.next_u64() % 8 {
            0..=2 => machine.write(1 + (random.next_u64() % 20) as i64),
            3 => machine.flush(),
            4 => {
                machine.db().compact().unwrap();
                machine.flush();
            }
            5 if random.next_u64().is_multiple_of(3) => {
                machine.site.crash();
                machine.flush();
                shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
            }
            _ => match shipper.ship(machine.db(), |_, _| ()) {
                Ok(shipment) => {
                    assert!(shipment.number >= shipped);
                    shipped = shipment.number;
                }
                Err(error) => assert_eq!(error.code(), Code::Busy, "{error}"),
            },
        }
    }
    {
        let mut state = store.state();
        (state.failing, state.outage) = (0, false);
    }
    machine.flush();
    let last = shipper.ship(machine.db(), |_, _| ()).unwrap();
    let (_, rows) = shipped_rows(&bucket, &Moment::Newest);
    assert_eq!(rows, machine.now_sorted());
    for number in 1..=last.number {
        let (sequence, rows) = shipped_rows(&bucket, &Moment::Number(number));
        assert_eq!(rows, machine.rows[&sequence], "manifest {number}");
    }
}

#[test]
fn a_failing_store_and_crashes_leave_only_true_manifests() {
    // FLEETDB_SEED repeats one seed.
    let one = std::env::var("FLEETDB_SEED").ok().map(|seed| seed.parse().unwrap());
    let seeds = one.map_or(0..200, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!("FLEETDB_SEED={seed}");
        survives(seed);
    }
}

#[test]
fn only_one_copy_ships() {
    let (_, bucket) = Unreliable::new(0);
    let mut machine = Machine::new();
    machine.write(10);
    machine.flush();
    let mut shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    shipper.ship(machine.db(), |_, _| ()).unwrap();
    let copy = Io::memory(MemoryStorage::new());
    ShippedDatabase::open(bucket.clone(), &Moment::Newest).unwrap().restore(&copy, |_, _| ()).unwrap();
    // The copy ships first; then the original may not, in this process or a later one.
    let restored = Database::open_with(copy.clone(), Settings::default()).unwrap();
    restored.container("t", &[Value::Int(9)]).unwrap().append(1, &[("v", Value::Int(1))]).unwrap();
    restored.flush().unwrap();
    assert_eq!(Shipper::new(bucket.clone(), copy).unwrap().ship(&restored, |_, _| ()).unwrap().number, 2);
    machine.write(10);
    machine.flush();
    let again = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    for mut shipper in [shipper, again] {
        let error = shipper.ship(machine.db(), |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("manifest 2, which this directory has not written"), "{error}");
        assert!(error.hint().unwrap().contains("choose another prefix"));
    }
    let mut stranger = Machine::new();
    stranger.write(1);
    stranger.flush();
    // Databases in memory have the same random numbers, so the id is that of the first.
    let error = Shipper::new(bucket.clone(), stranger.io.clone()).unwrap().ship(stranger.db(), |_, _| ()).unwrap_err();
    assert_eq!(error.code(), Code::Invalid);
    // A copy that no bucket knows of, made without it, may not ship there.
    let (from, to) = (Io::memory(MemoryStorage::new()), Io::memory(MemoryStorage::new()));
    restored.backup(&from, |_, _| ()).unwrap();
    restore(&from, &to, |_, _| ()).unwrap();
    let copied = Database::open_with(to.clone(), Settings::default()).unwrap();
    let error = Shipper::new(bucket, to).unwrap().ship(&copied, |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("which this directory has not written"), "{error}");
}

#[test]
fn what_no_manifest_of_the_last_day_and_no_pin_lists_is_removed() {
    let (store, bucket) = Unreliable::new(0);
    let mut machine = Machine::new();
    let mut shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    for hours in [0, 10, 20, 40, 50] {
        store.state().hours = hours;
        machine.write(10);
        machine.db().compact().unwrap();
        machine.flush();
        shipper.ship(machine.db(), |_, _| ()).unwrap();
        if hours == 0 {
            pin(&bucket, "before-upgrade", 1).unwrap();
        }
    }
    let segments = |bucket: &Bucket| {
        let requests = Requests::new(bucket.clone()).unwrap();
        requests.wait(|bucket| async move { bucket.within(SEGMENTS).list().await }).unwrap().len()
    };
    let before = segments(&bucket);
    let garbage = collect_garbage(&bucket, HISTORY).unwrap();
    // Manifest 3 is what the database was a day before manifest 5.
    let left: Vec<u64> = manifests(&bucket).unwrap().iter().map(|entry| entry.number).collect();
    assert_eq!((garbage.manifests, left), (1, vec![1, 3, 4, 5]));
    assert!(garbage.segments > 0 && garbage.bytes > 0);
    assert_eq!(segments(&bucket), before - garbage.segments);
    for number in [1, 3, 4, 5] {
        let (sequence, rows) = shipped_rows(&bucket, &Moment::Number(number));
        assert_eq!(rows, machine.rows[&sequence], "manifest {number}");
    }
    assert_eq!(shipped_rows(&bucket, &Moment::Pin("before-upgrade".to_owned())).1.len(), 10);
    assert_eq!(collect_garbage(&bucket, HISTORY).unwrap(), Garbage::default());
    unpin(&bucket, "before-upgrade").unwrap();
    assert_eq!(collect_garbage(&bucket, HISTORY).unwrap().manifests, 1);
    assert!(pin(&bucket, "late", 1).unwrap_err().to_string().contains("no manifest 1"));
    for name in ["", "a/b", ".", "a b"] {
        assert!(pin(&bucket, name, 5).unwrap_err().to_string().contains("cannot be the name of a pin"), "{name}");
    }
}

#[test]
fn a_segment_that_was_sent_long_before_its_manifest_is_not_garbage() {
    // Machines in memory do the same with the same bytes. What this one has is there early, as if a copy
    // had sent it and had been lost before it wrote a manifest.
    let (store, bucket) = Unreliable::new(0);
    let steps = |machine: &mut Machine, reach: usize, each: &mut dyn FnMut(&Machine, usize)| {
        for step in 0..reach {
            match step {
                1 | 3 => {
                    let name = format!("table_{step}");
                    let table = TableDefinition::new(&name).key("id", ColumnType::Int64).time("ts", Unit::Second);
                    machine.db().create_table(&table).unwrap();
                }
                _ => {
                    machine.write(10);
                    machine.flush();
                }
            }
            each(machine, step);
        }
    };
    let mut other = Machine::new();
    steps(&mut other, 3, &mut |_, _| ());
    let mut machine = Machine::new();
    let mut shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
    let early = other.db().checkpoint().state().segments.values().map(segment_name).collect::<Vec<_>>();
    steps(&mut machine, 4, &mut |machine, step| {
        store.state().hours = [0, 10, 40, 60][step];
        shipper.ship(machine.db(), |_, _| ()).unwrap();
        if step == 0 {
            store.state().hours = 1;
            // Another process of this machine sees what is there.
            shipper = Shipper::new(bucket.clone(), machine.io.clone()).unwrap();
            let checkpoint = other.db().checkpoint();
            for entry in checkpoint.state().segments.values() {
                let bytes = checkpoint.file(entry).unwrap().read_all().unwrap();
                let (requests, name) = (Requests::new(bucket.clone()).unwrap(), segment_name(entry));
                requests.wait(|bucket| async move { bucket.write(&name, bytes).await }).unwrap();
            }
        }
    });
    let listed = machine.db().checkpoint().state().segments.values().map(segment_name).collect::<Vec<_>>();
    assert_eq!(listed, early);
    assert_eq!(collect_garbage(&bucket, HISTORY).unwrap().manifests, 1);
    assert_eq!(shipped_rows(&bucket, &Moment::Newest).1, machine.now_sorted());
}

#[test]
fn a_damaged_segment_is_not_shipped() {
    let (_, bucket) = Unreliable::new(0);
    let data = tempfile::tempdir().unwrap();
    let io = Io::files(data.path());
    let db = Database::open_with(io.clone(), Settings::default()).unwrap();
    db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    db.container("t", &[Value::Int(1)]).unwrap().append(5, &[]).unwrap();
    db.flush().unwrap();
    let name = fleetdb_engine::inspect::segment_file(db.checkpoint().state().segments.values().next().unwrap());
    let mut bytes = std::fs::read(data.path().join(&name)).unwrap();
    bytes[100] ^= 1;
    std::fs::write(data.path().join(&name), bytes).unwrap();
    let error = Shipper::new(bucket.clone(), io).unwrap().ship(&db, |_, _| ()).unwrap_err();
    assert!(error.code() == Code::Damaged && error.to_string().contains(&name), "{error}");
    assert!(ShippedDatabase::open(bucket, &Moment::Newest).is_err());
}

#[test]
fn a_month_of_a_container_takes_four_requests_and_then_none() {
    let (store, bucket) = Unreliable::new(0);
    let machine = Machine::new();
    let wide = TableDefinition::new("wide").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let wide = (0..4).fold(wide, |wide, n| wide.field(&format!("v{n}"), ColumnType::Int64));
    let schema = machine.db().create_table(&wide).unwrap();
    const DAY: i64 = 86_400;
    for day in 0..90 {
        let mut rows = Rows::new(&schema);
        for (id, minute) in (0..10).flat_map(|id| (0..1_440).map(move |minute| (id, minute))) {
            let at = day * DAY + minute * 60;
            let noise = |n: i64| Value::Int((at * 7919 + id * n) % 1_000_003);
            rows.push(&[Value::Int(id), Value::Int(at), noise(1), noise(2), noise(3), noise(4)]).unwrap();
        }
        machine.db().commit(Batch::new().with_rows(rows)).unwrap();
    }
    machine.db().compact().unwrap();
    Shipper::new(bucket.clone(), machine.io.clone()).unwrap().ship(machine.db(), |_, _| ()).unwrap();
    let shipped = ShippedDatabase::open(bucket, &Moment::Newest).unwrap();
    let reader = Reader::open(shipped.io(), Settings::default()).unwrap();
    let month = ScanRequest {
        key_predicates: vec![KeyPredicate { column: 0, test: KeyCondition::In(vec![Value::Int(4)]) }],
        from: Some(30 * DAY),
        to: Some(60 * DAY - 1),
        ..ScanRequest::all()
    };
    let requests = || {
        let before = store.state().reads;
        let scan = reader.view().table("wide").unwrap().scan(&month).unwrap();
        let rows: usize = scan.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows, 30 * 1_440);
        store.state().reads - before
    };
    let (cold, warm) = (requests(), requests());
    assert!((1..=4).contains(&cold) && warm == 0, "{cold} requests, then {warm}");
}

/// Waits until something is so.
fn wait_until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_ships_until_it_is_dropped() {
    let (store, bucket) = Unreliable::new(0);
    let data = tempfile::tempdir().unwrap();
    let io = Io::files(data.path());
    let db = Arc::new(Database::open_with(io.clone(), Settings::default()).unwrap());
    db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    let interval = Duration::from_millis(1);
    let thread = Shipper::new(bucket.clone(), io.clone()).unwrap().at_intervals(Arc::downgrade(&db), interval).unwrap();
    let append = |at: i64| db.container("t", &[Value::Int(1)]).unwrap().append(at, &[]).unwrap();
    let lag = || db.status().shipping.unwrap_or_default();
    append(1);
    wait_until(|| lag().seconds.is_some() && lag().batches == 0);
    // An outage, and its end.
    store.state().failing = 1;
    append(2);
    wait_until(|| lag().error.is_some() && lag().batches == 1);
    store.state().failing = 0;
    store.state().outage = false;
    wait_until(|| lag().error.is_none() && lag().batches == 0);
    assert_eq!(shipped_count(&bucket), 2);
    drop(thread);
    let numbers = manifests(&bucket).unwrap().len();
    append(3);
    // A store that never answers does not keep the thread.
    store.state().hangs = true;
    let thread = Shipper::new(bucket.clone(), io).unwrap().at_intervals(Arc::downgrade(&db), interval).unwrap();
    wait_until(|| store.state().hanging > 0);
    drop(thread);
    store.state().hangs = false;
    assert_eq!(manifests(&bucket).unwrap().len(), numbers);
    // Nobody else has the database.
    Arc::into_inner(db).unwrap().close().unwrap();
}

/// The number of rows in the newest manifest.
fn shipped_count(bucket: &Bucket) -> u64 {
    let shipped = ShippedDatabase::open(bucket.clone(), &Moment::Newest).unwrap();
    let reader = Reader::open(shipped.io(), Settings::default()).unwrap();
    reader.view().table("t").unwrap().count().unwrap()
}

#[test]
fn a_bandwidth_is_kept_and_does_not_hold_up_the_end() {
    let (_, bucket) = Unreliable::new(0);
    let mut machine = Machine::new();
    machine.write(100);
    machine.flush();
    let sent_bytes =
        Shipper::new(bucket, machine.io.clone()).unwrap().ship(machine.db(), |_, _| ()).unwrap().sent_bytes;
    let (_, bucket) = Unreliable::new(0);
    let io = Io::memory(fleetdb_engine::io::MemoryStorage::new());
    let mut shipper = Shipper::new(bucket.clone(), io.clone()).unwrap().with_bandwidth(NonZeroU64::new(4 * sent_bytes));
    let begun = std::time::Instant::now();
    shipper.ship(machine.db(), |_, _| ()).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(250), "{:?}", begun.elapsed());
    // At one byte per second, the thread still ends when it is dropped.
    let (_, bucket) = Unreliable::new(0);
    let data = tempfile::tempdir().unwrap();
    let db = Arc::new(Database::open(data.path()).unwrap());
    db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    db.container("t", &[Value::Int(1)]).unwrap().append(1, &[]).unwrap();
    let shipper = Shipper::new(bucket.clone(), Io::files(data.path())).unwrap().with_bandwidth(NonZeroU64::new(1));
    let thread = shipper.at_intervals(Arc::downgrade(&db), Duration::from_millis(1)).unwrap();
    let requests = Requests::new(bucket).unwrap();
    wait_until(|| !requests.wait(|bucket| async move { bucket.within(SEGMENTS).objects().await }).unwrap().is_empty());
    drop(thread);
}
