//! Defaults, checks, foreign keys, numbers and stored queries: what the engine enforces of them, and what
//! it keeps.

use super::with_clock;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{
    Alteration, Batch, CheckDefinition, Code, ColumnDefinition, ColumnId, ColumnType, Comparison, Condition, Database,
    DefaultValue, ForeignKeyDefinition, Merge, Operand, Role, Rows, ScanRequest, Settings, StoredQuery,
    TableDefinition, Unit, Value,
};
use std::sync::Arc;

/// `column > 0`
fn positive(column: u32) -> CheckDefinition {
    let condition = Condition::Compare(Operand::Column(ColumnId(column)), Comparison::Greater, Operand::Integer(0));
    CheckDefinition { name: None, condition }
}

fn items() -> TableDefinition {
    let table = TableDefinition::new("items").key("id", ColumnType::Int64).field("n", ColumnType::Int64);
    let mut table = table.field("site", ColumnType::Utf8);
    table.columns[2].default = Some(DefaultValue::Expression("'here'".into()));
    table.checks.push(positive(1));
    table
}

fn write(db: &Database, id: i64, n: Value) -> fleetdb_engine::Result<()> {
    let schema = db.table("items")?;
    let mut rows = Rows::new(&schema);
    let mut row = vec![Value::Null; schema.columns.len()];
    (row[0], row[1]) = (Value::Int(id), n);
    rows.push(&row)?;
    db.commit(Batch::new().with_rows(rows)).map(|_| ())
}

#[test]
fn a_check_holds_for_rows_of_all_forms_and_after_reopening() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    db.create_table(&items()).unwrap();
    write(&db, 1, Value::Int(5)).unwrap();
    write(&db, 2, Value::Null).unwrap();
    let error = write(&db, 3, Value::Int(0)).unwrap_err();
    assert_eq!(error.code(), Code::Check);
    assert!(error.to_string().contains("\"items_n_check\": row 1 does not meet (n > 0)"), "{error}");
    let column = |values: [i64; 2]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("id", column([7, 8])), ("n", column([1, -1]))]).unwrap();
    let error = db.commit(Batch::new().with("items", batch)).unwrap_err();
    assert!(error.to_string().contains("row 2"), "{error}");
    let update = db.update("items", &fleetdb_engine::ScanRequest::all(), &[("n", Value::Int(-1))]);
    assert_eq!(update.unwrap_err().code(), Code::Check);
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    assert_eq!(write(&db, 3, Value::Int(0)).unwrap_err().code(), Code::Check);
    let schema = db.table("items").unwrap();
    assert_eq!(schema.sql_of(&schema.checks[0].condition), "(n > 0)");
    assert_eq!(schema.columns[2].default, Some(DefaultValue::Expression("'here'".into())));
}

#[test]
fn an_alter_makes_all_of_its_changes_or_none() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    db.create_table(&items()).unwrap();
    write(&db, 1, Value::Null).unwrap();
    let before = db.table("items").unwrap();
    let more = ColumnDefinition { name: "m".into(), column_type: ColumnType::Int64, nullable: true, default: None };
    let add = Alteration::AddColumn(more, Role::Field);
    for (refused, code) in [
        (Alteration::SetNotNull("n".into()), Code::NotNull),
        (Alteration::DropNotNull("id".into()), Code::InvalidDefinition),
        (Alteration::DropConstraint("nothing".into()), Code::UndefinedObject),
        (Alteration::Rename("items".into()), Code::DuplicateTable),
        (
            Alteration::AddForeignKey(ForeignKeyDefinition { table: "nothing".into(), ..Default::default() }),
            Code::UndefinedTable,
        ),
    ] {
        let error = db.alter("items", &[add.clone(), refused.clone()]).unwrap_err();
        assert_eq!(error.code(), code, "{refused:?}: {error}");
        assert_eq!(db.table("items").unwrap(), before);
    }
    write(&db, 1, Value::Int(3)).unwrap();
    let renamed = Alteration::RenameColumn { from: "m".into(), to: "k".into() };
    let changes = [add, renamed, Alteration::SetNotNull("n".into()), Alteration::AddCheck(positive(3))];
    let schema = db.alter("items", &changes).unwrap();
    assert_eq!(schema.checks[1].name, "items_k_check");
    assert_eq!(write(&db, 2, Value::Null).unwrap_err().code(), Code::NotNull);
    db.drop_column("items", "k").unwrap();
    assert_eq!(db.table("items").unwrap().checks.len(), 1, "a check goes with its column");
    let small = Condition::Compare(Operand::Column(ColumnId(1)), Comparison::Less, Operand::Integer(3));
    let small = CheckDefinition { name: Some("small".into()), condition: small };
    let error = db.alter("items", &[Alteration::AddCheck(small)]).unwrap_err();
    assert_eq!(error.to_string(), "check constraint \"small\" of relation \"items\" is violated by some row");
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    assert_eq!(write(&db, 2, Value::Null).unwrap_err().code(), Code::NotNull);
}

