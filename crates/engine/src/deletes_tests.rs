use super::*;
use crate::ids::{SegmentId, TableId};

fn delete(id: u64, generation: u64, key: Option<&[u8]>, from: i64, to: i64) -> Marked {
    let key = key.map(<[u8]>::to_vec);
    Marked { delete: Delete { id, generation: Generation(generation), key, from, to }, rows_before: 10 }
}

fn segment(generation: u64, purged: u64, times: Span) -> SegmentEntry {
    let (id, table, generation) = (SegmentId(0), TableId(0), Generation(generation));
    SegmentEntry { id, table, generation, rows: 1, bytes: 1, crc: 0, times, width: 1, purged, slices: Vec::new() }
}

#[test]
fn a_hole_cuts_spans() {
    assert_eq!(without(vec![(0, 9)], (3, 5)), [(0, 2), (6, 9)]);
    assert_eq!(without(vec![(0, 9)], (-5, 3)), [(4, 9)]);
    assert_eq!(without(vec![(0, 9)], (9, i64::MAX)), [(0, 8)]);
    assert_eq!(without(vec![(0, 3), (7, 9)], (2, 8)), [(0, 1), (9, 9)]);
    assert_eq!(without(vec![(i64::MIN, i64::MAX)], (i64::MIN, i64::MAX)), []);
    assert_eq!(without(vec![(0, 3)], (4, 5)), [(0, 3)]);
}

#[test]
fn a_delete_concerns_older_generations_and_earlier_rows_of_its_own() {
    let mut deletes = Deletes::default();
    deletes.push(delete(5, 3, Some(b"k"), 0, 100));
    let deletes = DeleteSet::new([Arc::new(deletes)].into_iter());
    let hit = |generation, key: &[u8], row, time| deletes.hit(Generation(generation), key, row, time);
    assert!(hit(2, b"k", 99, 50), "an older memtable, whatever the row");
    assert!(hit(3, b"k", 9, 100), "a row before it");
    assert!(!hit(3, b"k", 10, 100), "a row after it");
    assert!(!hit(4, b"k", 0, 50), "a newer memtable");
    assert!(!hit(2, b"j", 0, 50), "another container");
    assert!(!hit(2, b"k", 0, 101), "another time");
}

#[test]
fn a_segment_has_holes_until_it_is_purged() {
    let mut deletes = Deletes::default();
    deletes.push(delete(5, 3, Some(b"k"), 0, 100));
    deletes.push(delete(6, 3, None, 7, 8));
    let deletes = DeleteSet::new([Arc::new(deletes)].into_iter());
    assert_eq!(deletes.holes(&segment(2, 0, (0, 9))), [(7, 8)]);
    assert_eq!(deletes.holes_of(&segment(2, 0, (0, 9)), b"k"), [(0, 100)]);
    assert_eq!(deletes.holes_of(&segment(2, 5, (0, 9)), b"k"), []);
    assert_eq!(deletes.holes(&segment(2, 5, (0, 9))), [(7, 8)]);
    assert_eq!(deletes.holes(&segment(3, 0, (0, 9))), [], "of its own generation the flush left them out");
    assert_eq!(deletes.holes(&segment(2, 0, (9, 9))), [], "no rows there");
}
