//! Golden directories: this version reads databases written by earlier versions. `tests/compat/v1` has
//! format version 1; `v2` has version 2, with decimal numbers, defaults, checks, foreign keys, numbers
//! a stored query, and columns of UUIDs, times of day and JSON; `v3` has version 3, with arrays.
//!
//! `FLEETDB_MAKE_COMPAT=<empty directory>` writes one with this version. A committed directory
//! never changes.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test that copies directories")]

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal128Type, Float64Type, Int64Type, TimestampSecondType};
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::Io;
use fleetdb_engine::{
    ArrayElement, ArrayValue, Batch, CheckDefinition, ColumnDefinition, ColumnId, ColumnType, Comparison, Condition,
    Database, Decimal, DefaultValue, Durability, ForeignKeyDefinition, Operand, Reader, Role, Rows, ScanRequest,
    Settings, StoredQuery, TableDefinition, TableSchema, Unit, Uuid, Value, View,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden(version: &str) -> PathBuf {
    let crate_root = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    Path::new(&crate_root).join("../../tests/compat").join(version)
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
    let samples = TableDefinition::new("samples").key("device", ColumnType::Uuid).time("ts", Unit::Second);
    let samples = samples.field("at", ColumnType::Time).field("doc", ColumnType::Jsonb).field("raw", ColumnType::Json);
    let samples = db.create_table(&samples).unwrap();
    write_samples(&db, &samples, 0..500);
    let bursts = TableDefinition::new("bursts").key("device", ColumnType::Int64).time("ts", Unit::Second);
    let bursts = bursts.field("numbers", ColumnType::Array(ArrayElement::Float64));
    let bursts = db.create_table(&bursts.field("words", ColumnType::Array(ArrayElement::Utf8))).unwrap();
    write_bursts(&db, &bursts, 0..500);
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
    define(&db);
    write_samples(&db, &samples, 500..510);
    write_bursts(&db, &bursts, 500..510);
    let batch = Batch::new()
        .delete("readings", Some(&["site 0".into(), Value::Int(0)]), ..6_000)
        .with_rows(rows)
        .with_rows(devices);
    db.commit(batch.with_durability(Durability::Sync)).unwrap();
    db.close().unwrap();
}

/// The values of a sample but its time.
fn sample(n: i64) -> [Value; 4] {
    let doc = if n % 3 == 0 { Value::Null } else { Value::Text(format!("{{\"n\": {n}}}")) };
    let owner = Uuid::from_u128(u128::from(n as u64 % 3) << 90);
    [Value::Uuid(owner), Value::Int(n * 1_000_000), doc, Value::Text(format!("[{n}, {n}]"))]
}

fn write_samples(db: &Database, schema: &Arc<TableSchema>, numbers: std::ops::Range<i64>) {
    let mut rows = Rows::new(schema);
    for n in numbers {
        let [device, at, doc, raw] = sample(n);
        rows.push(&[device, Value::Int(n), at, doc, raw]).unwrap();
    }
    db.commit(Batch::new().with_rows(rows).with_durability(Durability::Sync)).unwrap();
}

fn verify_samples(view: &View) {
    let samples = view.table("samples").unwrap();
    assert_eq!(samples.count().unwrap(), 510);
    for n in 0..510 {
        let [device, at, doc, raw] = sample(n);
        let row = samples.container(std::slice::from_ref(&device)).unwrap().row(n).unwrap();
        assert_eq!(row, Some(vec![device, Value::Int(n), at, doc, raw]));
    }
}

/// The arrays of a burst: NULL, empty, with NULLs in it.
fn burst(n: i64) -> [Value; 2] {
    let numbers: Vec<Value> =
        (0..n % 5).map(|place| if place == 3 { Value::Null } else { Value::Float(value(n + place)) }).collect();
    let words: Vec<Value> = (0..n % 3).map(|place| Value::Text(format!("word {}", (n + place) % 7))).collect();
    let numbers = Value::Array(ArrayValue::new(ArrayElement::Float64, &numbers).unwrap());
    let words = Value::Array(ArrayValue::new(ArrayElement::Utf8, &words).unwrap());
    [if n % 11 == 0 { Value::Null } else { numbers }, words]
}

fn write_bursts(db: &Database, schema: &Arc<TableSchema>, numbers: std::ops::Range<i64>) {
    let mut rows = Rows::new(schema);
    for n in numbers {
        let [numbers, words] = burst(n);
        rows.push(&[Value::Int(n % 2), Value::Int(n), numbers, words]).unwrap();
    }
    db.commit(Batch::new().with_rows(rows).with_durability(Durability::Sync)).unwrap();
}

fn verify_bursts(view: &View) {
    let bursts = view.table("bursts").unwrap();
    assert_eq!(bursts.count().unwrap(), 510);
    for n in 0..510 {
        let [numbers, words] = burst(n);
        let row = bursts.container(&[Value::Int(n % 2)]).unwrap().row(n).unwrap();
        assert_eq!(row, Some(vec![Value::Int(n % 2), Value::Int(n), numbers, words]));
    }
}

/// Adds what format version 2 has.
fn define(db: &Database) {
    let price = ColumnType::Decimal { precision: 10, scale: 4 };
    let tariffs = TableDefinition::new("tariffs").key("id", ColumnType::Int64).field("price", price);
    let mut tariffs = tariffs.field("device", ColumnType::Int64).field("name", ColumnType::Utf8);
    tariffs.columns[0].default = Some(DefaultValue::Number { always: true });
    tariffs.columns[3].default = Some(DefaultValue::Expression("'basic'".into()));
    tariffs.columns[3].nullable = false;
    let positive = Condition::Compare(Operand::Column(ColumnId(1)), Comparison::Greater, Operand::Integer(0));
    tariffs.checks.push(CheckDefinition { name: Some("positive".into()), condition: positive });
    let to_devices = ForeignKeyDefinition {
        name: None,
        columns: vec!["device".into()],
        table: "devices".into(),
        referred: Vec::new(),
    };
    tariffs.foreign_keys.push(to_devices);
    let schema = db.create_table(&tariffs).unwrap();
    let mut rows = Rows::new(&schema);
    for _ in 0..3 {
        let id = db.next_numbers(&schema, 1).unwrap();
        let price = Decimal { unscaled: id * 12_345, scale: 4 };
        rows.push(&[Value::Int(id), Value::Decimal(price), Value::Int(id), "basic".into()]).unwrap();
    }
    db.commit(Batch::new().with_rows(rows)).unwrap();
    let query = StoredQuery { text: "SELECT 1 AS one".into(), columns: vec![("one".into(), "Int64".into())] };
    db.store_query("ones", &query, false).unwrap();
}

/// Checks that everything [`define`] added is there.
fn verify_definitions(view: &View) {
    let tariffs = view.table("tariffs").unwrap();
    let schema = tariffs.schema();
    assert_eq!(schema.columns[0].default, Some(DefaultValue::Number { always: true }));
    assert_eq!(schema.columns[3].default, Some(DefaultValue::Expression("'basic'".into())));
    assert_eq!(schema.sql_of(&schema.checks[0].condition), "(price > 0)");
    assert_eq!(schema.foreign_keys[0].name, "tariffs_device_fkey");
    let rows: Vec<_> = tariffs.scan(&ScanRequest::all()).unwrap().map(Result::unwrap).collect();
    let prices: Vec<_> =
        rows.iter().flat_map(|rows| rows.column(1).as_primitive::<Decimal128Type>().values()).collect();
    assert_eq!(prices, [&12_345, &24_690, &37_035]);
    assert_eq!(view.stored_queries()["ones"].text, "SELECT 1 AS one");
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

/// Reads a golden directory, and opens, changes and opens again a copy of it.
fn is_read_and_written(golden: &Path, verify: impl Fn(&View)) {
    verify(&Reader::open(Io::files(golden), Settings::default()).unwrap().view());
    assert!(check(&Io::files(golden), |_, _| ()).unwrap().problems.is_empty());
    let directory = tempfile::tempdir().unwrap();
    copy(golden, directory.path());
    let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    verify(&db.view());
    db.compact().unwrap();
    verify(&db.view());
    db.close().unwrap();
    let db = Database::open_with(Io::files(directory.path()), Settings::default()).unwrap();
    verify(&db.view());
    let schema = db.tables().pop().unwrap();
    assert!(db.next_numbers(&schema, 1).unwrap() > 0);
}

#[test]
fn a_database_of_format_version_1_is_read_and_written() {
    is_read_and_written(&golden("v1"), verify);
}

fn verify_version_2(view: &View) {
    verify(view);
    verify_definitions(view);
    verify_samples(view);
}

#[test]
fn a_database_of_format_version_2_is_read_and_written() {
    is_read_and_written(&golden("v2"), verify_version_2);
}

#[test]
fn a_database_of_format_version_3_is_read_and_written() {
    if let Ok(directory) = std::env::var("FLEETDB_MAKE_COMPAT") {
        write(Path::new(&directory));
    }
    is_read_and_written(&golden("v3"), |view| {
        verify_version_2(view);
        verify_bursts(view);
    });
}
