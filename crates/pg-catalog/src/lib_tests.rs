use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;
use std::sync::Arc;

#[test]
fn a_table_of_the_catalog_is_read_whole() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(Arc::new(db), fleetdb_postgres::Postgres::new()).unwrap();
    for text in ["TABLE pg_catalog.pg_namespace", "-- a\ntable pg_namespace ORDER BY oid"] {
        let rows = session.sql(text).unwrap().collect().unwrap();
        assert!(rows.iter().map(|rows| rows.num_rows()).sum::<usize>() > 0, "{text}");
    }
}

#[test]
fn the_catalog_is_known_to_a_session_that_began_with_other_statements() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(Arc::new(db), fleetdb_postgres::Postgres::new()).unwrap();
    for text in ["SELECT 1", "SELECT pg_backend_pid()", "SELECT 'pg_class'::regclass", "SELECT pg_backend_pid()"] {
        let rows = session.sql(text).and_then(|answer| answer.collect());
        assert_eq!(rows.unwrap_or_else(|error| panic!("{text}: {error}"))[0].num_rows(), 1, "{text}");
    }
}
