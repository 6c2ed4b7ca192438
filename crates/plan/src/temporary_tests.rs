use super::{OnCommit, TemporaryTable, TemporaryTables};
use arrow::array::{Int64Array, RecordBatch};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, ColumnType, Database, Settings, TableDefinition};
use std::sync::Arc;

fn table(name: &str, on_commit: OnCommit) -> TemporaryTable {
    let schema = TableDefinition::new(name).field("v", ColumnType::Int64).not_stored().unwrap();
    TemporaryTable { schema: Arc::new(schema), key: Vec::new(), on_commit, rows: Vec::new() }
}

fn rows(table: &TemporaryTable, count: i64) -> RecordBatch {
    RecordBatch::try_new(table.arrow(), vec![Arc::new(Int64Array::from_iter_values(0..count))]).unwrap()
}

#[test]
fn rows_take_memory_as_long_as_a_table_or_an_earlier_one_has_them() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let memory = db.query_memory();
    let tables = TemporaryTables::new(memory.clone());
    let empty = table("t", OnCommit::Preserve);
    let held = tables.hold("t", rows(&empty, 1000)).unwrap();
    tables.put(TemporaryTable { rows: vec![held], ..empty.clone() });
    let used = memory.used_bytes();
    assert!(used >= 8000, "{used}");
    let before = tables.now();
    tables.remove("t");
    assert!(tables.is_empty());
    assert_eq!(memory.used_bytes(), used);
    tables.restore(before);
    assert_eq!(tables.get("t").unwrap().count(), 1000);
    tables.remove("t");
    assert_eq!(memory.used_bytes(), 0);
    // More than there is.
    assert!(memory.try_reserve(memory.limit_bytes() - 100));
    assert_eq!(tables.hold("t", rows(&empty, 1000)).unwrap_err().code(), Code::OutOfMemory);
}

#[test]
fn the_end_of_a_transaction_drops_tables_and_deletes_rows() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let tables = TemporaryTables::new(db.query_memory());
    for (name, on_commit) in [("a", OnCommit::Preserve), ("b", OnCommit::DeleteRows), ("c", OnCommit::Drop)] {
        let empty = table(name, on_commit);
        let held = tables.hold(name, rows(&empty, 3)).unwrap();
        tables.put(TemporaryTable { rows: vec![held], ..empty });
    }
    tables.end_transaction();
    let left: Vec<_> = tables.now().iter().map(|(name, table)| (name.clone(), table.count())).collect();
    assert_eq!(left, [("a".to_owned(), 3), ("b".to_owned(), 0)]);
}
