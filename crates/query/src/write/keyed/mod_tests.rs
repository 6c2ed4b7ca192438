use super::*;
use crate::{Plain, Session};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Settings};

fn session() -> (Arc<Database>, Session) {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), Plain::new()).unwrap();
    session.sql("CREATE TABLE meters (id BIGINT, n BIGINT, small SMALLINT, f DOUBLE, PRIMARY KEY (id))").unwrap();
    session
        .sql("CREATE TABLE reads (site TEXT, id INT, ts TIMESTAMP(6), v DOUBLE, PRIMARY KEY (site, id, ts))")
        .unwrap();
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
        "INSERT INTO meters VALUES (1) ON CONFLICT DO UPDATE SET n = excluded.n WHERE meters.n < excluded.n",
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
        "UPDATE meters SET n = 1 WHERE id = 1 AND n = 2",
        "UPDATE meters SET n = 1 WHERE id = 1 AND id = 2",
        "UPDATE meters SET n = 1 WHERE id = 1.5",
        "UPDATE meters SET n = 1 WHERE other.id = 1",
        "UPDATE meters SET n = 1",
        "UPDATE reads SET v = 1 WHERE site = 'a' AND id = 7",
        "UPDATE reads SET v = 1 WHERE site = 'a' AND ts = '2026-01-01'",
        // The time has more digits than the column, or may have.
        "UPDATE seconds SET v = 1 WHERE id = 1 AND ts = '2026-01-01 10:00:00.5'",
        "UPDATE seconds SET v = 1 WHERE id = 1 AND ts = $1",
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