#[test]
fn foreign_keys_are_kept_and_not_enforced() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    db.create_table(&items()).unwrap();
    let mut parts = TableDefinition::new("parts").key("id", ColumnType::Int64).field("item", ColumnType::Int64);
    let key = |table: &str, columns: &[&str]| ForeignKeyDefinition {
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        table: table.to_owned(),
        ..Default::default()
    };
    parts.foreign_keys = vec![key("items", &["item"]), key("parts", &["item"])];
    let schema = db.create_table(&parts).unwrap();
    assert_eq!(schema.foreign_keys[0].name, "parts_item_fkey");
    assert_eq!(schema.foreign_keys[1].name, "parts_item_fkey1");
    let mut rows = Rows::new(&schema);
    rows.push(&[Value::Int(1), Value::Int(99)]).unwrap();
    db.commit(Batch::new().with_rows(rows)).unwrap();
    parts.name = "others".into();
    for (wrong, code) in [
        (key("nothing", &["item"]), Code::UndefinedTable),
        (key("items", &["nothing"]), Code::UndefinedColumn),
        (key("items", &["item", "id"]), Code::InvalidDefinition),
    ] {
        parts.foreign_keys = vec![wrong];
        assert_eq!(db.create_table(&parts).unwrap_err().code(), code);
    }
    db.drop_table("items").unwrap();
    assert_eq!(db.table("parts").unwrap().foreign_keys.len(), 2);
}

#[test]
fn numbers_are_given_once_also_after_a_crash() {
    let storage = MemoryStorage::new();
    let open = |storage: &Arc<MemoryStorage>| {
        Database::open_with(Io::memory(Arc::clone(storage)), Settings::default()).unwrap()
    };
    let db = open(&storage);
    let mut table = items();
    table.columns[0].default = Some(DefaultValue::Number { always: false });
    table.first_number = Some(100);
    let schema = db.create_table(&table).unwrap();
    assert_eq!(db.next_numbers(&schema, 1).unwrap(), 100);
    assert_eq!(db.next_numbers(&schema, 5_000).unwrap(), 101);
    let crashed = storage.crash();
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(db.next_numbers(&schema, 1).unwrap(), 5_101, "closing gives back what is left");
    let db = open(&crashed);
    assert!(db.next_numbers(&schema, 1).unwrap() > 5_100);
    table.name = "twice".into();
    table.columns[1].default = Some(DefaultValue::Number { always: true });
    assert_eq!(db.create_table(&table).unwrap_err().code(), Code::InvalidDefinition);
    table.columns[1].default = None;
    table.first_number = Some(i64::MAX);
    let schema = db.create_table(&table).unwrap();
    assert_eq!(db.next_numbers(&schema, 1).unwrap_err().code(), Code::LimitExceeded);
}

#[test]
fn a_stored_query_shares_the_names_of_tables() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    db.create_table(&items()).unwrap();
    let query = |text: &str| StoredQuery { text: text.into(), columns: Vec::new() };
    db.store_query("v", &query("SELECT 1"), false).unwrap();
    assert_eq!(db.store_query("v", &query("SELECT 2"), false).unwrap_err().code(), Code::DuplicateTable);
    assert_eq!(db.store_query("items", &query("SELECT 2"), true).unwrap_err().code(), Code::DuplicateTable);
    assert_eq!(db.rename_table("items", "v").unwrap_err().code(), Code::DuplicateTable);
    let mut table = items();
    table.name = "v".into();
    assert_eq!(db.create_table(&table).unwrap_err().code(), Code::DuplicateTable);
    assert_eq!(db.table("v").unwrap_err().code(), Code::WrongObject);
    db.store_query("v", &query("SELECT 2"), true).unwrap();
    let crashed = storage.crash();
    let db = Database::open_with(Io::memory(crashed), Settings::default()).unwrap();
    assert_eq!(db.view().stored_queries()["v"], query("SELECT 2"));
    db.drop_query("v").unwrap();
    assert_eq!(db.drop_query("v").unwrap_err().code(), Code::UndefinedTable);
    db.create_table(&table).unwrap();
}

#[test]
fn numbers_follow_those_that_rows_bring() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    let mut table = items();
    table.columns[0].default = Some(DefaultValue::Number { always: false });
    let schema = db.create_table(&table).unwrap();
    write(&db, 500, Value::Int(1)).unwrap();
    assert_eq!(db.next_numbers(&schema, 1).unwrap(), 501, "rows from before the first use");
    write(&db, 700, Value::Int(1)).unwrap();
    assert_eq!(db.next_numbers(&schema, 1).unwrap(), 701, "rows from after it");
    write(&db, 3, Value::Int(1)).unwrap();
    assert_eq!(db.next_numbers(&schema, 1).unwrap(), 702);
    db.flush().unwrap();
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    write(&db, 5_000, Value::Int(1)).unwrap();
    assert_eq!(db.next_numbers(&schema, 1).unwrap(), 5_001);
    write(&db, i64::MAX, Value::Int(1)).unwrap();
    assert_eq!(db.next_numbers(&schema, 1).unwrap_err().code(), Code::LimitExceeded);
}

