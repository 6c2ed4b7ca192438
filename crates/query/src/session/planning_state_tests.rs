use crate::Session;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};

fn session() -> Session {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    Session::new(db.into(), crate::Plain::new()).unwrap()
}

fn has_spare(session: &Session) -> bool {
    session.planning.spare().state.is_some()
}

fn shown(session: &Session, text: &str) -> String {
    let rows = session.sql(text).unwrap().collect().unwrap();
    arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string()
}

#[test]
fn the_state_is_kept_between_statements_and_after_errors() {
    let session = session();
    assert!(!has_spare(&session));
    session.sql("SELECT 1").unwrap().collect().unwrap();
    assert!(has_spare(&session));
    for wrong in ["SELECT nothing", "SELECT no_function(1)", "SELECT CAST('a' AS BIGINT)"] {
        assert!(session.sql(wrong).and_then(|answer| answer.collect()).is_err(), "{wrong}");
        assert!(has_spare(&session), "{wrong}");
    }
}

#[test]
fn a_setting_of_datafusion_counts_for_the_next_statement() {
    let session = session();
    let text = "SELECT CAST('2026-01-01' AS TIMESTAMP) AS t, \"A\" FROM (SELECT 1 AS \"A\") q";
    let before = shown(&session, text);
    session.sql("SET datafusion.sql_parser.enable_ident_normalization = false").unwrap();
    assert!(session.sql("SELECT A FROM (SELECT 1 AS \"A\") q").is_ok());
    session.sql("RESET datafusion.sql_parser.enable_ident_normalization").unwrap();
    assert!(session.sql("SELECT A FROM (SELECT 1 AS \"A\") q").is_err());
    assert_eq!(shown(&session, text), before);
}

#[test]
fn now_is_the_time_of_each_statement() {
    let session = session();
    let first = shown(&session, "SELECT now()");
    while first == shown(&session, "SELECT now()") {}
}

#[test]
fn a_state_in_use_is_not_kept_if_the_context_changes_meanwhile() {
    let session = session();
    let outer = session.planning_state();
    let inner = session.planning_state();
    drop(inner);
    assert!(has_spare(&session));
    session.planning.forget();
    assert!(!has_spare(&session));
    drop(outer);
    assert!(!has_spare(&session));
    drop(session.planning_state());
    assert!(has_spare(&session));
}
