//! Times in texts.

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Settings, Unit, Value};
use fleetdb_functions::values::times::{TimeText, read_time};
use fleetdb_postgres::Postgres;
use fleetdb_query::{Files, Session, Zone};
use std::sync::Arc;

/// Every interface reads a text as the same time.
#[test]
fn all_doors_read_the_same_times() {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let session = Session::new(Arc::clone(&db), Postgres::new())
        .unwrap()
        .with_files(Files::below(vec![folder.path().to_owned()]));
    for (kind, zone) in [("TIMESTAMP", "UTC"), ("TIMESTAMPTZ", "UTC"), ("TIMESTAMPTZ", "America/New_York")] {
        let run = |sql: &str| {
            session.sql(sql).map_err(|e| e.to_string()).and_then(|answer| answer.collect().map_err(|e| e.to_string()))
        };
        run(&format!("SET TIME ZONE '{zone}'")).unwrap();
        run(&format!("CREATE TABLE t (id BIGINT PRIMARY KEY, ts {kind}, s TEXT)")).unwrap();
        let read_in = if kind == "TIMESTAMP" { Zone::Utc } else { Zone::named(zone).unwrap() };
        let text_forms = [
            "2026-07-01",
            "2026-07-01 12:00",
            "2026-07-01T12:00",
            "2026-07-01 12:00:00",
            "2026-07-01T12:00:00.25",
            "2026-07-01 12:00+02",
            "2026-07-01 12:00:00+02:00",
            "2026-07-01 12:00:00Z",
            "2026-07-01T12:00:00-0330",
            "2026-07-01 12:00:00 Asia/Tokyo",
            "2026-07-01 12:00 Asia/Tokyo",
            "+2026-07-01",
            "+2026-07-01 12:00:00+02",
            " 2026-07-01 12:00:00 ",
        ];
        for text in text_forms {
            let TimeText::Count(count) = read_time(text, Unit::Nanosecond, read_in) else { panic!("{text}") };
            let at = |sql: &str| {
                let rows = run(sql).unwrap_or_else(|e| panic!("{kind} {zone} '{text}': {sql}: {e}"));
                let column = arrow::compute::cast(rows[0].column(0), &DataType::Int64).unwrap();
                let value = column.as_primitive::<arrow::datatypes::Int64Type>().value(0);
                assert_eq!(value, count, "{kind} {zone} '{text}': {sql}");
            };
            let stored = |sql: &str| {
                run("DELETE FROM t").unwrap();
                run(sql).unwrap_or_else(|e| panic!("'{text}': {sql}: {e}"));
                at("SELECT ts FROM t");
                at(&format!("SELECT ts FROM t WHERE ts = '{text}'"));
                at(&format!("SELECT ts FROM t WHERE ts BETWEEN '{text}' AND '{text}'"));
                at(&format!("SELECT ts FROM t WHERE ts IN ('{text}', '1999-01-01')"));
                at(&format!("SELECT ts FROM t WHERE ts = ANY('{{\"{text}\"}}')"));
                at(&format!("SELECT ts FROM t WHERE ts = {kind} '{text}'"));
                at(&format!("SELECT ts FROM t WHERE ts - '{text}' = INTERVAL '0 days'"));
            };
            stored(&format!("INSERT INTO t VALUES (1, '{text}', '{text}')"));
            stored(&format!("INSERT INTO t SELECT 1, '{text}', 'x'"));
            stored(&format!(
                "INSERT INTO t SELECT 1, s.v::{kind}, s.w FROM (SELECT '{text}' AS v, '{text}' AS w) AS s"
            ));
            run("UPDATE t SET ts = NULL").unwrap();
            run(&format!("UPDATE t SET ts = '{text}'")).unwrap();
            at("SELECT ts FROM t");
            at(&format!("SELECT '{text}'::{kind}"));
            at(&format!("SELECT CAST(s AS {kind}) FROM t"));
            at(&format!("SELECT greatest('{text}'::{kind}, '{text}')"));
            at(&format!("SELECT CASE WHEN id = 2 THEN ts ELSE '{text}' END FROM t"));
            at(&format!("SELECT time_bucket('1 millisecond', '{text}'::{kind})"));
            at(&format!("SELECT unnest(ARRAY['{text}'::{kind}])"));
            let file = folder.path().join("t.csv");
            std::fs::write(&file, format!("id,ts,s\n1,\"{text}\",{text}\n")).unwrap();
            stored(&format!("COPY t FROM '{}'", file.display()));
            let prepared = session.prepare("SELECT ts FROM t WHERE ts = $1").unwrap();
            assert_eq!(prepared.query(&[Value::Text(text.to_owned())]).unwrap().len(), 1, "{kind} {zone} '{text}'");
        }
        // Out of the range of nanoseconds.
        let file = folder.path().join("t.csv");
        std::fs::write(&file, "id,ts,s\n1,2026-01-01,x\n2,9999-12-31,y\n").unwrap();
        for sql in [
            "INSERT INTO t VALUES (2, '9999-12-31', 'x')".to_owned(),
            "INSERT INTO t VALUES (2, 'infinity', 'x')".to_owned(),
            format!("SELECT '9999-12-31'::{kind}"),
            format!("SELECT s.v::{kind} FROM (VALUES ('9999-12-31')) AS s(v)"),
            format!("COPY t FROM '{}'", file.display()),
        ] {
            let error = session.sql(&sql).and_then(|answer| answer.collect()).map(|_| ()).unwrap_err();
            assert_eq!(error.code(), Code::TimeOutOfRange, "{sql}: {error}");
            if sql.starts_with("COPY") {
                assert!(error.to_string().contains("t.csv, line 3: column 'ts': timestamp out of range"), "{error}");
            }
        }
        run("DROP TABLE t").unwrap();
    }
}
