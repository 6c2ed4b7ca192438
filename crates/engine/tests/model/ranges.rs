//! Scans of containers that are named by bounds of their keys, and of the first rows of a table.

use super::{Key, Row, id_of, read, uuid};
use fleetdb_engine::{KeyCondition, KeyPredicate, Projection, ScanRequest, TableView, Value};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

fn between(from: Bound<Value>, to: Bound<Value>) -> KeyPredicate {
    KeyPredicate { column: 0, test: KeyCondition::Between(from, to) }
}

/// Checks the first items, of all and of some.
pub fn check_items(random: &mut Xoshiro256PlusPlus, table: &TableView, items: &BTreeMap<i64, Option<String>>) {
    use arrow::array::AsArray;
    let limit = random.random_range(0..300);
    let first = random.random_range(0..1500);
    let end = random.random_range(first..=1500);
    let from = Bound::Included(Value::Uuid(uuid(first)));
    let to = Bound::Excluded(Value::Uuid(uuid(end)));
    let above = between(from.clone(), Bound::Unbounded);
    let within = between(from, to);
    // Listed ones, in some scans more than are looked up in the newest memtable alone.
    let count = random.random_range(1..150);
    let listed: Vec<i64> = (0..count).map(|_| random.random_range(0..1600)).collect();
    let uuids = listed.iter().map(|id| Value::Uuid(uuid(*id))).collect();
    let any_of = KeyPredicate { column: 0, test: KeyCondition::In(uuids) };
    let conditions = [vec![], vec![above], vec![within.clone()], vec![any_of.clone()], vec![within, any_of]];
    for (number, key_predicates) in conditions.into_iter().enumerate() {
        let ids = [0..1500, first..1500, first..end, 0..1500, first..end][number].clone();
        let is_wanted = |id: &i64| number < 3 || listed.contains(id);
        let request = ScanRequest::all().columns(Projection::Places(vec![0])).limit(limit);
        let mut found = Vec::new();
        for rows in table.scan(&ScanRequest { key_predicates, ..request }).unwrap() {
            let rows = rows.unwrap();
            let ids = rows.column(0).as_fixed_size_binary();
            found.extend((0..rows.num_rows()).map(|row| id_of(ids.value(row))));
        }
        let expected: Vec<i64> = items.range(ids).map(|(id, _)| *id).filter(is_wanted).take(limit).collect();
        assert_eq!(found, expected, "from {first} to {end}, limit {limit}, {listed:?}");
    }
}

/// Checks the first rows from a time on, of all devices and of some.
pub fn check_series(random: &mut Xoshiro256PlusPlus, table: &TableView, series: &BTreeMap<Key, Row>) {
    let limit = random.random_range(0..50);
    let first = random.random_range(0..9);
    let last = random.random_range(first..10);
    let mut bound = |number: i64| match random.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(format!("dev\0{number}")),
        _ => Bound::Excluded(format!("dev\0{number}")),
    };
    let names = (bound(first), bound(last));
    let time = random.random_bool(0.5).then(|| random.random_range(-4_000..4_000));
    let is_wanted = |(_, at): &&Key| time.is_none_or(|time| *at >= time);
    let is_named = |(device, _): &&Key| device.as_ref().is_some_and(|device| names.contains(device));
    let all: Vec<&Key> = series.keys().filter(is_wanted).take(limit).collect();
    let some: Vec<&Key> = series.keys().filter(is_wanted).filter(is_named).take(limit).collect();
    let value = |bound: &Bound<String>| bound.as_ref().map(|name| Value::Text(name.clone()));
    let named = between(value(&names.0), value(&names.1));
    for (key_predicates, expected) in [(vec![], all), (vec![named], some)] {
        let request = ScanRequest { key_predicates, from: time, ..ScanRequest::all().limit(limit) };
        let rows = read(table, &request);
        let found: Vec<&Key> = rows.iter().map(|(key, _)| key).collect();
        assert_eq!(found, expected, "{names:?}, time {time:?}, limit {limit}");
    }
}
