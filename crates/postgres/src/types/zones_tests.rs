use arrow::array::AsArray;
use arrow::util::pretty::pretty_format_batches;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Settings, Value};
use fleetdb_functions::values::texts::text_form_in;
use fleetdb_query::session::Session;

fn session() -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), crate::Postgres::new()).unwrap();
    session.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMPTZ, at TIMESTAMP, v BIGINT, PRIMARY KEY (id, ts))").unwrap();
    session.sql("INSERT INTO t VALUES (1, '2026-07-01 22:30Z', '2026-07-01 22:30', 1), (1, '2026-07-02 21:30Z', '2026-07-02 21:30', 2)").unwrap();
    session
}

/// The cells of one row, as the wire sends them.
fn row(session: &Session, sql: &str) -> Vec<String> {
    let rows = session.sql(sql).unwrap().collect().unwrap();
    let texts = rows[0].columns().iter().map(|column| {
        let texts = text_form_in(column, session.zone()).unwrap();
        let texts = texts.unwrap_or_else(|| arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8).unwrap());
        texts.as_string::<i32>().value(0).to_owned()
    });
    texts.collect()
}

#[test]
fn a_day_of_buckets_without_a_zone_is_one_of_the_session_s_clocks() {
    let session = session();
    let days = "SELECT time_bucket('1 day', ts) AS day, count(*), sum(v) FROM t GROUP BY day ORDER BY day LIMIT 1";
    assert_eq!(row(&session, days), ["2026-07-01 00:00:00+00", "1", "1"]);
    session.sql("SET TIME ZONE 'Europe/Vienna'").unwrap();
    assert_eq!(row(&session, days), ["2026-07-02 00:00:00+02", "2", "3"]);
    // The session's zone changes neither calls that name a zone nor buckets shorter than a day.
    let named = "SELECT time_bucket('1 day', ts, 'UTC'), time_bucket('1 hour', ts) FROM t ORDER BY ts LIMIT 1";
    assert_eq!(row(&session, named), ["2026-07-01 02:00:00+02", "2026-07-02 00:00:00+02"]);
    let filled = "SELECT time_bucket_gapfill('1 day', ts) AS day, count(*) FROM t WHERE ts >= '2026-07-01' AND ts < '2026-07-03' \
                  GROUP BY day ORDER BY day";
    assert_eq!(row(&session, filled)[0], "2026-07-01 00:00:00+02");
    let filled = "SELECT time_bucket_gapfill('1 day', ts, '2026-07-02', '2026-07-04') AS day, count(*) FROM t GROUP BY day ORDER BY day DESC";
    assert_eq!(row(&session, filled)[0], "2026-07-03 00:00:00+02");
    for (arguments, wanted) in [
        ("'1 hour', ts, '2026-07-02', '2026-07-02 02:00'", "2026-07-02 01:00:00+02"),
        ("'1 day', ts, 'UTC', '2026-07-02', '2026-07-04'", "2026-07-03 02:00:00+02"),
    ] {
        let filled =
            format!("SELECT time_bucket_gapfill({arguments}) AS b, count(*) FROM t GROUP BY b ORDER BY b DESC");
        assert_eq!(row(&session, &filled)[0], wanted, "{arguments}");
    }
}

#[test]
fn a_column_without_a_zone_is_utc_whatever_the_session_s_zone() {
    let session = session();
    let same = "SELECT count(*) FROM t WHERE ts = at";
    assert_eq!(row(&session, same), ["2"]);
    session.sql("SET TIME ZONE 'America/New_York'").unwrap();
    assert_eq!(row(&session, same), ["2"]);
    session.sql("INSERT INTO t SELECT 2, ts, ts AS at, 0 FROM t WHERE id = 1").unwrap();
    session.sql("UPDATE t SET at = ts WHERE id = 1").unwrap();
    assert_eq!(row(&session, same), ["4"]);
    assert_eq!(
        row(&session, "SELECT at, ts FROM t ORDER BY ts LIMIT 1"),
        ["2026-07-01 22:30:00", "2026-07-01 18:30:00-04"]
    );
    session.sql("CREATE TABLE m (id BIGINT, at TIMESTAMP, PRIMARY KEY (id, at))").unwrap();
    for condition in ["at >= now() - INTERVAL '1 day' AND at < now()", "at >= now() - INTERVAL '1 hour'"] {
        let explained = session.sql(&format!("EXPLAIN SELECT * FROM m WHERE {condition}")).unwrap().collect().unwrap();
        let explained = pretty_format_batches(&explained).unwrap().to_string();
        assert!(explained.contains("time>=") && !explained.contains("FilterExec"), "{explained}");
    }
    let explained =
        session.sql("EXPLAIN SELECT * FROM t WHERE ts >= '2026-07-01' AND ts < now()").unwrap().collect().unwrap();
    let explained = pretty_format_batches(&explained).unwrap().to_string();
    assert!(
        explained.contains("time>=1782878400000000000, time<=") && !explained.contains("FilterExec"),
        "{explained}"
    );
}

#[test]
fn a_prepared_plan_is_made_again_in_another_zone() {
    let session = session();
    let prepared = session.prepare("SELECT count(*), min(ts) FROM t WHERE ts >= '2026-07-02' AND ts < $1").unwrap();
    let count = |until: Value| {
        let rows = prepared.query(&[until]).unwrap();
        rows[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0)
    };
    let until = || Value::Text("2026-07-02 22:00".to_owned());
    for (zone, wanted) in [("UTC", 1), ("Europe/Vienna", 1), ("Asia/Tokyo", 1), ("Europe/Vienna", 1), ("UTC", 1)] {
        session.sql(&format!("SET TIME ZONE '{zone}'")).unwrap();
        assert_eq!(count(until()), wanted, "{zone}");
    }
    session.sql("SET TIME ZONE 'Europe/Vienna'").unwrap();
    assert_eq!(count(Value::Text("2026-07-03".to_owned())), 2, "both are of the second of July there");
    session.sql("SET TIME ZONE 'UTC'").unwrap();
    assert_eq!(count(Value::Text("2026-07-03".to_owned())), 1);
}

#[test]
fn far_bounds_mean_everything_as_parameters_too_and_nothing_else() {
    let session = session();
    for zone in ["UTC", "Asia/Tokyo"] {
        session.sql(&format!("SET TIME ZONE '{zone}'")).unwrap();
        let prepared = session.prepare("SELECT count(*) FROM t WHERE ts < $1 AND at BETWEEN $2 AND $3").unwrap();
        let count = |until: &str, from: &str| {
            let values = [until, from, until].map(|text| Value::Text(text.to_owned()));
            let rows = prepared.query(&values).unwrap();
            rows[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0)
        };
        assert_eq!(count("infinity", "-infinity"), 2);
        assert_eq!(count("9999-12-31", "0001-01-01"), 2);
        assert_eq!(count("9999-12-31 23:59:59+00", "2026-07-02"), 1);
        assert_eq!(count("-infinity", "-infinity"), 0);
        let shown = session.prepare("SELECT $1::timestamptz FROM t WHERE ts < $1").unwrap();
        let error = shown.query(&[Value::Text("9999-12-31".to_owned())]).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), Code::TimeOutOfRange, "{error}");
    }
}
