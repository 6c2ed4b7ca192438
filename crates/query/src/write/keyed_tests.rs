use super::*;
use crate::{Plain, Zone};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Settings};

fn session() -> (Arc<Database>, Session) {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), Plain::new()).unwrap();
    session.sql("CREATE TABLE meters (id BIGINT, n BIGINT, small SMALLINT, f DOUBLE, PRIMARY KEY (id))").unwrap();
    session
        .sql("CREATE TABLE reads (site TEXT, id INT, ts TIMESTAMP(6), v DOUBLE, PRIMARY KEY (site, id, ts))")
        .unwrap();
    session.sql("CREATE TABLE prices (id BIGINT, price NUMERIC(10, 2), PRIMARY KEY (id))").unwrap();
    session.sql("CREATE TABLE times (ts TIMESTAMP, v DOUBLE, PRIMARY KEY (ts))").unwrap();
    session.sql("CREATE TABLE seconds (id INT, ts TIMESTAMP(0), v DOUBLE, PRIMARY KEY (id, ts))").unwrap();
    session
        .sql("CREATE TABLE merged (id BIGINT, ts TIMESTAMP, n BIGINT, PRIMARY KEY (id, ts)) WITH (merge = 'fields')")
        .unwrap();
    (db, session)
}

fn keyed(db: &Database, session: &Session, sql: &str) -> Option<KeyedWrite> {
    KeyedWrite::of(&session.parse_one(sql).unwrap(), db, Zone::Utc)
}

#[test]
fn writes_by_keys_need_no_planning() {
    let (db, session) = session();
    for sql in [
        "INSERT INTO meters (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
        "INSERT INTO meters AS m VALUES (1, 2) ON CONFLICT DO UPDATE SET n = m.n + excluded.n * 2, f = 0.5",
        "INSERT INTO meters VALUES (1, 2), (2, 3) ON CONFLICT DO NOTHING",
        "UPDATE meters SET n = n + 1, f = $1 WHERE id = $2",
        "UPDATE meters AS m SET n = (m.n - $1) * -3 WHERE m.id IN (1, 2, $2)",
        "UPDATE reads SET v = NULL WHERE site = 'a' AND id = 7 AND ts = '2026-01-01 10:00'",
        "UPDATE seconds SET v = v * 2 WHERE '2026-01-01' = ts AND id = 1",
        "DELETE FROM reads WHERE site = $1 AND id = $2 AND ts = $3",
        "DELETE FROM reads WHERE (site = 'a' AND (id = 1)) AND ts >= $1 AND ts < $2",
        "DELETE FROM reads r WHERE r.site = 'a' AND r.id IN (1) AND r.ts BETWEEN '2026-01-01' AND '2026-01-02'",
        "DELETE FROM reads WHERE site = 'a' AND id IN (1, 2) AND ts = $1",
        "INSERT INTO times VALUES ('2026-01-01', $1) ON CONFLICT DO UPDATE SET v = times.v + excluded.v",
        "DELETE FROM seconds WHERE id = 7",
        "INSERT INTO meters VALUES (1) ON CONFLICT DO UPDATE SET n = excluded.n WHERE meters.n < excluded.n",
        "INSERT INTO meters VALUES (1) ON CONFLICT (id) DO UPDATE SET n = greatest(meters.n, excluded.n, $1)",
        "UPDATE meters SET n = coalesce(n, 0) + $1, f = CASE WHEN n > $2 THEN 0 ELSE f + 1 END WHERE id = $3",
        "UPDATE meters SET n = 1 WHERE id = 1 AND n = 2 AND (f IS NULL OR NOT small IN (1, 2))",
        "UPDATE reads SET v = $1 WHERE site = 'a' AND id = 7 AND ts >= $2 AND ts < $3 AND v BETWEEN 1 AND 2",
        "DELETE FROM reads WHERE site = 'a' AND id = 7 AND ts >= $1 AND v IS NULL",
        "DELETE FROM meters WHERE id IN (1, 2) AND n <> 3",
        "DELETE FROM prices WHERE id = 1 AND price >= -0.05 AND price < (7) AND price <> $1",
    ] {
        assert!(keyed(&db, &session, sql).is_some(), "{sql}");
    }
}

