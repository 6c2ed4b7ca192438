use super::*;
use crate::bucket::Bucket;
use crate::shipped::{HISTORY, Shipper, collect_garbage};
use crate::unreliable::Unreliable;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Alteration, Batch, Database, Rows, Settings, TableDefinition};
use std::sync::Arc;

struct Writer {
    db: Database,
    io: Io,
    bucket: Bucket,
    store: Arc<Unreliable>,
}

impl Writer {
    fn new() -> Self {
        let (store, bucket) = Unreliable::new(1);
        let io = Io::memory(MemoryStorage::new());
        let db = Database::open_with(io.clone(), Settings::default()).unwrap();
        let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
        let table = TableDefinition { partition_seconds: Some(100), ..table.field("v", ColumnType::Float64) };
        db.create_table(&table).unwrap();
        Self { db, io, bucket, store }
    }

    fn write(&self, times: std::ops::Range<i64>, value: f64) {
        let mut rows = Rows::new(&self.db.table("t").unwrap());
        for at in times {
            rows.push(&[fleetdb_engine::Value::Int(1), fleetdb_engine::Value::Int(at), value.into()]).unwrap();
        }
        self.db.commit(Batch::new().with_rows(rows)).unwrap();
        self.db.flush().unwrap();
    }

    fn shipper(&self) -> Shipper {
        Shipper::new(self.bucket.clone(), self.io.clone()).unwrap().with_delta()
    }

    /// What the log says.
    fn published(&self) -> Published {
        Published::read(&Requests::new(self.bucket.clone()).unwrap(), TableId(0)).unwrap()
    }

    /// The rows in the files that the log lists, by partition; each file must be there.
    fn rows(&self) -> u64 {
        let checkpoint = self.db.checkpoint();
        let published = self.published();
        let requests = Requests::new(self.bucket.clone()).unwrap();
        let there = requests.wait(|bucket| async move { bucket.within("segments/0").list().await }).unwrap();
        assert!(published.files.keys().all(|file| there.contains(file)), "{:?}", published.files);
        let rows = checkpoint.state().segments.values().filter(|entry| published.files.contains_key(&file_of(entry)));
        rows.map(|entry| entry.rows).sum()
    }
}

#[test]
fn a_version_has_each_row_once_and_follows_merges() {
    let writer = Writer::new();
    let mut shipper = writer.shipper();
    writer.write(0..100, 1.0);
    writer.write(100..200, 1.0);
    shipper.ship(&writer.db, |_, _| ()).unwrap();
    assert_eq!((writer.published().next, writer.rows()), (1, 200));
    // Nothing new makes no version.
    shipper.ship(&writer.db, |_, _| ()).unwrap();
    assert_eq!(writer.published().next, 1);
    // Rows that replace others are not there before they are merged.
    writer.write(50..60, 2.0);
    shipper.ship(&writer.db, |_, _| ()).unwrap();
    assert_eq!((writer.published().next, writer.rows()), (1, 200));
    writer.db.compact().unwrap();
    shipper.ship(&writer.db, |_, _| ()).unwrap();
    assert_eq!((writer.published().next, writer.rows()), (2, 200));
    // Another process goes on where the log ends.
    writer.write(200..300, 1.0);
    writer.shipper().ship(&writer.db, |_, _| ()).unwrap();
    assert_eq!((writer.published().next, writer.rows()), (3, 300));
    // The log is not garbage.
    writer.store.state().hours += 100;
    writer.write(300..400, 1.0);
    let mut shipper = writer.shipper();
    shipper.ship(&writer.db, |_, _| ()).unwrap();
    writer.store.state().hours += 100;
    writer.write(400..500, 1.0);
    shipper.ship(&writer.db, |_, _| ()).unwrap();
    collect_garbage(&writer.bucket, HISTORY).unwrap();
    assert_eq!((writer.published().next, writer.rows()), (5, 500));
}

#[test]
fn columns_that_were_renamed_or_replaced_wait_for_a_merge() {
    let writer = Writer::new();
    let mut shipper = writer.shipper();
    writer.write(0..10, 1.0);
    shipper.ship(&writer.db, |_, _| ()).unwrap();
    let mut ship = || {
        shipper.ship(&writer.db, |_, _| ()).unwrap();
        writer.rows()
    };
    writer.db.alter("t", &[Alteration::RenameColumn { from: "v".into(), to: "w".into() }]).unwrap();
    assert_eq!(ship(), 0);
    assert!(writer.published().schema.unwrap().contains("\"w\""));
    writer.write(0..10, 2.0);
    writer.db.compact().unwrap();
    assert_eq!(ship(), 10);
    // A dropped column is ignored, unless another one has its name now.
    writer.db.drop_column("t", "w").unwrap();
    assert_eq!(ship(), 10);
    let column = fleetdb_engine::ColumnDefinition {
        name: "w".into(),
        column_type: ColumnType::Int64,
        nullable: true,
        default: None,
    };
    writer.db.add_column("t", &column, fleetdb_engine::Role::Field).unwrap();
    assert_eq!(ship(), 0);
}

#[test]
fn a_failing_store_leaves_a_log_that_goes_on() {
    let writer = Writer::new();
    let mut shipper = writer.shipper();
    for step in 0..60 {
        writer.store.state().failing = 3;
        writer.write(step * 50..(step + 1) * 50, 1.0);
        if step % 7 == 0 {
            writer.db.compact().unwrap();
        }
        shipper.ship(&writer.db, |_, _| ()).ok();
        writer.store.state().outage = false;
        if step % 5 == 0 {
            shipper = writer.shipper();
        }
        writer.store.state().failing = 0;
        // Also in between, each file that is listed is there.
        writer.published();
    }
    writer.db.compact().unwrap();
    while let Err(error) = shipper.ship(&writer.db, |_, _| ()) {
        assert_eq!(error.code(), fleetdb_engine::Code::Busy, "{error}");
    }
    assert_eq!(writer.rows(), 3_000);
}

#[test]
fn a_broken_log_is_told_and_stops_neither_shipping_nor_other_tables() {
    let writer = Writer::new();
    let other = TableDefinition::new("other").key("id", ColumnType::Int64).time("ts", Unit::Second);
    writer.db.create_table(&other).unwrap();
    writer.write(0..10, 1.0);
    writer.shipper().ship(&writer.db, |_, _| ()).unwrap();
    let requests = Requests::new(writer.bucket.clone()).unwrap();
    let log = requests.within("segments/0/_delta_log");
    log.wait(|bucket| async move { bucket.write(&version_file(2), "{}".into()).await }).unwrap();
    writer.db.container("other", &[fleetdb_engine::Value::Int(1)]).unwrap().append(1, &[]).unwrap();
    writer.db.flush().unwrap();
    let shipment = writer.shipper().ship(&writer.db, |_, _| ()).unwrap();
    let error = shipment.delta_error.unwrap().to_string();
    assert!(shipment.number == 2 && error.contains("a version is missing"), "{error}");
    assert_eq!(Published::read(&requests, TableId(1)).unwrap().files.len(), 1);
}
