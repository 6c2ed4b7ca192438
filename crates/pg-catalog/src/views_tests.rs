use super::{EMPTY, VIEWS};
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;

#[test]
fn all_views_can_be_read() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), fleetdb_postgres::Postgres::new()).unwrap();
    for (view, _) in VIEWS.iter().chain(&EMPTY) {
        let rows = session.sql(&format!("SELECT * FROM pg_catalog.{view}")).and_then(fleetdb_query::Answer::collect);
        assert!(rows.is_ok(), "{view}: {rows:?}");
    }
    for (view, rows) in [("pg_stat_activity", 1), ("pg_locks", 0), ("pg_settings", 39)] {
        let found = session.sql(&format!("SELECT * FROM {view}")).unwrap().collect().unwrap();
        assert_eq!(found.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>(), rows, "{view}");
    }
}
