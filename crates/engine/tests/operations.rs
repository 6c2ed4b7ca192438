//! Long-term operation: retention, deletes that free space, backups, readers alongside a writer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, with a writer that is a real process")]

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType, TimestampSecondType};
use fleetdb_engine::backup::restore;
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, StepClock, Storage};
use fleetdb_engine::{
    Batch, ColumnType, Database, Durability, ErrorKind, Reader, Rows, ScanRequest, Settings, TableDefinition,
    TableView, Unit, Value,
};
use parquet::basic::{LogicalType, TimeUnit as ParquetUnit};
use parquet::file::metadata::ParquetMetaDataReader;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

const DAY_S: i64 = 86_400;

/// A database in memory, and its clock.
fn with_clock(storage: &Arc<MemoryStorage>, now_s: i64) -> (Database, Arc<StepClock>) {
    let clock = Arc::new(StepClock::default());
    clock.advance(now_s as u64 * 1_000_000_000);
    let io = Io { clock: Arc::clone(&clock) as _, ..Io::memory(Arc::clone(storage)) };
    (Database::open_with(io, Settings::default()).unwrap(), clock)
}

fn create(db: &Database, name: &str) {
    let table = TableDefinition::new(name).key("id", ColumnType::Int64).time("ts", Unit::Second);
    let table = table.field("v", ColumnType::Int64);
    db.create_table(&TableDefinition { partition_seconds: Some(DAY_S), ..table }).unwrap();
}

fn write(db: &Database, table: &str, rows: impl IntoIterator<Item = (i64, i64, i64)>) {
    let schema = db.tables().into_iter().find(|schema| schema.name == table).unwrap();
    let mut out = Rows::new(&schema);
    for (id, ts, v) in rows {
        out.push(&[Value::Int(id), Value::Int(ts), Value::Int(v)]).unwrap();
    }
    db.commit(Batch::new().with(table, out.finish().unwrap())).unwrap();
}

fn times(table: &TableView) -> Vec<i64> {
    let mut times = Vec::new();
    for batch in table.scan(&ScanRequest::all()).unwrap() {
        times.extend_from_slice(batch.unwrap().column(1).as_primitive::<TimestampSecondType>().values());
    }
    times
}

fn read(db: &Database) -> Vec<i64> {
    times(db.view().table("t").unwrap())
}

#[test]
fn retention_follows_the_clock_and_not_the_rows() {
    let storage = MemoryStorage::new();
    let (db, clock) = with_clock(&storage, 100 * DAY_S);
    create(&db, "t");
    // One row a day for a hundred days, one from 1970 and one from 2099.
    write(&db, "t", (0..100).map(|day| (1, day * DAY_S + 60, day)));
    write(&db, "t", [(2, 0, 0), (2, 4_070_908_800, 0)]);
    db.flush().unwrap();
    assert_eq!(read(&db).len(), 102);
    db.set_retention("t", Some(30 * DAY_S)).unwrap();
    let kept: Vec<i64> = (70..100).map(|day| day * DAY_S + 60).chain([4_070_908_800]).collect();
    assert_eq!(read(&db), kept, "at once, and the row from 2099 drags nothing");
    let before = db.status().segments;
    write(&db, "t", [(3, 99 * DAY_S, 0)]);
    db.flush().unwrap();
    db.compact().unwrap();
    assert!(db.status().segments < before, "whole partitions went: {} of {before}", db.status().segments);
    let last = db.view().table("t").unwrap().container(&[Value::Int(1)]).unwrap().last().unwrap().unwrap();
    assert_eq!(last.column(1).as_primitive::<TimestampSecondType>().value(0), 99 * DAY_S + 60);
    // Ten days later, ten more are hidden, without any write.
    clock.advance(10 * DAY_S as u64 * 1_000_000_000);
    assert_eq!(read(&db).len(), 22);
    assert_eq!(db.view().table("t").unwrap().count().unwrap(), 22);
    // With a longer retention, rows still on disk return; removed rows do not.
    db.set_retention("t", None).unwrap();
    assert_eq!(read(&db).len(), 32);
    clock.advance(1_000 * DAY_S as u64 * 1_000_000_000);
    db.set_retention("t", Some(DAY_S)).unwrap();
    assert_eq!(read(&db), [4_070_908_800]);
    assert!(db.view().table("t").unwrap().container(&[Value::Int(1)]).unwrap().last().unwrap().is_none());
    db.compact().unwrap();
    assert_eq!(db.status().segments, 1);
    assert_eq!(db.set_retention("t", Some(0)).unwrap_err().kind(), ErrorKind::Input);
    db.close().unwrap();
    assert!(check(&Io::memory(storage), |_, _| ()).unwrap().problems.is_empty());
}

