//! Columns whose names and types change while old segments stay.

use super::with_clock;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType, TimestampSecondType};
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{
    Batch, ColumnType, Database, Decimal, ErrorKind, Rows, ScanRequest, TableDefinition, Unit, Value,
};
use parquet::basic::{LogicalType, TimeUnit as ParquetUnit};
use parquet::file::metadata::ParquetMetaDataReader;
use std::sync::Arc;

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
        &fleetdb_engine::ColumnDefinition {
            name: "gone".into(),
            column_type: ColumnType::Utf8,
            nullable: true,
            default: None,
        },
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
fn decimal_numbers_of_any_number_of_digits_come_back_from_segments() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let digits = (1..=18).flat_map(|precision| [(precision, 0), (precision, precision)]);
    let table = digits.clone().fold(table, |table, (precision, scale)| {
        table.field(&format!("n{precision}_{scale}"), ColumnType::Decimal { precision, scale })
    });
    let schema = db.create_table(&table).unwrap();
    let row: Vec<Value> = [Value::Int(1), Value::Int(1)]
        .into_iter()
        .chain(
            digits
                .map(|(precision, scale)| Value::Decimal(Decimal { unscaled: 10i64.pow(precision.into()) - 1, scale })),
        )
        .collect();
    let mut rows = Rows::new(&schema);
    rows.push(&row).unwrap();
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    db.flush().unwrap();
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    assert_eq!(db.container("t", &[Value::Int(1)]).unwrap().last_row().unwrap(), Some(row));
    assert!(check(&Io::memory(Arc::clone(&storage)), |_, _| ()).unwrap().problems.is_empty());
}
