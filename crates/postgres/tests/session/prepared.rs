//! Prepared statements keep their plan but see current data.

use crate::{explain, fill, session, text};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use fleetdb_engine::{Code, ErrorKind, Value};

#[test]
fn a_prepared_statement_sees_what_is_there_now() {
    let (db, session) = session();
    let sum = session.prepare("SELECT sum(usage), count(*) FROM cpu WHERE host = $1 AND ts >= $2 AND ts < $3").unwrap();
    let run = |host: &str, from: i64, to: i64| {
        let rows = sum.query(&[host.into(), Value::Int(from), Value::Int(to)]).unwrap();
        (rows[0].column(0).as_primitive::<Int64Type>().value(0), rows[0].column(1).as_primitive::<Int64Type>().value(0))
    };
    let expected = |host: i64, from: i64, to: i64| {
        let values = (from / 10..to / 10).map(|t| (t * 7 + host) % 100);
        (values.clone().sum::<i64>(), values.count() as i64)
    };
    assert_eq!(run("h1", 0, 600), expected(1, 0, 600));
    assert_eq!(run("h3", 100, 9_000), expected(3, 100, 9_000));
    db.flush().unwrap();
    fill(&session, 1_000);
    assert_eq!(run("h3", 9_000, 12_000), expected(3, 9_000, 12_000), "from a segment and a memtable");
    session.sql("DELETE FROM cpu WHERE host = 'h3' AND ts < 10000").ok();
    session.sql("DELETE FROM cpu WHERE host = 'h3' AND ts < to_timestamp_seconds(10000)").unwrap();
    assert_eq!(run("h3", 9_000, 12_000), expected(3, 10_000, 12_000));
    session.sql("ALTER TABLE cpu ADD COLUMN note TEXT").unwrap();
    assert_eq!(run("h2", 0, 600), expected(2, 0, 600), "planned again");
    // NULL equals nothing.
    let none = sum.query(&[Value::Null, Value::Int(0), Value::Int(600)]).unwrap();
    assert_eq!(none[0].column(1).as_primitive::<Int64Type>().value(0), 0);
}

#[test]
fn a_setting_of_datafusion_holds_from_the_next_statement_on() {
    let (_, session) = session();
    let all = session.prepare("SELECT value FROM generate_series(1, 5) AS s(value)").unwrap();
    let most = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).max();
    let asked = || most(session.sql("SELECT value FROM generate_series(1, 5) AS s(value)").unwrap().collect().unwrap());
    assert_eq!((most(all.query(&[]).unwrap()), asked()), (Some(5), Some(5)));
    session.sql("SET datafusion.execution.batch_size = 2").unwrap().collect().unwrap();
    assert_eq!((most(all.query(&[]).unwrap()), asked()), (Some(2), Some(2)));
    session.sql("RESET datafusion.execution.batch_size").unwrap().collect().unwrap();
    assert_eq!((most(all.query(&[]).unwrap()), asked()), (Some(5), Some(5)));
}

#[test]
fn a_time_finer_than_the_column_is_compared_exactly() {
    let (_, session) = session();
    let count = |sql: &str, time: &str| {
        let counted = session.prepare(&format!("SELECT count(*) FROM cpu WHERE {sql}")).unwrap();
        let rows = counted.query(&[time.into()]).unwrap();
        rows[0].column(0).as_primitive::<Int64Type>().value(0)
    };
    // Five hosts have a row every ten seconds.
    for (sql, time, rows) in [
        ("ts < $1", "1970-01-01 00:00:10.5", 10),
        ("ts < $1", "1970-01-01 00:00:10", 5),
        ("ts <= $1", "1970-01-01 00:00:09.999999", 5),
        ("ts = $1", "1970-01-01 00:00:10.5", 0),
        ("ts = $1", "1970-01-01 00:00:10.0", 5),
        ("host = 'h1' AND ts BETWEEN '1970-01-01 00:00:09.5' AND $1", "1970-01-01 00:00:20.000000001", 2),
    ] {
        assert_eq!(count(sql, time), rows, "{sql}, {time}");
    }
    // The scan evaluates the rounded conditions.
    let plan = explain(
        &session,
        "SELECT count(*) FROM cpu WHERE ts < '1970-01-01 00:00:10.5' AND ts > TIMESTAMP '1970-01-01 00:00:00.5'",
    );
    assert!(plan.contains("time>=1, time<=10"), "{plan}");
}

