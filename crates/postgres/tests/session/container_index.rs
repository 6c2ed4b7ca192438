//! Answers from the container index equal those of a scan.

use crate::{explain, fill, session, text};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};

#[test]
fn the_newest_row_of_a_container_is_not_searched_for() {
    let (db, session) = session();
    let sql = "SELECT * FROM cpu WHERE host = 'h2' ORDER BY ts DESC LIMIT 1";
    let plan = explain(&session, sql);
    assert!(plan.contains("newest first") && !plan.contains("SortExec"), "{plan}");
    let last = session.prepare("SELECT ts, usage FROM cpu WHERE host = $1 ORDER BY ts DESC LIMIT 1").unwrap();
    let usage = |host: &str| last.query(&[host.into()]).unwrap()[0].column(1).as_primitive::<Int64Type>().value(0);
    assert_eq!(usage("h4"), (999 * 7 + 4) % 100);
    db.flush().unwrap();
    assert_eq!(usage("h1"), (999 * 7 + 1) % 100);
    let newest =
        "SELECT usage FROM cpu WHERE host = 'h2' AND ts <= to_timestamp_seconds(5000) ORDER BY ts DESC LIMIT 3";
    let rows = session.sql(newest).unwrap().collect().unwrap();
    assert_eq!(
        rows[0].column(0).as_primitive::<Int64Type>().values().to_vec(),
        [500, 499, 498].map(|t| (t * 7 + 2) % 100)
    );
    let ascending = explain(&session, "SELECT usage FROM cpu WHERE host = 'h2' ORDER BY ts");
    assert!(!ascending.contains("SortExec"), "one container's rows are in order of time: {ascending}");
    let two = explain(&session, "SELECT * FROM cpu WHERE host IN ('h1', 'h2') ORDER BY ts DESC LIMIT 1");
    assert!(two.contains("SortExec"), "{two}");
    assert_eq!(
        session
            .sql("SELECT * FROM cpu WHERE host = 'none' ORDER BY ts DESC LIMIT 1")
            .unwrap()
            .collect()
            .unwrap()
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        0
    );
}