#[test]
fn deleted_rows_give_their_space_back() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    create(&db, "t");
    // Noise, so that the size depends on the number of rows.
    let noise = |n: i64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9_u64 as i64)
    };
    write(&db, "t", (0..40_000).map(|n| (n % 4, n, noise(n))));
    db.compact().unwrap();
    let before = db.status().segment_bytes;
    db.commit(Batch::new().delete("t", Some(&[Value::Int(0)]), ..).delete("t", None, ..20_000)).unwrap();
    assert_eq!(read(&db).len(), 15_000);
    let (db, _) = {
        db.close().unwrap();
        with_clock(&storage, 0)
    };
    assert_eq!(read(&db).len(), 15_000, "also after reopening");
    db.compact().unwrap();
    assert_eq!(read(&db).len(), 15_000);
    assert!(db.status().segment_bytes < before / 2, "{} of {before} bytes", db.status().segment_bytes);
    // The deletes are gone: rows with those keys can be written again.
    write(&db, "t", [(0, 5, 5)]);
    assert_eq!(read(&db).len(), 15_001);
    db.commit(Batch::new().delete("t", None, 7..7)).unwrap();
    assert_eq!(read(&db).len(), 15_001, "an empty span deletes nothing");
    let wrong = db.commit(Batch::new().delete("nothing", None, ..)).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Input, "{wrong}");
    let wrong = db.commit(Batch::new().delete("t", Some(&[]), ..)).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Input, "{wrong}");
}

#[test]
fn a_million_updates_of_a_collection_do_not_grow_it() {
    let storage = MemoryStorage::new();
    let io = Io::memory(Arc::clone(&storage));
    let db = Database::open_with(io, Settings { memtable_bytes: 256 << 10, ..Settings::default() }).unwrap();
    let table = TableDefinition::new("meters").key("id", ColumnType::Int64).field("v", ColumnType::Int64);
    let schema = db.create_table(&table).unwrap();
    let (mut most_memory, mut most_disk) = (0, 0);
    for round in 0..157 {
        let mut rows = Rows::new(&schema);
        (0..6_400).for_each(|id| rows.push(&[Value::Int(id), Value::Int(round * id)]).unwrap());
        db.commit(Batch::new().with_rows(rows)).unwrap();
        if round % 10 == 9 {
            db.flush().unwrap();
        }
        most_memory = most_memory.max(db.status().memtable_bytes);
        most_disk = most_disk.max(db.status().segment_bytes);
    }
    assert_eq!(db.view().table("meters").unwrap().count().unwrap(), 6_400);
    assert!(most_memory < 512 << 10, "{most_memory} bytes of memory for 6,400 rows");
    db.compact().unwrap();
    let once = db.status().segment_bytes;
    assert!(most_disk <= 16 * once, "{most_disk} bytes on disk, {once} once");
}

