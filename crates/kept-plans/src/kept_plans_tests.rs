use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Settings, Value};
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

/// Each has one parameter and says the order of its rows.
const QUERIES: [&str; 20] = [
    "SELECT v % 10 AS g, count(*), sum(v), min(n), max(n), avg(v) FROM t WHERE v >= $1 GROUP BY v % 10 ORDER BY g",
    "SELECT count(*) FILTER (WHERE v > $1) AS c, sum(n) FILTER (WHERE v > $1) AS s, count(DISTINCT v % 7), max(n), \
     avg(n) FROM t",
    "SELECT n % 3 AS a, v % 5 AS b, count(DISTINCT v), sum(n) FILTER (WHERE v > $1) AS s FROM t \
     GROUP BY n % 3, v % 5 ORDER BY a, b",
    "SELECT DISTINCT n % 10 + $1 AS g FROM t ORDER BY g",
    "SELECT v % 2 AS g, array_agg(n ORDER BY v, k) FROM t WHERE v > $1 GROUP BY v % 2 ORDER BY g",
    "SELECT k, v - lag(v) OVER (ORDER BY k) AS d, row_number() OVER (ORDER BY k DESC) AS r, \
     sum(n) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s, rank() OVER (ORDER BY v % 10) AS p, \
     lead(n, 2, 0) OVER (ORDER BY k) AS l FROM t WHERE v > $1 ORDER BY k",
    "SELECT k, first_value(v) OVER (PARTITION BY v % 3 ORDER BY k) AS f, count(*) OVER () AS c FROM t \
     WHERE v > $1 ORDER BY k",
    "SELECT k FROM t WHERE v < $1 UNION ALL SELECT v FROM t UNION ALL SELECT k + v FROM t WHERE k = 7 ORDER BY 1",
    "SELECT k FROM t WHERE k < $1 UNION ALL SELECT k FROM t WHERE k > 3 ORDER BY 1 LIMIT 9",
    "SELECT k + $1 AS s FROM t ORDER BY k LIMIT 20 OFFSET 40",
    // As the PostgreSQL dialect writes EXISTS.
    "SELECT CASE WHEN (SELECT count(*) FROM (SELECT 1 FROM t WHERE v > $1 LIMIT 1) AS e) > 0 \
     THEN 'yes' ELSE 'no' END AS c",
    "SELECT k, CASE WHEN v > $1 THEN 'high' WHEN n IS NULL THEN 'none' WHEN v = 500 THEN NULL END AS c FROM t \
     WHERE k = 3",
    "SELECT CASE v WHEN 0 THEN 'zero' ELSE CASE WHEN v > $1 THEN 'high' END END AS c FROM t ORDER BY k",
    "SELECT CASE WHEN v > $1 THEN NULL ELSE v * 2 END AS c FROM t WHERE k = 3",
    "SELECT CASE WHEN n IS NULL THEN 'none' WHEN v > $1 THEN 'high' ELSE 'low' END AS c FROM t WHERE k = 0",
    "SELECT (SELECT max(v) FROM t WHERE k < $1) AS m, k FROM t ORDER BY k LIMIT 5",
    "SELECT a.k, b.v FROM t a LEFT JOIN t b ON b.k = a.v AND b.v > $1 ORDER BY a.k",
    "SELECT k FROM t WHERE v > $1 AND NOT EXISTS (SELECT 1 FROM t AS u WHERE u.n = t.k) ORDER BY k LIMIT 30",
    "SELECT k, v - lag(v) OVER (ORDER BY k) AS d FROM t WHERE v > $1 ORDER BY k LIMIT 4",
    "SELECT k, max(n) AS m FROM t WHERE v > $1 GROUP BY k ORDER BY k LIMIT 4",
];

#[test]
fn the_condition_of_a_case_is_evaluated_once() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    session.sql("CREATE TABLE s (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v BIGINT)").unwrap();
    let next = || {
        let next = session.sql("SELECT nextval('s') AS n").unwrap().collect().unwrap();
        next[0].column(0).as_primitive::<Int64Type>().value(0)
    };
    for case in ["CASE WHEN nextval('s') < $1 THEN 1 END", "CASE WHEN nextval('s') < $1 THEN 1 ELSE 2 END"] {
        let prepared = session.prepare(&format!("SELECT {case} AS c")).unwrap();
        let before = next();
        assert!(prepared.start_kept(&[Value::Int(0)]).unwrap().is_some(), "{case}");
        prepared.query(&[Value::Int(0)]).unwrap();
        assert_eq!(next(), before + 2, "{case}");
    }
}

#[test]
fn a_run_that_fails_does_no_harm_to_the_next() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    session.sql("INSERT INTO t VALUES (1, 5), (2, 0), (3, 7)").unwrap();
    let one = session.prepare("SELECT (SELECT v FROM t WHERE k >= $1) AS v FROM t ORDER BY k LIMIT 1").unwrap();
    let quotients = session.prepare("SELECT sum(10 / v) AS s FROM t WHERE k > $1").unwrap();
    let run = |prepared: &fleetdb_query::Prepared<&Session>, value: i64| {
        assert!(prepared.start_kept(&[Value::Int(value)]).unwrap().is_some());
        let batches = prepared.query(&[Value::Int(value)])?;
        Ok::<_, fleetdb_engine::Error>(batches[0].column(0).as_primitive::<Int64Type>().value(0))
    };
    for _ in 0..2 {
        assert_eq!(run(&one, 2).unwrap_err().code(), Code::Cardinality);
        assert_eq!(run(&one, 3).unwrap(), 7);
        assert_eq!(run(&quotients, 0).unwrap_err().code(), Code::DivisionByZero);
        assert_eq!(run(&quotients, 2).unwrap(), 1);
    }
}

#[test]
fn a_kept_plan_gives_what_a_new_plan_gives() {
    let shown = |batches: &[RecordBatch]| pretty_format_batches(batches).unwrap().to_string();
    for count in [0, 1, 20, 1_024, 1_025, 20_000] {
        let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
        let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
        session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT, n BIGINT)").unwrap();
        for from in (0..count).step_by(5_000) {
            let rows = format!("generate_series({from}, {}) AS g(k)", (from + 5_000).min(count) - 1);
            let value = "k * 7919 % 1009";
            let n = format!("nullif({value}, {value} / 4 * 4)");
            session.sql(&format!("INSERT INTO t (k, v, n) SELECT k, {value}, {n} FROM {rows}")).unwrap();
        }
        for query in QUERIES {
            let prepared = session.prepare(query).unwrap();
            for value in [500, -1, 2_000, 500] {
                let is_kept = prepared.start_kept(&[Value::Int(value)]).unwrap().is_some();
                assert!(is_kept, "{count} rows, {value}: {query}");
                let found = prepared.query(&[Value::Int(value)]).unwrap();
                // No plan is kept for a text with this word, so DataFusion's operators run it.
                let text = query.replace("$1", &format!("{value} /* pg_ */"));
                let expected = session.sql(&text).unwrap().collect().unwrap();
                assert_eq!(shown(&found), shown(&expected), "{count} rows: {text}");
            }
        }
    }
}
