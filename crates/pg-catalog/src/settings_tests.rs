use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_postgres::Postgres;
use fleetdb_query::{Answer, Session};

fn run(session: &Session, text: &str) {
    for statement in session.parse(text).unwrap() {
        session.execute(statement).unwrap();
    }
}

#[test]
fn all_ways_to_ask_give_what_is_set() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), Postgres::new()).unwrap();
    run(&session, "SET statement_timeout = '90s'; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    let asked = |sql: &str| {
        let rows = session.sql(sql).unwrap().collect().unwrap();
        let texts = arrow::compute::cast(rows[0].column(0), &arrow::datatypes::DataType::Utf8).unwrap();
        datafusion::common::cast::as_string_array(&texts).unwrap().value(0).to_owned()
    };
    for (name, wanted) in [
        ("statement_timeout", "90s"),
        ("transaction_isolation", "repeatable read"),
        ("transaction_read_only", "on"),
        ("default_transaction_read_only", "off"),
        ("TimeZone", "UTC"),
    ] {
        assert_eq!(asked(&format!("SHOW {name}")), wanted);
        assert_eq!(asked(&format!("SELECT current_setting('{name}')")), wanted);
        assert_eq!(asked(&format!("SELECT setting FROM pg_settings WHERE name = '{name}'")), wanted);
    }
    assert_eq!(asked("SELECT current_setting('timezone')"), "UTC");
    assert_eq!(asked("SHOW TRANSACTION ISOLATION LEVEL"), "repeatable read");
    assert_eq!(asked("SELECT set_config('statement_timeout', '1s', true)"), "1s");
    assert_eq!(asked("SHOW statement_timeout"), "1s");
    run(&session, "COMMIT");
    assert_eq!(asked("SHOW statement_timeout"), "90s");
    assert!(session.sql("SELECT set_config('statement_timeout', 'x', false)").and_then(Answer::collect).is_err());
}
