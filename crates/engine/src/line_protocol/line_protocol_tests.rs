use super::*;
use crate::error::Code;
use crate::io::{Io, MemoryStorage};
use crate::schema::MAX_COLUMNS;
use crate::settings::Settings;
use crate::write::value::Value;

#[test]
fn a_type_conflict_names_the_field_and_adds_nothing() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("m,d=a v=1.5,n=1i 1").unwrap();
    lines.parse("m,d=a v=2i 2").unwrap();
    assert!(lines.parse("m,d=a v=1,n=1.5 3").unwrap_err().reason.contains("'n'"));
    assert_eq!(lines.rows(), 2);
    lines.commit(Durability::Sync).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("m,d=a,e=b v=3,w=\"new\" 3").unwrap();
    assert!(lines.parse("m,d=a n=true 4").is_err());
    lines.commit(Durability::Sync).unwrap();
    let view = db.view();
    assert_eq!(view.table("m").unwrap().count().unwrap(), 3);
    assert_eq!(view.table("m").unwrap().schema().key.len(), 2);
}

#[test]
fn two_who_create_the_same_table_at_once_both_write() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let mut parsers: Vec<LineParser<'_>> = (0..3).map(|_| LineParser::new(&db, Unit::Second, 0)).collect();
    parsers[0].parse("cpu,host=a usage=1 1").unwrap();
    parsers[1].parse("cpu,host=b usage=2,temp=3i 2").unwrap();
    parsers[2].parse("cpu,host=c usage=4i 3").unwrap();
    let outcomes: Vec<_> = parsers.into_iter().map(|parser| parser.commit(Durability::Sync)).collect();
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok(), "{outcomes:?}");
    // The third finds a float column where it expected an integer; its lines can be sent again.
    assert!(outcomes[2].as_ref().is_err_and(|error| error.to_string().contains("'usage'")), "{outcomes:?}");
    assert_eq!(db.view().table("cpu").unwrap().count().unwrap(), 2);
    let mut again = LineParser::new(&db, Unit::Second, 0);
    again.parse("cpu,host=c usage=4i 3").unwrap();
    again.commit(Durability::Sync).unwrap();
    assert_eq!(db.view().table("cpu").unwrap().count().unwrap(), 3);
}

#[test]
fn lines_take_no_more_memory_than_the_budget_has() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::with_memory_limit(64 << 20)).unwrap();
    let memory = db.query_memory();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    let wide = (0..500).map(|field| format!("f{field}=1")).collect::<Vec<_>>().join(",");
    lines.parse(&format!("m {wide} 0")).unwrap();
    // Each of these short lines has 499 values that are NULL.
    (1..20_000).for_each(|time| lines.parse(&format!("m f0=1 {time}")).unwrap());
    assert_eq!((lines.rows(), memory.used_bytes()), (0, 0));
    let refused = lines.commit(Durability::Sync).unwrap_err();
    assert_eq!(refused.code(), Code::OutOfMemory, "{refused}");
    assert!(refused.to_string().contains("lines of line protocol"), "{refused}");
    assert!(db.table("m").is_err());
    // New columns have a value for each earlier line. They are refused before they are made.
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    (1..20_000).for_each(|time| lines.parse(&format!("m f0=1 {time}")).unwrap());
    assert!(lines.check().is_ok() && lines.rows() == 19_999 && lines.bytes() < 2 << 20);
    lines.parse(&format!("m {wide} 0")).unwrap();
    assert_eq!((lines.rows(), lines.check().unwrap_err().code()), (0, Code::OutOfMemory));
    lines.parse("m f0=1 1").unwrap();
    assert_eq!(lines.rows(), 0);
    drop(lines);
    // As many values in one column fit. They are charged as long as their batch is there.
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    (1..20_000).for_each(|time| lines.parse(&format!("m f0=1 {time}")).unwrap());
    assert!(memory.used_bytes() >= 20_000 * 16, "{}", memory.used_bytes());
    let batch = lines.into_batch().unwrap();
    assert!(memory.used_bytes() >= 20_000 * 16, "{}", memory.used_bytes());
    db.commit(batch).unwrap();
    assert_eq!((db.view().table("m").unwrap().count().unwrap(), memory.used_bytes()), (19_999, 0));
}