#[test]
fn other_writes_are_planned() {
    let (db, session) = session();
    for sql in [
        // The whole row is replaced: that needs no old row.
        "INSERT INTO meters VALUES (1, 2, 3, 4) ON CONFLICT (id) DO UPDATE \
         SET n = excluded.n, small = excluded.small, f = excluded.f",
        "INSERT INTO meters VALUES (1, 2, 3, 4)",
        "INSERT INTO meters SELECT id FROM meters WHERE true ON CONFLICT DO NOTHING",
        "INSERT INTO meters VALUES (1) ON CONFLICT DO UPDATE SET n = n + 1",
        "INSERT INTO meters VALUES (1) ON CONFLICT DO NOTHING RETURNING id",
        "INSERT INTO merged VALUES (1, $1) ON CONFLICT DO UPDATE SET n = merged.n + 1",
        "UPDATE meters SET n = f WHERE id = 1",
        "UPDATE meters SET n = n / 2 WHERE id = 1",
        "UPDATE meters SET n = n + '1' WHERE id = 1",
        "UPDATE meters SET n = abs(n) WHERE id = 1",
        "UPDATE meters SET n = 1.5 WHERE id = 1",
        "UPDATE meters SET small = 32768 WHERE id = 1",
        "UPDATE meters SET small = small * 2 - 20000 WHERE id = 1",
        "INSERT INTO meters (id, small) VALUES (1, 99999) ON CONFLICT DO NOTHING",
        "UPDATE times SET v = 1 WHERE ts = '2026-01-01'",
        "DELETE FROM times WHERE ts < '2026-01-01'",
        "DELETE FROM reads WHERE site = 'a' AND id IN (1, 2) AND ts < $1",
        "UPDATE meters SET n = $1, f = $1 WHERE id = 1",
        "UPDATE meters SET n = 1 WHERE id > 1",
        "UPDATE meters SET n = 1 WHERE id = 1 OR id = 2",
        "UPDATE meters SET n = 1 WHERE id = 1 AND id = 2",
        "UPDATE meters SET n = 1 WHERE id = 1.5",
        "UPDATE meters SET n = 1 WHERE other.id = 1",
        "UPDATE meters SET n = 1",
        "UPDATE reads SET v = 1 WHERE site = 'a' AND id = 7",
        "UPDATE reads SET v = 1 WHERE site = 'a' AND ts = '2026-01-01'",
        // The time has more digits than the column, or may have.
        "UPDATE seconds SET v = 1 WHERE id = 1 AND ts = '2026-01-01 10:00:00.5'",
        "UPDATE seconds SET v = 1 WHERE id = 1 AND ts = $1",
        // What is computed on the way to a result, or to compare, may be out of the column's range.
        "UPDATE meters SET small = least(small + 1, 5) WHERE id = 1",
        "UPDATE meters SET n = 1 WHERE id = 1 AND small < small + 1",
        // A number with more digits than the column would be rounded.
        "DELETE FROM prices WHERE id = 1 AND price >= -0.005",
        "DELETE FROM prices WHERE id = 1 AND price = (0.005)",
        "DELETE FROM prices WHERE id = 1 AND price >= coalesce(0.004, 1)",
        "DELETE FROM prices WHERE id = 1 AND price IN (1, 0.005)",
        // A number with digits after the point is no integer.
        "UPDATE meters SET n = 1 WHERE id = 1 AND n > 1.5",
        "UPDATE meters SET n = CASE n WHEN 1 THEN 2 END WHERE id = 1",
        "UPDATE meters SET n = 1 WHERE id = 1 AND n = f",
        "UPDATE meters SET small = coalesce(small + 1, 0) - 5 WHERE id = 1",
        "UPDATE meters SET n = 1 WHERE id = 1 AND n = (SELECT 1)",
        "DELETE FROM reads WHERE site = 'a' AND id IN (1, 2) AND ts < '2026-01-01' AND v = 1",
        "DELETE FROM reads WHERE site IN ('a', 'b') AND id IN (1, 2)",
        "DELETE FROM reads WHERE id = 1",
        "DELETE FROM meters",
        "DELETE FROM meters WHERE id = 1 RETURNING n",
    ] {
        assert!(keyed(&db, &session, sql).is_none(), "{sql}");
    }
}

