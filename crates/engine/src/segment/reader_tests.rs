use super::*;
use crate::column::ColumnBuilder;
use crate::column_type::Unit;
use crate::error::ErrorKind;
use crate::ids::{Generation, TableId};
use crate::io::MemoryStorage;
use crate::pool::Pool;
use crate::schema::{TableDefinition, TableSchema};
use crate::segment::ROW_GROUP_ROWS;
use crate::segment::index::{Entry, LastValue};
use crate::segment::pages::{ColumnValues, Texts};
use crate::segment::writer::{SegmentWriter, SortedRows};

fn schema() -> Arc<TableSchema> {
    let table = TableDefinition::new("t").key("id", ColumnType::UInt64).time("ts", Unit::Second);
    Arc::new(table.field("v", ColumnType::Int32).field("s", ColumnType::Utf8).build(TableId(0)).unwrap())
}

/// Rows of containers with `each` rows; every third value is NULL. Texts are one of two or, if
/// `text_bytes` is set, all different.
struct Made {
    each: usize,
    text_bytes: usize,
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
        let mut pool = Pool::default();
        if column == 3 && self.text_bytes > 0 {
            let code = |row: usize| match row % 3 {
                0 => 0,
                _ => u64::from(pool.intern(text(row, self.text_bytes).as_bytes())),
            };
            let lane = Lane::plain(rows.map(code).collect(), nulls);
            return Ok(ColumnValues::Text(lane, Texts::Owned(pool)));
        }
        let lane = Lane::plain(rows.map(value).collect(), nulls);
        if column < 3 {
            return Ok(ColumnValues::Raw(lane));
        }
        pool.intern(b"even");
        pool.intern(b"a text that is longer than sixteen bytes");
        Ok(ColumnValues::Text(lane, Texts::Owned(pool)))
    }
}

fn text(row: usize, bytes: usize) -> String {
    format!("{row:0>bytes$}")
}

fn written(storage: &MemoryStorage, containers: usize, each: usize, text_bytes: usize) -> Segment {
    written_in_groups(storage, containers, &Made { each, text_bytes }, ROW_GROUP_ROWS)
}

fn written_in_groups(storage: &MemoryStorage, containers: usize, made: &Made, group_rows: usize) -> Segment {
    let each = made.each;
    let mut writer = SegmentWriter::create(storage, "s", &schema(), Generation(1)).unwrap();
    let rows = containers * each;
    for start in (0..rows).step_by(group_rows) {
        let len = group_rows.min(rows - start);
        let (mut entries, mut row) = (Vec::new(), start);
        while row < start + len {
            let end = ((row / each + 1) * each).min(start + len);
            let mut key = vec![1];
            key.extend_from_slice(&((row / each) as u64).to_be_bytes());
            let times = ((row % each) as i64, ((end - 1) % each) as i64);
            entries.push(Entry { key, rows: end - row, times });
            row = end;
        }
        writer.group(&entries, made, start, len).unwrap();
    }
    writer.finish().unwrap();
    Segment::open(storage, "s", SegmentId(0), &Arc::new(Cache::new(1 << 20))).unwrap()
}

#[test]
fn odd_shapes_come_back() {
    // One row; a container across pages; containers across blocks; a container across row groups.
    for (containers, each) in [(1, 1), (1, PAGE_ROWS + 1), (300, 40), (129, 3), (3, ROW_GROUP_ROWS / 2 + 1)] {
        let storage = MemoryStorage::new();
        let segment = written(&storage, containers, each, 0);
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
            let place = segment.place(ColumnId(3), row);
            assert_eq!((place.page, place.at), (row / PAGE_ROWS, row % PAGE_ROWS));
            let page = segment.page(ColumnId(3), place.page, row % 2 == 0).unwrap().unwrap();
            page.copy(place.at, 1, &mut out);
            let ColumnBuilder::Bytes(bytes) = out else { panic!("text") };
            assert_eq!(bytes.get(0).is_none(), row.is_multiple_of(3), "row {row}");
        }
        assert!(segment.page(ColumnId(9), 0, false).unwrap().is_none(), "a column the file does not have");
    }
}

