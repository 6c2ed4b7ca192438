//! Runs that need no merge yet: no two of them have rows of one container at overlapping times.
//!
//! A read of a container and a time range opens one of them, or two at a border, as it would after a
//! merge. Containers with fewer rows than a page would share pages, so their runs are merged.

use crate::deletes::{Span, are_apart};
use crate::ids::SegmentId;
use crate::manifest::SegmentEntry;
use crate::segment::reader::ContainerTimes;
use std::collections::HashMap;

/// Supplies the times of a segment's containers, if they have many rows.
pub(crate) type TimesOf<'a> = dyn Fn(SegmentId) -> Option<&'a ContainerTimes> + 'a;

/// Runs that count as one.
pub(super) type Joined<'b> = Vec<&'b Vec<&'b SegmentEntry>>;

/// Joins adjacent runs, oldest first, whose containers do not overlap in time.
pub(super) fn joined<'b>(
    runs: impl Iterator<Item = &'b Vec<&'b SegmentEntry>>,
    times_of: &TimesOf<'_>,
) -> Vec<Joined<'b>> {
    let mut joined: Vec<Joined<'b>> = Vec::new();
    // Those of the last of them.
    let mut occupied: Option<OccupiedTimes<'_>> = None;
    for run in runs {
        let times = times_of_run(run, times_of);
        match (&mut occupied, times, joined.last_mut()) {
            (Some(occupied), Some(times), Some(last)) if occupied.are_apart(&times) => {
                occupied.add(times);
                last.push(run);
            }
            (_, times, _) => {
                occupied = times.map(|times| {
                    let mut occupied = OccupiedTimes::default();
                    occupied.add(times);
                    occupied
                });
                joined.push(vec![run]);
            }
        }
    }
    joined
}

/// The times of a run's containers; `None` if some are not known. A segment that other partitions share
/// has times outside of this one.
fn times_of_run<'a>(run: &[&SegmentEntry], times_of: &TimesOf<'a>) -> Option<Vec<&'a ContainerTimes>> {
    run.iter().map(|entry| times_of(entry.id).filter(|_| entry.slices.is_empty())).collect()
}

/// For each container, the spans of time in which runs have rows of it.
#[derive(Default)]
struct OccupiedTimes<'a>(HashMap<&'a [u8], Vec<Span>>);

impl<'a> OccupiedTimes<'a> {
    fn are_apart(&self, run: &[&ContainerTimes]) -> bool {
        run.iter().flat_map(|times| times.iter()).all(|(key, times)| {
            let known = self.0.get(key.as_slice()).map_or(&[][..], Vec::as_slice);
            known.iter().all(|known| are_apart(*times, *known))
        })
    }

    fn add(&mut self, run: Vec<&'a ContainerTimes>) {
        for (key, times) in run.into_iter().flatten() {
            self.0.entry(key).or_default().push(*times);
        }
    }
}

#[cfg(test)]
#[path = "joined_tests.rs"]
mod tests;
