//! The merge: rows of several sources in (key, time) order, the newest row of each primary key.
//!
//! If a table merges fields, the older rows with a primary key follow the newest one as picks
//! without rows. [`picks_with`] tells which of them has the value of a column. All code that reads
//! picked rows calls it.
//!
//! Sources are ordered from oldest to newest. Runs of a container that do not overlap in time are
//! taken one after another without looking at rows. Times are compared only where runs overlap.

use super::bounds::ScanBounds;
use super::source::{Cursor, PageMemo, Run, Source};
use crate::deletes::{Span, covers};
use crate::error::Result;
use crate::ids::ColumnId;
use std::borrow::Cow;
use std::sync::Arc;

/// Consecutive rows of one container in one source. If `rows` is 0, it is an older row at `start`,
/// with the primary key of the pick before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSpan {
    pub(crate) source: usize,
    pub(crate) start: u64,
    pub(crate) rows: usize,
}

/// Iterates over the matching containers of all sources in key order.
pub(crate) struct Merge {
    sources: Arc<Vec<Source>>,
    cursors: Vec<Cursor>,
    heads: Vec<Option<Run>>,
    /// The containers and times that it was asked for.
    pub(crate) bounds: ScanBounds,
    next_key: usize,
    started: bool,
}

impl Merge {
    pub(crate) fn new(sources: &Arc<Vec<Source>>, bounds: ScanBounds) -> Self {
        Self {
            sources: Arc::clone(sources),
            cursors: sources.iter().map(|_| Cursor::default()).collect(),
            heads: vec![None; sources.len()],
            bounds,
            next_key: 0,
            started: false,
        }
    }

    /// The next container's runs that touch the requested times, ordered from oldest to newest
    /// source.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<(usize, Run)>>> {
        loop {
            let runs = if self.bounds.keys.is_some() { self.next_wanted()? } else { self.next_of_all()? };
            let Some(mut runs) = runs else { return Ok(None) };
            runs.retain(|(_, run)| self.bounds.touches(run.times));
            // Listed keys have passed.
            if let Some((_, run)) = runs.first()
                && (self.bounds.keys.is_some() || self.bounds.passes(&run.key)?)
            {
                return Ok(Some(runs));
            }
        }
    }

    fn next_wanted(&mut self) -> Result<Option<Vec<(usize, Run)>>> {
        let keys = self.bounds.keys.as_deref().unwrap_or_default();
        let Some(key) = keys.get(self.next_key) else { return Ok(None) };
        self.next_key += 1;
        let mut runs = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            if let Some(run) = source.find(key)? {
                runs.push((number, run));
            }
        }
        Ok(Some(runs))
    }

    fn next_of_all(&mut self) -> Result<Option<Vec<(usize, Run)>>> {
        if !self.started {
            self.started = true;
            for number in 0..self.sources.len() {
                let from = Some(self.bounds.range.first.as_slice()).filter(|first| !first.is_empty());
                self.heads[number] = self.sources[number].next(&mut self.cursors[number], from)?;
            }
        }
        if let [head] = self.heads.as_mut_slice() {
            let Some(run) = head.take().filter(|run| !self.bounds.range.ends_before(&run.key)) else { return Ok(None) };
            *head = self.sources[0].next(&mut self.cursors[0], None)?;
            return Ok(Some(vec![(0, run)]));
        }
        let Some(least) = self.heads.iter().flatten().map(|run| &run.key).min().cloned() else {
            return Ok(None);
        };
        if self.bounds.range.ends_before(&least) {
            return Ok(None);
        }
        let mut runs = Vec::new();
        for number in 0..self.sources.len() {
            if self.heads[number].as_ref().is_some_and(|run| run.key == least) {
                let next = self.sources[number].next(&mut self.cursors[number], None)?;
                if let Some(run) = std::mem::replace(&mut self.heads[number], next) {
                    runs.push((number, run));
                }
            }
        }
        Ok(Some(runs))
    }
}

/// The run that a span takes whole, if there is one.
pub(crate) fn whole_run<'a>(runs: &'a [(usize, Run)], span: &RowSpan) -> Option<&'a Run> {
    let rows = (span.source, span.start, span.rows);
    runs.iter().find(|(source, run)| (*source, run.start, run.rows) == rows).map(|(_, run)| run)
}

/// The rows of one container in order; `runs` come from [`Merge::next`].
pub(crate) fn pick(
    sources: &[Source],
    runs: &[(usize, Run)],
    bounds: &ScanBounds,
    memos: &mut [PageMemo],
) -> Result<Vec<RowSpan>> {
    picks_of(sources, &parts(sources, runs, bounds, memos)?, bounds.merges_fields, memos)
}

/// The rows of parts in time order, each time once. If fields are merged, older rows follow the
/// newest.
pub(crate) fn picks_of(
    sources: &[Source],
    parts: &[Part],
    merges_fields: bool,
    memos: &mut [PageMemo],
) -> Result<Vec<RowSpan>> {
    let mut picks = Vec::new();
    let mut rest = parts;
    while let Some(first) = rest.first() {
        let mut last_time = first.times.1;
        let mut len = 1;
        while let Some(part) = rest.get(len).filter(|part| part.times.0 <= last_time) {
            last_time = last_time.max(part.times.1);
            len += 1;
        }
        let (together, after) = rest.split_at(len);
        match together {
            [alone] => picks.push(alone.pick),
            _ => merge_rows(sources, together, merges_fields, memos, &mut picks)?,
        }
        rest = after;
    }
    Ok(picks)
}

