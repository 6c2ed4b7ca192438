use super::*;
use crate::column_type::{ColumnType, Unit};
use crate::deletes::DeleteSet;
use crate::ids::{ColumnId, Generation, TableId};
use crate::lane::NullMask;
use crate::memtable::Memtable;
use crate::memtable::sorted::Sorted;
use crate::schema::TableDefinition;
use crate::wal::record::{NewEntries, Section, SectionField};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Adds rows of (key, time) to a memtable. A key's number is its place of first appearance.
pub(crate) fn add(memtable: &Arc<Memtable>, rows: &[(u8, i64)]) {
    let mut new_keys: Vec<Vec<u8>> = Vec::new();
    for (key, _) in rows {
        let key = vec![*key];
        if memtable.read().keys.find(&key).is_none() && !new_keys.contains(&key) {
            new_keys.push(key);
        }
    }
    let new_entries = NewEntries { keys: new_keys, ..NewEntries::default() };
    let nulls = Cow::Owned(NullMask::default());
    let values = rows.iter().map(|row| row.1 as u64).collect();
    let mut section = Section {
        table: TableId(0),
        rows: rows.len(),
        containers: Vec::new(),
        times: rows.iter().map(|row| row.1 as u64).collect(),
        fields: vec![SectionField { column: ColumnId(2), values, nulls }],
    };
    let mut inner = memtable.write();
    inner.learn(&new_entries, &mut section);
    let numbers = rows.iter().map(|(key, _)| u64::from(inner.keys.find(&[*key]).unwrap()));
    section.containers = numbers.collect();
    inner.apply(&section);
}

/// The rows of a sorted view, as (key, time).
fn rows_of(sorted: &Sorted) -> Vec<(u8, i64)> {
    let rows = |place| sorted.rows(place).map(move |row| (sorted.keys.get(place)[0], sorted.times()[row]));
    (0..sorted.keys.len()).flat_map(rows).collect()
}

/// A memtable with a key, a time and a field.
pub(crate) fn memtable() -> Arc<Memtable> {
    let table = TableDefinition::new("t").key("id", ColumnType::UInt8).time("ts", Unit::Second);
    let schema = table.field("v", ColumnType::UInt64).build(TableId(0)).unwrap();
    Arc::new(Memtable::new(&schema, Generation(1)))
}

#[test]
fn a_selection_holds_the_rows_of_its_containers() {
    for seed in 0..300 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut rows = |count: usize, keys: u8| -> Vec<(u8, i64)> {
            (0..count).map(|_| (random.random_range(0..keys), random.random_range(0..50))).collect()
        };
        let (before, after) = (rows(1 + seed as usize, 40), rows(30, 60));
        let wanted: BTreeSet<u8> = rows(seed as usize % 8, 60).into_iter().map(|row| row.0).collect();
        let memtable = memtable();
        add(&memtable, &before);
        let view = memtable.view(&memtable.read());
        // The order of the keys is kept, and learns of keys that come later.
        view.key_order(&memtable.read().keys);
        add(&memtable, &after);
        let keys: Vec<Vec<u8>> = wanted.iter().map(|key| vec![*key]).collect();
        let listed = Selection::listed(&view, &keys);
        let passes = |key: &[u8]| Ok(wanted.contains(&key[0]));
        let passing = Selection::passing(&view, &KeyRange::default(), usize::MAX, passes).unwrap();
        let (from, to) = (random.random_bool(0.5).then_some(10), random.random_bool(0.5).then_some(30));
        let has_time = |time: i64| from.is_none_or(|from| from <= time) && to.is_none_or(|to| time <= to);
        let is_wanted = |row: &(u8, i64)| wanted.contains(&row.0) && has_time(row.1);
        let mut expected: Vec<(u8, i64)> = before.iter().copied().filter(is_wanted).collect();
        expected.sort_unstable();
        expected.dedup();
        for selection in [listed, passing, Selection::all(&view)] {
            let selection = selection.within(from, to);
            // Where many rows are wanted, a selection holds all.
            let is_all = selection.containers.is_none();
            let mut found = rows_of(&Sorted::of(view.clone(), &selection, &DeleteSet::default(), &()));
            assert!(is_all || found.iter().all(|row| wanted.contains(&row.0)), "seed {seed}");
            assert!(found.iter().all(|row| has_time(row.1)), "seed {seed}");
            found.retain(|row| wanted.contains(&row.0));
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}

/// The keys of the rows that a selection of a range holds.
fn keys_of(view: &MemtableView, range: &KeyRange, limit: usize) -> (Vec<u8>, bool) {
    let selection = Selection::passing(view, range, limit, |_| Ok(true)).unwrap();
    let sorted = Sorted::of(view.clone(), &selection, &DeleteSet::default(), &());
    (rows_of(&sorted).into_iter().map(|row| row.0).collect(), selection.is_cut)
}

/// A view of 120 containers with even keys, in no order, which have a row each, and two have three.
fn even_keys() -> MemtableView {
    let memtable = memtable();
    let rows = (0..120).map(|place| ((place * 77 % 120) as u8 * 2, 0));
    add(&memtable, &rows.chain([(2, 1), (2, 2), (6, 1), (6, 1)]).collect::<Vec<_>>());
    memtable.view(&memtable.read())
}

#[test]
fn a_range_selects_the_keys_within_it() {
    let view = even_keys();
    for (first, last) in [(10, 20), (11, 19), (12, 12), (13, 13), (236, 255), (238, 238), (239, 255), (20, 10)] {
        let range = KeyRange { first: vec![first], last: vec![last] };
        let expected: Vec<u8> = (0..240).filter(|key| key % 2 == 0 && (first..=last).contains(key)).collect();
        assert_eq!(keys_of(&view, &range, usize::MAX), (expected, false), "from {first} to {last}");
    }
}

#[test]
fn a_limit_leaves_out_later_containers() {
    let view = even_keys();
    // The row that replaces another one counts, although it is not there once they are sorted.
    let cases = [
        (0, &[][..]),
        (1, &[0]),
        (2, &[0, 2, 2, 2]),
        (4, &[0, 2, 2, 2]),
        (5, &[0, 2, 2, 2, 4]),
        (8, &[0, 2, 2, 2, 4, 6, 6]),
        (9, &[0, 2, 2, 2, 4, 6, 6, 8]),
    ];
    for (limit, expected) in cases {
        assert_eq!(keys_of(&view, &KeyRange::default(), limit), (expected.to_vec(), true), "limit {limit}");
    }
    let range = KeyRange { first: vec![234], last: Vec::new() };
    assert_eq!(keys_of(&view, &range, 4), (vec![234, 236, 238], false));
    assert_eq!(keys_of(&view, &range, 2), (vec![234, 236], true));
}