#[test]
fn values_are_checked() {
    let (db, session) = session();
    session.sql("INSERT INTO meters VALUES (1, 9223372036854775807, 32767, 1)").unwrap();
    let run = |sql: &str, values: &[Value]| session.run_keyed(&keyed(&db, &session, sql).unwrap(), values);
    let add = "UPDATE meters SET n = n + $1 WHERE id = 1";
    for (sql, values, code) in [
        (add, [Value::Int(1)], Code::OutOfRange),
        ("UPDATE meters SET small = small + $1 WHERE id = 1", [Value::Int(1)], Code::OutOfRange),
    ] {
        assert_eq!(run(sql, &values).unwrap_err().code(), code, "{sql}");
    }
    assert_eq!(run(add, &[Value::Int(-1)]).unwrap(), Some(1));
    assert_eq!(run("UPDATE meters SET n = 1 WHERE id = $1", &[Value::Null]).unwrap(), Some(0));
    // These are planned, which casts or refuses them.
    assert_eq!(run("UPDATE meters SET n = 1 WHERE id = $1", &[Value::Float(1.0)]).unwrap(), None);
    assert_eq!(run("UPDATE meters SET small = $1 WHERE id = 2", &[Value::Int(40_000)]).unwrap(), None);
    assert_eq!(run("INSERT INTO meters (id) VALUES ($1) ON CONFLICT DO NOTHING", &[Value::Null]).unwrap(), None);
    assert_eq!(run("UPDATE meters SET f = f + $1 WHERE id = 1", &[Value::Int(2)]).unwrap(), Some(1));
    // The planner reports a row that is changed twice.
    let twice = "INSERT INTO meters (id, n) VALUES ($1, 1), ($2, 2) ON CONFLICT DO UPDATE SET n = excluded.n";
    assert_eq!(run(twice, &[Value::Int(5), Value::Int(5)]).unwrap(), None);
    assert_eq!(run(twice, &[Value::Int(5), Value::Int(6)]).unwrap(), Some(2));
}

/// Rows of a table as a text.
fn rows(session: &Session, table: &str) -> String {
    let rows = session.sql(&format!("SELECT * FROM {table}")).unwrap().collect().unwrap();
    arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string()
}

/// Runs a write that is planned, and returns the number of affected rows.
fn planned(session: &Session, sql: &str) -> u64 {
    let answer = session.sql(sql).unwrap();
    answer.tag().and_then(|tag| tag.rsplit(' ').next()).unwrap().parse().unwrap()
}