#[test]
fn long_texts_are_merged_and_read_in_small_pieces() {
    const TEXT_BYTES: usize = 3_000;
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let schema = db.create_table(&table.field("text", ColumnType::Utf8)).unwrap();
    let text = |ts: i64| format!("{ts:0>TEXT_BYTES$}");
    for part in 0..3 {
        let mut rows = Rows::new(&schema);
        for ts in part * 3_000..(part + 1) * 3_000 {
            rows.push(&[Value::Int(7), Value::Int(ts), Value::Text(text(ts))]).unwrap();
        }
        db.commit(Batch::new().with_rows(rows)).unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    let directory = format!("segments/{}", schema.id);
    let mut rows = 0;
    for name in storage.list(&directory).unwrap() {
        let file = storage.read(&format!("{directory}/{name}")).unwrap();
        let bytes = file.read_at(0, file.len_bytes() as usize).unwrap();
        let footer = ParquetMetaDataReader::new().parse_and_finish(&bytes).unwrap();
        for group in footer.row_groups() {
            // 12 MiB hold this many rows with two copies of their texts.
            assert!(group.num_rows() < 2_100, "{} rows in a row group", group.num_rows());
            rows += group.num_rows();
        }
    }
    assert_eq!(rows, 9_000);
    let mut ts = 0;
    for batch in db.view().table("t").unwrap().scan(&ScanRequest::all()).unwrap() {
        let batch = batch.unwrap();
        assert!(batch.num_rows() * TEXT_BYTES <= 8 << 20, "{} rows in a batch", batch.num_rows());
        for found in batch.column(2).as_string::<i32>() {
            assert_eq!(found, Some(text(ts).as_str()));
            ts += 1;
        }
    }
    assert_eq!(ts, 9_000);
    let last = db.view().table("t").unwrap().last_rows(&ScanRequest::all()).unwrap().next().unwrap().unwrap();
    assert_eq!(last.column(2).as_string::<i32>().value(0), text(8_999));
}

#[test]
fn an_update_changes_its_columns_and_nothing_else() {
    let (db, _) = with_clock(&MemoryStorage::new(), 0);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let schema = db.create_table(&table.field("v", ColumnType::Int64).field("s", ColumnType::Utf8)).unwrap();
    let mut rows = Rows::new(&schema);
    (0..100).for_each(|n| rows.push(&[Value::Int(n % 2), Value::Int(n), Value::Int(n), "x".into()]).unwrap());
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.flush().unwrap();
    let some = ScanRequest::all().container(&[Value::Int(1)]).from_time(50);
    let (rows, _) = db.update("t", &some, &[("s", Value::Null)]).unwrap();
    assert_eq!(rows, 25);
    let view = db.view();
    let batch = view.table("t").unwrap().scan(&ScanRequest::all()).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.num_rows(), 100);
    assert_eq!(batch.column(3).null_count(), 25);
    let sum = view.table("t").unwrap().container(&[Value::Int(1)]).unwrap().aggregate("v", 0, 100).unwrap().sum;
    assert_eq!(sum, Some(2_500.0));
    let nowhere = ScanRequest::all().container(&[Value::Int(5)]);
    assert_eq!(db.update("t", &nowhere, &[("v", Value::Int(1))]).unwrap().0, 0);
    for (column, value) in [("ts", Value::Int(1)), ("none", Value::Null), ("v", "text".into())] {
        let error = db.update("t", &some, &[(column, value)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    }
}

#[test]
fn closing_does_not_wait_for_a_throttled_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { compaction_bytes_per_s: 1, ..Settings::default() };
    let db = Database::open_with(Io::files(directory.path()), settings).unwrap();
    create(&db, "t");
    for flush in 0..10 {
        write(&db, "t", (0..2_000).map(|n| (n % 7, flush * 2_000 + n, n)));
        db.flush().unwrap();
    }
    // The merge writes its only row group and then waits for hours.
    while db.status().compacting.is_none() {
        std::thread::yield_now();
    }
    let status = db.status();
    assert!(status.compaction_debt_bytes > 0 || status.segments < 10, "{status:?}");
    // If closing waited for the merge, it would take hours.
    db.close().unwrap();
    let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    assert_eq!(read(&db).len(), 20_000);
    db.close().unwrap();
    assert!(check(&Io::files(directory.path()), |_, _| ()).unwrap().problems.is_empty());
}

#[test]
fn writers_wait_when_compaction_is_far_behind() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        compaction_bytes_per_s: 1,
        memtable_bytes: 64 << 10,
        write_wait_ms: 100,
        durability: Durability::Os,
        ..Settings::default()
    };
    let db = Database::open_with(Io::files(directory.path()), settings).unwrap();
    create(&db, "t");
    let schema = db.tables().remove(0);
    let mut n = 0;
    let refused = loop {
        let mut rows = Rows::new(&schema);
        for _ in 0..1_000 {
            rows.push(&[Value::Int(n % 7), Value::Int(n % DAY_S), Value::Int(n)]).unwrap();
            n += 1;
        }
        match db.commit(Batch::new().with_rows(rows)) {
            Ok(_) => assert!(n < 10_000_000, "nothing holds the writer back: {:?}", db.status()),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Retry);
    assert!(refused.to_string().contains("compaction cannot keep up"), "{refused}");
    assert!(db.status().held_back && db.status().segments < 80, "{:?}", db.status());
    // A requested flush is not held back, and neither is the one on close.
    db.flush().unwrap();
    db.close().unwrap();
    let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    assert_eq!(read(&db).len() as i64, (n - 1_000).min(7 * DAY_S));
    // Without the throttle, compaction catches up.
    while db.status().compaction_debt_bytes > 0 {
        std::thread::yield_now();
    }
    assert!(!db.status().held_back);
}