#[test]
fn what_is_of_the_moment_is_of_each_run() {
    let (db, session) = session();
    let rows = session.prepare("SELECT rows FROM system.tables WHERE table_name = 'cpu'").unwrap();
    let next =
        session.prepare("SELECT usage FROM time_next_only('cpu', 'h0', TIMESTAMP '1970-01-01T02:46:30')").unwrap();
    let clock = session.prepare("SELECT count(*) FROM cpu WHERE ts < now() - INTERVAL '1 hour'").unwrap();
    let now = session.prepare("SELECT now()").unwrap();
    let first = text(&now.query(&[]).unwrap());
    assert!(text(&rows.query(&[]).unwrap()).contains("5000"));
    assert!(next.query(&[]).unwrap().is_empty());
    assert!(text(&clock.query(&[]).unwrap()).contains("5000"));
    fill(&session, 1_000);
    assert!(text(&rows.query(&[]).unwrap()).contains("10000"));
    assert_eq!(next.query(&[]).unwrap()[0].column(0).as_primitive::<Int64Type>().value(0), 0);
    assert!(text(&clock.query(&[]).unwrap()).contains("10000"));
    assert_ne!(text(&now.query(&[]).unwrap()), first, "time goes on");
    drop(db);
}

#[test]
fn parameters_may_stand_anywhere() {
    let (_db, session) = session();
    let scaled =
        session.prepare("SELECT usage * $2 AS v FROM cpu WHERE host = $1 AND usage > $3 ORDER BY ts LIMIT 3").unwrap();
    let rows = scaled.query(&["h0".into(), Value::Int(2), Value::Int(50)]).unwrap();
    let values: Vec<i64> =
        rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(values, [112, 126, 140]);
    for (values, expected) in
        [(vec![Value::Int(1)], "3 parameters, not 1"), (vec!["h0".into(), "x".into(), Value::Int(1)], "parameter $2")]
    {
        let error = scaled.query(&values).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(session.prepare("DELETE FROM cpu WHERE host = $1").is_err());
}

/// Statements with parameters in other places than the conditions that scans take.
const WITH_PARAMETERS: [&str; 18] = [
    "SELECT count(*) FROM cpu WHERE usage = $1",
    "SELECT count(*), sum(load) FROM cpu WHERE usage >= $1 AND usage < $2",
    "SELECT count(*) FROM cpu WHERE usage BETWEEN $1 AND $2 AND host = 'h1'",
    "SELECT count(*) FROM cpu WHERE usage IN ($1, $2, 7)",
    "SELECT count(*) FROM cpu WHERE usage NOT IN ($1, $2)",
    "SELECT count(*) FROM cpu WHERE usage IS DISTINCT FROM $1",
    "SELECT count(*) FROM cpu WHERE ($1::bigint IS NULL OR usage = $1) AND ($2::bigint IS NULL OR usage <> $2)",
    "SELECT count(*) FROM cpu WHERE host LIKE 'h' || $1::text",
    "SELECT ts, usage + $1 AS more FROM cpu WHERE host = 'h1' ORDER BY ts LIMIT 3",
    "SELECT ts, usage + $1, usage - $1 FROM cpu WHERE host = 'h1' AND usage = $2 ORDER BY 1 LIMIT 3",
    "SELECT host, sum(usage) FROM cpu WHERE usage > $1 GROUP BY host HAVING sum(usage) > $2 ORDER BY host",
    "SELECT sum(CASE WHEN usage > $1 THEN 1 ELSE 0 END) FROM cpu",
    "SELECT count(*) FILTER (WHERE usage < $1), sum(usage * $2) FROM cpu",
    "SELECT count(*) FROM (SELECT DISTINCT host FROM cpu) a WHERE EXISTS \
     (SELECT 1 FROM cpu b WHERE b.host = a.host AND b.usage = $1 AND b.load > $2)",
    "SELECT a.host, count(*) FROM cpu a JOIN cpu b ON a.host = b.host AND a.ts = b.ts AND a.usage + b.usage > $1 \
     GROUP BY a.host HAVING count(*) > $2 ORDER BY a.host",
    "SELECT host, usage FROM cpu WHERE usage = $1 UNION ALL SELECT 'x', $2::bigint ORDER BY 1, 2",
    "SELECT (SELECT max(usage) FROM cpu WHERE usage < $1) + count(*) FROM cpu WHERE usage > $2",
    "SELECT ts, row_number() OVER (ORDER BY (usage - $1) * (usage - $1), ts) FROM cpu WHERE host = 'h2' ORDER BY 2, 1 LIMIT 3",
];

#[test]
fn a_plan_is_kept_whatever_the_values_of_its_parameters() {
    let (db, session) = session();
    for is_flushed in [false, true] {
        for sql in WITH_PARAMETERS {
            let prepared = session.prepare(sql).unwrap();
            assert!(prepared.is_current(), "the plan is kept: {sql}");
            let count = prepared.parameter_types().len();
            for values in [[Some(14), Some(3)], [Some(70), Some(90)], [None, Some(5)], [Some(1), None], [None, None]] {
                let literal = |value: Option<i64>| value.map_or("NULL::bigint".to_owned(), |value| value.to_string());
                let plain = sql.replace("$1", &literal(values[0])).replace("$2", &literal(values[1]));
                let expected = session.sql(&plain).unwrap().collect().unwrap();
                let values = values.map(|value| value.map_or(Value::Null, Value::Int));
                let given = prepared.query(&values[..count]).unwrap();
                assert_eq!(rows(&given), rows(&expected), "{plain}");
            }
        }
        if !is_flushed {
            db.flush().unwrap();
        }
    }
}

#[test]
fn an_error_of_a_kept_plan_leaves_it_usable() {
    let (_, session) = session();
    let divided = session.prepare("SELECT sum(usage / $1) FROM cpu WHERE usage > $2").unwrap();
    assert!(divided.is_current());
    for _ in 0..2 {
        let error = divided.query(&[Value::Int(0), Value::Int(3)]).unwrap_err();
        assert_eq!(error.code(), Code::DivisionByZero, "{error}");
        let halves = rows(&divided.query(&[Value::Int(2), Value::Int(3)]).unwrap());
        let expected = session.sql("SELECT sum(usage / 2) FROM cpu WHERE usage > 3").unwrap().collect().unwrap();
        assert_eq!(halves, rows(&expected));
    }
}

#[test]
fn a_plan_that_depends_on_a_value_is_made_for_each_run() {
    let (_, session) = session();
    for sql in
        ["SELECT ts FROM cpu WHERE host = 'h1' ORDER BY ts LIMIT $1", "SELECT date_trunc($1, ts), usage FROM cpu"]
    {
        assert!(!session.prepare(sql).unwrap().is_current(), "{sql}");
    }
    let first = session.prepare("SELECT usage FROM cpu WHERE host = 'h1' AND usage > $2 ORDER BY ts LIMIT $1").unwrap();
    for limit in [0, 1, 3] {
        let rows = first.query(&[Value::Int(limit), Value::Int(10)]).unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), limit as usize);
    }
}