#[test]
fn pages_have_the_same_values_packed_and_unpacked() {
    for (containers, each) in [(1, 1), (1, PAGE_ROWS + 1), (300, 40)] {
        let storage = MemoryStorage::new();
        let segment = written(&storage, containers, each, 0);
        let other = Segment::open(storage.as_ref(), "s", SegmentId(1), &Arc::new(Cache::new(1 << 20))).unwrap();
        for column in (0..4).map(ColumnId) {
            for place in segment.places(column, 0, containers * each) {
                let packed = segment.page(column, place.page, true).unwrap().unwrap();
                let plain = other.page(column, place.page, false).unwrap().unwrap();
                for row in 0..place.rows {
                    assert_eq!(
                        packed.value(row),
                        plain.value(row),
                        "column {column}, row {row} of page {}",
                        place.page
                    );
                }
            }
        }
    }
}

#[test]
fn long_texts_have_pages_of_fewer_rows() {
    let (storage, rows) = (MemoryStorage::new(), ROW_GROUP_ROWS + PAGE_ROWS + 5);
    let segment = written(&storage, 1, rows, 100);
    assert_eq!(segment.pages_of(ColumnId(2)), segment.pages());
    // Two of three rows have a text: about 67 bytes per row.
    assert_eq!(segment.pages_of(ColumnId(3)), rows.div_ceil(128));
    let ends = [0, 1, 127, 128, 129, ROW_GROUP_ROWS - 1, ROW_GROUP_ROWS, ROW_GROUP_ROWS + 1, rows - 1];
    for row in ends {
        let (mut out, place) = (ColumnBuilder::new(ColumnType::Utf8), segment.place(ColumnId(3), row));
        segment.page(ColumnId(3), place.page, false).unwrap().unwrap().copy(place.at, 1, &mut out);
        let ColumnBuilder::Bytes(bytes) = out else { panic!("text") };
        let expected = (row % 3 > 0).then(|| text(row, 100));
        assert_eq!(bytes.get(0), expected.as_deref().map(str::as_bytes), "row {row}");
    }
    let stretch: Vec<_> = segment.places(ColumnId(3), 100, 300).map(|place| (place.at, place.rows)).collect();
    assert_eq!(stretch, [(100, 28), (0, 128), (0, 128), (0, 16)]);
    let behind = segment.place(ColumnId(3), rows);
    assert!(segment.page(ColumnId(3), behind.page, false).is_err(), "there is no such row");
}

#[test]
fn row_groups_may_have_few_rows() {
    let storage = MemoryStorage::new();
    let segment = written_in_groups(&storage, 3, &Made { each: 5_000, text_bytes: 0 }, 7_000);
    for row in 0..15_000 {
        for column in [ColumnId(2), ColumnId(3)] {
            let place = segment.place(column, row);
            // Each group starts a new page of 4,096 rows.
            assert_eq!((place.at, place.rows), (row % 7_000 % PAGE_ROWS, rows_left(row)), "row {row}");
        }
    }
    let places = segment.places(ColumnId(2), 0, 15_000);
    let numbers = places.map(|place| {
        let page = segment.page(ColumnId(2), place.page, true).unwrap().unwrap();
        let mut out = ColumnBuilder::new(ColumnType::Int32);
        page.copy(place.at, place.rows, &mut out);
        out.len()
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [4_096, 2_904, 4_096, 2_904, 1_000]);

    fn rows_left(row: usize) -> usize {
        let end = (row / 7_000 * 7_000 + (row % 7_000 / PAGE_ROWS + 1) * PAGE_ROWS).min((row / 7_000 + 1) * 7_000);
        end.min(15_000) - row
    }
}

#[test]
fn a_file_that_is_no_segment_is_an_error() {
    let storage = MemoryStorage::new();
    drop(written(&storage, 2, 5, 0));
    storage.tamper("s", |bytes| bytes.truncate(bytes.len() - 1));
    let Err(error) = Segment::open(storage.as_ref(), "s", SegmentId(0), &Arc::new(Cache::new(0))) else {
        panic!("the end is missing")
    };
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}
