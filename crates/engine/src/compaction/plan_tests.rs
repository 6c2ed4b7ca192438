use super::*;
use crate::ids::TableId;

const WIDTH: i64 = 100;

fn segment(id: u64, generation: u64, times: (i64, i64), bytes: u64) -> SegmentEntry {
    let (id, table, generation) = (SegmentId(id), TableId(0), Generation(generation));
    let (rows, width, slices) = (bytes, WIDTH, Vec::new());
    SegmentEntry { id, table, generation, rows, bytes, crc: 0, times, width, purged: 0, slices }
}

fn facts<'a>(flushed: u64) -> Facts<'a> {
    Facts { deletes: &[], expired: None, flushed: Generation(flushed), full: false, times_of: &|_| None }
}

fn step(segments: &[SegmentEntry], facts: &Facts<'_>) -> Option<Step> {
    next(&segments.iter().collect::<Vec<_>>(), facts)
}

fn ids(ids: impl IntoIterator<Item = u64>) -> Vec<SegmentId> {
    ids.into_iter().map(SegmentId).collect()
}

#[test]
fn runs_of_one_size_are_merged_when_there_are_enough() {
    let mut segments: Vec<_> = (1..FAN_IN as u64).map(|g| segment(g, g, (0, 99), 1_000)).collect();
    assert_eq!(step(&segments, &facts(7)), None);
    segments.push(segment(8, 8, (5, 50), 1_000));
    assert_eq!(step(&segments, &facts(8)), Some(Step::Merge(ids(1..=8), (0, 99))));
}

#[test]
fn runs_whose_containers_do_not_overlap_count_as_one() {
    let segments: Vec<_> = (1..=12).map(|g| segment(g, g, (0, 99), 1_000)).collect();
    let times: Vec<_> = (0..=12).map(|at| vec![(vec![1], (at, at))]).collect();
    let of = |id: SegmentId| times.get(id.0 as usize);
    let apart = Facts { times_of: &of, ..facts(12) };
    assert_eq!(step(&segments, &apart), None);
    assert_eq!(debt_bytes(&segments.iter().collect::<Vec<_>>(), &of), 0);
    assert_eq!(step(&segments, &facts(12)), Some(Step::Merge(ids(1..=12), (0, 99))));
    // In a partition that is written no more, they become one run, for those who read its files.
    let quiet = Facts { times_of: &of, ..facts(14) };
    assert_eq!(step(&segments, &quiet), Some(Step::Merge(ids(1..=12), (0, 99))));
}

#[test]
fn the_smallest_runs_that_count_as_one_are_merged_when_there_are_many() {
    let most = MAX_JOINED as u64;
    let times: Vec<_> = (0..100).map(|at| vec![(vec![1], (at, at))]).collect();
    let of = |id: SegmentId| times.get(id.0 as usize);
    let apart = Facts { times_of: &of, ..facts(100) };
    let debt = |segments: &[SegmentEntry]| debt_bytes(&segments.iter().collect::<Vec<_>>(), &of);
    // A merge has made the first.
    let mut segments = vec![segment(1, 1, (0, 99), 16_000)];
    segments.extend((2..=most).map(|g| segment(g, g + 60, (0, 99), 1_000)));
    assert_eq!((step(&segments, &apart), debt(&segments)), (None, 0));
    segments.push(segment(most + 1, 101, (0, 99), 1_000));
    let merged = 2..2 + JOINED_FAN_IN as u64;
    assert_eq!(step(&segments, &apart), Some(Step::MergeJoined(ids(merged), (0, 99))));
    assert_eq!(debt(&segments), 1_000 * JOINED_FAN_IN as u64);
    // The times of one are not known: those before and behind it are fewer each.
    let unknown = |id: SegmentId| of(id).filter(|_| id.0 != most / 2);
    let step = next(&segments.iter().collect::<Vec<_>>(), &Facts { times_of: &unknown, ..facts(100) });
    assert!(matches!(step, Some(Step::MergeJoined(ids, _)) if ids.len() == JOINED_FAN_IN));
}

#[test]
fn rows_are_seldom_merged_again_when_runs_count_as_one() {
    let times: Vec<_> = (0..4_000).map(|at| vec![(vec![1], (at, at))]).collect();
    let of = |id: SegmentId| times.get(id.0 as usize);
    let (mut segments, mut merged_bytes): (Vec<SegmentEntry>, u64) = (Vec::new(), 0);
    for flush in 1..4_000 {
        segments.push(segment(flush, flush, (0, 99), 1));
        while let Some(step) = step(&segments, &Facts { times_of: &of, ..facts(flush) }) {
            let Step::MergeJoined(merged, _) = step else { panic!("{step:?}") };
            let first = segments.iter().position(|entry| entry.id == merged[0]).unwrap();
            let bytes = segments[first..first + merged.len()].iter().map(|entry| entry.bytes).sum();
            merged_bytes += bytes;
            let newest = segments[first + merged.len() - 1].id.0;
            segments.splice(first..first + merged.len(), [segment(newest, newest, (0, 99), bytes)]);
        }
        assert!(segments.len() <= MAX_JOINED);
    }
    assert!(merged_bytes < 3 * 4_000, "{merged_bytes}");
}

