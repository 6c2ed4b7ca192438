use super::*;
use crate::io::{Io, MemoryStorage};
use crate::scan::ScanRequest;
use crate::{ColumnDefinition, ColumnType, Database, Role, Settings, TableDefinition, Unit};
use arrow::array::{Int64Array, StringArray, StringViewArray};
use arrow::datatypes::Int64Type;

fn database() -> Database {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    for table in ["a", "b"] {
        let table = TableDefinition::new(table).key("id", ColumnType::Int64).time("ts", Unit::Second);
        db.create_table(&table.field("v", ColumnType::Int64).field("note", ColumnType::Utf8)).unwrap();
    }
    db
}

fn schema(db: &Database, table: &str) -> Arc<TableSchema> {
    db.tables().into_iter().find(|schema| schema.name == table).unwrap()
}

/// A row of container 1. Its note is NULL if `v` is odd.
fn row(schema: &Arc<TableSchema>, ts: i64, v: i64) -> Rows {
    let mut rows = Rows::new(schema);
    let note = if v % 2 == 0 { Value::from(format!("note {v}").as_str()) } else { Value::Null };
    rows.push(&[Value::Int(1), Value::Int(ts), Value::Int(v), note]).unwrap();
    rows
}

/// Values and notes in time order.
fn read(db: &Database, table: &str) -> Vec<(i64, Option<String>)> {
    let batches = db.view().table(table).unwrap().scan(&ScanRequest::all()).unwrap();
    let rows = batches.flat_map(|batch| {
        let batch = batch.unwrap();
        let (values, notes) = (batch.column(2).as_primitive::<Int64Type>(), batch.column(3).as_string::<i32>());
        let notes = notes.iter().map(|note| note.map(str::to_owned));
        values.values().iter().copied().zip(notes).collect::<Vec<_>>()
    });
    rows.collect()
}

#[test]
fn single_rows_of_a_table_come_together() {
    let db = database();
    let (a, b) = (schema(&db, "a"), schema(&db, "b"));
    let mut batch = Batch::new();
    for number in 0..1000 {
        batch.coalesce(Batch::new().with_rows(row(&a, number, number)).with_rows(row(&b, 0, number)));
    }
    assert_eq!((batch.parts.len(), batch.rows()), (2, 2000));
    assert_eq!(batch.bytes(), batch.parts.iter().map(Part::bytes).sum::<usize>());
    assert!(batch.bytes() < 2000 * 100, "{} bytes", batch.bytes());
    db.commit(batch).unwrap();
    let note = |v: i64| (v % 2 == 0).then(|| format!("note {v}"));
    assert_eq!(read(&db, "a"), (0..1000).map(|v| (v, note(v))).collect::<Vec<_>>());
    assert_eq!(read(&db, "b"), [(999, None)], "the last one of a key wins");
}

#[test]
fn rows_do_not_pass_those_that_they_cannot_be_copied_to() {
    let db = database();
    let a = schema(&db, "a");
    let mut batch = Batch::new().with_rows(row(&a, 0, 1)).with("a", row(&a, 0, 2).finish().unwrap());
    batch.coalesce(Batch::new().with_rows(row(&a, 0, 3)));
    batch.coalesce(Batch::new().with_rows(row(&a, 1, 4)));
    assert_eq!(batch.parts.len(), 3);
    db.commit(batch).unwrap();
    assert_eq!(read(&db, "a"), [(3, None), (4, Some("note 4".to_owned()))]);
    // The schema differs, so columns are found by name.
    let mut batch = Batch::new().with_rows(row(&a, 2, 5));
    let more =
        ColumnDefinition { name: "more".to_owned(), column_type: ColumnType::Int64, nullable: true, default: None };
    let now = db.add_column("a", &more, Role::Field).unwrap();
    let mut rows = Rows::new(&now);
    rows.push(&[Value::Int(1), Value::Int(3), Value::Int(6), Value::Null, Value::Int(9)]).unwrap();
    batch.coalesce(Batch::new().with_rows(rows));
    assert_eq!(batch.parts.len(), 2);
    db.commit(batch).unwrap();
    assert_eq!(read(&db, "a").iter().map(|(v, _)| *v).collect::<Vec<_>>(), [3, 4, 5, 6]);
}

#[test]
fn what_a_batch_takes_is_counted_and_bounded() {
    let db = database();
    let a = schema(&db, "a");
    let mut large = Rows::new(&a);
    let text = Value::Text("x".repeat(1 << 20));
    large.push(&[Value::Int(1), Value::Int(0), Value::Int(0), text.clone()]).unwrap();
    let mut batch = Batch::new();
    while batch.bytes() <= MAX_BATCH_BYTES {
        batch = batch.with("a", large.clone().finish().unwrap());
    }
    assert!(batch.parts.len() <= 256);
    let refused = db.commit(batch).unwrap_err().to_string();
    assert!(refused.contains("the limit is"), "{refused}");
    // Deletes count, including the text in their keys.
    let deletes = Batch::new().delete("a", Some(&[text]), ..);
    assert!(deletes.bytes() > 1 << 20);
    assert_eq!(deletes.clone().append(deletes.clone()).bytes(), 2 * deletes.bytes());
    let mut gathered = deletes.clone();
    gathered.coalesce(deletes.clone());
    assert_eq!(gathered.bytes(), 2 * deletes.bytes());
    assert_eq!(read(&db, "a"), []);
}

#[test]
fn rows_that_do_not_fit_are_refused_when_they_are_added() {
    let db = database();
    let a = schema(&db, "a");
    let mut batch = Batch::new();
    let row = |ts: Value, note: Value| [Value::Int(1), ts, Value::Int(2), note];
    batch.push(&a, &row(Value::Int(0), Value::Null)).unwrap();
    let refused = |batch: &mut Batch, values: &[Value]| batch.push(&a, values).unwrap_err().to_string();
    assert!(
        refused(&mut batch, &row(Value::Null, Value::Null)).contains("null value in column \"ts\" of relation \"a\"")
    );
    assert!(refused(&mut batch, &row(Value::Int(1), Value::Int(7))).contains("'note'"));
    assert!(refused(&mut batch, &[Value::Int(1)]).contains("the row has 1 values"));
    assert_eq!((batch.rows(), batch.bytes()), (1, batch.parts[0].bytes()));
    batch.push(&a, &row(Value::Int(1), Value::from("x"))).unwrap();
    db.commit(batch).unwrap();
    assert_eq!(read(&db, "a"), [(2, None), (2, Some("x".to_owned()))]);
}

#[test]
fn a_slice_counts_its_own_rows_only() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000_000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..1_000_000).map(|n| n.to_string())));
    let views: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..1_000_000).map(|n| format!("a text of some length: {n}"))));
    let rows = RecordBatch::try_from_iter([("v", numbers), ("note", texts), ("view", views)]).unwrap();
    let slice = Batch::new().with("a", rows.slice(500_000, 10));
    assert!((10 * (8 + 6 + 30)..1_000).contains(&slice.bytes()), "{} bytes", slice.bytes());
}
