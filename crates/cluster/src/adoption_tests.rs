use super::*;
use crate::shipped::{HISTORY, Moment, ShippedDatabase, Shipper, collect_garbage};
use crate::site::Site;
use crate::unreliable::Unreliable;
use fleetdb_engine::Role;
use fleetdb_engine::io::{Io, MemoryStorage, Random};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys and times, with their values.
type Model = BTreeMap<(i64, i64), i64>;

/// Numbers that differ between the databases of a test.
struct Distinct;

impl Random for Distinct {
    fn next_u64(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// A machine whose database has an id of its own.
fn site() -> Site {
    let storage = MemoryStorage::new();
    let io = Io { random: Arc::new(Distinct), ..Io::memory(Arc::clone(&storage)) };
    Site::new(storage, io)
}

/// A device that writes rows of its own keys and ships them.
struct Device {
    site: Site,
    bucket: Bucket,
    shipper: Shipper,
    key: i64,
    next: i64,
    model: Model,
}

impl Device {
    fn new(devices: &Bucket, key: i64) -> Self {
        let site = site();
        let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
        site.db().create_table(&table.field("v", ColumnType::Int64)).unwrap();
        let bucket = devices.within(&format!("device-{key}"));
        let shipper = Shipper::outbox(&bucket, site.io.clone()).unwrap();
        Self { site, bucket, shipper, key, next: 0, model: Model::new() }
    }

    fn put(&mut self, times: impl Iterator<Item = i64>, value: i64) {
        let mut rows = Rows::new(&self.site.db().table("t").unwrap());
        for at in times {
            let id = 10 * self.key + at % 3;
            rows.push(&[Value::Int(id), Value::Int(at), Value::Int(value)]).unwrap();
            self.model.insert((id, at), value);
        }
        self.site.db().commit(Batch::new().with_rows(rows)).unwrap();
    }

    /// Writes new rows.
    fn write(&mut self, count: i64, value: i64) {
        self.put(self.next..self.next + count, value);
        self.next += count;
    }

    fn crash(&mut self) {
        self.site.crash();
        self.shipper = Shipper::outbox(&self.bucket, self.site.io.clone()).unwrap();
    }

    /// Flushes and ships.
    fn ship(&mut self) -> Result<u64> {
        self.site.db().flush()?;
        Ok(self.shipper.ship(self.site.db(), |_, _| ())?.sent_bytes)
    }
}

fn adopter(devices: &Bucket) -> Adopter {
    Adopter { at_a_time: 1, ..Adopter::new(devices.clone()).unwrap() }
}

fn rows_of(db: &Database) -> Model {
    let mut rows = Model::new();
    let view = db.view();
    let Ok(table) = view.table("t") else { return rows };
    for batch in table.scan(&ScanRequest::all()).unwrap() {
        let batch = batch.unwrap();
        let ints = |name: &str| {
            let column = cast(batch.column_by_name(name).unwrap(), &DataType::Int64).unwrap();
            column.as_primitive::<Int64Type>().values().to_vec()
        };
        for ((id, at), value) in ints("id").into_iter().zip(ints("ts")).zip(ints("v")) {
            assert_eq!(rows.insert((id, at), value), None, "a row is there twice");
        }
    }
    rows
}

fn all_of(devices: &[Device]) -> Model {
    devices.iter().flat_map(|device| device.model.clone()).collect()
}

#[test]
fn rows_are_sent_and_adopted_once_whatever_compaction_does() {
    let (_, bucket) = Unreliable::new(0);
    let (mut device, server) = (Device::new(&bucket, 1), site());
    let adopter = adopter(&bucket);
    let (mut adopted, mut sent) = (0, 0);
    for step in 0..100 {
        device.write(50, step);
        device.site.db().flush().unwrap();
        if step % 10 == 3 {
            device.site.db().compact().unwrap();
        }
        if step % 3 == 0 {
            sent += device.ship().unwrap();
        }
        if step % 4 == 0 {
            let pass = adopter.adopt(server.db()).unwrap();
            assert!(pass.failed.is_empty(), "{:?}", pass.failed);
            adopted += pass.rows;
        }
    }
    sent += device.ship().unwrap();
    adopted += adopter.adopt(server.db()).unwrap().rows;
    assert_eq!(adopter.adopt(server.db()).unwrap().rows, 0);
    assert_eq!(adopted, 100 * 50);
    assert_eq!(device.ship().unwrap(), 0);
    let flushed = device.site.db().status().flushed_bytes;
    assert!(sent <= flushed, "{sent} bytes sent, {flushed} flushed");
    assert_eq!(rows_of(server.db()), device.model);
    // The device lists nothing that was adopted, and what is a day old goes.
    let listed = |bucket: &Bucket| {
        let outbox = ShippedDatabase::open(bucket.within("outbox"), &Moment::Newest).unwrap();
        Reader::open(outbox.io(), Settings::default()).unwrap().status().segments
    };
    device.write(1, 0);
    device.ship().unwrap();
    assert_eq!(listed(&device.bucket), 1);
    let known = known_devices(server.db()).unwrap();
    assert_eq!(known["device-1"].rows, 5_000);
}

#[test]
fn a_gateway_hands_over_what_it_has_adopted() {
    let ((_, below), (_, above)) = (Unreliable::new(0), Unreliable::new(0));
    let (mut device, gateway, cloud) = (Device::new(&below, 1), site(), site());
    device.write(100, 7);
    device.ship().unwrap();
    adopter(&below).adopt(gateway.db()).unwrap();
    gateway.db().flush().unwrap();
    Shipper::outbox(&above.within("gateway"), gateway.io.clone()).unwrap().ship(gateway.db(), |_, _| ()).unwrap();
    let pass = adopter(&above).adopt(cloud.db()).unwrap();
    assert!(pass.failed.is_empty() && pass.rows == 100, "{pass:?}");
    assert_eq!(rows_of(cloud.db()), device.model);
    assert_eq!(known_devices(cloud.db()).unwrap().into_keys().collect::<Vec<_>>(), ["gateway"]);
}

/// Adds a column to the table, and a row that has it.
fn add_column(db: &Database, (name, column_type, role): (&str, ColumnType, Role), row: &[Value]) {
    let column = ColumnDefinition { name: name.into(), column_type, nullable: true, default: None };
    let mut rows = Rows::new(&db.add_column("t", &column, role).unwrap());
    rows.push(row).unwrap();
    db.commit(Batch::new().with_rows(rows)).unwrap();
}

#[test]
fn columns_are_added_and_what_does_not_fit_stops_one_device_only() {
    let (_, bucket) = Unreliable::new(0);
    let (mut fine, mut odd, server) = (Device::new(&bucket, 1), Device::new(&bucket, 2), site());
    let adopter = adopter(&bucket);
    fine.write(10, 1);
    fine.ship().unwrap();
    assert_eq!(adopter.adopt(server.db()).unwrap().rows, 10);
    let row = [Value::Int(10), Value::Int(999), Value::Int(1), Value::Float(0.5)];
    add_column(fine.site.db(), ("w", ColumnType::Float64, Role::Field), &row);
    fine.ship().unwrap();
    odd.site.db().drop_table("t").unwrap();
    let table = TableDefinition::new("t").key("id", ColumnType::Utf8).time("ts", Unit::Second);
    odd.site.db().create_table(&table).unwrap();
    odd.site.db().container("t", &["a".into()]).unwrap().append(1, &[]).unwrap();
    odd.ship().unwrap();
    let pass = adopter.adopt(server.db()).unwrap();
    assert_eq!((pass.rows, pass.failed.len()), (1, 1), "{pass:?}");
    assert_eq!(server.db().table("t").unwrap().columns[3].name, "w");
    // Line protocol adds a tag to the primary key.
    let row = [Value::Int(10), Value::Int(999), Value::Int(1), Value::Null, "a".into()];
    add_column(fine.site.db(), ("tag", ColumnType::Utf8, Role::Key), &row);
    fine.ship().unwrap();
    assert_eq!(adopter.adopt(server.db()).unwrap().rows, 1);
    let view = server.db().view();
    assert_eq!((view.table("t").unwrap().schema().key.len(), view.table("t").unwrap().count().unwrap()), (2, 12));
    let error = known_devices(server.db()).unwrap()["device-2"].error.clone().unwrap();
    assert!(error.contains("id"), "{error}");
    // It is adopted once it fits.
    odd.site.db().drop_table("t").unwrap();
    let table = TableDefinition::new("other").key("id", ColumnType::Utf8).time("ts", Unit::Second);
    odd.site.db().create_table(&table).unwrap();
    odd.site.db().container("other", &["a".into()]).unwrap().append(1, &[]).unwrap();
    odd.ship().unwrap();
    let pass = adopter.adopt(server.db()).unwrap();
    assert_eq!((pass.rows, pass.failed.len()), (1, 0), "{pass:?}");
    assert_eq!(known_devices(server.db()).unwrap()["device-2"].error, None);
}

#[test]
fn a_device_s_retention_and_an_emptied_outbox_lose_nothing() {
    let (_, bucket) = Unreliable::new(0);
    let (mut device, server) = (Device::new(&bucket, 1), site());
    device.site.db().set_retention("t", Some(60)).unwrap();
    let now = device.site.db().now_ns() / 1_000_000_000;
    device.put([now - 30, now].into_iter(), 1);
    device.ship().unwrap();
    // The clock of the server is ahead, so the rows are expired for it.
    let adopter = adopter(&bucket);
    assert_eq!(adopter.adopt(server.db()).unwrap().rows, 2);
    assert_eq!(server.db().table("t").unwrap().retention_seconds, None);
    for _ in 0..5 {
        device.put([now + 1].into_iter(), 2);
        device.ship().unwrap();
    }
    adopter.adopt(server.db()).unwrap();
    let requests = Requests::new(device.bucket.clone()).unwrap();
    let names = requests.wait(|bucket| async move { bucket.list().await }).unwrap();
    requests.wait(|bucket| async move { bucket.delete(names).await }).unwrap();
    device.shipper = Shipper::outbox(&device.bucket, device.site.io.clone()).unwrap();
    device.put([now + 2].into_iter(), 3);
    device.ship().unwrap();
    let pass = adopter.adopt(server.db()).unwrap();
    // All rows come again, and replace themselves.
    assert!(pass.failed.is_empty() && pass.rows == 4, "{pass:?}");
    assert_eq!(rows_of(server.db()), device.model);
}

/// Devices and a server that lose their power, and a store that fails, until all is well again.
fn survives(seed: u64) {
    let (store, bucket) = Unreliable::new(seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut devices: Vec<Device> = (1..=3).map(|key| Device::new(&bucket, key)).collect();
    let mut server = site();
    let mut adopting = adopter(&bucket);
    store.state().failing = 4;
    for step in 0..120 {
        let device = &mut devices[(random.next_u64() % 3) as usize];
        match random.next_u64() % 16 {
            0..=3 => device.write(1 + (random.next_u64() % 40) as i64, step),
            4 if device.next > 0 => {
                let from = (random.next_u64() % device.next as u64) as i64;
                device.put(from..device.next.min(from + 5), step);
            }
            5 => device.site.db().compact().unwrap(),
            6 => device.site.db().flush().unwrap(),
            7 => device.crash(),
            8 => {
                server.crash();
                adopting = adopter(&bucket);
            }
            9 => store.state().outage = random.next_u64() % 2 == 0,
            10 => store.state().hours += random.next_u64() % 20,
            11..=13 => drop(adopting.adopt(server.db())),
            _ => drop(device.ship()),
        }
    }
    let mut state = store.state();
    (state.failing, state.outage) = (0, false);
    drop(state);
    for device in &mut devices {
        device.ship().unwrap();
    }
    let pass = adopting.adopt(server.db()).unwrap();
    assert!(pass.failed.is_empty(), "{:?}", pass.failed);
    server.crash();
    assert_eq!(rows_of(server.db()), all_of(&devices));
    // Later manifests and the removal of old ones take nothing away that was not adopted.
    for device in &mut devices {
        store.state().hours += 100;
        device.write(1, 0);
        device.ship().unwrap();
        collect_garbage(&device.bucket.within("outbox"), HISTORY).unwrap();
    }
    adopter(&bucket).adopt(server.db()).unwrap();
    assert_eq!(rows_of(server.db()), all_of(&devices));
}

#[test]
fn crashes_and_outages_lose_no_row_and_double_none() {
    let (from, count) = match std::env::var("FLEETDB_SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) => (0, 100),
    };
    for seed in from..from + count {
        let outcome = std::panic::catch_unwind(|| survives(seed));
        assert!(outcome.is_ok(), "repeat with FLEETDB_SEED={seed}");
    }
}

#[test]
fn a_server_that_has_lost_rows_says_so_and_gets_them_again_from_an_emptied_outbox() {
    let (_, bucket) = Unreliable::new(0);
    let (mut device, server) = (Device::new(&bucket, 1), site());
    device.write(10, 1);
    device.ship().unwrap();
    assert_eq!(adopter(&bucket).adopt(server.db()).unwrap().rows, 10);
    device.write(10, 2);
    device.ship().unwrap();
    // Another server: the first rows are no longer listed.
    let restored = site();
    let pass = adopter(&bucket).adopt(restored.db()).unwrap();
    assert_eq!((pass.rows, pass.failed.len()), (0, 1));
    let error = known_devices(restored.db()).unwrap()["device-1"].error.clone().unwrap();
    assert!(error.contains("adopted up to generation 1, but this server has them up to 0"), "{error}");
    assert_eq!(known_devices(restored.db()).unwrap()["device-1"].generation, Generation(0));
    let requests = Requests::new(device.bucket.within("outbox")).unwrap();
    let names = requests.wait(|bucket| async move { bucket.list().await }).unwrap();
    requests.wait(|bucket| async move { bucket.delete(names).await }).unwrap();
    device.crash();
    device.ship().unwrap();
    assert_eq!(adopter(&bucket).adopt(restored.db()).unwrap().rows, 20);
    assert_eq!(rows_of(restored.db()), device.model);
}

#[test]
fn many_segments_are_adopted_a_few_at_a_time_and_deletes_of_the_device_reach_none_of_them() {
    let (_, bucket) = Unreliable::new(0);
    let (mut device, server) = (Device::new(&bucket, 1), site());
    for step in 0..200 {
        device.write(5, step);
        device.site.db().flush().unwrap();
        device.ship().unwrap();
    }
    let delete = |key: i64| Batch::new().delete("t", Some(&[Value::Int(key)]), ..);
    for key in 10..13 {
        device.site.db().commit(delete(key)).unwrap();
    }
    let adopter = adopter(&bucket);
    let mut rows = 0;
    // What does not fit into the outbox comes when there is room again.
    for _ in 0..5 {
        device.ship().unwrap();
        rows += adopter.adopt(server.db()).unwrap().rows;
    }
    let known = known_devices(server.db()).unwrap()["device-1"].clone();
    assert!(known.rows == rows && rows >= 5 * 64, "{rows} rows, {known:?}");
    let there = rows_of(server.db());
    assert!(there.len() as u64 == rows && there.iter().all(|(row, value)| device.model[row] == *value));
}

#[test]
fn rows_that_would_be_merged_in_another_way_wait() {
    let key = |table: TableDefinition| table.key("id", ColumnType::Int64);
    let device = key(TableDefinition::new("t")).time("ts", Unit::Millisecond).field("v", ColumnType::Int64);
    let merged = TableDefinition { merge: fleetdb_engine::Merge::Fields, ..device.clone() };
    let key_field = TableDefinition::new("t").key("v", ColumnType::Int64).key("id", ColumnType::Int64);
    for (server, says) in [
        (key_field.time("ts", Unit::Millisecond), "its primary key"),
        (key(TableDefinition::new("t")).field("ts", ColumnType::Timestamp(Unit::Millisecond)), "primary key"),
        (key(TableDefinition::new("t")).time("ts", Unit::Second), "smaller unit"),
        (merged, "has merge"),
    ] {
        let (there, here) = (site(), site());
        let table = there.db().create_table(&device).unwrap();
        here.db().create_table(&server).unwrap();
        let error = prepare(here.db(), &table).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_server_does_not_adopt_itself_nor_odd_names() {
    let (_, bucket) = Unreliable::new(0);
    let mut device = Device::new(&bucket, 1);
    device.write(5, 1);
    device.ship().unwrap();
    let pass = adopter(&bucket).adopt(device.site.db()).unwrap();
    assert!(pass.failed[0].1.to_string().contains("its own rows"), "{pass:?}");
    let requests = Requests::new(bucket.clone()).unwrap();
    requests.wait(|bucket| async move { bucket.write("a~b/x", "x".into()).await }).unwrap();
    let pass = adopter(&bucket).adopt(site().db()).unwrap();
    assert!(pass.rows == 5 && pass.failed.len() == 1, "{pass:?}");
    for url in ["s3://b/ü", "s3://b/a#b", "s3://b/a%20b", "s3://b/a b"] {
        assert!(Bucket::open(url).err().unwrap().to_string().contains("character"), "{url}");
    }
}

#[test]
fn a_device_that_was_restored_hands_over_its_new_rows_once_the_outbox_is_emptied() {
    let (_, bucket) = Unreliable::new(0);
    let (mut device, server) = (Device::new(&bucket, 1), site());
    let adopter = adopter(&bucket);
    device.write(10, 1);
    device.ship().unwrap();
    let backup = (device.site.storage.crash(), device.next, device.model.clone());
    for step in 0..5 {
        device.write(10, step);
        device.ship().unwrap();
    }
    adopter.adopt(server.db()).unwrap();
    let mut all = device.model.clone();
    (device.site.storage, device.next, device.model) = backup;
    device.crash();
    // Its generations now have other rows.
    device.put(1_000..1_010, 9);
    let error = device.ship().unwrap_err();
    assert!(error.to_string().contains("which this directory has not written"), "{error}");
    let requests = Requests::new(device.bucket.within("outbox")).unwrap();
    let names = requests.wait(|bucket| async move { bucket.list().await }).unwrap();
    requests.wait(|bucket| async move { bucket.delete(names).await }).unwrap();
    device.crash();
    device.ship().unwrap();
    let pass = adopter.adopt(server.db()).unwrap();
    assert!(pass.failed.is_empty() && pass.rows == 20, "{pass:?}");
    all.extend(device.model.clone());
    assert_eq!(rows_of(server.db()), all);
    // From now on only what is new.
    device.put(2_000..2_010, 9);
    device.ship().unwrap();
    assert_eq!(adopter.adopt(server.db()).unwrap().rows, 10);
}

#[test]
fn a_full_outbox_says_so_and_lets_a_dropped_table_go() {
    let (_, bucket) = Unreliable::new(0);
    let (mut device, server) = (Device::new(&bucket, 1), site());
    let table = TableDefinition::new("t").key("id", ColumnType::Utf8).time("ts", Unit::Second);
    server.db().create_table(&table).unwrap();
    for step in 0..70 {
        device.write(1, step);
        device.ship().unwrap();
    }
    let shipment = device.shipper.ship(device.site.db(), |_, _| ()).unwrap();
    assert!(shipment.is_held_back && shipment.segments == 64, "{shipment:?}");
    assert_eq!(adopter(&bucket).adopt(server.db()).unwrap().failed.len(), 1);
    // The key of the server's table is as it was.
    assert_eq!(server.db().table("t").unwrap().key.len(), 1);
    device.site.db().drop_table("t").unwrap();
    let other = TableDefinition::new("other").key("id", ColumnType::Int64).time("ts", Unit::Second);
    device.site.db().create_table(&other).unwrap();
    device.site.db().container("other", &[Value::Int(1)]).unwrap().append(1, &[]).unwrap();
    device.ship().unwrap();
    device.ship().unwrap();
    let pass = adopter(&bucket).adopt(server.db()).unwrap();
    assert!(pass.failed.is_empty() && pass.rows == 1, "{pass:?}");
}

#[test]
fn a_manifest_with_a_known_number_and_other_rows_is_adopted() {
    let (store, bucket) = Unreliable::new(0);
    let (mut device, server) = (Device::new(&bucket, 1), site());
    device.write(10, 1);
    device.ship().unwrap();
    let adopter = adopter(&bucket);
    assert_eq!(adopter.adopt(server.db()).unwrap().rows, 10);
    let requests = Requests::new(device.bucket.within("outbox")).unwrap();
    let names = requests.wait(|bucket| async move { bucket.list().await }).unwrap();
    requests.wait(|bucket| async move { bucket.delete(names).await }).unwrap();
    store.state().hours += 1;
    device.crash();
    device.write(10, 2);
    device.ship().unwrap();
    // Manifest 1 again.
    assert_eq!(adopter.adopt(server.db()).unwrap().rows, 20);
    assert_eq!(rows_of(server.db()), device.model);
}
