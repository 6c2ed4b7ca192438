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
        let passing = Selection::passing(&view, &[], |key| Ok(wanted.contains(&key[0]))).unwrap();
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

#[test]
fn a_prefix_selects_the_keys_that_start_with_it() {
    let memtable = memtable();
    add(&memtable, &[(4, 0), (1, 0), (3, 0), (0, 0)]);
    let view = memtable.view(&memtable.read());
    for prefix in 0..6 {
        let selection = Selection::passing(&view, &[prefix], |_| Ok(true)).unwrap();
        let found = rows_of(&Sorted::of(view.clone(), &selection, &DeleteSet::default(), &()));
        let expected: Vec<(u8, i64)> =
            [0, 1, 3, 4].into_iter().filter(|key| *key == prefix).map(|key| (key, 0)).collect();
        assert_eq!(found, expected);
    }
}
