use crate::clients::EmbeddedClient;
use crate::{AdvisoryLocks, Postgres};
use arrow::array::AsArray;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
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
