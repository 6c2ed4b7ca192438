use super::{Address, create, text};
use fleetdb_bench_core::query::{Key, Query};
use fleetdb_bench_core::workload::series::Series;
use std::sync::Arc;

#[test]
fn a_key_is_tags_and_values_stand_in_the_statement() {
    let table = Series::Records.table();
    assert_eq!(
        create(&table),
        "CREATE TABLE records (ts TIMESTAMP(9) TIME INDEX, container STRING, payload STRING, PRIMARY KEY (container))"
    );
    let query = Query::Rows { of: Arc::new(table), key: Key::Int(7), window_ns: (1, 2) };
    assert_eq!(
        text(&query),
        "SELECT container, ts, payload FROM records WHERE container = '7' AND ts >= to_timestamp_nanos(1) AND \
         ts < to_timestamp_nanos(2) ORDER BY ts"
    );
}

#[test]
fn a_text_with_a_quote_or_a_question_mark_stays_a_text() {
    let key = Key::Text("it's? no".to_owned());
    let text = text(&Query::Rows { of: Arc::new(Series::Records.table()), key, window_ns: (1, 2) });
    assert!(text.contains("container = 'it''s? no' AND ts >= to_timestamp_nanos(1)"), "{text}");
}

#[test]
fn a_url_names_the_database() {
    let address = Address::of("http://user:word@host:4000/public").unwrap();
    assert_eq!((address.server.as_str(), address.database.as_str()), ("http://user:word@host:4000", "public"));
    assert!(Address::of("http://host:4000").is_err());
}