#[test]
fn a_column_too_many_is_refused_line_by_line() {
    let with = |max_columns| Settings { max_columns, ..Settings::default() };
    with(MAX_COLUMNS).validate().unwrap();
    with(MAX_COLUMNS + 1).validate().unwrap_err();
    let settings = with(4);
    let db = Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    let refused = lines.parse("a,host=x v=1,w=2,x=3 1").unwrap_err();
    assert!(
        refused.reason.contains("'x'") && refused.reason.contains("the limit is 4 (setting max_columns)"),
        "{refused:?}"
    );
    assert_eq!(refused.column, "a,host=x v=1,w=2,".len() + 1);
    lines.parse("a,host=x v=1,w=2 1").unwrap();
    assert!(lines.parse("a,host=x y=1 2").is_err());
    lines.parse("a,host=x v=3 3").unwrap();
    lines.commit(Durability::Sync).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    assert!(lines.parse("a,rack=1 v=1 4").is_err());
    lines.parse("a,host=x w=5 5").unwrap();
    lines.commit(Durability::Sync).unwrap();
    assert_eq!(db.view().table("a").unwrap().count().unwrap(), 3);
}

#[test]
fn a_table_too_many_is_refused_line_by_line() {
    let settings = Settings { max_tables: 2, ..Settings::default() };
    let db = Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("a v=1 1").unwrap();
    lines.parse("b v=1 1").unwrap();
    assert!(lines.parse("c v=1 1").unwrap_err().reason.contains("the limit is 2 tables (setting max_tables)"));
    lines.parse("a v=2 2").unwrap();
    lines.commit(Durability::Sync).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("b v=3 3").unwrap();
    assert!(lines.parse("c v=1 1").is_err());
    lines.commit(Durability::Sync).unwrap();
    // The limit does not apply to a table that is created explicitly.
    let definition = TableDefinition::new("c").time("ts", Unit::Second).field("v", ColumnType::Float64);
    db.create_table(&definition).unwrap();
    assert!(LineParser::new(&db, Unit::Second, 0).parse("d v=1 1").is_err());
    assert_eq!(db.view().table("b").unwrap().count().unwrap(), 2);
}

#[test]
fn a_tag_stands_once_in_a_line_and_no_name_is_the_times() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("m,a=1,b=2 v=1,w=2 1").unwrap();
    for (line, column) in [
        // Known names, in and out of order; names that this line introduces; a tag that is also a
        // field.
        ("m,a=1,a=2 v=1 2", 7),
        ("m,b=1,a=2,b=3 v=1 2", 11),
        ("m,c=1,a=2,c=3 v=1 2", 11),
        ("n,c=1,c=2 v=1 2", 7),
        ("m,time=1 v=1 2", 3),
        ("m,a=1 time=1 2", 7),
    ] {
        assert_eq!(lines.parse(line).expect_err(line).column, column, "{line}");
    }
    assert_eq!(lines.rows(), 1);
    lines.parse("m,b=2,a=1 w=2,v=1 2").unwrap();
    lines.commit(Durability::Sync).unwrap();
    assert_eq!(db.view().table("m").unwrap().count().unwrap(), 2);
}

#[test]
fn of_a_field_that_stands_in_a_line_again_the_last_value_counts() {
    // Including the time column, as many columns as the line has names.
    let settings = Settings { max_columns: 4, ..Settings::default() };
    let db = Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    assert!(lines.parse("m,a=1 v=1,w=1,v=2,v=3i,w=4 1").is_err(), "a new column has the type of the first");
    lines.parse("m,a=1 v=1i,w=1,v=2i,v=3i,w=4 1").unwrap();
    assert!(lines.parse("m,a=1 v=1i,w=1,v=true 2").is_err(), "what does not count must fit as well");
    lines.parse("m,a=1 w=5,v=6i,w=7 3").unwrap();
    lines.commit(Durability::Sync).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("m,a=1 w=1,w=2,w=8,v=9i 4").unwrap();
    lines.commit(Durability::Sync).unwrap();
    let view = db.view();
    let container = view.table("m").unwrap().container(&[Value::Text("1".into())]).unwrap();
    let last = container.last_row().unwrap().unwrap();
    assert_eq!(last[2..], [Value::Int(9), Value::Float(8.0)]);
    let sums = |column| container.aggregate(column, i64::MIN, i64::MAX).unwrap().sum;
    assert_eq!((sums("w"), sums("v")), (Some(19.0), Some(18.0)));
}

