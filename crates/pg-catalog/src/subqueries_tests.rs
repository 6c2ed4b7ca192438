use super::shielded;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;

#[test]
fn what_is_asked_of_the_catalog_stays_as_it_is() {
    for sql in [
        "SELECT (SELECT c.collname FROM pg_catalog.pg_collation c WHERE c.oid = a.attcollation) FROM pg_attribute a",
        "SELECT relname FROM pg_class",
        "SELECT (no sql",
    ] {
        assert_eq!(shielded(sql.to_owned()), sql);
    }
}

/// Regression: these values were NULL.
#[test]
fn subqueries_beside_the_catalog_have_their_values() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TABLE t (name TEXT, ts TIMESTAMP, v BIGINT, PRIMARY KEY (name, ts))").unwrap();
    session
        .sql("INSERT INTO t VALUES ('pg_1', '2026-01-01', 7), ('pg_1', '2026-01-02', 8), ('a', '2026-01-01', 9)")
        .unwrap();
    let one = |sql: &str| {
        let rows = session.sql(sql).unwrap().collect().unwrap();
        rows[0].column(0).as_primitive::<Int64Type>().iter().next().unwrap()
    };
    for (sql, value) in [
        ("SELECT (SELECT max(v) FROM t o WHERE o.name = t.name) FROM t WHERE name = 'pg_1' LIMIT 1", 8),
        ("SELECT (SELECT v FROM t o WHERE o.name = t.name ORDER BY ts LIMIT 1) FROM t WHERE name = 'pg_1' LIMIT 1", 7),
        ("SELECT (SELECT count(*) FROM t o WHERE o.name = c.relname) FROM pg_class c WHERE relname = 't'", 0),
        (
            "SELECT (SELECT count(1) FROM pg_inherits WHERE inhrelid = c.oid LIMIT 1) FROM pg_class c WHERE relname = 't'",
            0,
        ),
    ] {
        assert_eq!(one(sql), Some(value), "{sql}");
    }
}