#[test]
fn writes_do_what_planned_ones_do() {
    let (db, session) = session();
    for table in ["a", "b"] {
        session
            .sql(&format!(
                "CREATE TABLE {table} (id INT, ts TIMESTAMP(6), n BIGINT, f DOUBLE, s TEXT, up BOOLEAN, PRIMARY KEY (id, ts))"
            ))
            .unwrap();
        session
            .sql(&format!(
                "INSERT INTO {table} SELECT i, to_timestamp_micros(1767225600000000 + j * 3600000000), \
                 CASE WHEN j % 5 > 0 THEN j END, CASE WHEN j % 7 = 3 THEN 'NaN'::float8 WHEN j % 7 > 0 THEN j * 0.5 - 3 END, \
                 CASE WHEN j % 3 > 0 THEN concat('s', j % 4) END, CASE WHEN j % 4 > 0 THEN j % 2 = 0 END \
                 FROM generate_series(1, 3) AS x(i), generate_series(0, 30) AS y(j)"
            ))
            .unwrap();
    }
    let sets = [
        "n = coalesce(n, -1) + 1",
        "n = CASE WHEN n > 10 THEN 0 WHEN s = 's1' THEN n * 2 ELSE n + 1 END",
        "n = CASE WHEN up THEN 7 END, s = coalesce(s, 'none')",
        "f = greatest(f, 1.5), n = least(n, 4, NULL)",
        "f = CASE WHEN f >= 2 OR f IS NULL THEN f ELSE f * -1 END",
    ];
    let conditions = [
        "n > 3",
        "n IS NULL OR s <> 's2'",
        "NOT (n BETWEEN 2 AND 20) AND f < 4.0",
        "s IN ('s1', 's3') AND up IS NOT NULL",
        "s NOT IN ('s1', 's3') AND NOT up",
        "n NOT BETWEEN 4 AND 6 AND up",
        "f > 1.0",
        "'s1' <= s",
    ];
    let keys = [
        "id = 1 AND ts = '2026-01-01 03:00:00'",
        "id = 2 AND ts >= TIMESTAMP '2026-01-01 02:00:00' AND ts < '2026-01-02'::timestamp",
    ];
    let run = |sql: &str, is_planned: bool| {
        let write = keyed(&db, &session, sql);
        assert_eq!(write.is_none(), is_planned, "{sql}");
        match write {
            Some(write) => session.run_keyed(&write, &[]).unwrap().unwrap(),
            None => planned(&session, sql),
        }
    };
    for key in keys {
        for condition in conditions {
            for set in sets {
                let direct = run(&format!("UPDATE a SET {set} WHERE {key} AND ({condition})"), false);
                // The planner alone knows the function.
                let planned =
                    run(&format!("UPDATE b SET {set} WHERE {key} AND ({condition}) AND length('x') = 1"), true);
                assert_eq!(direct, planned, "{set} where {condition}");
                assert_eq!(rows(&session, "a"), rows(&session, "b"), "{set} where {condition}");
            }
        }
    }
    let inserted = "(id, ts, n, f) VALUES (3, '2026-01-01 04:00:00', 9, 1.5), (9, '2026-01-01 05:00:00', 1, 2.5)";
    for (condition, also) in [("a.n < excluded.n", "b.n < excluded.n"), ("a.f IS NULL", "b.f IS NULL")] {
        let update = "ON CONFLICT DO UPDATE SET n = excluded.n + 1 WHERE";
        let direct = run(&format!("INSERT INTO a {inserted} {update} {condition}"), false);
        let planned = run(&format!("INSERT INTO b {inserted} {update} {also} AND length('x') = 1"), true);
        assert_eq!((direct, rows(&session, "a")), (planned, rows(&session, "b")), "{condition}");
    }
    for condition in conditions {
        let direct = run(&format!("DELETE FROM a WHERE {} AND ({condition})", keys[1]), false);
        let planned = run(&format!("DELETE FROM b WHERE {} AND ({condition}) AND length('x') = 1", keys[1]), true);
        assert_eq!((direct, rows(&session, "a")), (planned, rows(&session, "b")), "{condition}");
    }
}