#[test]
fn a_tag_and_a_field_of_one_name_have_a_column_each() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let columns = || {
        let schema = db.table("m").unwrap();
        let named = |column: &crate::schema::Column| (column.name.clone(), column.role == Role::Key);
        schema.columns.iter().map(named).filter(|(name, _)| name != TIME_COLUMN).collect::<Vec<_>>()
    };
    let named = |columns: &[(&str, bool)]| columns.iter().map(|(n, key)| ((*n).to_owned(), *key)).collect::<Vec<_>>();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("m,a=1 a=2,b=3 1").unwrap();
    lines.parse("m,a=1 b=3,a=2 2").unwrap();
    lines.commit(Durability::Sync).unwrap();
    assert_eq!(columns(), named(&[("a", true), ("a_1", false), ("b", false)]));
    // The tag comes second, in a table that has the field; then both orders, with existing columns.
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("m,a=1,b=x a=2 3").unwrap();
    lines.parse("m,b=x,a=1 b=2 4").unwrap();
    lines.commit(Durability::Sync).unwrap();
    let all = named(&[("a", true), ("a_1", false), ("b", false), ("b_1", true)]);
    assert_eq!(columns(), all);
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("m,a=1,b=x a=2,b=3 5").unwrap();
    lines.commit(Durability::Sync).unwrap();
    assert_eq!(columns(), all);
    assert_eq!(db.view().table("m").unwrap().count().unwrap(), 5);
}

#[test]
fn what_admission_would_refuse_is_refused_line_by_line() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let mut definition = TableDefinition::new("t").key("d", ColumnType::Utf8).key("n", ColumnType::Int64);
    definition = definition.time("ts", Unit::Second).field("v", ColumnType::Float64).field("small", ColumnType::Int32);
    definition.columns[3].nullable = false;
    db.create_table(&definition).unwrap();
    let mut lines = LineParser::new(&db, Unit::Second, 0);
    lines.parse("t,d=a v=1 1").unwrap();
    lines.parse("new v=1 1").unwrap();
    let long = "x".repeat(MAX_KEY_BYTES);
    for (line, reason) in [
        ("t,d=a w=1 2", "'v' of table 't' must not be NULL"),
        ("t,d=a,n=1 v=1 2", "tag 'n' is of type Utf8, but the column is of type Int64"),
        ("t,d=a v=1,small=1i 2", "field 'small' is of type Int64, but the column is of type Int32"),
        ("a\u{1}b v=1 2", "control character"),
        ("t,d=a v=1,a\u{1}b=1 2", "control character"),
        ("new,a\nb=1 v=1 2", "control character"),
        (&format!("{long} v=1 2"), "has 16384 bytes"),
        (&format!("new {long}=1 2"), "has 16384 bytes"),
        (&format!("new,d={long} v=1 2"), "the tags have 16387 bytes"),
        (&format!("t,d={long} v=1 2"), "the tags have"),
    ] {
        let refused = lines.parse(line).unwrap_err();
        assert!(refused.reason.contains(reason), "{refused}");
    }
    assert_eq!(lines.rows(), 2);
    lines.commit(Durability::Sync).unwrap();
    let view = db.view();
    assert_eq!((view.table("t").unwrap().count().unwrap(), view.table("new").unwrap().count().unwrap()), (1, 1));
}

#[test]
fn timestamps_count_what_the_precision_says() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    for (precision, time) in [
        (Precision::Hour, 3_600_000_000_000),
        (Precision::Minute, 60_000_000_000),
        (Precision::Second, 1_000_000_000),
        (Precision::Millisecond, 1_000_000),
        (Precision::Microsecond, 1_000),
        (Precision::Nanosecond, 1),
    ] {
        let mut lines = LineParser::new(&db, precision, 0);
        lines.parse("  m v=1 2").unwrap();
        lines.parse("m v=1 -2").unwrap();
        if time > 1 {
            assert!(lines.parse("m v=1 9223372036854775807").unwrap_err().reason.contains("outside the range"));
        }
        lines.commit(Durability::Sync).unwrap();
        let found =
            db.view().table("m").unwrap().containers(&crate::scan::ScanRequest::all(), &[]).unwrap().next().unwrap();
        assert_eq!(found.unwrap().times, (-2 * time, 2 * time));
        db.drop_table("m").unwrap();
    }
}