#[test]
fn columns_are_renamed_widened_and_dropped_while_old_segments_stay() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let table =
        table.field("small", ColumnType::Int16).field("single", ColumnType::Float32).field("gone", ColumnType::Utf8);
    let schema = db.create_table(&table).unwrap();
    let mut rows = Rows::new(&schema);
    for n in 0..100 {
        rows.push(&[Value::Int(1), Value::Int(n), Value::Int(n - 50), Value::Float(0.5), "x".into()]).unwrap();
    }
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.flush().unwrap();
    db.widen_column("t", "small", ColumnType::Float64).unwrap();
    db.widen_column("t", "single", ColumnType::Float64).unwrap();
    db.drop_column("t", "gone").unwrap();
    db.rename_column("t", "small", "large").unwrap();
    db.rename_table("t", "renamed").unwrap();
    let again = db.add_column(
        "renamed",
        &fleetdb_engine::ColumnDefinition { name: "gone".into(), column_type: ColumnType::Utf8, nullable: true },
        fleetdb_engine::Role::Field,
    );
    again.unwrap();
    for error in [
        db.widen_column("renamed", "large", ColumnType::Int64).unwrap_err(),
        db.widen_column("renamed", "id", ColumnType::Float64).unwrap_err(),
        db.drop_column("renamed", "ts").unwrap_err(),
        db.rename_column("renamed", "large", "id").unwrap_err(),
        db.rename_table("t", "u").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    }
    let check_rows = |db: &Database| {
        let view = db.view();
        let table = view.table("renamed").unwrap();
        let container = table.container(&[Value::Int(1)]).unwrap();
        let sums = container.aggregate("large", 0, 98).unwrap();
        assert_eq!((sums.count, sums.sum, sums.min, sums.max), (99, Some(-99.0), Some(-50.0), Some(48.0)));
        assert_eq!(container.aggregate("large", i64::MIN, i64::MAX).unwrap().sum, Some(-50.0));
        let batch = table.scan(&ScanRequest::all()).unwrap().next().unwrap().unwrap();
        assert_eq!(batch.column(2).as_primitive::<arrow::datatypes::Float64Type>().value(99), 49.0);
        assert_eq!(batch.column(3).as_primitive::<arrow::datatypes::Float64Type>().value(0), 0.5);
        assert_eq!(batch.column_by_name("gone").unwrap().null_count(), 100, "a new column of an old name is new");
    };
    check_rows(&db);
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    check_rows(&db);
    db.compact().unwrap();
    check_rows(&db);
}