#[test]
fn a_large_old_run_is_left_alone() {
    let mut segments = vec![segment(100, 1, (0, 99), 1_000_000)];
    segments.extend((2..=9).map(|g| segment(g, g, (0, 99), 1_000)));
    assert_eq!(step(&segments, &facts(9)), Some(Step::Merge(ids(2..=9), (0, 99))));
}

#[test]
fn partitions_do_not_mix() {
    let segments: Vec<_> = (1..=12).map(|g| segment(g, g, if g % 2 == 0 { (0, 99) } else { (100, 199) }, 10)).collect();
    assert_eq!(step(&segments, &facts(12)), None, "six runs in each of two partitions");
}

#[test]
fn a_quiet_partition_becomes_one_run_if_what_came_late_is_worth_it() {
    let worth = [segment(1, 1, (0, 99), 1_000), segment(2, 2, (0, 99), 300)];
    assert_eq!(step(&worth, &facts(3)), None, "not quiet yet");
    assert_eq!(step(&worth, &facts(4)), Some(Step::Merge(ids([1, 2]), (0, 99))));
    let trickle = [segment(1, 1, (0, 99), 1_000), segment(2, 2, (0, 99), 30)];
    assert_eq!(step(&trickle, &facts(9)), None);
    let full = Facts { full: true, ..facts(9) };
    assert_eq!(step(&trickle, &full), Some(Step::Merge(ids([1, 2]), (0, 99))));
    assert_eq!(step(&trickle[..1], &full), None, "merged already");
}

#[test]
fn what_retention_has_emptied_goes_without_being_read() {
    let slices = vec![Slice { from: 0, to: 99, rows: 1 }, Slice { from: 500, to: 599, rows: 1 }];
    let shared = SegmentEntry { slices: slices.clone(), ..segment(3, 3, (10, 510), 100) };
    let segments = [segment(1, 1, (0, 99), 100), segment(2, 2, (100, 199), 100), shared];
    let expired = Facts { expired: Some(99), ..facts(3) };
    let gone = Step::Drop(ids([1]), vec![(SegmentId(3), slices[1..].to_vec())]);
    assert_eq!(step(&segments, &expired), Some(gone));
}

#[test]
fn half_expired_and_much_deleted_segments_are_rewritten_alone() {
    let segments = [segment(1, 1, (0, 99), 100), segment(2, 2, (0, 99), 1)];
    let expired = Facts { expired: Some(60), ..facts(2) };
    assert_eq!(step(&segments, &expired), Some(Step::Merge(ids([1]), (0, 99))));
    let delete = |id| Delete { id, generation: Generation(2), key: Some(vec![1]), from: 0, to: 9 };
    let few: Vec<Delete> = (1..=MAX_DELETES as u64).map(delete).collect();
    assert_eq!(step(&segments, &Facts { deletes: &few, ..facts(2) }), None);
    let many: Vec<Delete> = (1..=MAX_DELETES as u64 + 1).map(delete).collect();
    assert_eq!(step(&segments, &Facts { deletes: &many, ..facts(2) }), Some(Step::Merge(ids([1]), (0, 99))));
}

#[test]
fn a_delete_of_all_containers_drops_what_it_covers() {
    let segments = [segment(1, 1, (0, 99), 100), segment(2, 2, (0, 99), 1)];
    let delete = [Delete { id: 9, generation: Generation(2), key: None, from: i64::MIN, to: 99 }];
    let deleted = Facts { deletes: &delete, ..facts(2) };
    assert_eq!(step(&segments, &deleted), Some(Step::Drop(ids([1]), Vec::new())), "the newer one is not concerned");
}

#[test]
fn slices_are_runs_of_their_partitions() {
    let slices = vec![Slice { from: 0, to: 99, rows: 10 }, Slice { from: 300, to: 399, rows: 10 }];
    let mut segments: Vec<_> = (1..=7).map(|g| segment(g, g, (0, 99), 10)).collect();
    segments.push(SegmentEntry { slices, ..segment(8, 8, (5, 305), 20) });
    assert_eq!(step(&segments, &facts(8)), Some(Step::Merge(ids(1..=8), (0, 99))));
}

#[test]
fn the_ends_of_time_have_partitions() {
    let segments = [segment(1, 1, (i64::MIN, i64::MIN), 10), segment(2, 2, (i64::MAX, i64::MAX), 10)];
    let full = Facts { full: true, ..facts(2) };
    assert_eq!(step(&segments, &full), None);
}

#[test]
fn runs_are_counted_in_the_partition_that_has_most() {
    let many = MAX_RUNS as u64;
    let mut segments: Vec<_> = (1..many).map(|g| segment(g, g, (0, 99), 10)).collect();
    segments.extend((many..2 * many).map(|g| segment(g, 1, (200, 299), 10)));
    let runs = |segments: &[SegmentEntry]| most_runs(&segments.iter().collect::<Vec<_>>());
    assert_eq!(runs(&segments), MAX_RUNS - 1, "many segments of one run are one");
    segments.push(segment(2 * many, 2 * many, (0, 99), 10));
    assert_eq!(runs(&segments), MAX_RUNS);
}