#[test]
fn fields_of_one_series_and_time_merge() {
    let storage = MemoryStorage::new();
    let open = || Database::open_with(Io::memory(std::sync::Arc::clone(&storage)), Settings::default()).unwrap();
    let write = |db: &Database, lines: &[&str]| {
        let mut parser = LineParser::new(db, Unit::Nanosecond, 0);
        lines.iter().for_each(|line| parser.parse(line).unwrap());
        parser.commit(Durability::Sync).unwrap();
    };
    let row = |db: &Database, id: &str| {
        let view = db.view();
        let table = view.table("m").unwrap();
        let all = table.scan(&crate::scan::ScanRequest::all()).unwrap();
        assert_eq!(all.map(|batch| batch.unwrap().num_rows() as u64).sum::<u64>(), table.count().unwrap());
        let of_id = table.container(&[Value::Text(id.to_owned())]).unwrap();
        let row = of_id.last_row().unwrap().unwrap();
        let sum = of_id.aggregate("a", i64::MIN, i64::MAX).unwrap().sum;
        assert_eq!(sum.map_or(Value::Null, Value::Float), row[2]);
        row[2..].to_vec()
    };
    let (one, two, text) = (Value::Float(1.0), Value::Float(2.0), Value::Text("x".to_owned()));
    let db = open();
    // Within a body, across bodies, after a flush, after a restart, over several segments, and
    // after compaction.
    write(&db, &["m,id=1 a=1 7", "m,id=1 b=2 7", "m,id=2 b=1 7"]);
    assert_eq!(row(&db, "1"), [one.clone(), two.clone()]);
    write(&db, &["m,id=2 a=2 7", "m,id=2 a=3 6", "m,id=2 b=2 7"]);
    write(&db, &["m,id=2 a=1 7"]);
    db.commit(Batch::new().delete("m", None, ..7)).unwrap();
    assert_eq!(row(&db, "2"), [one.clone(), two.clone()]);
    db.flush().unwrap();
    write(&db, &["m,id=1 c=\"x\" 7"]);
    assert_eq!(row(&db, "1"), [one.clone(), two.clone(), text.clone()]);
    db.close().unwrap();
    let db = open();
    assert_eq!(row(&db, "1"), [one.clone(), two.clone(), text.clone()]);
    write(&db, &["m,id=1 a=2 7"]);
    db.flush().unwrap();
    assert_eq!(row(&db, "1"), [two.clone(), two.clone(), text.clone()]);
    db.compact().unwrap();
    assert_eq!(row(&db, "1"), [two.clone(), two.clone(), text.clone()]);
    assert_eq!(row(&db, "2"), [one.clone(), two.clone(), Value::Null]);
    // NULL set by an UPDATE stays, and deleted rows supply no fields to later ones.
    let request = crate::scan::ScanRequest::all().container(&[Value::Text("1".to_owned())]);
    assert_eq!(db.update("m", &request, &[("a", Value::Null), ("b", Value::Float(1.0))]).unwrap().0, 1);
    assert_eq!(row(&db, "1"), [Value::Null, one.clone(), text]);
    db.flush().unwrap();
    db.compact().unwrap();
    db.commit(Batch::new().delete("m", Some(&[Value::Text("1".to_owned())]), ..)).unwrap();
    write(&db, &["m,id=1 a=2 7"]);
    assert_eq!(row(&db, "1"), [two, Value::Null, Value::Null]);
    db.flush().unwrap();
    db.close().unwrap();
    let db = open();
    assert_eq!(row(&db, "1"), [Value::Float(2.0), Value::Null, Value::Null]);
    assert_eq!(row(&db, "2"), [one, Value::Float(2.0), Value::Null]);
}
