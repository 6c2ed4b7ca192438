use super::*;
use crate::settings::{SERIALIZABLE, Warning};
use crate::transaction::ENCODING;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Code, Database, Durability, Settings};

fn session() -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), crate::Plain::new()).unwrap();
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)").unwrap();
    session
}

fn run(session: &Session, text: &str) {
    for statement in session.parse(text).unwrap() {
        session.execute(statement).unwrap();
    }
}

fn value(session: &Session, name: &str) -> String {
    session.transaction().setting(name).unwrap()
}

/// The warning in the answer to a SET or BEGIN.
fn warning(session: &Session, text: &str) -> Warning {
    let statement = session.parse_one(text).unwrap();
    if text.starts_with("BEGIN") { session.begin_as(&statement) } else { session.set(&statement) }.unwrap()
}

#[test]
fn what_is_set_ends_with_reset_with_its_transaction_or_with_rollback() {
    let session = session();
    session.start_with(SessionSettings::with_timeout(Some(Duration::from_secs(60)))).unwrap();
    let timeout = || value(&session, "statement_timeout");
    assert_eq!(timeout(), "1min");
    for (statements, then) in [
        ("SET statement_timeout = 1500", "1500ms"),
        ("RESET statement_timeout", "1min"),
        ("SET SESSION statement_timeout TO '2h'", "2h"),
        ("SET statement_timeout TO DEFAULT", "1min"),
        ("SET statement_timeout = 0; RESET ALL", "1min"),
        ("SET statement_timeout = 0; DISCARD ALL", "1min"),
        ("SET LOCAL statement_timeout = '1s'", "1min"),
        ("BEGIN; SET LOCAL statement_timeout = '1s'", "1s"),
        ("COMMIT", "1min"),
        ("BEGIN; SET statement_timeout = '2s'; SET LOCAL statement_timeout = '3s'", "3s"),
        ("COMMIT", "2s"),
        ("BEGIN; SET LOCAL statement_timeout = '3s'; SET statement_timeout = '4s'", "4s"),
        ("ROLLBACK", "2s"),
        ("BEGIN; SET statement_timeout = '5s'; SAVEPOINT a; SET statement_timeout = '6s'; ROLLBACK TO a", "5s"),
        ("RELEASE a; COMMIT; RESET ALL", "1min"),
    ] {
        run(&session, statements);
        assert_eq!(timeout(), then, "{statements}");
    }
    run(&session, "BEGIN; SET application_name = 'a ''b'''");
    assert!(session.sql("SELECT nothing").is_err());
    let error = session.sql("SET application_name = c").map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("ROLLBACK"), "{error}");
    assert_eq!(value(&session, "application_name"), "a 'b'");
    run(&session, "COMMIT");
    assert_eq!(value(&session, "application_name"), "", "what failed was rolled back");
}

#[test]
fn wrong_values_are_named_and_change_nothing() {
    let session = session();
    for (statement, part) in [
        ("SET statement_timeout = 'soon'", "statement_timeout = 'soon'"),
        ("SET statement_timeout = -1", "statement_timeout = '-1'"),
        ("SET default_transaction_read_only = 'perhaps'", "give on or off"),
        ("SET default_transaction_isolation = 'chaos'", "'read committed' or 'repeatable read'"),
        ("SET durability = 'perhaps'", "unknown durability 'perhaps'"),
        ("SET ROLE bob", "not supported"),
        ("SET SESSION AUTHORIZATION bob", "not supported"),
        ("COMMIT AND CHAIN", "not supported"),
    ] {
        let error = session.sql(statement).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(part), "{statement}: {error}");
    }
    for nothing in ["SET ROLE NONE", "SET SESSION AUTHORIZATION DEFAULT", "SET datestyle TO ISO, MDY", "RESET geqo"] {
        session.sql(nothing).unwrap();
    }
    let mut unchanged = SessionSettings::default();
    unchanged.default_durability(Durability::Sync);
    assert_eq!(*session.transaction().settings.now(), unchanged);
}

#[test]
fn the_durability_of_writes_is_chosen_by_the_session() {
    let session = session();
    assert_eq!(value(&session, "durability"), "sync");
    let write = |id: i64| session.sql(&format!("INSERT INTO t VALUES ({id}, 1)")).map(|_| ());
    let refused = |statement: &str| session.sql(statement).map(|_| ()).unwrap_err().code();
    assert_eq!(refused("SET durability = 'shared'"), Code::NotSupported);
    run(&session, "SET durability = local");
    assert_eq!(value(&session, "durability"), "sync");
    write(1).unwrap();
    run(&session, "BEGIN; SET LOCAL durability = os");
    assert_eq!(value(&session, "durability"), "os");
    run(&session, "COMMIT");
    assert_eq!(value(&session, "durability"), "sync");
    // As a client sets it when it connects.
    let mut settings = SessionSettings::default();
    settings.set("durability", "shared").unwrap();
    assert_eq!(session.start_with(settings.clone()).unwrap_err().code(), Code::NotSupported);
    session.start_with(settings.with_durability(Durability::Os)).unwrap();
    assert_eq!(value(&session, "durability"), "os");
    write(3).unwrap();
}

