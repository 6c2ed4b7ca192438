use super::*;
use crate::open::{MEMORY, Opened, Options};
use crate::work::Work;
use arrow::array::{Int64Array, RecordBatchIterator};
use arrow::datatypes::{DataType, Field, TimeUnit};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings, Unit};

fn rows(columns: &[(&str, DataType)]) -> Schema {
    Schema::new(columns.iter().map(|(name, of)| Field::new(*name, of.clone(), true)).collect::<Vec<_>>())
}

fn reads() -> Schema {
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    rows(&[("v", DataType::Float64), ("ts", time), ("meter", DataType::LargeUtf8), ("site", DataType::Int64)])
}

fn created(to: &Ingest, rows: &Schema) -> Result<String> {
    to.definition("t", rows).map(|(definition, _)| statement(&definition, to.is_temporary))
}

#[test]
fn a_key_is_guessed_from_the_types_unless_it_is_given() {
    let guessed = created(&Ingest::default(), &reads()).unwrap();
    let expected = "CREATE TABLE t (v DOUBLE PRECISION, ts TIMESTAMP(6) NOT NULL, meter TEXT NOT NULL, site BIGINT, \
                    PRIMARY KEY (meter, ts))";
    assert_eq!(guessed, expected);
    let key = |key: &str, time: Option<&str>| {
        let to = Ingest { key: Some(key.to_owned()), time: time.map(str::to_owned), ..Ingest::default() };
        to.definition("t", &reads()).map(|(definition, is_guessed)| (definition.primary_key, is_guessed))
    };
    for (given, time, expected, is_guessed) in [
        // The time is guessed.
        ("site, meter", None, vec!["site", "meter", "ts"], true),
        ("", None, vec!["ts"], true),
        ("site,ts", None, vec!["site", "ts"], false),
        ("site,ts", Some("ts"), vec!["site", "ts"], false),
        ("site", Some("ts"), vec!["site", "ts"], false),
        ("site", Some(""), vec!["site"], false),
    ] {
        let (names, guessed) = key(given, time).unwrap();
        assert_eq!(names, expected, "{given} {time:?}");
        assert_eq!(guessed, is_guessed, "{given} {time:?}");
    }
    assert_eq!(key("place", None).unwrap_err().code(), Code::UndefinedColumn);
    assert_eq!(key("site", Some("meter")).unwrap_err().code(), Code::InvalidParameter);
}

#[test]
fn a_table_needs_a_key_and_columns_of_known_types_unless_it_is_temporary() {
    let numbers = rows(&[("v", DataType::Float64)]);
    assert_eq!(created(&Ingest::default(), &numbers).unwrap_err().code(), Code::InvalidDefinition);
    let temporary = Ingest { is_temporary: true, ..Ingest::default() };
    assert_eq!(created(&temporary, &numbers).unwrap(), "CREATE TEMPORARY TABLE t (v DOUBLE PRECISION)");
    assert!(created(&Ingest::default(), &rows(&[("n", DataType::Null)])).is_err());
}

#[test]
fn options_name_the_key_of_a_table_that_exists() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let reads = TableDefinition::new("reads").key("site", ColumnType::Int64).key("meter", ColumnType::Utf8);
    let reads = db.create_table(&reads.time("ts", Unit::Second)).unwrap();
    let meters = db.create_table(&TableDefinition::new("meters").key("id", ColumnType::Int64)).unwrap();
    let check = |table: &TableSchema, key: Option<&str>, time: Option<&str>| {
        let to = Ingest { key: key.map(str::to_owned), time: time.map(str::to_owned), ..Ingest::default() };
        to.check_key_of(table)
    };
    for (key, time) in [(None, None), (Some("meter, site"), None), (Some("site,meter,ts"), Some("ts"))] {
        check(&reads, key, time).unwrap();
    }
    check(&meters, Some("id"), Some("")).unwrap();
    for (key, time) in [(Some("site"), None), (Some("site,meter,v"), None), (None, Some("")), (None, Some("at"))] {
        assert_eq!(check(&reads, key, time).unwrap_err().code(), Code::InvalidParameter, "{key:?} {time:?}");
    }
    let refused = check(&meters, Some("id"), Some("ts")).unwrap_err();
    assert!(refused.to_string().contains("has no time column"), "{refused}");
}

#[test]
fn gathered_rows_are_charged_to_the_memory_limit() {
    let options = Options::parse("durability=os profile=edge").unwrap();
    let mut work = Work::new(Opened::open(MEMORY, &options).unwrap(), &options).unwrap();
    work.run("CREATE TABLE t (id BIGINT, PRIMARY KEY (id))").unwrap();
    let memory = work.store().query_memory();
    let session = Session::new(work);
    let to = Ingest { table: Some("t".to_owned()), mode: Some(IngestMode::Append), ..Ingest::default() };
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let write = || {
        let rows = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
        ingest(&session, &to, Box::new(rows), &session.stop().begin())
    };
    let free = memory.limit_bytes() - memory.used_bytes();
    let held = memory.reserve("the test", free - 20_000).unwrap();
    assert_eq!(write().unwrap_err().code(), Code::OutOfMemory);
    drop(held);
    assert_eq!(write().unwrap(), 10_000);
}
