//! Golden directories: this version reads databases written by earlier versions. `tests/compat/v1`
//! has format version 1.
//!
//! `FLEETDB_MAKE_COMPAT=<empty directory>` writes one with this version. A committed directory
//! never changes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that copies directories")]

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float64Type, Int64Type, TimestampSecondType};
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::Io;
use fleetdb_engine::{
    Batch, ColumnDefinition, ColumnType, Database, Durability, Reader, Role, Rows, ScanRequest, Settings,
    TableDefinition, Unit, Value, View,
};
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../tests/compat/v1")
}

/// The float value of reading `n`.
fn value(n: i64) -> f64 {
    (n * 37 % 101) as f64 / 4.0
}

fn write(directory: &Path) {
    let db = Database::open_with(Io::files(directory), Settings::default()).unwrap();
    let series = TableDefinition::new("readings").key("site", ColumnType::Utf8).key("device", ColumnType::Int64);
    let series = series.time("ts", Unit::Second).field("small", ColumnType::Int32).field("text", ColumnType::Utf8);
    let series = series.field("gone", ColumnType::Boolean);
    let series = TableDefinition { partition_seconds: Some(1_000), ..series };
    let schema = db.create_table(&series).unwrap();
    let items = TableDefinition::new("devices").key("device", ColumnType::Int64).field("name", ColumnType::Utf8);
    let items = db.create_table(&items).unwrap();
    let mut rows = Rows::new(&schema);
    for n in 0..12_000 {
        let site = if n % 7 == 0 { Value::Null } else { Value::Text(format!("site {}", n % 2)) };
        let text = if n % 5 == 0 { Value::Null } else { Value::Text(format!("text {}", n % 13)) };
        rows.push(&[site, Value::Int(n % 3), Value::Int(n), Value::Int(n % 1_000), text, Value::Boolean(n % 2 == 0)])
            .unwrap();
    }
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.flush().unwrap();
    db.widen_column("readings", "small", ColumnType::Float64).unwrap();
    db.drop_column("readings", "gone").unwrap();
    db.rename_column("readings", "small", "value").unwrap();
    let extra =
        ColumnDefinition { name: "extra".into(), column_type: ColumnType::Int64, nullable: true, default: None };
    let schema = db.add_column("readings", &extra, Role::Field).unwrap();
    // In the log: a delete, new rows, a collection.
    let mut rows = Rows::new(&schema);
    for n in 12_000..12_010 {
        rows.push(&["site 1".into(), Value::Int(1), Value::Int(n), Value::Float(value(n)), Value::Null, Value::Int(n)])
            .unwrap();
    }
    let mut devices = Rows::new(&items);
    (0..3).for_each(|n| devices.push(&[Value::Int(n), Value::Text(format!("device {n}"))]).unwrap());
    let batch = Batch::new()
        .delete("readings", Some(&["site 0".into(), Value::Int(0)]), ..6_000)
        .with_rows(rows)
        .with_rows(devices);
    db.commit(batch.with_durability(Durability::Sync)).unwrap();
    db.close().unwrap();
}

/// Checks that everything [`write`] wrote is there.
fn verify(view: &View) {
    let mut count = 0;
    for batch in view.table("readings").unwrap().scan(&ScanRequest::all()).unwrap() {
        let batch = batch.unwrap();
        let (site, device) = (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int64Type>());
        let (ts, value_of) =
            (batch.column(2).as_primitive::<TimestampSecondType>(), batch.column(3).as_primitive::<Float64Type>());
        let (text, extra) = (batch.column(4).as_string::<i32>(), batch.column(5).as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let n = ts.value(row);
            count += 1;
            if n >= 12_000 {
                assert_eq!((value_of.value(row), extra.value(row)), (value(n), n));
                assert!(text.is_null(row));
                continue;
            }
            assert_eq!(site.is_null(row), n % 7 == 0);
            assert_eq!((device.value(row), value_of.value(row)), (n % 3, (n % 1_000) as f64));
            assert!(extra.is_null(row));
            assert_eq!(text.is_null(row), n % 5 == 0);
            assert!(text.is_null(row) || text.value(row) == format!("text {}", n % 13));
            assert!(!(n < 6_000 && n % 7 != 0 && n % 2 == 0 && n % 3 == 0), "row {n} was deleted");
        }
    }
    let deleted = (0..6_000).filter(|n| n % 7 != 0 && n % 2 == 0 && n % 3 == 0).count();
    assert_eq!(count, 12_010 - deleted);
    assert_eq!(view.table("devices").unwrap().count().unwrap(), 3);
    let last: usize = view
        .table("readings")
        .unwrap()
        .last_rows(&ScanRequest::all())
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert_eq!(last, 9);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_database_of_format_version_1_is_read_and_written() {
    if let Ok(directory) = std::env::var("FLEETDB_MAKE_COMPAT") {
        write(Path::new(&directory));
    }
    verify(&Reader::open(Io::files(golden()), Settings::default()).unwrap().view());
    assert!(check(&Io::files(golden()), |_, _| ()).unwrap().problems.is_empty());
    let directory = tempfile::tempdir().unwrap();
    copy(&golden(), directory.path());
    let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    verify(&db.view());
    db.compact().unwrap();
    verify(&db.view());
    db.close().unwrap();
}
