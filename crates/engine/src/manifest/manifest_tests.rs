use super::*;
use crate::ids::ColumnId;
use crate::io::{Io, MemoryStorage, Storage};
use crate::schema::{ColumnType, TableDefinition, Unit};
use file::Manifest;
use std::sync::Arc;

fn schema(id: u32, name: &str) -> TableSchema {
    let table = TableDefinition::new(name).key("id", ColumnType::Int64).time("ts", Unit::Second);
    table.field("v", ColumnType::Float64).build(TableId(id)).unwrap()
}

fn segment(id: u64, table: u32, generation: u64) -> SegmentEntry {
    let (id, table, generation) = (SegmentId(id), TableId(table), Generation(generation));
    SegmentEntry { id, table, generation, rows: 1, bytes: 1, crc: 0, times: (0, 0) }
}

fn flush(generation: u64, segments: Vec<SegmentEntry>) -> Edit {
    Edit::Flush { generation: Generation(generation), sequence: Sequence(generation), segments }
}

fn good() -> State {
    let state = State::default().apply(&Edit::CreateTable { schema: schema(0, "a") }).unwrap();
    state.apply(&flush(1, vec![segment(0, 0, 1)])).unwrap()
}

fn breaks(invariant: &str, outcome: Result<impl std::fmt::Debug>) {
    let error = outcome.expect_err(invariant).to_string();
    assert!(error.contains(&format!("invariant {invariant} ")), "{invariant}: {error}");
}

#[test]
fn each_broken_edit_is_refused_by_its_number() {
    let state = good();
    breaks("E1", state.apply(&Edit::CreateTable { schema: schema(0, "b") }));
    breaks("E2", state.apply(&Edit::DropTable { table: TableId(7) }));
    let column = state.tables[&TableId(0)].columns[2].clone();
    breaks("E3", state.apply(&Edit::AddColumn { table: TableId(7), column: column.clone() }));
    breaks("E4", state.apply(&flush(3, vec![])));
    breaks("E5", state.apply(&flush(2, vec![segment(0, 0, 2)])));
    breaks("S2", state.apply(&Edit::CreateTable { schema: schema(1, "a") }));
    breaks("S3", state.apply(&Edit::AddColumn { table: TableId(0), column }));
    breaks("S6", state.apply(&flush(2, vec![segment(1, 9, 2)])));
    breaks("S7", state.apply(&flush(2, vec![segment(1, 0, 5)])));
    breaks("S8", state.apply(&flush(2, vec![SegmentEntry { rows: 0, ..segment(1, 0, 2) }])));
}

#[test]
fn each_broken_state_is_refused_by_its_number() {
    let mut state = good();
    state.next_table = 0;
    breaks("S1", state.check());
    let mut state = good();
    state.tables.get_mut(&TableId(0)).unwrap().key = vec![2];
    breaks("S4", state.check());
    let mut state = good();
    state.next_segment = 0;
    breaks("S5", state.check());
}

#[test]
fn a_dropped_table_takes_its_segments_along() {
    let state = good().apply(&Edit::DropTable { table: TableId(0) }).unwrap();
    assert!(state.segments.is_empty() && state.tables.is_empty());
    assert_eq!((state.next_table, state.next_segment), (1, 1), "numbers are not given out again");
}

#[test]
fn what_was_appended_is_there_after_reopening_and_the_file_is_folded_when_it_grows() {
    let storage = MemoryStorage::new();
    let io = Io::memory(Arc::clone(&storage));
    let mut manifest = Manifest::open(&io).unwrap();
    manifest.append(&Edit::CreateTable { schema: schema(0, "a") }).unwrap();
    for number in 0..3_000 {
        let mut column = manifest.state().tables[&TableId(0)].columns[2].clone();
        (column.id, column.name) = (ColumnId(3 + number), format!("column {number}"));
        manifest.append(&Edit::AddColumn { table: TableId(0), column }).unwrap();
    }
    let state = manifest.state().clone();
    drop(manifest);
    let files = storage.list(file::DIRECTORY).unwrap();
    assert_eq!(files.len(), 1);
    assert_ne!(files[0], "0000000000000001.manifest", "it was folded");
    let after = Manifest::open(&Io::memory(storage.crash())).unwrap();
    assert_eq!(*after.state(), state);
}