#[test]
fn times_get_a_zone_while_their_rows_stay() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Millisecond);
    let schema = db.create_table(&table.field("seen", ColumnType::Timestamp(Unit::Second))).unwrap();
    let mut rows = Rows::new(&schema);
    (0..100).for_each(|n| rows.push(&[Value::Int(1), Value::Int(n), Value::Int(n * 10)]).unwrap());
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.flush().unwrap();
    // This row is only in the log.
    let mut rows = Rows::new(&schema);
    rows.push(&[Value::Int(1), Value::Int(100), Value::Int(1_000)]).unwrap();
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.widen_column("t", "ts", ColumnType::TimestampUtc(Unit::Millisecond)).unwrap();
    db.widen_column("t", "seen", ColumnType::TimestampUtc(Unit::Second)).unwrap();
    for (column, wrong) in [
        ("ts", ColumnType::TimestampUtc(Unit::Nanosecond)),
        ("seen", ColumnType::TimestampUtc(Unit::Second)),
        ("seen", ColumnType::Int64),
        ("id", ColumnType::TimestampUtc(Unit::Second)),
    ] {
        assert_eq!(db.widen_column("t", column, wrong).unwrap_err().kind(), ErrorKind::Input, "{column} {wrong}");
    }
    // Batches with another zone, another unit, or no zone.
    let array = |zone: Option<&str>, ms: i64| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from(vec![ms]).with_timezone_opt(zone))
    };
    for (ms, zone) in [(101, None), (102, Some("+00:00")), (103, Some("+02:00"))] {
        let id: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let columns = [("id", id), ("ts", array(zone, ms)), ("seen", array(zone, ms * 10_000))];
        db.commit(Batch::new().with("t", RecordBatch::try_from_iter(columns).unwrap())).unwrap();
    }
    let check_rows = |db: &Database| {
        let view = db.view();
        let table = view.table("t").unwrap();
        let mut next = 0;
        for batch in table.scan(&ScanRequest::all()).unwrap() {
            let batch = batch.unwrap();
            assert_eq!(batch.column(1).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into())));
            assert_eq!(batch.column(2).data_type(), &DataType::Timestamp(TimeUnit::Second, Some("+00:00".into())));
            let (ts, seen) = (
                batch.column(1).as_primitive::<TimestampMillisecondType>(),
                batch.column(2).as_primitive::<TimestampSecondType>(),
            );
            for row in 0..batch.num_rows() {
                assert_eq!((ts.value(row), seen.value(row)), (next, next * 10));
                next += 1;
            }
        }
        assert_eq!(next, 104);
        let container = table.container(&[Value::Int(1)]).unwrap();
        let last = container.last().unwrap().unwrap();
        assert_eq!(last.column(1).as_primitive::<TimestampMillisecondType>().value(0), 103);
    };
    check_rows(&db);
    let (crashed, _) = with_clock(&storage.crash(), 0);
    check_rows(&crashed);
    db.compact().unwrap();
    check_rows(&db);
    // Other Parquet readers see it as well.
    let schema = db.tables().remove(0);
    let directory = format!("segments/{}", schema.id);
    let name = storage.list(&directory).unwrap().remove(0);
    let file = storage.read(&format!("{directory}/{name}")).unwrap();
    let bytes = file.read_at(0, file.len_bytes() as usize).unwrap();
    let footer = ParquetMetaDataReader::new().parse_and_finish(&bytes).unwrap();
    let ts = footer.file_metadata().schema_descr().column(1);
    assert_eq!(ts.logical_type_ref(), Some(&LogicalType::timestamp(true, ParquetUnit::MILLIS)));
    // And back.
    db.widen_column("t", "ts", ColumnType::Timestamp(Unit::Millisecond)).unwrap();
    let batch = db.view().table("t").unwrap().scan(&ScanRequest::all()).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.column(1).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, None));
    db.close().unwrap();
    assert!(check(&Io::memory(storage), |_, _| ()).unwrap().problems.is_empty());
}

