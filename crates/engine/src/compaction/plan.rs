//! What to compact next: a pure function of the manifest's entries.
//!
//! Segments are grouped by time partition. Within a group, segments of one generation are a run. A
//! read of a container looks at one segment per run. The rules, in this order:
//! 1. Drop what retention or a delete of all containers has emptied, without reading it.
//! 2. Merge [`FAN_IN`] or more adjacent runs of similar size (size-tiered, like RocksDB's universal
//!    compaction): each row is written once per tier, and a group of n flushes has fewer than
//!    `FAN_IN * log(n)` runs. Runs whose containers are long and do not overlap in time count as one
//!    ([`joined`]).
//! 3. If a partition has more than [`MAX_JOINED`] runs nevertheless, merge the smallest
//!    [`JOINED_FAN_IN`] adjacent ones, if possible of similar size.
//! 4. Merge a partition that the last flushes did not touch into one run, if the late rows are
//!    worth it.
//! 5. Rewrite a segment if retention hides half of it, or if many deletes affect it.
//!
//! Runs must be adjacent in age: the merged run takes the place of its newest part, so older rows
//! would overtake a run between its parts.

use super::joined::{TimesOf, joined};
use crate::flush::partition_span;
use crate::ids::{Generation, SegmentId};
use crate::manifest::{Delete, SegmentEntry, Slice};
use std::collections::{BTreeMap, BTreeSet};

/// This many runs of similar size are merged.
pub(crate) const FAN_IN: usize = 8;
/// A partition with more runs gets fewer, even if they count as one: each is a file that is open, and a
/// read of a whole container looks at all of them.
const MAX_JOINED: usize = 40;
/// This many of them are then merged.
const JOINED_FAN_IN: usize = 2 * FAN_IN;
/// They are of similar size if the largest has at most 1/`LARGEST_SHARE` of their bytes.
const LARGEST_SHARE: u64 = 4;
/// A run joins a tier if it is at most this many times as large as all newer runs of the tier
/// together.
const SAME_SIZE: u64 = 2;
/// A partition is quiet when this many generations were flushed without touching it.
const QUIET_GENERATIONS: u64 = 2;
/// In a quiet partition, late rows are merged when they are at least 1/`LATE_SHARE` of the largest
/// run.
const LATE_SHARE: u64 = 4;
/// A segment affected by more deletes than this is rewritten.
const MAX_DELETES: usize = 64;

/// With this many runs in a partition, flushes wait for compaction: this bounds what the read of a
/// container looks at. It is far above what a partition of terabytes has while compaction keeps up:
/// about `FAN_IN - 1` runs per tier, or [`MAX_JOINED`] runs that do not overlap.
pub(crate) const MAX_RUNS: usize = 8 * FAN_IN;
/// With this many runs in a partition, no merge waits for flushes.
pub(crate) const HURRY_RUNS: usize = 7 * FAN_IN;
// Flushes may not wait for runs that are not merged, and compaction must not hurry because of them.
const _: () = assert!(MAX_JOINED < HURRY_RUNS && HURRY_RUNS < MAX_RUNS);

/// One step of compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Drops these segments unread. Of the others, only these slices remain.
    Drop(Vec<SegmentId>, Vec<(SegmentId, Vec<Slice>)>),
    /// Merges the rows of these segments whose times are in the span.
    Merge(Vec<SegmentId>, (i64, i64)),
    /// Merges in the same way runs that mostly do not overlap. Such a merge hardly makes reads faster.
    MergeJoined(Vec<SegmentId>, (i64, i64)),
}

/// The inputs of the plan besides the segments.
pub(crate) struct Facts<'a> {
    /// The deletes that the manifest lists.
    pub(crate) deletes: &'a [Delete],
    /// The latest time that retention hides.
    pub(crate) expired: Option<i64>,
    /// The last flushed generation.
    pub(crate) flushed: Generation,
    /// Whether to merge every partition into one run and rewrite all deleted or expired rows.
    pub(crate) full: bool,
    /// The times of long containers.
    pub(crate) times_of: &'a TimesOf<'a>,
}

/// The segments of one partition.
struct Group<'a> {
    span: (i64, i64),
    /// By generation, oldest first.
    runs: BTreeMap<Generation, Vec<&'a SegmentEntry>>,
}