#[test]
fn nothing_is_written_where_only_reading_is_asked_for() {
    let session = session();
    let writes = [
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO t SELECT 1, 1",
        "INSERT INTO t VALUES (1, 1) ON CONFLICT DO NOTHING",
        "WITH a AS (INSERT INTO t VALUES (1, 1)) INSERT INTO t VALUES (2, 2)",
        "UPDATE t SET v = 1",
        "DELETE FROM t",
        "TRUNCATE t",
        "CREATE TABLE u (id BIGINT PRIMARY KEY)",
        "CREATE TABLE u (PRIMARY KEY (id)) AS SELECT * FROM t",
        "ALTER TABLE t ADD COLUMN w BIGINT",
        "DROP TABLE t",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1, 1)",
        "EXECUTE writes",
        "COPY t FROM 'nowhere.csv'",
    ];
    run(&session, "PREPARE writes AS DELETE FROM t");
    for (begin, end) in [
        ("BEGIN READ ONLY", "ROLLBACK"),
        ("START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "ROLLBACK"),
        ("BEGIN; SET TRANSACTION READ ONLY", "ROLLBACK"),
        ("BEGIN; SET LOCAL transaction_read_only = on", "ROLLBACK"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; BEGIN", "ROLLBACK; RESET ALL"),
        ("SET default_transaction_read_only TO true", "SET default_transaction_read_only TO false"),
    ] {
        for write in &writes {
            run(&session, begin);
            assert_eq!(value(&session, "transaction_read_only"), "on");
            run(&session, "SELECT * FROM t; EXPLAIN DELETE FROM t");
            let error = session.sql(write).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with("cannot execute"), "{begin}; {write}: {error}");
            run(&session, end);
            assert_eq!(value(&session, "transaction_read_only"), "off", "{end}");
        }
    }
    run(&session, "SET default_transaction_read_only = on; BEGIN READ WRITE; INSERT INTO t VALUES (1, 1); COMMIT");
    assert!(session.sql("INSERT INTO t VALUES (2, 2)").is_err());
    assert_eq!(session.view().table("t").unwrap().count().unwrap(), 1);
}

#[test]
fn what_cannot_be_had_is_warned_of() {
    let session = session();
    for (statement, wanted) in [
        ("SET TIME ZONE 'America/New_York'", None),
        ("RESET timezone", None),
        ("SET NAMES 'latin1'", Some(ENCODING)),
        ("SET client_encoding TO 'UTF8'", None),
        ("SET LOCAL statement_timeout = 1", Some(NO_TRANSACTION)),
        ("SET TRANSACTION READ ONLY", Some(NO_TRANSACTION)),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED", None),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", Some(SERIALIZABLE)),
        ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", None),
        ("SET LOCAL transaction_isolation = 'serializable'", Some(SERIALIZABLE)),
    ] {
        assert_eq!(warning(&session, statement), wanted, "{statement}");
    }
    assert_eq!(value(&session, "transaction_isolation"), "repeatable read");
}

#[test]
fn a_client_that_does_nothing_may_do_so_for_as_long_as_is_set() {
    let session = session();
    assert_eq!(session.idle_limit(), None);
    run(&session, "SET idle_session_timeout = '2min'; SET idle_in_transaction_session_timeout = '5s'");
    assert_eq!(session.idle_limit(), Some(Duration::from_secs(120)));
    run(&session, "BEGIN");
    assert_eq!(session.idle_limit(), Some(Duration::from_secs(5)));
    run(&session, "ROLLBACK; RESET idle_session_timeout");
    assert_eq!(session.idle_limit(), None);
    assert_eq!(value(&session, "idle_in_transaction_session_timeout"), "5s");
    let error = session.sql("SET idle_session_timeout = 'long'").map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("idle_session_timeout = 'long': give milliseconds"), "{error}");
}

#[test]
fn a_program_s_name_is_no_longer_than_in_postgres() {
    let session = session();
    run(&session, &format!("SET application_name = '{}ö'", "x".repeat(62)));
    assert_eq!(session.settings().application_name(), "x".repeat(62), "the last letter has two bytes");
}

#[test]
fn a_zone_is_set_as_in_postgres() {
    let session = session();
    for (statement, wanted) in [
        ("SET TIME ZONE 'europe/vienna'", "Europe/Vienna"),
        ("SET timezone TO 'America/New_York'", "America/New_York"),
        ("SET TIME ZONE LOCAL", "UTC"),
        ("SET timezone = utc", "UTC"),
        ("SET TIME ZONE -7", "<-07>+07"),
        ("SET timezone = 5.5", "<+05:30>-05:30"),
        ("SET TIME ZONE '+02'", "<+02>-02"),
        ("SET TIME ZONE '+02:00'", "+02:00"),
        ("SET TIME ZONE INTERVAL '-02:30' HOUR TO MINUTE", "<-02:30>+02:30"),
        ("RESET timezone", "UTC"),
        ("SET timezone = 'Asia/Kolkata'", "Asia/Kolkata"),
        ("SET TIME ZONE DEFAULT", "UTC"),
        ("BEGIN; SET LOCAL timezone = 'Asia/Tokyo'", "Asia/Tokyo"),
        ("COMMIT", "UTC"),
        ("BEGIN; SET timezone = 'Asia/Tokyo'; SAVEPOINT s; SET timezone = 'Asia/Seoul'", "Asia/Seoul"),
        ("ROLLBACK TO s", "Asia/Tokyo"),
        ("ROLLBACK", "UTC"),
        ("BEGIN; SET timezone = 'Asia/Tokyo'; COMMIT", "Asia/Tokyo"),
        ("RESET ALL", "UTC"),
        ("SET TIME ZONE 'Asia/Tokyo'; DISCARD ALL", "UTC"),
    ] {
        run(&session, statement);
        assert_eq!(value(&session, "timezone"), wanted, "{statement}");
    }
    for text in ["Mars/Olympus", "", "x", "169"] {
        let error = session.sql(&format!("SET TIME ZONE '{text}'")).map(|_| ()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidParameter);
        assert_eq!(error.to_string(), format!("invalid value for parameter \"TimeZone\": \"{text}\""));
    }
}
