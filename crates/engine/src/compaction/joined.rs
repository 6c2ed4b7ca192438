//! Runs that need no merge yet: no two of them have rows of one container at overlapping times.
//!
//! A read of a container and a time range opens one of them, or two at a border, as it would after a
//! merge. Containers with fewer rows than a page would share pages, so their runs are merged.

use crate::ids::SegmentId;
use crate::manifest::SegmentEntry;
use crate::segment::reader::ContainerTimes;
use std::collections::HashMap;

/// A partition with more runs is merged even if their containers do not overlap.
pub(super) const MAX_JOINED: usize = 40;

/// Supplies the times of a segment's containers, if they have many rows.
pub(crate) type TimesOf<'a> = dyn Fn(SegmentId) -> Option<&'a ContainerTimes> + 'a;

/// Joins adjacent runs, oldest first, whose containers do not overlap in time.
pub(super) fn joined<'b>(
    runs: impl ExactSizeIterator<Item = &'b Vec<&'b SegmentEntry>>,
    times_of: &TimesOf<'_>,
) -> Vec<Vec<&'b SegmentEntry>> {
    if runs.len() > MAX_JOINED {
        return runs.cloned().collect();
    }
    let mut joined: Vec<Vec<&SegmentEntry>> = Vec::new();
    // The times of the last of them.
    let mut taken: Option<Taken<'_>> = None;
    for run in runs {
        let times = times_of_run(run, times_of);
        match (&mut taken, times, joined.last_mut()) {
            (Some(taken), Some(times), Some(last)) if taken.are_apart(&times) => {
                taken.add(times);
                last.extend(run);
            }
            (_, times, _) => {
                taken = times.map(|times| {
                    let mut taken = Taken::default();
                    taken.add(times);
                    taken
                });
                joined.push(run.clone());
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

/// For each container, the times of its rows in runs.
#[derive(Default)]
struct Taken<'a>(HashMap<&'a [u8], Vec<(i64, i64)>>);

impl<'a> Taken<'a> {
    fn are_apart(&self, run: &[&ContainerTimes]) -> bool {
        run.iter().flat_map(|times| times.iter()).all(|(key, (from, to))| {
            let known = self.0.get(key.as_slice()).map_or(&[][..], Vec::as_slice);
            known.iter().all(|(known_from, known_to)| to < known_from || known_to < from)
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