/// The rows without the names of columns, which of literals differ from those of parameters.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let cells = |batch: &RecordBatch, row: usize| -> Vec<String> {
        batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect()
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| cells(batch, row).join("|"))).collect()
}

#[test]
fn table_functions_take_parameters() {
    let (_db, session) = session();
    let series = session.prepare("SELECT n + $3 FROM generate_series($1::int, $2) AS n WHERE n <> $3").unwrap();
    for (from, to) in [(1, 4), (5, 2), (3, 3)] {
        let rows = series.query(&[Value::Int(from), Value::Int(to), Value::Int(3)]).unwrap();
        let found: Vec<i64> =
            rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values()).copied().collect();
        assert_eq!(found, (from..=to).filter(|value| *value != 3).map(|value| value + 3).collect::<Vec<_>>());
    }
    // An integer cast to a timestamp counts microseconds.
    let next = session.prepare("SELECT usage FROM time_next('cpu', $1, $2::timestamp)").unwrap();
    let usage = |host: Value, at: Value| {
        next.query(&[host, at]).unwrap().first().map(|rows| rows.column(0).as_primitive::<Int64Type>().value(0))
    };
    assert_eq!(usage("h2".into(), Value::Int(15_000_000)), Some(16));
    assert_eq!(usage("h2".into(), "1970-01-01T00:00:20".into()), Some(16));
    assert_eq!(usage("h2".into(), Value::Null), None);
    assert_eq!(usage("nobody".into(), Value::Int(0)), None);
    // It reads current data.
    session.sql("INSERT INTO cpu VALUES ('nobody', '1970-01-01', 77, NULL)").unwrap();
    assert_eq!(usage("nobody".into(), Value::Int(0)), Some(77));
    let error = next.query(&["h2".into(), "noon".into()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(series.query(&[Value::Int(1)]).unwrap_err().to_string().contains("3 parameters"));
}

#[test]
fn gap_filling_and_asof_joins_can_be_prepared() {
    let (db, session) = session();
    db.flush().unwrap();
    let filled = "SELECT host, time_bucket_gapfill('10 minutes', ts) AS bucket, locf(max(usage), 'before') FROM cpu \
                  WHERE host = $1 AND ts >= $2 AND ts < $3 GROUP BY host, bucket ORDER BY bucket";
    let joined = "SELECT a.ts, b.load FROM cpu a ASOF JOIN cpu b MATCH_CONDITION (a.ts > b.ts) ON a.host = b.host \
                  WHERE a.host = $1 AND a.ts >= $2 AND a.ts < $3";
    for sql in [filled, joined] {
        let prepared = session.prepare(sql).unwrap();
        for (host, from, to) in [("h1", 0, 3_000), ("h3", 9_000, 20_000), ("h9", 0, 1_000)] {
            let given = prepared.query(&[host.into(), Value::Int(from), Value::Int(to)]).unwrap();
            let plain = sql
                .replace("$1", &format!("'{host}'"))
                .replace("$2", &format!("to_timestamp_seconds({from})"))
                .replace("$3", &format!("to_timestamp_seconds({to})"));
            let expected = session.sql(&plain).unwrap().collect().unwrap();
            assert_eq!(text(&given), text(&expected), "{sql} {host}");
            assert_eq!(given.is_empty(), host == "h9");
        }
    }
}

#[test]
fn what_tells_columns_apart_while_they_are_planned_never_leaves_a_session() {
    let (_db, session) = session();
    let twice = "SELECT count(*), count(*), host, *, usage::TEXT FROM cpu GROUP BY host, ts, usage, load";
    let answer = session.sql(twice).unwrap();
    let schema = answer.schema().unwrap();
    let batches = answer.collect().unwrap();
    assert!(!batches.is_empty());
    for schema in batches.iter().map(RecordBatch::schema).chain([schema]) {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert!(names.iter().all(|name| !name.contains('\u{1f}')), "{names:?}");
    }
    assert!(!explain(&session, twice).contains('\u{1f}'));
    for wrong in ["SELECT count(*), count(*), nope FROM cpu", "SELECT host, host FROM cpu ORDER BY nope"] {
        let error = session.sql(wrong).and_then(fleetdb_query::Answer::collect).unwrap_err().to_string();
        assert!(error.contains("nope") && !error.contains('\u{1f}'), "{error:?}");
    }
    // Columns in files are found by name, so each name is distinct.
    let directory = tempfile::tempdir().unwrap();
    for ending in ["csv", "parquet"] {
        let file = directory.path().join(format!("twice.{ending}"));
        session.sql(&format!("COPY (SELECT host, host, usage AS host FROM cpu) TO '{}'", file.display())).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(5).any(|part| part == b"host\x1f"), "{ending}");
        assert!(bytes.windows(6).any(|part| part == b"host_2"), "{ending}");
    }
}