#[test]
fn rows_with_null_that_were_replaced_do_not_hinder_flush_and_compaction() {
    for merge in [Merge::Rows, Merge::Fields] {
        let storage = MemoryStorage::new();
        let (db, _) = with_clock(&storage, 0);
        let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
        let table = table.field("a", ColumnType::Int64).field("b", ColumnType::Utf8);
        let schema = db.create_table(&TableDefinition { merge, ..table }).unwrap();
        let write = |a: Value, b: &str| {
            let mut rows = Rows::new(&db.table("t").unwrap());
            rows.push(&[Value::Int(1), Value::Int(1), a, b.into()]).unwrap();
            db.commit(Batch::new().with("t", rows.finish().unwrap())).map(|_| ())
        };
        // The first row is replaced, or the second one lacks what the first has.
        let (first, second) = match merge {
            Merge::Rows => (Value::Null, Value::Int(2)),
            Merge::Fields => (Value::Int(2), Value::Null),
        };
        write(first, "first").unwrap();
        db.flush().unwrap();
        write(second, "second").unwrap();
        db.alter("t", &[Alteration::SetNotNull("a".into())]).unwrap();
        assert_eq!(write(Value::Null, "third").unwrap_err().code(), Code::NotNull);
        let has_row = |db: &Database| {
            let rows = db.view().table("t").unwrap().scan(&ScanRequest::all()).unwrap().next().unwrap().unwrap();
            assert_eq!(rows.column(2).as_primitive::<Int64Type>().values(), &[2]);
            assert_eq!(rows.column(3).as_string::<i32>().value(0), "second");
        };
        db.flush().unwrap();
        has_row(&db);
        db.compact().unwrap();
        has_row(&db);
        db.alter("t", &[Alteration::DropNotNull("a".into())]).unwrap();
        has_row(&db);
        drop(schema);
        db.close().unwrap();
        has_row(&with_clock(&storage, 0).0);
    }
}

#[test]
fn rows_that_retention_hides_count_for_new_conditions() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 1_000_000);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let table = TableDefinition { retention_seconds: Some(100), ..table.field("a", ColumnType::Int64) };
    let mut rows = Rows::new(&db.create_table(&table).unwrap());
    rows.push(&[Value::Int(1), Value::Int(5), Value::Null]).unwrap();
    rows.push(&[Value::Int(1), Value::Int(6), Value::Int(-1)]).unwrap();
    db.commit(Batch::new().with_rows(rows)).unwrap();
    assert_eq!(db.view().table("t").unwrap().count().unwrap(), 0);
    assert_eq!(db.alter("t", &[Alteration::SetNotNull("a".into())]).unwrap_err().code(), Code::NotNull);
    assert_eq!(db.alter("t", &[Alteration::AddCheck(positive(2))]).unwrap_err().code(), Code::Check);
}

#[test]
fn a_check_that_is_too_deep_or_needs_rows_that_come_apart_is_refused() {
    let storage = MemoryStorage::new();
    let (db, _) = with_clock(&storage, 0);
    db.create_table(&items()).unwrap();
    let deep = |levels: usize| {
        let condition = Condition::IsTrue(Operand::Column(ColumnId(1)));
        let condition = (0..levels).fold(condition, |of, _| Condition::Not(Box::new(Condition::And(vec![of]))));
        Alteration::AddCheck(CheckDefinition { name: None, condition })
    };
    assert_eq!(db.alter("items", &[deep(16)]).unwrap_err().code(), Code::LimitExceeded);
    // The deepest one that is taken is read again.
    db.alter("items", &[deep(15), Alteration::SetDefault("n".into(), None)]).unwrap();
    db.close().unwrap();
    let (db, _) = with_clock(&storage, 0);
    assert_eq!(db.table("items").unwrap().checks.len(), 2);
    let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    let table = table.field("a", ColumnType::Int64).field("b", ColumnType::Int64);
    db.create_table(&TableDefinition { merge: Merge::Fields, ..table }).unwrap();
    let (a, b) = (|| Operand::Column(ColumnId(2)), Operand::Column(ColumnId(3)));
    let ordered = Condition::Compare(a(), Comparison::Less, b);
    for condition in [ordered, Condition::Not(Box::new(Condition::IsNull(a())))] {
        let check = Alteration::AddCheck(CheckDefinition { name: None, condition });
        assert_eq!(db.alter("t", &[check]).unwrap_err().code(), Code::NotSupported);
    }
    db.alter("t", &[Alteration::AddCheck(positive(2))]).unwrap();
}

#[test]
fn a_device_and_a_time_are_the_likely_key() {
    let time = ColumnType::Timestamp(Unit::Nanosecond);
    let times = TableDefinition::new("t").field("ts", time).field("v", ColumnType::Float64);
    assert_eq!(times.clone().field("host", ColumnType::Utf8).likely_key(), ["host", "ts"]);
    assert_eq!(times.likely_key(), ["ts"]);
    assert!(TableDefinition::new("t").field("v", ColumnType::Float64).likely_key().is_empty());
}
