use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;
use std::sync::Arc;

#[test]
fn a_session_that_has_looked_into_the_catalog_goes_whole() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let postgres = crate::Postgres::new();
    let session = Session::new(Arc::new(db), Arc::clone(&postgres) as Arc<_>).unwrap();
    let rows = session.sql("SELECT relname FROM pg_class WHERE pg_table_is_visible(oid)").unwrap().collect().unwrap();
    assert!(!rows.is_empty());
    let tables = Arc::downgrade(&postgres.session.get().unwrap().tables);
    drop((session, postgres));
    assert!(tables.upgrade().is_none(), "something of the session is left");
}

#[test]
fn a_table_of_the_catalog_is_read_whole() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(Arc::new(db), crate::Postgres::new()).unwrap();
    for text in ["TABLE pg_catalog.pg_namespace", "-- a\ntable pg_namespace ORDER BY oid"] {
        let rows = session.sql(text).unwrap().collect().unwrap();
        assert!(rows.iter().map(|rows| rows.num_rows()).sum::<usize>() > 0, "{text}");
    }
}
