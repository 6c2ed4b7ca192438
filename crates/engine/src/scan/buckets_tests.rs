use super::*;
use crate::io::{Io, MemoryStorage};
use crate::{Batch, Code, ColumnType, Database, Rows, Settings, TableDefinition, Unit, Value};

/// A database with `rows` rows in each of three containers, in batches and chunks that cut buckets.
fn database(rows: i64, scan_threads: usize) -> Database {
    let settings = Settings { scan_batch_rows: 100, scan_threads, ..Settings::default() };
    let db = Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap();
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    db.create_table(&table.field("v", ColumnType::Int64)).unwrap();
    let mut batch = Rows::new(&db.table("t").unwrap());
    for (id, time) in (0..3).flat_map(|id| (0..rows).map(move |time| (id, time))) {
        batch.push(&[Value::Int(id), Value::Int(time), Value::Int(time)]).unwrap();
    }
    db.commit(Batch::new().with_rows(batch)).unwrap();
    db.flush().unwrap();
    db
}

fn totals(width: i64) -> BucketTotals {
    let bucket_of = move |time: i64| Ok(time - time % width..time - time % width + width);
    BucketTotals { columns: vec![2], extremes: true, bucket_of: Arc::new(bucket_of) }
}

#[test]
fn buckets_that_batches_cut_come_once_with_helpers_and_without() {
    let widths = [1, 7, 64, 65, 1_000, 100_000];
    for (scan_threads, width) in [1, 3].into_iter().flat_map(|threads| widths.map(|width| (threads, width))) {
        let db = database(4_000, scan_threads);
        let view = db.view();
        let found = view.table("t").unwrap().buckets(&ScanRequest::all(), &totals(width)).unwrap();
        let found: Vec<_> = found.flat_map(Result::unwrap).collect();
        assert_eq!(found.len() as i64, 3 * ((4_000 + width - 1) / width), "width {width}");
        for found in &found {
            let first = found.bucket.unwrap();
            let last = (first + width).min(4_000) - 1;
            assert_eq!((found.times, found.rows as i64), ((first, last), last - first + 1));
            let sum = i128::from((first + last) * (last - first + 1) / 2);
            assert_eq!(found.amounts[0].sum, crate::ColumnSum::Integer(sum));
            assert_eq!((&found.amounts[0].min, &found.amounts[0].max), (&Value::Int(first), &Value::Int(last)));
        }
    }
}

#[test]
fn an_error_of_a_bucket_ends_the_iteration_and_a_collection_has_no_buckets() {
    let db = database(1_000, 1);
    let view = db.view();
    let refuses = |time: i64| if time < 500 { Ok(0..500) } else { Err(Error::new(Code::OutOfRange, "no bucket")) };
    let totals = BucketTotals { columns: vec![2], extremes: false, bucket_of: Arc::new(refuses) };
    let mut found = view.table("t").unwrap().buckets(&ScanRequest::all(), &totals).unwrap();
    assert_eq!(found.by_ref().find_map(Result::err).map(|error| error.code()), Some(Code::OutOfRange));
    assert!(found.next().is_none());
    db.create_table(&TableDefinition::new("c").key("id", ColumnType::Int64)).unwrap();
    let error = db.view().table("c").unwrap().buckets(&ScanRequest::all(), &totals).err().unwrap();
    assert!(error.to_string().contains("no time column"), "{error}");
}
