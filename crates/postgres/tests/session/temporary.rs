//! Temporary tables of embedded sessions.

use crate::{session, text};
use fleetdb_engine::{Code, Value};
use fleetdb_query::Session;
use std::sync::Arc;

#[test]
fn a_temporary_table_is_its_sessions_own_and_gone_with_it() {
    let (db, session) = session();
    let other = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TEMP TABLE t (v BIGINT)").unwrap();
    other.sql("CREATE TEMP TABLE t (w TEXT)").unwrap();
    session.sql("INSERT INTO t SELECT * FROM generate_series(1, 100000)").unwrap();
    other.sql("INSERT INTO t VALUES ('x')").unwrap();
    let sum = |session: &Session| text(&session.sql("SELECT count(*) AS n FROM t").unwrap().collect().unwrap());
    assert!(sum(&session).contains("| 100000 |"));
    assert!(sum(&other).contains("| 1 |"));
    assert!(db.query_memory().used_bytes() >= 800_000);
    session.discard_all().unwrap();
    assert_eq!(session.sql("SELECT * FROM t").map(|_| ()).unwrap_err().code(), Code::UndefinedTable);
    drop(session);
    drop(other);
    assert_eq!(db.query_memory().used_bytes(), 0);
    assert!(db.table("t").is_err());
}

#[test]
fn rows_that_do_not_fit_in_memory_are_refused_and_leave_the_table_as_it_was() {
    let (db, session) = session();
    session.sql("CREATE TEMP TABLE t AS SELECT 1 AS v").unwrap();
    let memory = db.query_memory();
    let free = memory.limit_bytes() - memory.used_bytes();
    assert!(memory.try_reserve(free - (1 << 20)));
    let error = session.sql("INSERT INTO t SELECT * FROM generate_series(1, 1000000)").map(|_| ()).unwrap_err();
    assert_eq!(error.code(), Code::OutOfMemory);
    assert!(error.to_string().contains("temporary table \"t\""), "{error}");
    memory.release(free - (1 << 20));
    let rows = session.sql("SELECT count(*) AS n FROM t").unwrap().collect().unwrap();
    assert!(text(&rows).contains("| 1 |"), "{}", text(&rows));
}

#[test]
fn a_prepared_query_reads_the_table_that_its_name_means_now() {
    let (_, session) = session();
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)").unwrap();
    session.sql("INSERT INTO t VALUES (1), (2)").unwrap();
    let count = session.prepare("SELECT count(*) AS n FROM t WHERE id < $1").unwrap();
    let run = || text(&count.query(&[Value::Int(100)]).unwrap());
    assert!(run().contains("| 2 |"));
    session.sql("CREATE TEMP TABLE t (id BIGINT)").unwrap();
    assert!(!count.is_current());
    assert!(run().contains("| 0 |"));
    session.sql("INSERT INTO t VALUES (5)").unwrap();
    assert!(run().contains("| 1 |"));
    let statement = session.parse_one("INSERT INTO t VALUES ($1)").unwrap();
    assert!(session.writes_temporary(&statement));
    assert_eq!(session.parameter_types_of(&statement).unwrap(), [Some(arrow::datatypes::DataType::Int64)]);
    session.sql("DROP TABLE t").unwrap();
    assert!(run().contains("| 2 |"));
}

#[test]
fn a_commit_that_fails_undoes_the_changes_of_temporary_tables() {
    let (db, session) = session();
    let other = Session::new(db, fleetdb_postgres::Postgres::new()).unwrap();
    session.sql("CREATE TABLE stock (id BIGINT PRIMARY KEY, n BIGINT)").unwrap();
    session.sql("INSERT INTO stock VALUES (1, 1)").unwrap();
    session.sql("CREATE TEMP TABLE t (v BIGINT)").unwrap();
    session.sql("BEGIN").unwrap();
    session.sql("INSERT INTO t VALUES (1)").unwrap();
    session.sql("UPDATE stock SET n = n + 1").unwrap();
    other.sql("UPDATE stock SET n = 7").unwrap();
    assert_eq!(session.sql("COMMIT").map(|_| ()).unwrap_err().code(), Code::Conflict);
    let rows = session.sql("SELECT count(*) AS n FROM t").unwrap().collect().unwrap();
    assert!(text(&rows).contains("| 0 |"), "{}", text(&rows));
}