/// Valid and matching rows of a run.
pub(crate) struct Part {
    pub(crate) pick: RowSpan,
    pub(crate) times: Span,
}

/// The valid and matching parts of the runs of one container, ordered by first time.
pub(crate) fn parts(
    sources: &[Source],
    runs: &[(usize, Run)],
    bounds: &ScanBounds,
    memos: &mut [PageMemo],
) -> Result<Vec<Part>> {
    let mut parts = Vec::with_capacity(runs.len());
    let span = (bounds.from.unwrap_or(i64::MIN), bounds.to.unwrap_or(i64::MAX));
    for &(source, ref run) in runs {
        if sources[source].is_valid_within(run, span) {
            parts.push(whole_part(source, run));
            continue;
        }
        for span in sources[source].spans(&run.key, span) {
            parts.extend(clip(sources, source, run, span, &mut memos[source])?);
        }
    }
    parts.sort_by_key(|part| part.times.0);
    Ok(parts)
}

/// All rows of a run.
fn whole_part(source: usize, run: &Run) -> Part {
    Part { pick: RowSpan { source, start: run.start, rows: run.rows }, times: run.times }
}

/// The rows of a run within a time span.
fn clip(sources: &[Source], source: usize, run: &Run, span: Span, memo: &mut PageMemo) -> Result<Option<Part>> {
    if covers(span, run.times) {
        return Ok(Some(whole_part(source, run)));
    }
    let from = sources[source].rows_before(run, span.0, memo)?;
    let to = match span.1.checked_add(1) {
        Some(bound) => sources[source].rows_before(run, bound, memo)?,
        None => run.rows,
    };
    if from >= to {
        return Ok(None);
    }
    let start = run.start + from as u64;
    let times = (sources[source].time(start, memo)?, sources[source].time(run.start + to as u64 - 1, memo)?);
    Ok(Some(Part { pick: RowSpan { source, start, rows: to - from }, times }))
}

/// Merges overlapping parts by time. For equal times, the row of the newest source wins.
fn merge_rows(
    sources: &[Source],
    parts: &[Part],
    merges_fields: bool,
    memos: &mut [PageMemo],
    picks: &mut Vec<RowSpan>,
) -> Result<()> {
    let mut times = Vec::with_capacity(parts.len());
    for part in parts {
        let RowSpan { source, start, rows } = part.pick;
        times.push(sources[source].times(start, rows, &mut memos[source])?);
    }
    let mut at = vec![0usize; parts.len()];
    loop {
        let heads = (0..parts.len()).filter_map(|i| Some((*times[i].get(at[i])?, i)));
        // For equal times, the part of the newest source comes first.
        let best = heads.min_by_key(|&(time, i)| (time, std::cmp::Reverse(parts[i].pick.source)));
        let Some((time, winner)) = best else { return Ok(()) };
        let mut older = Vec::new();
        for i in 0..parts.len() {
            if i != winner && times[i].get(at[i]) == Some(&time) {
                if merges_fields {
                    older.push(RowSpan { start: parts[i].pick.start + at[i] as u64, rows: 0, ..parts[i].pick });
                }
                at[i] += 1;
            }
        }
        // All rows of the winner before the next row of any other part.
        let next_other = (0..parts.len()).filter(|&i| i != winner).filter_map(|i| times[i].get(at[i]).copied()).min();
        let rest = &times[winner][at[winner]..];
        let rows = match next_other {
            _ if !older.is_empty() => 1,
            Some(bound) => rest.partition_point(|&time| time < bound).max(1),
            None => rest.len(),
        };
        let RowSpan { source, start, .. } = parts[winner].pick;
        picks.push(RowSpan { source, start: start + at[winner] as u64, rows });
        older.sort_unstable_by_key(|pick: &RowSpan| std::cmp::Reverse(pick.source));
        picks.append(&mut older);
        at[winner] += rows;
    }
}

/// The picks that supply a column's values for these rows: where older rows follow a row, the
/// newest one that has a value.
pub(crate) fn picks_with<'a>(
    sources: &[Source],
    picks: &'a [RowSpan],
    column: ColumnId,
    memos: &mut [PageMemo],
) -> Result<Cow<'a, [RowSpan]>> {
    if picks.iter().all(|pick| pick.rows > 0) {
        return Ok(Cow::Borrowed(picks));
    }
    let mut with = Vec::with_capacity(picks.len());
    for versions in picks.chunk_by(|_, next| next.rows == 0) {
        let mut found = versions[0];
        if versions.len() > 1 {
            for version in versions {
                if sources[version.source].has_value(column, version.start, &mut memos[version.source])? {
                    found = RowSpan { rows: 1, ..*version };
                    break;
                }
            }
        }
        match with.last_mut() {
            Some(RowSpan { source, start, rows })
                if (*source, *start + *rows as u64) == (found.source, found.start) =>
            {
                *rows += found.rows;
            }
            _ => with.push(found),
        }
    }
    Ok(Cow::Owned(with))
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
