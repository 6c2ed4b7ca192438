use super::*;
use crate::io::{Io, MemoryStorage};
use crate::{Batch, ColumnType, Database, Rows, Settings, TableDefinition, Unit, Value};

/// Appends a row for each of these times to two containers.
fn append(db: &Database, times: std::ops::Range<i64>) {
    let mut rows = Rows::new(&db.table("t").unwrap());
    for (id, time) in times.flat_map(|time| [(1, time), (2, time)]) {
        rows.push(&[Value::Int(id), Value::Int(time), Value::Int(time)]).unwrap();
    }
    db.commit(Batch::new().with_rows(rows)).unwrap();
}

#[test]
fn the_rows_of_segments_are_counted_once_and_only_while_all_of_them_count() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    db.create_table(&table.field("v", ColumnType::Int64)).unwrap();
    // Returns the count, and what is known about the segments after it.
    let count = || {
        let view = db.view();
        let table = view.table("t").unwrap();
        (table.count().unwrap(), table.segments.rows.get().copied())
    };
    append(&db, 0..1_000);
    db.flush().unwrap();
    append(&db, 500..1_500);
    db.flush().unwrap();
    assert_eq!(count(), (3_000, Some(3_000)), "overlapping segments");
    append(&db, 2_000..2_100);
    assert_eq!(count(), (3_200, Some(3_000)), "newer rows in a memtable");
    append(&db, 1_499..1_501);
    assert_eq!(count(), (3_202, Some(3_000)), "rows in a memtable that replace others");
    let some = ScanRequest::all().from_time(1_000).to_time(1_499);
    assert_eq!(db.view().table("t").unwrap().count_of(&some).unwrap(), 1_000);
    db.flush().unwrap();
    assert_eq!(count(), (3_202, Some(3_202)), "a new list of segments");
    db.commit(Batch::new().delete("t", Some(&[Value::Int(1)]), 0..100)).unwrap();
    assert_eq!(count(), (3_102, Some(3_202)), "rows that are deleted");
}
