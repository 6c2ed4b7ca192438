use super::*;
use crate::column_type::{ColumnType, Unit};
use crate::io::{Io, MemoryStorage, Storage};
use crate::schema::TableDefinition;
use file::Manifest;
use std::sync::Arc;

fn schema(id: u32, name: &str) -> TableSchema {
    let table = TableDefinition::new(name).key("id", ColumnType::Int64).time("ts", Unit::Second);
    table.field("v", ColumnType::Float64).build(TableId(id)).unwrap()
}

fn segment(id: u64, table: u32, generation: u64) -> SegmentEntry {
    let (id, table, generation) = (SegmentId(id), TableId(table), Generation(generation));
    SegmentEntry {
        id,
        table,
        generation,
        rows: 1,
        bytes: 1,
        crc: 0,
        times: (0, 0),
        width: 1,
        purged: 0,
        slices: Vec::new(),
    }
}

fn flush(generation: u64, segments: Vec<SegmentEntry>) -> Edit {
    Edit::Flush {
        generation: Generation(generation),
        sequence: Sequence(generation),
        segments,
        deletes: Vec::new(),
        log: None,
    }
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
fn edits_of_columns_and_segments_are_refused_by_their_numbers() {
    let state = good();
    let table = TableId(0);
    breaks("E3", state.apply(&Edit::RenameTable { table: TableId(7), name: "x".to_owned() }));
    breaks("E3", state.apply(&Edit::RenameColumn { table, column: ColumnId(9), name: "x".to_owned() }));
    breaks("E6", state.apply(&Edit::DropColumn { table, column: ColumnId(0) }));
    breaks("E7", state.apply(&Edit::WidenColumn { table, column: ColumnId(2), column_type: ColumnType::Int64 }));
    let compact = |removed: Vec<u64>, sliced: Vec<(SegmentId, Vec<Slice>)>| Edit::Compact {
        removed: removed.into_iter().map(SegmentId).collect(),
        sliced,
        added: Vec::new(),
    };
    breaks("E8", state.apply(&compact(vec![5], Vec::new())));
    breaks("E9", state.apply(&compact(Vec::new(), vec![(SegmentId(0), Vec::new())])));
    let slices = vec![Slice { from: 5, to: 6, rows: 1 }, Slice { from: 6, to: 9, rows: 1 }];
    breaks("S9", state.apply(&flush(2, vec![SegmentEntry { slices, ..segment(1, 0, 2) }])));
    let delete = Delete { id: 1, generation: Generation(3), key: None, from: 0, to: 0 };
    let (generation, sequence) = (Generation(2), Sequence(2));
    breaks(
        "S10",
        state.apply(&Edit::Flush {
            generation,
            sequence,
            segments: Vec::new(),
            deletes: vec![(table, delete)],
            log: None,
        }),
    );
}

#[test]
fn a_delete_is_kept_as_long_as_a_segment_has_rows_for_it() {
    let table = TableId(0);
    let delete = Delete { id: 2, generation: Generation(2), key: None, from: 0, to: 0 };
    let flushed = Edit::Flush {
        generation: Generation(2),
        sequence: Sequence(2),
        segments: Vec::new(),
        deletes: vec![(table, delete)],
        log: None,
    };
    let state = good().apply(&flushed).unwrap();
    assert_eq!(state.deletes[&table].len(), 1);
    let added = vec![SegmentEntry { purged: 2, ..segment(1, 0, 1) }];
    let state = state.apply(&Edit::Compact { removed: vec![SegmentId(0)], sliced: Vec::new(), added }).unwrap();
    assert!(state.deletes.is_empty());
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

#[test]
fn a_file_of_a_newer_version_is_named_as_such() {
    let mut bytes = b"FLEETMAN".to_vec();
    bytes.extend_from_slice(&99_u32.to_le_bytes());
    bytes.extend_from_slice(&7_u64.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    let said = |bytes: &[u8]| file::read_bytes("m", bytes, 7).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(said(&bytes).contains("version 99") && said(&bytes).contains("use a newer version"), "{}", said(&bytes));
    bytes[9] = 1;
    assert!(said(&bytes).contains("invalid manifest header"), "{}", said(&bytes));
}