impl Group<'_> {
    fn run_bytes(&self, run: &[&SegmentEntry]) -> u64 {
        let bytes = |entry: &&SegmentEntry| {
            let inside = entry.slices.iter().filter(|slice| self.span.0 <= slice.from && slice.to <= self.span.1);
            match entry.slices.as_slice() {
                [] => entry.bytes,
                _ => entry.bytes * inside.map(|slice| slice.rows).sum::<u64>() / entry.rows.max(1),
            }
        };
        run.iter().map(bytes).sum::<u64>().max(1)
    }

    fn bytes_of(&self, runs: &[&Vec<&SegmentEntry>]) -> u64 {
        runs.iter().map(|run| self.run_bytes(run)).sum()
    }

    /// The runs to merge if there are more than [`MAX_JOINED`]: the window of [`JOINED_FAN_IN`] adjacent
    /// runs with the fewest bytes. One of similar runs is preferred, so that merged runs are seldom
    /// merged again with single ones.
    fn surplus<'b, 'c>(&self, runs: &'b [&'c Vec<&'c SegmentEntry>]) -> Option<&'b [&'c Vec<&'c SegmentEntry>]> {
        if runs.len() <= MAX_JOINED {
            return None;
        }
        runs.windows(JOINED_FAN_IN).min_by_key(|window| {
            let bytes = self.bytes_of(window);
            let largest = window.iter().map(|run| self.run_bytes(run)).max().unwrap_or(0);
            (largest.saturating_mul(LARGEST_SHARE) > bytes, bytes)
        })
    }

    fn merge<'b>(&self, runs: impl Iterator<Item = &'b Vec<&'b SegmentEntry>>) -> Step {
        Step::Merge(ids_of(runs), self.span)
    }
}

fn ids_of<'b>(runs: impl Iterator<Item = &'b Vec<&'b SegmentEntry>>) -> Vec<SegmentId> {
    runs.flatten().map(|entry| entry.id).collect()
}

/// The next step for a table's segments; `None` if there is nothing to do.
pub(crate) fn next(segments: &[&SegmentEntry], facts: &Facts<'_>) -> Option<Step> {
    if let Some(step) = droppable(segments, facts) {
        return Some(step);
    }
    let groups = groups(segments);
    let rewritten = |entry: &SegmentEntry| is_worth_rewriting(entry, facts);
    for group in &groups {
        let runs: Vec<_> = group.runs.values().collect();
        if facts.full {
            if runs.len() > 1 || runs.iter().flat_map(|run| run.iter()).any(|entry| rewritten(entry)) {
                return Some(group.merge(runs.into_iter()));
            }
            continue;
        }
        let joined = joined(group.runs.values(), facts.times_of);
        let bytes: Vec<u64> = joined.iter().map(|joined| group.bytes_of(joined)).collect();
        for newest in (0..joined.len()).rev() {
            let (mut oldest, mut total) = (newest, bytes[newest]);
            while oldest > 0 && bytes[oldest - 1] <= SAME_SIZE * total {
                oldest -= 1;
                total += bytes[oldest];
            }
            if newest - oldest + 1 >= FAN_IN {
                return Some(group.merge(joined[oldest..=newest].iter().flatten().copied()));
            }
        }
        if let Some(surplus) = group.surplus(&runs) {
            return Some(Step::MergeJoined(ids_of(surplus.iter().copied()), group.span));
        }
        let bytes: Vec<u64> = runs.iter().map(|run| group.run_bytes(run)).collect();
        let quiet = group.runs.keys().last().is_some_and(|last| last.0 + QUIET_GENERATIONS <= facts.flushed.0);
        let (all, largest) = (bytes.iter().sum::<u64>(), bytes.iter().max().copied().unwrap_or(0));
        if quiet && runs.len() > 1 && (all - largest) * LATE_SHARE >= largest {
            return Some(group.merge(runs.into_iter()));
        }
    }
    let entries = groups.iter().flat_map(|group| group.runs.values().flatten().map(move |entry| (group, entry)));
    let mut entries = entries.filter(|(_, entry)| rewritten(entry));
    entries.next().map(|(group, entry)| Step::Merge(vec![entry.id], group.span))
}

/// The segments that are in the oldest run of each of their partitions, where all of their rows are valid.
/// No two of them have rows with the same key and time.
pub(crate) fn oldest_runs<'a>(segments: &[&'a SegmentEntry]) -> Vec<&'a SegmentEntry> {
    let groups = groups(segments);
    let later = groups.iter().flat_map(|group| group.runs.values().skip(1).flatten().map(|entry| entry.id));
    let later: BTreeSet<SegmentId> = later.collect();
    let is_valid = |entry: &SegmentEntry| {
        entry.slices.is_empty() || entry.slices.iter().map(|slice| slice.rows).sum::<u64>() == entry.rows
    };
    segments.iter().copied().filter(|entry| !later.contains(&entry.id) && is_valid(entry)).collect()
}

