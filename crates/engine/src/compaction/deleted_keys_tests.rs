use super::*;
use crate::column_type::{ColumnType, Unit};
use crate::ids::{Generation, SegmentId, TableId};
use crate::io::MemoryStorage;
use crate::memory::Budget;
use crate::schema::TableDefinition;
use crate::write::admit::admit_keys;
use arrow::array::{Int64Array, RecordBatch, TimestampSecondArray};

fn schema() -> Arc<TableSchema> {
    let definition = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    Arc::new(definition.build(TableId(0)).unwrap())
}

fn segment(times: (i64, i64), slices: &[(i64, i64)]) -> SegmentEntry {
    let slices = slices.iter().map(|&(from, to)| Slice { from, to, rows: 9 }).collect();
    let (id, table, generation) = (SegmentId(0), TableId(0), Generation(1));
    SegmentEntry { id, table, generation, rows: 9, bytes: 1, crc: 0, times, width: 1, purged: 0, slices }
}

fn push(deleted: &mut DeletedKeys<'_>, schema: &Arc<TableSchema>, rows: &[(i64, i64)]) -> Result<()> {
    let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let times = TimestampSecondArray::from_iter_values(rows.iter().map(|row| row.1));
    let rows = RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("ts", Arc::new(times) as _)]).unwrap();
    let (keys, times) = admit_keys(schema, &rows)?;
    deleted.push(&keys, &times, rows.num_rows())
}

fn times_of(mut deleted: SegmentDeletes) -> Vec<(Vec<u8>, i64)> {
    let mut all = Vec::new();
    deleted.advance().unwrap();
    while let Some(time) = deleted.time {
        all.push((deleted.key.clone(), time));
        deleted.advance().unwrap();
    }
    all
}

#[test]
fn each_segment_gets_the_keys_that_it_may_hold_in_order() {
    let (storage, schema) = (MemoryStorage::new(), schema());
    let memory = QueryMemory(Budget::new(1 << 20));
    storage.create_directory(&directory(schema.id)).unwrap();
    let segments = [segment((0, 99), &[]), segment((50, 5_000), &[]), segment((0, 9_000), &[(0, 9), (8_000, 9_000)])];
    let mut deleted = DeletedKeys::new(storage.as_ref(), &schema, segments.iter(), memory.clone()).unwrap();
    let rows: Vec<(i64, i64)> = (0..3).flat_map(|id| (0..9_000).map(move |time| (id, time))).collect();
    for rows in rows.chunks(1_000) {
        push(&mut deleted, &schema, rows).unwrap();
    }
    // A key given twice counts once.
    push(&mut deleted, &schema, &rows[rows.len() - 1..]).unwrap();
    assert_eq!(deleted.count(), 27_000);
    assert!(deleted.file_bytes > 100_000, "most of them are in the file");
    let lists = deleted.finish().unwrap();
    assert_eq!(storage.list(&directory(schema.id)).unwrap(), Vec::<String>::new());
    let within =
        [|time: i64| time < 100, |time: i64| (50..=5_000).contains(&time), |time: i64| !(10..8_000).contains(&time)];
    for (list, within) in lists.into_iter().zip(within) {
        let found = times_of(list.unwrap());
        let expected: Vec<i64> = rows.iter().map(|row| row.1).filter(|time| within(*time)).collect();
        assert_eq!(found.iter().map(|(_, time)| *time).collect::<Vec<_>>(), expected);
        assert!(found.is_sorted());
    }
    assert_eq!(memory.used_bytes(), 0, "its memory is given back");
}

#[test]
fn keys_out_of_order_and_more_than_the_memory_has_are_refused() {
    let (storage, schema) = (MemoryStorage::new(), schema());
    storage.create_directory(&directory(schema.id)).unwrap();
    let segments = [segment((0, 99), &[])];
    let memory = QueryMemory(Budget::new(1 << 20));
    let mut deleted = DeletedKeys::new(storage.as_ref(), &schema, segments.iter(), memory).unwrap();
    push(&mut deleted, &schema, &[(1, 5), (1, 6)]).unwrap();
    assert!(push(&mut deleted, &schema, &[(1, 5)]).is_err());
    drop(deleted);
    let none = QueryMemory(Budget::new(0));
    let many: Vec<SegmentEntry> = (0..10).map(|_| segment((0, 99), &[])).collect();
    let mut deleted = DeletedKeys::new(storage.as_ref(), &schema, many.iter(), none).unwrap();
    assert!(push(&mut deleted, &schema, &[(1, 5)]).is_err());
    drop(deleted);
    assert_eq!(storage.list(&directory(schema.id)).unwrap(), Vec::<String>::new());
}
