use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings, Value};
use fleetdb_query::Session;
use std::collections::BTreeMap;

/// Runs a prepared query three times; returns its first column.
fn column(session: &Session, sql: &str, parameters: &[i64]) -> Vec<i64> {
    let prepared = session.prepare(sql).unwrap();
    let parameters: Vec<Value> = parameters.iter().copied().map(Value::Int).collect();
    assert!(prepared.start_kept(&parameters).unwrap().is_some(), "{sql}");
    let run = || {
        let batches = prepared.query(&parameters).unwrap();
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
    };
    let first: Vec<i64> = run();
    for _ in 0..2 {
        assert_eq!(run(), first, "{sql}");
    }
    first
}

#[test]
fn a_kept_plan_gives_all_rows_in_each_run() {
    // More rows than are sorted at once, and more than in a batch.
    for count in [0, 1, 20, 1_024, 1_025, 20_000] {
        let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
        let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
        session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
        let value = |k: i64| k * 7_919 % 1_009;
        if count > 0 {
            let rows = format!("SELECT v, v * 7919 % 1009 FROM generate_series(0, {}) AS g(v)", count - 1);
            session.sql(&format!("INSERT INTO t (k, v) {rows}")).unwrap();
        }
        let values: Vec<i64> = (0..count).map(value).collect();
        let above = |least: i64| values.iter().copied().filter(move |value| *value > least);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let mut groups = BTreeMap::new();
        values.iter().for_each(|value| *groups.entry(value % 10).or_insert(0) += 1);

        let found = column(&session, "SELECT v + $1 FROM t ORDER BY k", &[5]);
        assert_eq!(found, values.iter().map(|value| value + 5).collect::<Vec<_>>());
        assert_eq!(column(&session, "SELECT v FROM t ORDER BY v", &[]), sorted);
        let largest: Vec<i64> = sorted.iter().rev().take(7).copied().collect();
        assert_eq!(column(&session, "SELECT v FROM t ORDER BY v DESC LIMIT 7", &[]), largest);
        let first: Vec<i64> = values.iter().take(7).copied().collect();
        assert_eq!(column(&session, "SELECT v FROM t ORDER BY k, v LIMIT 7", &[]), first);
        let first: Vec<i64> = above(500).take(3).collect();
        assert_eq!(column(&session, "SELECT v FROM t WHERE v > $1 LIMIT 3", &[500]), first);
        assert_eq!(column(&session, "SELECT count(*) FROM t WHERE v > $1", &[500]), [above(500).count() as i64]);
        let found = column(&session, "SELECT (SELECT count(*) FROM t WHERE v > $1) + count(*) FROM t", &[100]);
        assert_eq!(found, [above(100).count() as i64 + count]);
        let large = "SELECT v % 10 AS g FROM t GROUP BY v % 10 HAVING count(*) > $1 ORDER BY g";
        let expected: Vec<i64> = groups.iter().filter(|(_, rows)| **rows > 2).map(|(group, _)| *group).collect();
        assert_eq!(column(&session, large, &[2]), expected);

        // The left side of the join has no row, one, or many.
        session.sql("CREATE TABLE s (id BIGINT PRIMARY KEY, least BIGINT)").unwrap();
        session.sql("INSERT INTO s VALUES (1, 1), (2, 900), (3, NULL)").unwrap();
        let join = "SELECT v + id - id FROM s JOIN t ON v = least WHERE id >= $1 AND id <= $2 ORDER BY k";
        for (from, to) in [(1, 1), (2, 2), (3, 3), (1, 3), (4, 4)] {
            let least: Vec<i64> = [(1, 1), (2, 900)]
                .into_iter()
                .filter_map(|(id, least)| (from..=to).contains(&id).then_some(least))
                .collect();
            let expected: Vec<i64> = values.iter().copied().filter(|value| least.contains(value)).collect();
            assert_eq!(column(&session, join, &[from, to]), expected, "{from} to {to}");
        }
    }
}