#[test]
fn a_backup_holds_what_was_acknowledged_and_grows_by_what_is_new() {
    let (source, backup, restored) = (MemoryStorage::new(), MemoryStorage::new(), MemoryStorage::new());
    let (db, _) = with_clock(&source, 0);
    create(&db, "t");
    write(&db, "t", (0..1_000).map(|n| (n % 3, n, n)));
    let to = Io::memory(Arc::clone(&backup));
    let first = db.backup(&to, |_, _| ()).unwrap();
    assert_eq!((first.segments, first.kept_bytes), (1, 0));
    write(&db, "t", (0..1_000).map(|n| (n % 3, DAY_S + n, n)));
    let second = db.backup(&to, |_, _| ()).unwrap();
    assert_eq!((second.segments, second.kept_bytes), (2, first.bytes));
    db.compact().unwrap();
    write(&db, "t", [(9, 9, 9)]);
    let from = Io::memory(Arc::clone(&backup));
    let (report, checked) = restore(&from, &Io::memory(Arc::clone(&restored)), |_, _| ()).unwrap();
    assert_eq!((report.segments, checked.rows), (2, 2_000));
    let (copy, _) = with_clock(&restored, 0);
    assert_eq!(read(&copy).len(), 2_000);
    drop(copy);
    // A foreign directory, a backup that was written to, and a damaged backup are refused.
    let error = restore(&from, &Io::memory(Arc::clone(&restored)), |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("already contains a database"), "{error}");
    let other = MemoryStorage::new();
    other.create("letter.txt").unwrap().write(b"dear").unwrap();
    let error = db.backup(&Io::memory(other), |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    let (copy, _) = with_clock(&backup, 0);
    write(&copy, "t", [(8, 8, 8)]);
    std::mem::forget(copy);
    let written_to = backup.crash();
    let error = db.backup(&Io::memory(written_to), |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("written to"), "{error}");
    let damaged = MemoryStorage::new();
    db.backup(&Io::memory(Arc::clone(&damaged)), |_, _| ()).unwrap();
    let name = damaged.list("segments/0").unwrap()[0].clone();
    damaged.tamper(&format!("segments/0/{name}"), |bytes| bytes[100] ^= 1);
    let error = restore(&Io::memory(damaged), &Io::memory(MemoryStorage::new()), |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[test]
fn a_backup_on_the_same_disk_is_links_and_keeps_files_that_compaction_replaces() {
    let (source, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = Database::open_with(Io::files(source.path()), Settings::default()).unwrap();
    create(&db, "t");
    for part in 0..3 {
        write(&db, "t", (0..1_000).map(|n| (n % 3, part * 1_000 + n, n)));
        db.flush().unwrap();
    }
    let report = db.backup(&Io::files(backup.path()), |_, _| ()).unwrap();
    assert_eq!((report.segments, report.copied_bytes), (3, 0));
    assert!(report.linked_bytes > 0);
    db.compact().unwrap();
    let report = db.backup(&Io::files(backup.path()), |_, _| ()).unwrap();
    assert_eq!(report.segments, 1);
    let files = std::fs::read_dir(backup.path().join("segments/0")).unwrap().count();
    assert_eq!(files, 1, "what the backup does not list any more is gone");
    db.close().unwrap();
    assert!(check(&Io::files(backup.path()), |_, _| ()).unwrap().problems.is_empty());
}

/// Rows per batch of the writing process.
const BATCH_ROWS: i64 = 50;

#[test]
fn what_an_old_view_keeps_is_of_the_memory_for_queries() {
    let (db, _) = with_clock(&MemoryStorage::new(), 0);
    create(&db, "t");
    write(&db, "t", (0..10_000).map(|n| (n % 7, n, n)));
    let (memory, view) = (db.query_memory(), db.view());
    let held_bytes = db.status().memtable_bytes;
    assert_eq!((memory.used_bytes(), times(view.table("t").unwrap()).len()), (0, 10_000));
    db.flush().unwrap();
    assert_eq!((memory.used_bytes(), db.status().memtable_bytes < held_bytes), (held_bytes, true));
    drop(view);
    assert_eq!(memory.used_bytes(), 0);
}

/// Not a test on its own: the process that writes while others read.
#[test]
fn the_writer_beside_readers() {
    let Ok(directory) = std::env::var("FLEETDB_WRITER_DIRECTORY") else { return };
    let settings = Settings { memtable_bytes: 64 << 10, ..Settings::default() };
    let db = Database::open_with(Io::files(directory), settings).unwrap();
    create(&db, "t");
    let mut out = std::io::stdout().lock();
    for batch in 0.. {
        write(&db, "t", (0..BATCH_ROWS).map(|n| (n % 7, batch * BATCH_ROWS + n, n)));
        if writeln!(out, "ack {batch}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

#[test]
fn readers_see_whole_batches_and_everything_acknowledged_while_another_process_writes() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_writer_beside_readers", "--nocapture"])
        .env("FLEETDB_WRITER_DIRECTORY", directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut next_ack = || -> i64 {
        loop {
            let line = lines.next().unwrap().unwrap();
            if let Some(batch) = line.strip_prefix("ack ") {
                return batch.parse().unwrap();
            }
        }
    };
    next_ack();
    let reader = Reader::open(Io::files(directory.path()), Settings::default()).unwrap();
    let (mut before, mut segments) = (0, 0);
    for _ in 0..150 {
        // The pipe holds some thousand lines, so the writer runs ahead of what is read here.
        let acknowledged = (0..20).map(|_| next_ack()).last().unwrap();
        reader.refresh().unwrap();
        let view = reader.view();
        let table = view.table("t").unwrap();
        let rows = table.count().unwrap() as i64;
        assert_eq!(rows % BATCH_ROWS, 0, "batches are whole");
        assert!(rows >= (acknowledged + 1) * BATCH_ROWS, "{rows} rows, {acknowledged} batches acknowledged");
        assert!(rows >= before, "nothing vanishes");
        assert_eq!(table.scan(&ScanRequest::all()).unwrap().map(|b| b.unwrap().num_rows() as i64).sum::<i64>(), rows);
        (before, segments) = (rows, segments.max(table.segments()));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(segments > 0, "the writer flushed meanwhile");
    let missing = tempfile::tempdir().unwrap();
    let Err(error) = Reader::open(Io::files(missing.path()), Settings::default()) else { panic!("nothing is there") };
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn a_removed_lock_file_lets_no_second_process_write() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open_with(Io::files(directory.path()), Settings::default());
    let db = open().unwrap();
    create(&db, "t");
    write(&db, "t", [(1, 0, 1)]);
    std::fs::remove_file(directory.path().join("LOCK")).unwrap();
    let second = open().err().unwrap();
    assert!(
        second.kind() == ErrorKind::Retry && second.to_string().contains("open for writing in another process"),
        "{second}"
    );
    // Not even when the file exists again: it is not the one that is locked.
    std::fs::write(directory.path().join("LOCK"), "").unwrap();
    let error = db.flush().unwrap_err().to_string();
    assert!(error.contains("LOCK was removed or replaced"), "{error}");
    let schema = db.tables().remove(0);
    let mut rows = Rows::new(&schema);
    rows.push(&[Value::Int(2), Value::Int(0), Value::Int(2)]).unwrap();
    let error = db.commit(Batch::new().with_rows(rows)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("LOCK was removed or replaced"), "{error}");
    drop(db);
    let again = open().unwrap();
    assert_eq!(again.view().table("t").unwrap().count().unwrap(), 1, "what was acknowledged is there");
    write(&again, "t", [(2, 0, 2)]);
    again.close().unwrap();
}

#[test]
fn a_newest_log_file_that_was_removed_or_cut_is_noticed() {
    type Change = fn(&MemoryStorage, &str);
    let changes: [(&str, Change); 3] = [
        ("is missing", |storage, name| storage.remove(name).unwrap()),
        ("is empty", |storage, name| storage.tamper(name, Vec::clear)),
        ("the log ends with batch 0, but batch 2", |storage, name| storage.tamper(name, |bytes| bytes.truncate(24))),
    ];
    for is_closed in [true, false] {
        for (expected, change) in &changes {
            let storage = MemoryStorage::new();
            let db = Database::open_with(Io::memory(Arc::clone(&storage)), Settings::default()).unwrap();
            create(&db, "t");
            write(&db, "t", [(1, 0, 1)]);
            write(&db, "t", [(2, 0, 2)]);
            let storage = if is_closed {
                db.close().unwrap();
                storage
            } else {
                storage.crash()
            };
            let name = format!("wal/{}", storage.list("wal").unwrap().last().unwrap());
            change(&storage, &name);
            let io = Io::memory(Arc::clone(&storage));
            // Only a clean close records how much was written since the open.
            if !is_closed && expected.starts_with("the log ends") {
                Database::open_with(io, Settings::default()).unwrap();
                continue;
            }
            let error = Database::open_with(io.clone(), Settings::default()).err().unwrap();
            assert!(error.kind() == ErrorKind::Damaged && error.to_string().contains(expected), "{error}");
            let report = check(&io, |_, _| ()).unwrap();
            assert!(report.problems.iter().any(|problem| problem.contains(expected)), "{:?}", report.problems);
            assert!(fleetdb_engine::accept_loss(&io).unwrap());
            let db = Database::open_with(io, Settings::default()).unwrap();
            write(&db, "t", [(3, 0, 3)]);
            assert_eq!(db.view().table("t").unwrap().count().unwrap(), 1);
        }
    }
    // Flushed rows are not missed, and the manifest's log mark follows the flushes.
    let storage = MemoryStorage::new();
    let db = Database::open_with(Io::memory(Arc::clone(&storage)), Settings::default()).unwrap();
    create(&db, "t");
    write(&db, "t", [(1, 0, 1)]);
    db.flush().unwrap();
    let before = storage.crash();
    Database::open_with(Io::memory(Arc::clone(&before)), Settings::default()).unwrap();
    let name = format!("wal/{}", before.list("wal").unwrap().last().unwrap());
    before.remove(&name).unwrap();
    assert!(Database::open_with(Io::memory(before), Settings::default()).is_err());
}

#[test]
fn files_are_their_owners_and_a_backup_never_goes_into_the_database() {
    use std::os::unix::fs::PermissionsExt;
    fn modes(directory: &std::path::Path, found: &mut Vec<(String, u32)>) {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let metadata = entry.metadata().unwrap();
            found.push((entry.path().display().to_string(), metadata.permissions().mode() & 0o777));
            if metadata.is_dir() {
                modes(&entry.path(), found);
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("db");
    let db = Database::open_with(Io::files(&place), Settings::default()).unwrap();
    create(&db, "t");
    write(&db, "t", [(1, 0, 1)]);
    db.flush().unwrap();
    let mut found = Vec::new();
    modes(directory.path(), &mut found);
    assert!(found.len() > 6, "{found:?}");
    for (path, mode) in found {
        let is_file = path.ends_with("LOCK") || path.rsplit('/').next().unwrap().contains('.');
        assert_eq!(mode, if is_file { 0o600 } else { 0o700 }, "{path}");
    }
    std::os::unix::fs::symlink(&place, directory.path().join("link")).unwrap();
    for inside in [place.clone(), directory.path().join("link"), place.join("backup"), place.join("../db")] {
        let error = db.backup(&Io::files(&inside), |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("the database's own directory"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Input);
    }
    db.backup(&Io::files(directory.path().join("db-backup")), |_, _| ()).unwrap();
}
