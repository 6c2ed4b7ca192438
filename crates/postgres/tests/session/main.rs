//! Embedded sessions that speak PostgreSQL's SQL.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod collection_joins;
mod container_index;
mod deep;
mod files;
mod keyed;
mod long_lists;
mod merge;
mod newest_buckets;
mod prepared;
mod resources;
mod temporary;
mod times;
mod transactions;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;
use std::sync::Arc;

fn session() -> (Arc<Database>, Session) {
    session_in(&MemoryStorage::new())
}

fn session_in(storage: &Arc<MemoryStorage>) -> (Arc<Database>, Session) {
    let db = Arc::new(Database::open_with(Io::memory(Arc::clone(storage)), Settings::default()).unwrap());
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    session
        .sql("CREATE TABLE cpu (host TEXT, ts TIMESTAMP(0), usage BIGINT, load DOUBLE, PRIMARY KEY (host, ts))")
        .unwrap();
    fill(&session, 0);
    (db, session)
}

fn fill(session: &Session, from: i64) {
    session
        .sql(&format!(
            "INSERT INTO cpu SELECT 'h' || host.value, to_timestamp_seconds(t.value * 10), (t.value * 7 + host.value) % 100, \
             CASE WHEN t.value % 5 = 0 THEN NULL ELSE t.value * 0.5 END \
             FROM generate_series(0, 4) AS host(value), generate_series({from}, {}) AS t(value)",
            from + 999
        ))
        .unwrap();
}

fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

fn explain(session: &Session, sql: &str) -> String {
    text(&session.sql(&format!("EXPLAIN {sql}")).unwrap().collect().unwrap())
}
