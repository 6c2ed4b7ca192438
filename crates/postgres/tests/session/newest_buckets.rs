//! The newest time buckets are read first, and are those that all rows give.

use crate::{explain, session, session_in, text};
use fleetdb_engine::io::{Io, MemoryStorage, Storage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;
use std::sync::Arc;

/// Rows of 40,000 minutes, then a gap, then rows of 2,000.
fn fill(session: &Session) {
    fill_minutes(session, 0, 39_999);
    fill_minutes(session, 200_000, 201_999);
}

/// A row a minute for each of two hosts.
fn fill_minutes(session: &Session, from: i64, to: i64) {
    session
        .sql(&format!(
            "INSERT INTO cpu SELECT 'h' || host.value, to_timestamp_seconds(t.value * 60), t.value % 1000 + host.value, \
             t.value * 0.5 FROM generate_series(0, 1) AS host(value), generate_series({from}, {to}) AS t(value)"
        ))
        .unwrap();
}

/// `{ts}` is the time: the rule knows `ts`, and not an expression of it.
const QUERIES: [&str; 9] = [
    "SELECT time_bucket('5 minutes', {ts}) AS part, max(usage) FROM cpu GROUP BY part ORDER BY part DESC LIMIT 5",
    "SELECT time_bucket('1 day', {ts}) AS part, count(*) FROM cpu GROUP BY part ORDER BY part DESC LIMIT 5",
    "SELECT time_bucket('1 day', {ts}) AS part, host, count(*), sum(load) FROM cpu GROUP BY host, part \
     ORDER BY part DESC, host LIMIT 3 OFFSET 2",
    "SELECT time_bucket('1 hour', {ts}) AS part, avg(usage) AS a FROM cpu WHERE ts < to_timestamp_seconds(600000) \
     GROUP BY part ORDER BY part DESC LIMIT 2",
    "SELECT time_bucket('1 hour', {ts}) AS part, count(*) FROM cpu WHERE usage > 900 GROUP BY part \
     HAVING count(*) > 100 ORDER BY part DESC LIMIT 7",
    "SELECT min(usage), time_bucket('1 month', {ts}, 'Europe/Berlin') AS part FROM cpu GROUP BY part \
     ORDER BY part DESC LIMIT 1",
    "SELECT time_bucket('1 minute', {ts}) AS part, host, min(load) FROM cpu WHERE host = 'h1' GROUP BY part, host \
     ORDER BY part DESC LIMIT 900",
    "SELECT time_bucket('1 day', {ts}) AS part, count(*) FROM cpu WHERE ts > to_timestamp_seconds(99999999) \
     GROUP BY part ORDER BY part DESC LIMIT 2",
    "SELECT DISTINCT time_bucket('1 day', {ts}) AS part FROM cpu ORDER BY part DESC LIMIT 4",
];

#[test]
fn the_newest_buckets_are_those_of_all_rows() {
    let (db, session) = session();
    fill(&session);
    for round in 0..3 {
        match round {
            1 => db.flush().unwrap(),
            // Buckets without rows at the end, and a newer row in memory.
            2 => {
                session.sql("DELETE FROM cpu WHERE ts >= to_timestamp_seconds(12090000)").unwrap();
                session.sql("INSERT INTO cpu VALUES ('h9', to_timestamp_seconds(13000000), 5, 5)").unwrap();
            }
            _ => {}
        }
        for query in QUERIES {
            let sql = query.replace("{ts}", "ts");
            let of_all = query.replace("{ts}", "(ts + INTERVAL '0 seconds')");
            let (plan, plan_of_all) = (explain(&session, &sql), explain(&session, &of_all));
            assert!(plan.contains("NewestBuckets"), "{plan}");
            assert!(!plan_of_all.contains("NewestBuckets"), "{plan_of_all}");
            let rows = |sql: &str| text(&session.sql(sql).unwrap().collect().unwrap());
            assert_eq!(rows(&sql), rows(&of_all), "round {round}: {sql}");
        }
    }
    let newest = "SELECT time_bucket('1 hour', ts) AS part, count(*) FROM cpu WHERE ts <= $1 GROUP BY part \
                  ORDER BY part DESC LIMIT 1";
    let newest = session.prepare(newest).unwrap();
    let hours = |to: &str| text(&newest.query(&[to.into()]).unwrap());
    assert!(hours("1970-01-01 10:00").contains("1970-01-01T10:00:00 | 2 "), "{}", hours("1970-01-01 10:00"));
    assert!(hours("1970-01-01 10:59").contains("1970-01-01T10:00:00 | 120 "), "{}", hours("1970-01-01 10:59"));
}

#[test]
fn older_rows_are_read_only_if_they_are_needed() {
    let storage = MemoryStorage::new();
    let (db, session) = session_in(&storage);
    fill_minutes(&session, 0, 39_999);
    db.flush().unwrap();
    let older = storage.list("segments/0").unwrap();
    fill_minutes(&session, 200_000, 201_999);
    db.flush().unwrap();
    drop((session, db));
    for name in older {
        storage.tamper(&format!("segments/0/{name}"), |bytes| bytes[4..5_000].fill(0xff));
    }
    let db = Arc::new(Database::open_with(Io::memory(storage), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    let newest = |buckets: usize, condition: &str| {
        let sql = format!(
            "SELECT time_bucket('1 hour', ts) AS part, count(*), max(usage) FROM cpu {condition} GROUP BY part \
             ORDER BY part DESC LIMIT {buckets}"
        );
        session.sql(&sql).and_then(|answer| answer.collect()).map(|rows| text(&rows)).map_err(|error| error.to_string())
    };
    assert!(newest(5, "").unwrap().contains(" | 120 "), "{:?}", newest(5, ""));
    assert!(newest(2, "WHERE usage % 7 = 3").is_ok());
    // These need all rows: 34 hours come after the gap, and no row after it has such a usage.
    for (buckets, condition) in [(40, ""), (1, "WHERE load < 100")] {
        let error = newest(buckets, condition).unwrap_err();
        assert!(error.contains("page"), "{error}");
    }
}

#[test]
fn times_that_the_calendar_lacks_do_not_concern_other_hosts() {
    let (_db, session) = session();
    fill(&session);
    // Nanoseconds where seconds belong, and the last time of the type.
    for time in ["1700000000000000000", "9223372036854775807"] {
        session
            .sql(&format!("INSERT INTO cpu SELECT 'h7', arrow_cast({time}, 'Timestamp(Second, None)'), 1, 1"))
            .unwrap();
    }
    let sql = "SELECT time_bucket('1 month', {ts}) AS part, count(*) FROM cpu WHERE host = 'h1' GROUP BY part \
               ORDER BY part DESC LIMIT 3";
    let rows = |ts: &str| text(&session.sql(&sql.replace("{ts}", ts)).unwrap().collect().unwrap());
    assert!(explain(&session, &sql.replace("{ts}", "ts")).contains("NewestBuckets"));
    assert_eq!(rows("ts"), rows("(ts + INTERVAL '0 seconds')"));
}

#[test]
fn a_gap_of_the_longest_kind_ends() {
    let (db, session) = session();
    session.sql("CREATE TABLE t (host TEXT, ts TIMESTAMP(9), v BIGINT, PRIMARY KEY (host, ts))").unwrap();
    let rows =
        "SELECT 'h', to_timestamp_nanos(-9000000000000000000 + s.value), 1 FROM generate_series(1, 50000) AS s(value)";
    session.sql(&format!("INSERT INTO t {rows}")).unwrap();
    session.sql("INSERT INTO t VALUES ('h', to_timestamp_nanos(9223372036854775807), 1)").unwrap();
    for round in 0..2 {
        let sql = "SELECT time_bucket('1 hour', ts) AS part, count(*) FROM t GROUP BY part ORDER BY part DESC LIMIT 5";
        let found = text(&session.sql(sql).unwrap().collect().unwrap());
        assert!(found.contains(" 50000 ") && found.contains(" 1 "), "round {round}: {found}");
        let by_host = "SELECT host, time_bucket('1 nanosecond', ts) AS part, count(*) AS c FROM t GROUP BY host, part";
        let found = session.sql(&format!("SELECT sum(c) FROM ({by_host})")).unwrap().collect().unwrap();
        assert!(text(&found).contains(" 50001 "), "round {round}");
        db.flush().unwrap();
    }
}

#[test]
fn other_orders_and_small_tables_are_read_at_once() {
    let (_db, session) = session();
    let newest =
        "SELECT time_bucket('1 day', ts) AS part, max(usage) FROM cpu GROUP BY part ORDER BY part DESC LIMIT 1";
    assert!(!explain(&session, newest).contains("NewestBuckets"), "few rows");
    fill(&session);
    assert!(explain(&session, newest).contains("NewestBuckets"));
    for other in [
        "SELECT time_bucket('1 day', ts) AS part, max(usage) FROM cpu GROUP BY part ORDER BY part LIMIT 1",
        "SELECT time_bucket('1 day', ts) AS part, max(usage) FROM cpu GROUP BY part ORDER BY part DESC",
        "SELECT time_bucket('1 day', ts) AS part, max(usage) AS m FROM cpu GROUP BY part ORDER BY m DESC LIMIT 1",
        "SELECT time_bucket('1 day', ts) AS part, usage FROM cpu ORDER BY part DESC, usage LIMIT 1",
    ] {
        assert!(!explain(&session, other).contains("NewestBuckets"), "{other}");
    }
}
