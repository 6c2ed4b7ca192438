use super::*;
use crate::ids::{Generation, TableId};
use crate::manifest::Slice;

fn segment(id: u64) -> SegmentEntry {
    let (id, table, generation, width) = (SegmentId(id), TableId(0), Generation(id), i64::MAX);
    let (rows, bytes, slices) = (1, 1, Vec::new());
    SegmentEntry { id, table, generation, rows, bytes, crc: 0, times: (0, 99), width, purged: 0, slices }
}

fn times(containers: &[(u8, i64, i64)]) -> ContainerTimes {
    containers.iter().map(|&(key, from, to)| (vec![key], (from, to))).collect()
}

/// The number of runs in each joined run; each run has one segment.
fn joined_lens(segments: &[SegmentEntry], times: &[Option<ContainerTimes>]) -> Vec<usize> {
    let runs: Vec<Vec<&SegmentEntry>> = segments.iter().map(|entry| vec![entry]).collect();
    joined(runs.iter(), &|id| times[id.0 as usize].as_ref()).iter().map(Vec::len).collect()
}

#[test]
fn runs_join_while_no_container_overlaps() {
    let segments: Vec<_> = (0..5).map(segment).collect();
    let mut of: Vec<_> = [
        // The containers are not at the same time.
        times(&[(1, 0, 10), (2, 0, 19)]),
        times(&[(1, 11, 20), (2, 20, 29), (3, 0, 0)]),
        // Late rows, between others.
        times(&[(3, 5, 7)]),
        times(&[(2, 29, 30)]),
        times(&[(2, 31, 31)]),
    ]
    .map(Some)
    .into();
    assert_eq!(joined_lens(&segments, &of), [3, 2]);
    of[1] = None;
    assert_eq!(joined_lens(&segments, &of), [1, 1, 3], "nothing joins a run with unknown times");
}

#[test]
fn segments_that_partitions_share_stay_apart() {
    let apart: Vec<_> = (0..9).map(|at| Some(times(&[(1, at, at)]))).collect();
    let mut segments: Vec<_> = (0..9).map(segment).collect();
    assert_eq!(joined_lens(&segments, &apart), [9]);
    segments[1].slices.push(Slice { from: 0, to: 9, rows: 1 });
    assert_eq!(joined_lens(&segments, &apart), [1, 1, 7]);
}
