//! Retention, deletes and updates, and the space that they free.

use super::{DAY_S, create, read, with_clock, write};
use arrow::array::AsArray;
use arrow::datatypes::TimestampSecondType;
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{
    Batch, ColumnType, Database, ErrorKind, Rows, ScanRequest, Settings, TableDefinition, Unit, Value,
};
use parquet::file::metadata::ParquetMetaDataReader;
use std::sync::Arc;

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
fn newest_rows_with_long_texts_come_in_small_batches() {
    const TEXT_BYTES: usize = 1 << 20;
    let (db, _) = with_clock(&MemoryStorage::new(), 0);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let schema = db.create_table(&table.field("s", ColumnType::Utf8)).unwrap();
    let text = |id: i64| format!("{id:02}{}", "x".repeat(TEXT_BYTES - 2));
    for id in 0..30 {
        let mut rows = Rows::new(&schema);
        // With 32 rows or more in a container, the index has its newest one.
        (0..40).for_each(|ts| rows.push(&[Value::Int(id), Value::Int(ts), "short".into()]).unwrap());
        rows.push(&[Value::Int(id), Value::Int(40), text(id).as_str().into()]).unwrap();
        db.commit(Batch::new().with_rows(rows)).unwrap();
    }
    for round in 0..2 {
        let mut id = 0;
        for batch in db.view().table("t").unwrap().last_rows(&ScanRequest::all()).unwrap() {
            let batch = batch.unwrap();
            assert!(batch.num_rows() * TEXT_BYTES <= 16 << 20, "{} rows in a batch", batch.num_rows());
            for found in batch.column(2).as_string::<i32>() {
                assert_eq!(found, Some(text(id).as_str()), "round {round}");
                id += 1;
            }
        }
        assert_eq!(id, 30);
        db.flush().unwrap();
    }
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