/// Bytes waiting for a merge: what reads must go through more than once, and what [`MAX_JOINED`] demands.
pub(crate) fn debt_bytes(segments: &[&SegmentEntry], times_of: &TimesOf<'_>) -> u64 {
    let debt = |group: &Group<'_>| {
        let joined = joined(group.runs.values(), times_of);
        if joined.len() >= FAN_IN {
            return joined.iter().map(|joined| group.bytes_of(joined)).sum();
        }
        let runs: Vec<_> = group.runs.values().collect();
        group.surplus(&runs).map_or(0, |surplus| group.bytes_of(surplus))
    };
    groups(segments).iter().map(debt).sum()
}

/// The most runs that a partition has: exact from [`HURRY_RUNS`] on, an upper bound below.
pub(crate) fn most_runs(segments: &[&SegmentEntry]) -> usize {
    // There are not more runs than segments.
    if segments.len() < HURRY_RUNS {
        return segments.len();
    }
    groups(segments).iter().map(|group| group.runs.len()).max().unwrap_or(0)
}

fn droppable(segments: &[&SegmentEntry], facts: &Facts<'_>) -> Option<Step> {
    let (mut gone, mut sliced) = (Vec::new(), Vec::new());
    for entry in segments {
        let emptied = |span: (i64, i64)| {
            facts.expired.is_some_and(|expired| span.1 <= expired)
                || facts.deletes.iter().any(|delete| {
                    delete.key.is_none() && delete.concerns(entry) && delete.from <= span.0 && span.1 <= delete.to
                })
        };
        if emptied(entry.times) {
            gone.push(entry.id);
            continue;
        }
        let left: Vec<Slice> = entry.slices.iter().filter(|slice| !emptied((slice.from, slice.to))).copied().collect();
        if left.is_empty() && !entry.slices.is_empty() {
            gone.push(entry.id);
        } else if left.len() < entry.slices.len() {
            sliced.push((entry.id, left));
        }
    }
    (!gone.is_empty() || !sliced.is_empty()).then_some(Step::Drop(gone, sliced))
}

fn is_worth_rewriting(entry: &SegmentEntry, facts: &Facts<'_>) -> bool {
    let concerning = facts.deletes.iter().filter(|delete| delete.concerns(entry)).count();
    let half_expired = facts.expired.is_some_and(|expired| {
        let (from, to) = (i128::from(entry.times.0), i128::from(entry.times.1));
        let gone = i128::from(expired) - from + 1;
        gone > 0 && entry.slices.is_empty() && (facts.full || 2 * gone > to - from)
    });
    half_expired || concerning > if facts.full { 0 } else { MAX_DELETES }
}

/// The time partition of a segment whose rows are all in one partition.
fn partition(entry: &SegmentEntry) -> (i64, i64) {
    if entry.width <= 0 {
        return (i64::MIN, i64::MAX);
    }
    let (from, to) = partition_span(entry.times.0.div_euclid(entry.width), entry.width);
    // A merge of partitions of different widths gets the largest width; its rows are in one such
    // partition.
    (from, to.max(entry.times.1))
}

fn groups<'a>(segments: &[&'a SegmentEntry]) -> Vec<Group<'a>> {
    let mut members: Vec<((i64, i64), &'a SegmentEntry)> = Vec::new();
    for &entry in segments {
        if entry.slices.is_empty() {
            members.push((partition(entry), entry));
        }
        members.extend(entry.slices.iter().map(|slice| ((slice.from, slice.to), entry)));
    }
    members.sort_by_key(|(span, entry)| (*span, entry.generation, entry.id));
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (span, entry) in members {
        let group = match groups.last_mut() {
            Some(group) if span.0 <= group.span.1 => group,
            _ => {
                groups.push(Group { span, runs: BTreeMap::new() });
                let last = groups.len() - 1;
                &mut groups[last]
            }
        };
        group.span.1 = group.span.1.max(span.1);
        let run = group.runs.entry(entry.generation).or_default();
        if !run.iter().any(|known| known.id == entry.id) {
            run.push(entry);
        }
    }
    groups
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
