use super::MAX_BYTES;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{Database, Settings};
use fleetdb_query::Session;

#[test]
fn batches_of_a_cross_join_are_small_if_its_rows_are_wide() {
    let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    let wide = "(SELECT repeat('x', 20000) || v AS w FROM generate_series(1, 3) AS g(v))";
    let narrow = "(SELECT v, 'a' || v AS w FROM generate_series(1, 3000) AS g(v))";
    for (from, most) in [
        (format!("{wide} AS a, {narrow} AS b"), MAX_BYTES / 20_000),
        (format!("{narrow} AS b, {wide} AS a"), MAX_BYTES / 20_000),
        (format!("{narrow} AS b, (SELECT 'b' || v FROM generate_series(1, 3) AS g(v)) AS c"), 8_192),
    ] {
        for _ in 0..2 {
            let rows = session.sql(&format!("SELECT * FROM {from}")).unwrap().collect().unwrap();
            assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 9_000, "{from}");
            let largest = rows.iter().map(|batch| batch.num_rows()).max().unwrap();
            assert!((most / 10..=most).contains(&largest) || rows.len() == 3_000, "{from}: {largest}");
        }
    }
}
