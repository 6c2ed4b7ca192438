//! Joins of a collection with the rows of its containers, which read only the containers that they need.

use super::{explain, text};
use fleetdb_engine::Value;
use fleetdb_query::Session;

/// A session with 200 meters at 20 sites and the readings of 201 meters. `meters` has no row for the last one.
fn session() -> Session {
    let (_, session) = super::session();
    for sql in [
        "CREATE TABLE meters (id BIGINT PRIMARY KEY, site TEXT)",
        "CREATE TABLE readings (meter BIGINT, ts TIMESTAMP(0), kwh DOUBLE, PRIMARY KEY (meter, ts))",
        "INSERT INTO meters SELECT i, concat('s', i % 20) FROM generate_series(1, 200) t(i)",
        "INSERT INTO readings SELECT i, to_timestamp_seconds(j * 3600), i + j FROM generate_series(1, 201) a(i), \
         generate_series(0, 23) b(j)",
    ] {
        session.sql(sql).unwrap();
    }
    session
}

/// The rows of a query, with single blanks.
fn found(session: &Session, sql: &str) -> String {
    let rows = text(&session.sql(sql).unwrap().collect().unwrap());
    rows.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_join_reads_the_containers_of_its_first_side() {
    let session = session();
    let site = "m.site = 's7'";
    for (sql, expected) in [
        (
            format!("SELECT count(*), sum(r.kwh) FROM meters m JOIN readings r ON r.meter = m.id WHERE {site}"),
            "| 240 | 26040.0 |",
        ),
        (
            format!("SELECT count(*), sum(r.kwh) FROM readings r JOIN meters m ON r.meter = m.id WHERE {site}"),
            "| 240 | 26040.0 |",
        ),
        (
            format!("SELECT count(*), sum(kwh) FROM readings WHERE meter IN (SELECT id FROM meters m WHERE {site})"),
            "| 240 | 26040.0 |",
        ),
        (
            format!(
                "SELECT count(*), sum(m.id) FROM meters m WHERE {site} AND EXISTS (SELECT 1 FROM readings r WHERE r.meter = m.id AND r.kwh > 150)"
            ),
            "| 3 | 501 |",
        ),
        (
            format!(
                "SELECT count(r.ts), count(*) FROM meters m LEFT JOIN readings r ON r.meter = m.id AND r.kwh > 170 WHERE {site}"
            ),
            "| 44 | 52 |",
        ),
    ] {
        let plan = explain(&session, &sql);
        assert!(plan.contains("CollectKeys") && plan.contains("keys of the join"), "{plan}");
        // The collection is in memory, and the readings pass by.
        let (collected, scanned) = (plan.find("table=meters").unwrap(), plan.find("table=readings").unwrap());
        assert!(collected < scanned, "{plan}");
        let found = found(&session, &sql);
        assert!(found.contains(expected), "{sql}: {found}");
    }
}

#[test]
fn a_join_that_shows_rows_without_a_partner_reads_all() {
    let session = session();
    for (sql, expected) in [
        (
            "SELECT count(*), count(m.id) FROM readings r LEFT JOIN meters m ON r.meter = m.id AND m.site = 's7'",
            "| 4824 | 240 |",
        ),
        ("SELECT count(*), count(m.id) FROM meters m FULL JOIN readings r ON r.meter = m.id", "| 4824 | 4800 |"),
        ("SELECT count(*), sum(meter) FROM readings WHERE meter NOT IN (SELECT id FROM meters)", "| 24 | 4824 |"),
        (
            "SELECT count(*), min(r.meter) FROM readings r WHERE NOT EXISTS (SELECT 1 FROM meters m WHERE m.id = r.meter)",
            "| 24 | 201 |",
        ),
    ] {
        let found = found(&session, sql);
        assert!(found.contains(expected), "{sql}: {found}");
    }
}

#[test]
fn a_prepared_join_reads_the_containers_of_each_run() {
    let session = session();
    let sql = "SELECT sum(r.meter) FROM meters m JOIN readings r ON r.meter = m.id WHERE m.site = $1";
    let prepared = session.prepare(sql).unwrap();
    for site in [3, 7, 3, 0] {
        let rows = prepared.query(&[Value::Text(format!("s{site}"))]).unwrap();
        let first = if site == 0 { 20 } else { site };
        let expected = (0..10).map(|n| (first + 20 * n) * 24).sum::<i64>();
        assert!(text(&rows).contains(&format!(" {expected} ")), "{site}: {}", text(&rows));
    }
}

#[test]
fn a_join_by_one_key_collects_no_keys() {
    let session = session();
    let sql = "SELECT count(*), sum(r.kwh) FROM meters m JOIN readings r ON r.meter = m.id WHERE m.id = ";
    let plan = explain(&session, &format!("{sql} 7"));
    assert!(plan.contains("HashJoinExec") && !plan.contains("CollectKeys"), "{plan}");
    let prepared = session.prepare(&format!("{sql} $1")).unwrap();
    // The meters have no row for the last key.
    for (meter, expected) in [(7, "| 24 | 444.0 |"), (200, "| 24 | 5076.0 |"), (201, "| 0 | |")] {
        let rows = text(&prepared.query(&[Value::Int(meter)]).unwrap());
        let rows = rows.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(rows.contains(expected), "{meter}: {rows}");
    }
}
