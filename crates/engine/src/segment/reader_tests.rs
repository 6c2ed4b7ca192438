use super::*;
use crate::error::ErrorKind;
use crate::ids::{Generation, TableId};
use crate::io::MemoryStorage;
use crate::pool::Pool;
use crate::schema::{TableDefinition, TableSchema, Unit};
use crate::segment::index::{Entry, LastValue};
use crate::segment::writer::{ColumnValues, SegmentWriter, SortedRows, Texts};

fn schema() -> Arc<TableSchema> {
    let table = TableDefinition::new("t").key("id", ColumnType::UInt64).time("ts", Unit::Second);
    Arc::new(table.field("v", ColumnType::Int32).field("s", ColumnType::Utf8).build(TableId(0)).unwrap())
}

/// Rows of `containers` containers of `each` rows; every third value is NULL.
struct Made {
    each: usize,
}

impl SortedRows for Made {
    fn values(&self, column: usize, start: usize, len: usize) -> Result<ColumnValues<'_>> {
        let rows = start..start + len;
        let mut nulls = NullMask::default();
        if column > 1 {
            rows.clone().filter(|row| row % 3 == 0).for_each(|row| nulls.set(row - start, true));
        }
        let value = |row: usize| match column {
            0 => (row / self.each) as u64,
            1 => (row % self.each) as u64,
            _ if row.is_multiple_of(3) => 0,
            2 => (row % 100) as u64,
            _ => (row % 2) as u64,
        };
        let lane = Lane::plain(rows.map(value).collect(), nulls);
        if column < 3 {
            return Ok(ColumnValues::Raw(lane));
        }
        let mut pool = Pool::default();
        pool.intern(b"even");
        pool.intern(b"a text that is longer than sixteen bytes");
        Ok(ColumnValues::Text(lane, Texts::Owned(pool)))
    }
}

fn written(storage: &MemoryStorage, containers: usize, each: usize) -> Segment {
    let made = Made { each };
    let mut writer = SegmentWriter::create(storage, "s", &schema(), Generation(1)).unwrap();
    let rows = containers * each;
    for start in (0..rows).step_by(ROW_GROUP_ROWS) {
        let len = ROW_GROUP_ROWS.min(rows - start);
        let (mut entries, mut row) = (Vec::new(), start);
        while row < start + len {
            let end = ((row / each + 1) * each).min(start + len);
            let mut key = vec![1];
            key.extend_from_slice(&((row / each) as u64).to_be_bytes());
            let times = ((row % each) as i64, ((end - 1) % each) as i64);
            entries.push(Entry { key, rows: end - row, times });
            row = end;
        }
        writer.group(&entries, &made, start, len).unwrap();
    }
    writer.finish().unwrap();
    Segment::open(storage, "s", SegmentId(0), &Arc::new(Cache::new(1 << 20))).unwrap()
}

#[test]
fn odd_shapes_come_back() {
    // One row; one container over pages; containers over blocks; a container over row groups.
    for (containers, each) in [(1, 1), (1, PAGE_ROWS + 1), (300, 40), (129, 3), (3, ROW_GROUP_ROWS / 2 + 1)] {
        let storage = MemoryStorage::new();
        let segment = written(&storage, containers, each);
        let rows = containers * each;
        assert_eq!((segment.facts.rows, segment.facts.containers), (rows as u64, containers as u64));
        let mut next = 0;
        for number in 0..segment.blocks().len() {
            let block = segment.block(number).unwrap();
            for place in 0..block.keys.len() {
                assert_eq!((block.starts[place], block.starts[place + 1]), (next, next + each as u64));
                assert_eq!(block.times[place], (0, each as i64 - 1));
                next += each as u64;
                let last = next as usize - 1;
                if block.knows_last() {
                    let value = block.last(place, ColumnId(2), ColumnType::Float64);
                    let expected = match last % 3 {
                        0 => LastValue::Null,
                        _ => LastValue::Raw(((last % 100) as f64).to_bits()),
                    };
                    assert_eq!(value, expected, "row {last}, widened");
                }
            }
        }
        assert_eq!(next, rows as u64);
        for row in [0, 1, rows / 2, rows - 1].into_iter().filter(|row| *row < rows) {
            let mut out = ColumnBuilder::new(ColumnType::Utf8);
            let page = segment.page(ColumnId(3), row / PAGE_ROWS, row % 2 == 0).unwrap().unwrap();
            page.copy(row % PAGE_ROWS, 1, &mut out);
            let ColumnBuilder::Bytes(bytes) = out else { panic!("text") };
            assert_eq!(bytes.get(0).is_none(), row.is_multiple_of(3), "row {row}");
        }
        assert!(segment.page(ColumnId(9), 0, false).unwrap().is_none(), "a column the file does not have");
    }
}

#[test]
fn a_file_that_is_no_segment_is_an_error() {
    let storage = MemoryStorage::new();
    drop(written(&storage, 2, 5));
    storage.tamper("s", |bytes| bytes.truncate(bytes.len() - 1));
    let Err(error) = Segment::open(storage.as_ref(), "s", SegmentId(0), &Arc::new(Cache::new(0))) else {
        panic!("the end is missing")
    };
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}
