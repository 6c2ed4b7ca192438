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
