//! What sessions hold and write: files, memory and time.

use crate::{fill, session, text};
use arrow::array::RecordBatch;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, ErrorKind, Settings, Value};
use fleetdb_query::Session;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of deleted files of a directory that are still open.
#[cfg(target_os = "linux")]
fn open_and_gone(directory: &std::path::Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let names = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    names.filter(|name| name.starts_with(directory) && name.to_string_lossy().ends_with(" (deleted)")).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_that_does_nothing_keeps_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let db = Arc::new(Database::open_with(Io::files(directory.path()), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session
        .sql("CREATE TABLE cpu (host TEXT, ts TIMESTAMP(0), usage BIGINT, load DOUBLE, PRIMARY KEY (host, ts))")
        .unwrap();
    for part in 0..3 {
        fill(&session, part * 1_000);
        db.flush().unwrap();
    }
    let kept = session.prepare("SELECT sum(usage) FROM cpu WHERE host = $1").unwrap();
    kept.query(&["h1".into()]).unwrap();
    let planned = session.prepare("SELECT sum(usage) + $1 FROM cpu").unwrap();
    planned.query(&[Value::Int(1)]).unwrap();
    session.sql("SELECT count(*) FROM cpu").unwrap().collect().unwrap();
    let on_its_way = session.sql("SELECT * FROM cpu").unwrap();
    db.compact().unwrap();
    assert!(open_and_gone(directory.path()) > 0, "the answer on its way has yet to read them");
    let rows = on_its_way.collect().unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 15_000);
    let deadline = Instant::now() + Duration::from_secs(60);
    // A compaction thread may still hold them for a moment.
    while open_and_gone(directory.path()) > 0 {
        assert!(Instant::now() < deadline, "{} files are kept", open_and_gone(directory.path()));
        std::thread::yield_now();
    }
    assert_eq!(kept.query(&["h1".into()]).unwrap()[0].num_rows(), 1);
}

#[test]
fn statements_are_stopped_by_time_by_whoever_cancels_and_by_memory() {
    let (_db, session) = session();
    let endless = "SELECT count(*) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(y) WHERE x + y < 0";
    session.sql("SET statement_timeout = '50ms'").unwrap();
    let error = session.sql(endless).and_then(fleetdb_query::Answer::collect).unwrap_err();
    assert!(error.to_string().contains("statement_timeout (50 ms)"), "{error}");
    session.sql("SET statement_timeout = 0").unwrap();
    assert!(session.sql("SET statement_timeout = 'soon'").is_err());
    // A join can be stopped, however few rows it outputs.
    session.sql("SET statement_timeout = '200ms'").unwrap();
    let (a, b) = ("generate_series(1, 100000) AS a(x)", "generate_series(1, 100000) AS b(y)");
    for query in [
        format!("SELECT sum(x * y) FROM {a}, {b}"),
        format!("SELECT count(*) FROM {a} LEFT JOIN {b} ON x + y < 0"),
        format!("SELECT count(*) FROM {a} JOIN {b} ON x % 2 = y % 2"),
        format!("SELECT count(*) FROM {a} JOIN {b} ON x % 2 = y % 2 AND x + y < 0"),
    ] {
        let begun = std::time::Instant::now();
        let error = session.sql(&query).and_then(fleetdb_query::Answer::collect).unwrap_err();
        assert!(error.to_string().contains("statement_timeout"), "{query}: {error}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{query}: {:?}", begun.elapsed());
    }
    session.sql("SET statement_timeout = 0").unwrap();
    let canceller = session.canceller();
    let answer = session.sql(endless).unwrap();
    canceller.cancel();
    let error = answer.collect().unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert_eq!(session.sql("SELECT 1").unwrap().collect().unwrap()[0].num_rows(), 1, "the next statement runs");
    session.canceller().cancel();
    assert_eq!(session.sql("SELECT 1").unwrap().collect().unwrap()[0].num_rows(), 1, "none ran");
    session.announce().cancel();
    let error = session.sql(endless).and_then(fleetdb_query::Answer::collect).unwrap_err();
    assert!(error.to_string().contains("cancelled"), "before it began: {error}");
    assert_eq!(session.sql("SELECT 1").unwrap().collect().unwrap()[0].num_rows(), 1, "and only that");

    // A sort larger than the budget spills to temporary files. An operation that cannot spill fails
    // and releases its memory.
    let settings =
        Settings { memory_limit: 40 << 20, memtable_bytes: 2 << 20, cache_bytes: 1 << 20, ..Settings::default() };
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), settings).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    let sorted = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY value * 7919 % 1000003) AS n FROM generate_series(1, 3000000) AS s(value))";
    let rows = session.sql(sorted).unwrap().collect().unwrap();
    assert_eq!(rows[0].num_rows(), 1);
    let distinct = "SELECT array_agg(value::TEXT || 'some longer text to fill the memory') FROM generate_series(1, 3000000) AS s(value)";
    let error = session.sql(distinct).and_then(fleetdb_query::Answer::collect).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert_eq!(db.status().work_bytes, 0);
}

