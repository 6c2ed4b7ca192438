//! Columns of arrays: as written, in segments, after compaction and a restart.

use super::with_clock;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, RecordBatch, TimestampSecondArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::DataType;
use fleetdb_engine::inspect::check;
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{
    ArrayElement, ArrayValue, Batch, ColumnType, Database, Rows, ScanRequest, TableDefinition, Unit, Value,
};
use parquet::file::metadata::ParquetMetaDataReader;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;

fn create(db: &Database) {
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let with_field = |table: TableDefinition, element| table.field(&format!("{element:?}"), ColumnType::Array(element));
    db.create_table(&ArrayElement::ALL.into_iter().fold(table, with_field)).unwrap();
}

/// Random arrays: NULL, empty, short and some long ones, of few or of many distinct elements.
fn arrays(element: ArrayElement, rows: usize, random: &mut impl Rng) -> ArrayRef {
    let distinct = if random.random() { 5 } else { 30_000 };
    let (mut numbers, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let len = match random.random_range(0..100) {
            0..10 => 0,
            99 => random.random_range(0..2_000),
            _ => random.random_range(0..8),
        };
        let is_valid = random.random_ratio(9, 10);
        let len = if is_valid { len } else { 0 };
        let number = |_| random.random_ratio(5, 6).then(|| random.random_range(-distinct..distinct));
        numbers.extend((0..len).map(number));
        lengths.push(len);
        valid.push(is_valid);
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
    let values = match element {
        ArrayElement::Boolean => cast(&numbers, &DataType::Boolean).unwrap(),
        element => cast(&numbers, &element.column_type().to_arrow()).unwrap(),
    };
    let DataType::List(field) = ColumnType::Array(element).to_arrow() else { panic!("a list") };
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), values, Some(NullBuffer::from(valid))))
}

fn read(db: &Database) -> RecordBatch {
    let view = db.view();
    let table = view.table("t").unwrap();
    let batches: Vec<_> = table.scan(&ScanRequest::all()).unwrap().map(Result::unwrap).collect();
    concat_batches(&table.schema().to_arrow(), &batches).unwrap()
}

#[test]
fn arrays_of_every_type_come_back() {
    let seed = std::env::var("FLEETDB_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    println!("FLEETDB_SEED={seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    create(&db);
    let mut expected = Vec::new();
    for (number, rows) in [9_000, 50, 3_000].into_iter().enumerate() {
        let start = number as i64 * 10_000;
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1; rows]));
        let times: ArrayRef = Arc::new(TimestampSecondArray::from_iter_values(start..start + rows as i64));
        let mut columns = vec![ids, times];
        columns.extend(ArrayElement::ALL.map(|element| arrays(element, rows, &mut random)));
        let batch = RecordBatch::try_new(db.table("t").unwrap().to_arrow(), columns).unwrap();
        db.commit(Batch::new().with("t", batch.clone())).unwrap();
        expected.push(batch);
        let expected = concat_batches(&expected[0].schema(), &expected).unwrap();
        assert_eq!(read(&db), expected, "in the memtable");
        if number < 2 {
            db.flush().unwrap();
            assert_eq!(read(&db), expected, "in a segment");
        }
    }
    let expected = concat_batches(&expected[0].schema(), &expected).unwrap();
    db.compact().unwrap();
    assert_eq!(read(&db), expected, "after compaction");
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    assert_eq!(read(&db), expected, "after a restart");
    assert!(check(&Io::memory(Arc::clone(&storage)), |_, _| ()).unwrap().problems.is_empty());
    let last = db.container("t", &[Value::Int(1)]).unwrap().last_row().unwrap().unwrap();
    let of_last = expected.column(3).as_list::<i32>().slice(expected.num_rows() - 1, 1);
    match &last[3] {
        Value::Array(array) => assert_eq!(array.values().len(), of_last.value_length(0) as usize),
        other => assert_eq!((other, of_last.null_count()), (&Value::Null, 1)),
    }
}

#[test]
fn arrays_are_widened_by_admission_and_refused_as_keys() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    create(&db);
    let of = |values: &[i64], element: ArrayElement| {
        let values: Vec<Value> = values.iter().map(|value| Value::Int(*value)).collect();
        ArrayValue::new(element, &values)
    };
    let schema = db.table("t").unwrap();
    let row = |array: Value| {
        let mut row = vec![Value::Null; schema.columns.len()];
        (row[0], row[1], row[3]) = (Value::Int(1), Value::Int(1), array);
        row
    };
    let mut rows = Rows::new(&schema);
    rows.push(&row(Value::Array(of(&[1, -2], ArrayElement::Int16).unwrap()))).unwrap();
    let error = rows.push(&row(Value::Array(of(&[1], ArrayElement::Int64).unwrap()))).unwrap_err();
    assert!(error.to_string().contains("smallint[]"), "{error}");
    db.commit(Batch::new().with_rows(rows)).unwrap();
    // 64-bit integers that fit are taken, as single values are.
    let before = read(&db);
    let wide = cast(before.column(3), &ColumnType::Array(ArrayElement::Int64).to_arrow()).unwrap();
    let named = [("id", Arc::clone(before.column(0))), ("ts", Arc::clone(before.column(1))), ("Int16", wide)];
    db.commit(Batch::new().with("t", RecordBatch::try_from_iter(named).unwrap())).unwrap();
    assert_eq!(read(&db), before);
    let keyed = TableDefinition::new("k").key("id", ColumnType::Array(ArrayElement::Int32));
    let error = db.create_table(&keyed).unwrap_err();
    assert!(error.to_string().contains("is an array"), "{error}");
}

#[test]
fn equal_arrays_of_many_rows_are_written_in_several_row_groups() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let schema = db.create_table(&table.field("v", ColumnType::Array(ArrayElement::Float64))).unwrap();
    let array = ArrayValue::new(ArrayElement::Float64, &vec![Value::Float(0.5); 300]).unwrap();
    let mut rows = Rows::new(&schema);
    for time in 0..20_000 {
        rows.push(&[Value::Int(1), Value::Int(time), Value::Array(array.clone())]).unwrap();
    }
    db.commit(Batch::new().with_rows(rows)).unwrap();
    db.flush().unwrap();
    let segment = storage.list("segments/0").unwrap().pop().unwrap();
    let file = storage.read(&format!("segments/0/{segment}")).unwrap();
    let bytes = file.read_at(0, file.len_bytes() as usize).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&bytes).unwrap();
    assert!(metadata.num_row_groups() > 1, "{} row groups", metadata.num_row_groups());
    let view = db.view();
    let container = view.table("t").unwrap().container(&[Value::Int(1)]).unwrap();
    for time in [0, 10_000, 19_999] {
        assert_eq!(container.row(time).unwrap().unwrap()[2], Value::Array(array.clone()));
    }
}
