//! The merge: rows of several sources in (key, time) order, of each primary key the newest.
//!
//! Where a table merges fields, the older rows with a primary key come behind the newest as picks of no rows, and
//! [`picks_with`] says of a column which of them has the value. All that reads picked rows asks it.
//!
//! Sources are ordered from old to new. A container whose runs do not overlap in time is taken run
//! after run without looking at a row; only where they overlap are times compared.

use super::source::{Cursor, Memo, Run, Source};
use super::wanted::Wanted;
use crate::deletes::Span;
use crate::error::Result;
use crate::ids::ColumnId;
use std::borrow::Cow;
use std::sync::Arc;

/// Rows of one container from one source, in order. With no rows it is an older row of the primary key of the pick before
/// it, at `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) source: usize,
    pub(crate) start: u64,
    pub(crate) rows: usize,
}

/// Goes through the wanted containers of all sources in key order.
pub(crate) struct Merge {
    sources: Arc<Vec<Source>>,
    cursors: Vec<Cursor>,
    heads: Vec<Option<Run>>,
    wanted: Wanted,
    next_key: usize,
    started: bool,
}

impl Merge {
    pub(crate) fn new(sources: &Arc<Vec<Source>>, wanted: Wanted) -> Self {
        Self {
            sources: Arc::clone(sources),
            cursors: sources.iter().map(|_| Cursor::default()).collect(),
            heads: vec![None; sources.len()],
            wanted,
            next_key: 0,
            started: false,
        }
    }

    /// The next container's runs that touch the wanted times, by source from old to new.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<(usize, Run)>>> {
        loop {
            let runs = if self.wanted.keys.is_some() { self.next_wanted()? } else { self.next_of_all()? };
            let Some(mut runs) = runs else { return Ok(None) };
            runs.retain(|(_, run)| self.wanted.touches(run.times));
            if let Some((_, run)) = runs.first()
                && self.wanted.passes(&run.key)?
            {
                return Ok(Some(runs));
            }
        }
    }

    fn next_wanted(&mut self) -> Result<Option<Vec<(usize, Run)>>> {
        let keys = self.wanted.keys.as_deref().unwrap_or_default();
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
                let from = Some(self.wanted.prefix.as_slice()).filter(|prefix| !prefix.is_empty());
                self.heads[number] = self.sources[number].next(&mut self.cursors[number], from)?;
            }
        }
        let Some(least) = self.heads.iter().flatten().map(|run| &run.key).min().cloned() else {
            return Ok(None);
        };
        if !least.starts_with(&self.wanted.prefix) {
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

/// The rows of one container in order: `runs` as [`Merge::next`] gives them.
pub(crate) fn pick(
    sources: &[Source],
    runs: &[(usize, Run)],
    wanted: &Wanted,
    memos: &mut [Memo],
) -> Result<Vec<Pick>> {
    picks_of(sources, &parts(sources, runs, wanted, memos)?, wanted.merges_fields, memos)
}

/// The rows of parts in order of time, each time once; with older rows behind the newest if fields are merged.
pub(crate) fn picks_of(
    sources: &[Source],
    parts: &[Part],
    merges_fields: bool,
    memos: &mut [Memo],
) -> Result<Vec<Pick>> {
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

/// Rows of a run that count and are wanted.
pub(crate) struct Part {
    pub(crate) pick: Pick,
    pub(crate) times: Span,
}

/// What counts of the runs of one container and is wanted, by first time.
pub(crate) fn parts(
    sources: &[Source],
    runs: &[(usize, Run)],
    wanted: &Wanted,
    memos: &mut [Memo],
) -> Result<Vec<Part>> {
    let mut parts = Vec::with_capacity(runs.len());
    let span = (wanted.from.unwrap_or(i64::MIN), wanted.to.unwrap_or(i64::MAX));
    for &(source, ref run) in runs {
        for span in sources[source].spans(&run.key, span) {
            parts.extend(clip(sources, source, run, span, &mut memos[source])?);
        }
    }
    parts.sort_by_key(|part| part.times.0);
    Ok(parts)
}

/// The rows of a run within a span of times.
fn clip(sources: &[Source], source: usize, run: &Run, span: Span, memo: &mut Memo) -> Result<Option<Part>> {
    if span.0 <= run.times.0 && run.times.1 <= span.1 {
        return Ok(Some(Part { pick: Pick { source, start: run.start, rows: run.rows }, times: run.times }));
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
    let edge = |row: u64, memo: &mut Memo| -> Result<i64> {
        Ok(sources[source].times(row, 1, memo)?.first().copied().unwrap_or(0))
    };
    let times = (edge(start, memo)?, edge(run.start + to as u64 - 1, memo)?);
    Ok(Some(Part { pick: Pick { source, start, rows: to - from }, times }))
}

/// Merges parts that overlap: by time; of equal times the row of the newest source.
fn merge_rows(
    sources: &[Source],
    parts: &[Part],
    merges_fields: bool,
    memos: &mut [Memo],
    picks: &mut Vec<Pick>,
) -> Result<()> {
    let mut times = Vec::with_capacity(parts.len());
    for part in parts {
        let Pick { source, start, rows } = part.pick;
        times.push(sources[source].times(start, rows, &mut memos[source])?);
    }
    let mut at = vec![0usize; parts.len()];
    loop {
        let heads = (0..parts.len()).filter_map(|i| Some((*times[i].get(at[i])?, i)));
        // Of equal times the part of the newest source comes first.
        let best = heads.min_by_key(|&(time, i)| (time, std::cmp::Reverse(parts[i].pick.source)));
        let Some((time, winner)) = best else { return Ok(()) };
        let mut older = Vec::new();
        for i in 0..parts.len() {
            if i != winner && times[i].get(at[i]) == Some(&time) {
                if merges_fields {
                    older.push(Pick { start: parts[i].pick.start + at[i] as u64, rows: 0, ..parts[i].pick });
                }
                at[i] += 1;
            }
        }
        // As many rows of the winner as come before every other part's next row.
        let next_other = (0..parts.len()).filter(|&i| i != winner).filter_map(|i| times[i].get(at[i]).copied()).min();
        let rest = &times[winner][at[winner]..];
        let rows = match next_other {
            _ if !older.is_empty() => 1,
            Some(bound) => rest.partition_point(|&time| time < bound).max(1),
            None => rest.len(),
        };
        let Pick { source, start, .. } = parts[winner].pick;
        picks.push(Pick { source, start: start + at[winner] as u64, rows });
        older.sort_unstable_by_key(|pick: &Pick| std::cmp::Reverse(pick.source));
        picks.append(&mut older);
        at[winner] += rows;
    }
}

/// The picks that have a column's values of the rows of these: of a row with older ones behind it the newest that has one.
pub(crate) fn picks_with<'a>(
    sources: &[Source],
    picks: &'a [Pick],
    column: ColumnId,
    memos: &mut [Memo],
) -> Result<Cow<'a, [Pick]>> {
    if picks.iter().all(|pick| pick.rows > 0) {
        return Ok(Cow::Borrowed(picks));
    }
    let mut with = Vec::with_capacity(picks.len());
    for versions in picks.chunk_by(|_, next| next.rows == 0) {
        let mut found = versions[0];
        if versions.len() > 1 {
            for version in versions {
                if sources[version.source].has_value(column, version.start, &mut memos[version.source])? {
                    found = Pick { rows: 1, ..*version };
                    break;
                }
            }
        }
        match with.last_mut() {
            Some(Pick { source, start, rows }) if (*source, *start + *rows as u64) == (found.source, found.start) => {
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
