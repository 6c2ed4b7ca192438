use super::*;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};

fn session() -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), crate::Plain::new()).unwrap();
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, note TEXT)").unwrap();
    session
}

fn error(session: &Session, sql: &str) -> String {
    session.sql(sql).and_then(crate::Answer::collect).unwrap_err().to_string()
}

#[test]
fn execute_is_the_statement_with_its_values() {
    let session = session();
    session.sql("PREPARE put (BIGINT, TEXT) AS INSERT INTO t VALUES ($1, $2)").unwrap();
    session.sql("PREPARE \"Get\" AS SELECT note FROM t WHERE id = $1 - 1").unwrap();
    session.sql("PREPARE gone (BIGINT) AS DELETE FROM t WHERE id = $1").unwrap();
    assert_eq!(session.sql("EXECUTE put(1, 'a')").unwrap().tag(), Some("INSERT 0 1"));
    assert_eq!(session.sql("EXECUTE put('2', upper('b'))").unwrap().tag(), Some("INSERT 0 1"));
    let rows = session.sql("EXECUTE \"Get\"(1 + 2)").unwrap().collect().unwrap();
    assert_eq!(rows[0].num_rows(), 1);
    assert!(session.sql("EXPLAIN EXECUTE \"Get\"(2)").unwrap().collect().is_ok());
    // EXECUTE takes part in a transaction as the statement itself would.
    session.sql("BEGIN").unwrap();
    session.sql("EXECUTE gone(1)").unwrap();
    session.sql("ROLLBACK").unwrap();
    assert_eq!(session.view().table("t").unwrap().count().unwrap(), 2);
}

#[test]
fn what_is_wrong_is_said() {
    let session = session();
    session.sql("PREPARE get AS SELECT note FROM t WHERE id = $1").unwrap();
    for (sql, part) in [
        ("EXECUTE other", "there is no prepared statement 'other'"),
        ("EXECUTE get", "gives 0 values, the prepared statement takes 1"),
        ("EXECUTE get(1, 2)", "gives 2 values, the prepared statement takes 1"),
        ("EXECUTE get($1)", "$1 is no value"),
        ("EXECUTE get(1 + id)", "1 + id is no value"),
        ("EXECUTE get((SELECT 1))", "(SELECT 1) is no value"),
        ("PREPARE get AS SELECT 1", "exists already"),
        ("PREPARE make AS CREATE TABLE u (id BIGINT PRIMARY KEY)", "not supported"),
        ("PREPARE again AS EXECUTE get(1)", "not supported"),
    ] {
        let error = error(&session, sql);
        assert!(error.contains(part), "{sql}: {error}");
    }
    session.sql("DEALLOCATE unknown").unwrap();
    session.sql("DEALLOCATE get").unwrap();
    assert!(error(&session, "EXECUTE get(1)").contains("there is no prepared statement"));
}

#[test]
fn a_session_keeps_only_so_much() {
    let session = session();
    for number in 0..MAX_STATEMENTS {
        session.sql(&format!("PREPARE s{number} AS SELECT 1")).unwrap();
    }
    assert!(error(&session, "PREPARE more AS SELECT 1").contains("the most is 1000"));
    session.sql("DEALLOCATE ALL").unwrap();
    let long = format!("PREPARE long AS SELECT '{}'", "a".repeat(MAX_BYTES));
    assert!(error(&session, &long).contains("the most is"));
    session.sql("PREPARE more AS SELECT 1").unwrap();
    session.sql("DISCARD ALL").unwrap();
    assert!(session.names().is_empty());
}