#[test]
fn times_with_a_type_are_stored_as_the_planner_stores_them() {
    let (db, session) = session();
    session.sql("CREATE TABLE typed (id INT PRIMARY KEY, us TIMESTAMP(6), at TIMESTAMP, utc TIMESTAMPTZ)").unwrap();
    let stored = |source: &str| {
        session.sql("TRUNCATE TABLE typed").unwrap();
        session.sql(&format!("INSERT INTO typed {source}")).map_err(|e| e.code())?;
        Ok::<_, Code>(rows(&session, "typed"))
    };
    for zone in ["UTC", "Europe/Berlin"] {
        session.sql(&format!("SET TIME ZONE '{zone}'")).unwrap();
        for text in [
            "2026-01-01",
            "2026-07-01 10:00:00.123456",
            "2026-07-01 10:00:00.1234567",
            "2026-07-01T10:00:00Z",
            "2026-07-01 10:00:00+03",
            "1901-01-01 24:00",
            "infinity",
            "epoch",
            "no time",
        ] {
            let times = ["TIMESTAMP '?'", "'?'::timestamp", "TIMESTAMPTZ '?'", "CAST('?' AS TIMESTAMPTZ)"];
            for time in times.map(|time| time.replace('?', text)) {
                for columns in ["(id, us)", "(id, at)", "(id, utc)"] {
                    let direct = stored(&format!("{columns} VALUES (1, {time})"));
                    assert_eq!(direct, stored(&format!("{columns} SELECT 1, {time}")), "{time} {columns} in {zone}");
                }
            }
        }
    }
    session.sql("SET TIME ZONE 'UTC'").unwrap();
    for (direct, sql) in [
        (true, "INSERT INTO typed (id, at) VALUES (1, TIMESTAMP '2026-01-01') ON CONFLICT DO NOTHING"),
        (true, "UPDATE typed SET utc = '2026-01-01'::timestamptz WHERE id = 1"),
        (false, "UPDATE typed SET utc = '2026-01-01'::timestamp WHERE id = 1"),
        (false, "UPDATE typed SET us = TIMESTAMP '2026-01-01 10:00:00.1234567' WHERE id = 1"),
        (false, "UPDATE typed SET at = '2026-01-01'::timestamp(3) WHERE id = 1"),
    ] {
        assert_eq!(keyed(&db, &session, sql).is_some(), direct, "{sql}");
    }
}

#[test]
fn a_write_of_many_rows_is_planned() {
    let (db, session) = session();
    session.sql("CREATE TABLE many (id INT, ts TIMESTAMP(0), n INT, PRIMARY KEY (id, ts))").unwrap();
    session.sql("INSERT INTO many SELECT 1, to_timestamp_seconds(i), i FROM generate_series(1, 10001) t(i)").unwrap();
    let update =
        |last: &str| format!("UPDATE many SET n = n + 1 WHERE id = 1 AND ts >= '1970-01-01' AND ts <= '{last}'");
    for (last, direct) in [("1970-01-01 02:46:40", Some(10_000)), ("1970-01-02", None)] {
        let write = keyed(&db, &session, &update(last)).unwrap();
        assert_eq!(session.run_keyed(&write, &[]).unwrap(), direct);
    }
    assert_eq!(planned(&session, &update("1970-01-02")), 10_001);
}

#[test]
fn now_is_the_time_of_the_statement() {
    let (db, session) = session();
    session.sql("CREATE TABLE seen (id INT PRIMARY KEY, at TIMESTAMPTZ)").unwrap();
    for newer in [
        "INSERT INTO seen VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET at = excluded.at WHERE seen.at < excluded.at",
        "INSERT INTO seen VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET at = greatest(seen.at, excluded.at)",
    ] {
        let write = keyed(&db, &session, newer).unwrap();
        for (at, newest) in [(5, 5), (3, 5), (9, 9)] {
            session.run_keyed(&write, &[Value::Int(7), Value::Int(at)]).unwrap().unwrap();
            let row = db.container("seen", &[Value::Int(7)]).unwrap().last_row().unwrap();
            assert_eq!(row, Some(vec![Value::Int(7), Value::Int(newest)]), "{newer}");
        }
        session.sql("TRUNCATE TABLE seen").unwrap();
    }
    assert!(keyed(&db, &session, "UPDATE seen SET at = NULL WHERE id = 1 AND at < '2026-01-01'").is_none());
    for sql in [
        "INSERT INTO seen VALUES (1, now()), (2, now()) ON CONFLICT DO NOTHING",
        "UPDATE seen SET at = now() WHERE id = 1",
    ] {
        let write = keyed(&db, &session, sql).unwrap();
        assert!(session.run_keyed(&write, &[]).unwrap().is_some());
    }
    let found = session.sql("SELECT id FROM seen WHERE at > now() - interval '1 minute' AND at <= now()").unwrap();
    assert_eq!(found.collect().unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}