#[test]
fn answers_from_the_container_index_are_those_of_a_scan() {
    let (db, session) = session();
    let functions = "count(*), count(load), sum(usage), sum(load), min(usage), max(load), avg(usage), avg(load), min(ts), max(ts), count(ts)";
    let conditions = [
        "",
        "WHERE host = 'h1'",
        "WHERE ts >= to_timestamp_seconds(1234) AND ts < to_timestamp_seconds(9000)",
        "WHERE host > 'h2' AND ts > to_timestamp_seconds(4000)",
        "WHERE host = 'none'",
    ];
    let groups = [
        ("", ""),
        ("host, ", "GROUP BY host ORDER BY host"),
        ("host, time_bucket('1000 seconds', ts) AS part, ", "GROUP BY host, part ORDER BY host, part"),
        ("time_bucket('1 month', ts, 'Asia/Tokyo') AS part, host, ", "GROUP BY part, host ORDER BY part, host"),
    ];
    for round in 0..4 {
        match round {
            1 => db.flush().unwrap(),
            2 => {
                // Overlaps, replaced rows and deleted rows.
                fill(&session, 500);
                session.sql("UPDATE cpu SET usage = 1000 WHERE ts BETWEEN to_timestamp_seconds(3000) AND to_timestamp_seconds(5000)").unwrap();
                session.sql("DELETE FROM cpu WHERE host = 'h4' AND ts > to_timestamp_seconds(7000)").unwrap();
            }
            3 => db.flush().unwrap(),
            _ => {}
        }
        for condition in conditions {
            for (select, group) in groups {
                let sql = format!("SELECT {select}{functions} FROM cpu {condition} {group}");
                let plan = explain(&session, &sql);
                // Without segments, it is not known how many rows a bucket has.
                if round > 0 || !select.contains("part") {
                    assert!(plan.contains("ContainerAggregate") && !plan.contains("FleetScan"), "{plan}");
                }
                // The same rows, behind a filter that cannot be pushed down into the scan.
                let filter = if condition.is_empty() { "WHERE" } else { "AND" };
                let scanned = format!(
                    "SELECT {select}{functions} FROM cpu {condition} {filter} (usage > -1 OR usage < 0 OR usage IS NULL) {group}"
                );
                assert!(explain(&session, &scanned).contains("FleetScan"));
                let (answer, scan) =
                    (session.sql(&sql).unwrap().collect().unwrap(), session.sql(&scanned).unwrap().collect().unwrap());
                assert_eq!(text(&answer), text(&scan), "round {round}: {sql}");
            }
        }
    }
    // The newest rows, written in three ways.
    let written = [
        "SELECT DISTINCT ON (host) host, ts, usage, load FROM cpu ORDER BY host, ts DESC",
        "SELECT host, max(ts), last(usage, ts), last(load, ts) FROM cpu GROUP BY host ORDER BY host",
        "SELECT host, max(ts), last_value(usage ORDER BY ts), last_value(load ORDER BY ts) FROM cpu GROUP BY host ORDER BY host",
    ];
    let cells = |sql: &str| {
        text(&session.sql(sql).unwrap().collect().unwrap()).lines().skip(3).map(str::to_owned).collect::<Vec<_>>()
    };
    let by_scan = "SELECT host, ts, usage, load FROM cpu AS o WHERE ts = (SELECT max(ts) FROM cpu WHERE host = o.host) ORDER BY host";
    for sql in written {
        let plan = explain(&session, sql);
        assert!(plan.contains("ContainerAggregate"), "{plan}");
        let values = |sql: &str| {
            cells(sql)
                .iter()
                .map(|line| line.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>())
                .filter(|line| line.len() > 2)
                .collect::<Vec<_>>()
        };
        assert_eq!(values(sql), values(by_scan), "{sql}");
    }
    // With few rows in a bucket, batches of rows are aggregated.
    let minutes =
        explain(&session, "SELECT host, time_bucket('1 minute', ts) AS m, sum(load) FROM cpu GROUP BY host, m");
    assert!(minutes.contains("RunAggregate") && !minutes.contains("ContainerAggregate"), "{minutes}");
    // A grouping set is a group of another kind.
    let sets = session.sql("SELECT host, count(*) FROM cpu GROUP BY GROUPING SETS ((host)) ORDER BY host").unwrap();
    assert_eq!(sets.collect().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
    // A condition that cannot be pushed down prevents the container aggregate.
    let filtered = explain(&session, "SELECT count(*) FROM cpu WHERE usage > 5");
    assert!(filtered.contains("FleetScan") && !filtered.contains("ContainerAggregate"), "{filtered}");
    let total = session.sql("SELECT sum(load) FROM cpu").unwrap().collect().unwrap();
    assert!(total[0].column(0).as_primitive::<Float64Type>().value(0) > 0.0);
}

#[test]
fn tags_are_grouped_as_runs_only_where_neighbours_share_them() {
    let (_db, session) = session();
    for sql in [
        "CREATE TABLE meters (id BIGINT PRIMARY KEY, site TEXT, n BIGINT)",
        "INSERT INTO meters SELECT i, 'site ' || i % 3, i FROM generate_series(0, 99) AS t(i)",
        "CREATE TABLE states (id BIGINT, ts TIMESTAMP, state TEXT, n BIGINT, PRIMARY KEY (id, ts))",
        "INSERT INTO states SELECT i, TIMESTAMP '2026-01-01' + i * INTERVAL '1 hour', 'site ' || i % 3, i \
         FROM generate_series(0, 99) AS t(i)",
    ] {
        session.sql(sql).unwrap().collect().unwrap();
    }
    let groups = |table: &str, tag: &str| {
        format!("SELECT {tag}, CAST(sum(n) AS BIGINT) FROM {table} WHERE n > 1 GROUP BY {tag} ORDER BY {tag}")
    };
    let (of_collection, of_series) = (groups("meters", "site"), groups("states", "state"));
    let plan = explain(&session, &of_collection);
    assert!(plan.contains("AggregateExec") && !plan.contains("RunAggregate"), "{plan}");
    let plan = explain(&session, &of_series);
    assert!(plan.contains("RunAggregate"), "{plan}");
    let sums = |sql: &str| {
        let rows = session.sql(sql).unwrap().collect().unwrap();
        rows.iter().flat_map(|rows| rows.column(1).as_primitive::<Int64Type>().values().to_vec()).collect::<Vec<_>>()
    };
    let expected = [0, 1, 2].map(|rest| (2..100).filter(|n| n % 3 == rest).sum::<i64>());
    assert_eq!((sums(&of_collection), sums(&of_series)), (expected.to_vec(), expected.to_vec()));
}
