use super::*;
use crate::column_type::{ColumnType, Unit};
use crate::deletes::{DeleteSet, Deletes, Marked};
use crate::ids::{ColumnId, Generation, TableId};
use crate::lane::NullMask;
use crate::manifest::Delete;
use crate::memtable::Memtable;
use crate::memtable::selection::Selection;
use crate::memtable::sorted::Sorted;
use crate::schema::TableDefinition;
use crate::wal::record::{NewEntries, Section, SectionField};
use std::borrow::Cow;
use std::sync::Arc;

/// A sorted memtable of one generation with these (container, time, value) rows.
fn source(generation: u64, rows: &[(u8, i64, u64)], deletes: &DeleteSet) -> Source {
    let table = TableDefinition::new("t").key("id", ColumnType::UInt8).time("ts", Unit::Second);
    let schema = table.field("v", ColumnType::UInt64).build(TableId(0)).unwrap();
    let memtable = Arc::new(Memtable::new(&schema, Generation(generation)));
    let mut keys: Vec<u8> = rows.iter().map(|row| row.0).collect();
    keys.sort_unstable();
    keys.dedup();
    let number = |key: u8| keys.binary_search(&key).unwrap() as u64;
    let values = rows.iter().map(|row| row.2).collect();
    let mut section = Section {
        table: TableId(0),
        rows: rows.len(),
        containers: rows.iter().map(|row| number(row.0)).collect(),
        times: rows.iter().map(|row| row.1 as u64).collect(),
        fields: vec![SectionField { column: ColumnId(2), values, nulls: Cow::Owned(NullMask::default()) }],
    };
    let new_entries = NewEntries { keys: keys.iter().map(|key| vec![*key]).collect(), ..NewEntries::default() };
    memtable.write().learn(&new_entries, &mut section);
    memtable.write().apply(&section);
    let view = memtable.view(&memtable.read());
    let selection = Selection::all(&view);
    Source::Memtable(Sorted::of(view, &selection, deletes, &()))
}

/// All rows that a merge returns, as (key, time, source).
fn merged(sources: Vec<Source>, bounds: ScanBounds) -> Vec<(u8, i64, usize)> {
    let sources = Arc::new(sources);
    let mut memos = PageMemo::of_each(&sources);
    let mut merge = Merge::new(&sources, bounds.clone());
    let mut rows = Vec::new();
    while let Some(runs) = merge.next().unwrap() {
        for pick in pick(&sources, &runs, &bounds, &mut memos).unwrap() {
            let times = sources[pick.source].times(pick.start, pick.rows, &mut memos[pick.source]).unwrap();
            rows.extend(times.into_iter().map(|time| (runs[0].1.key[0], time, pick.source)));
        }
    }
    rows
}

fn none() -> DeleteSet {
    DeleteSet::default()
}

#[test]
fn of_equal_times_the_newest_source_counts() {
    let old = source(1, &[(7, 1, 0), (7, 2, 0), (7, 4, 0)], &none());
    let new = source(2, &[(7, 2, 0), (7, 3, 0), (9, 1, 0)], &none());
    let rows = merged(vec![old, new], ScanBounds::default());
    assert_eq!(rows, [(7, 1, 0), (7, 2, 1), (7, 3, 1), (7, 4, 0), (9, 1, 1)]);
}

#[test]
fn runs_that_do_not_overlap_are_taken_whole_in_order_of_time() {
    let late = source(2, &[(7, 1, 0), (7, 2, 0)], &none());
    let early = source(1, &[(7, 10, 0), (7, 11, 0)], &none());
    let rows = merged(vec![early, late], ScanBounds::default());
    assert_eq!(rows, [(7, 1, 1), (7, 2, 1), (7, 10, 0), (7, 11, 0)]);
}

#[test]
fn only_wanted_keys_and_times_come() {
    let make = || source(1, &[(1, 5, 0), (2, 4, 0), (2, 5, 0), (2, 6, 0), (3, 5, 0)], &none());
    let bounds = ScanBounds { keys: Some(vec![vec![0], vec![2], vec![9]]), from: Some(5), ..ScanBounds::default() };
    assert_eq!(merged(vec![make()], bounds), [(2, 5, 0), (2, 6, 0)]);
    let bounds = ScanBounds { from: Some(i64::MIN), to: Some(i64::MAX), ..ScanBounds::default() };
    assert_eq!(merged(vec![make()], bounds).len(), 5);
    let nothing = ScanBounds { from: Some(7), to: Some(3), ..ScanBounds::default() };
    assert_eq!(merged(vec![make()], nothing), []);
}

#[test]
fn deleted_rows_of_a_memtable_are_passed_over() {
    let mut deletes = Deletes::default();
    let delete = Delete { id: 1, generation: Generation(2), key: Some(vec![7]), from: 2, to: 3 };
    deletes.push(Marked { delete, rows_before: 1 });
    let set = DeleteSet::new([Arc::new(deletes)].into_iter());
    let old = source(1, &[(7, 1, 0), (7, 2, 0), (8, 2, 0)], &set);
    let own = source(2, &[(7, 3, 0), (7, 2, 0)], &set);
    // The older memtable loses time 2. The delete's own memtable loses only its first row, time 3.
    assert_eq!(merged(vec![old, own], ScanBounds::default()), [(7, 1, 0), (7, 2, 1), (8, 2, 0)]);
}
