use super::Postgres;
use arrow::array::AsArray;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_pg_catalog::{AdvisoryLocks, EmbeddedClient};
use fleetdb_query::Session;
use std::sync::Arc;
use std::time::SystemTime;

#[test]
fn a_taken_transaction_has_its_locks_until_it_is_written() {
    let db = Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
    let locks = Arc::new(AdvisoryLocks::default());
    let [one, other] = [0, 1].map(|_| {
        let postgres = Postgres::sharing(&locks, Arc::new(EmbeddedClient(SystemTime::now())));
        Session::new(Arc::clone(&db), postgres).unwrap()
    });
    let is_free = || {
        let rows = other.sql("SELECT pg_try_advisory_xact_lock(7)").unwrap().collect().unwrap();
        rows[0].column(0).as_boolean().value(0)
    };
    one.begin().unwrap();
    one.sql("SELECT pg_advisory_xact_lock(7)").unwrap().collect().unwrap();
    assert!(!is_free());
    assert!(one.take_transaction().unwrap().is_some());
    assert!(!is_free());
    one.transaction_ended();
    assert!(is_free());
}

#[test]
fn a_session_that_has_looked_into_the_catalog_goes_whole() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let postgres = Postgres::new();
    let session = Session::new(Arc::new(db), Arc::clone(&postgres) as Arc<_>).unwrap();
    let rows = session.sql("SELECT relname FROM pg_class WHERE pg_table_is_visible(oid)").unwrap().collect().unwrap();
    assert!(!rows.is_empty());
    let tables = Arc::downgrade(&postgres.session.get().unwrap().tables);
    drop((session, postgres));
    assert!(tables.upgrade().is_none(), "something of the session is left");
}