#[test]
fn copy_writes_files_that_parquet_tools_read() {
    let (_db, session) = session();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let copy = |from: &str, name: &str| session.sql(&format!("COPY {from} TO '{}'", path(name).display()));
    assert_eq!(copy("cpu", "cpu.parquet").unwrap().tag(), Some("COPY 5000"));
    assert_eq!(
        copy("(SELECT host, count(*) AS rows FROM cpu GROUP BY host ORDER BY host)", "hosts.csv").unwrap().tag(),
        Some("COPY 5")
    );
    assert_eq!(
        std::fs::read_to_string(path("hosts.csv")).unwrap(),
        "host,rows\nh0,1000\nh1,1000\nh2,1000\nh3,1000\nh4,1000\n"
    );
    let file = std::fs::File::open(path("cpu.parquet")).unwrap();
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 5_000);
    // And imports the file again.
    session
        .sql("CREATE TABLE again (host TEXT, ts TIMESTAMP(0), usage BIGINT, load DOUBLE, PRIMARY KEY (host, ts))")
        .unwrap();
    let back = |name: &str| session.sql(&format!("COPY again FROM '{}'", path(name).display()));
    assert_eq!(back("cpu.parquet").unwrap().tag(), Some("COPY 5000"));
    copy("(SELECT load, host, ts FROM cpu WHERE host = 'h1')", "part.csv").unwrap();
    session.sql("TRUNCATE TABLE again").unwrap();
    assert_eq!(back("part.csv").unwrap().tag(), Some("COPY 1000"));
    let sums = "SELECT count(*) AS a, count(load) AS b, sum(load) AS c, max(ts) AS d, count(usage) AS e FROM";
    let all = |sql: String| text(&session.sql(&sql).unwrap().collect().unwrap());
    assert_eq!(
        all(format!("{sums} again")),
        all(format!("{sums} (SELECT load, ts, NULL AS usage FROM cpu WHERE host = 'h1')"))
    );
    std::fs::write(path("wrong_type.csv"), "host,ts,usage\nh1,2026-01-01,many\n").unwrap();
    std::fs::write(path("wrong_name.csv"), "host,ts,watts\nh1,2026-01-01,1\n").unwrap();
    for (name, expected) in
        [("wrong_type.csv", "wrong_type.csv"), ("wrong_name.csv", "watts"), ("none.csv", "none.csv")]
    {
        let error = back(name).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = copy("cpu", "cpu.parquet").err().unwrap();
    assert!(error.to_string().contains("cpu.parquet"), "a file that is there stays: {error}");
    assert!(copy("(SELECT host::INT FROM cpu)", "wrong.csv").is_err());
    assert!(!path("wrong.csv").exists(), "nothing is left of a query that fails");
}
