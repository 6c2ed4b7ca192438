//! Chooses the next rows of a scan: container by container, in (key, time) order.

use super::bounds::ScanBounds;
use super::collection::{CollectionRows, RowKeys};
use super::merge::{self, Merge, RowSpan};
use super::source::{PageMemo, Run, Source};
use crate::error::Result;
use crate::key::{self, KeyValue};
use crate::schema::TableSchema;
use std::sync::Arc;

/// Chosen rows of one container, or of a collection.
pub(super) struct PickedRows {
    pub(super) keys: RowKeys,
    /// The runs of the container that the rows come from; `None` if the reader does not need them.
    pub(super) runs: Option<Arc<[(usize, Run)]>>,
    pub(super) picks: Vec<RowSpan>,
    pub(super) rows: usize,
}

/// A container's key and runs, and the picks that are left.
type Ready = (Arc<[KeyValue]>, Option<Arc<[(usize, Run)]>>, Vec<RowSpan>);

/// How many times more rows may be picked each time, after few were picked first.
const GROWTH: usize = 4;

/// The place of a scan in its sources.
pub(super) struct Picker {
    sources: Arc<Vec<Source>>,
    merge: Merge,
    /// The container whose rows are picked but not all yielded.
    ready: Option<Ready>,
    /// The rest of a collection's rows, if they need not be merged.
    collection: Option<CollectionRows>,
    batch_rows: usize,
    /// The most rows to pick next.
    next_rows: usize,
    /// The most containers to pick from at once, if their runs are kept.
    max_containers: Option<usize>,
    /// The rows that the limit leaves.
    left: usize,
    newest_first: bool,
}

impl Picker {
    pub(super) fn new(
        schema: &TableSchema,
        sources: &Arc<Vec<Source>>,
        bounds: ScanBounds,
        batch_rows: usize,
        (limit, newest_first): (Option<usize>, bool),
    ) -> Self {
        Self {
            sources: Arc::clone(sources),
            collection: CollectionRows::of(schema, sources, &bounds).filter(|_| !newest_first),
            merge: Merge::new(sources, bounds),
            ready: None,
            batch_rows,
            next_rows: batch_rows,
            max_containers: None,
            left: limit.unwrap_or(usize::MAX),
            newest_first,
        }
    }

    /// Picks from at most this many containers at once, with their runs.
    pub(super) fn with_runs(self, max_containers: usize) -> Self {
        Self { max_containers: Some(max_containers), ..self }
    }

    /// Picks at most this many rows first.
    pub(super) fn with_first(self, rows: usize) -> Self {
        Self { next_rows: rows.clamp(1, self.batch_rows), ..self }
    }

    pub(super) fn sources(&self) -> &Arc<Vec<Source>> {
        &self.sources
    }

    pub(super) fn newest_first(&self) -> bool {
        self.newest_first
    }

    /// The next rows, from as many containers as fit in a batch; none at the end. With newest first,
    /// from one container only; the caller then reverses the batch.
    pub(super) fn next(&mut self, memos: &mut [PageMemo]) -> Result<Vec<PickedRows>> {
        let picked = self.pick(memos)?;
        self.left -= picked.iter().map(|picked| picked.rows).sum::<usize>();
        Ok(picked)
    }

    fn pick(&mut self, memos: &mut [PageMemo]) -> Result<Vec<PickedRows>> {
        let (mut all, mut rows) = (Vec::new(), 0);
        let most = self.next_rows.min(self.left);
        self.next_rows = self.next_rows.saturating_mul(GROWTH).min(self.batch_rows);
        if let Some(collection) = &mut self.collection {
            while rows < most
                && let Some((keys, pick)) = collection.next(&self.sources[0], most - rows)?
            {
                all.push(PickedRows { keys, runs: None, picks: vec![pick], rows: pick.rows });
                rows += pick.rows;
            }
            return Ok(all);
        }
        while rows < most {
            let Some((key, runs, picks)) = &mut self.ready else {
                let Some(runs) = self.merge.next()? else { break };
                let picks = merge::pick(&self.sources, &runs, &self.merge.bounds, memos)?;
                if let Some((_, run)) = runs.first().filter(|_| !picks.is_empty()) {
                    let key = key::decode(&run.key, &self.merge.bounds.key_types)?;
                    let runs = self.max_containers.map(|_| runs.into());
                    self.ready = Some((key.into(), runs, picks));
                }
                continue;
            };
            let take = if self.newest_first { take_last_picks } else { take_picks };
            let taken = take(picks, most - rows);
            let taken_rows = taken.iter().map(|pick| pick.rows).sum();
            let (keys, runs) = (RowKeys::Container(Arc::clone(key)), runs.clone());
            all.push(PickedRows { keys, runs, picks: taken, rows: taken_rows });
            rows += taken_rows;
            if picks.is_empty() {
                self.ready = None;
            }
            if self.newest_first || self.max_containers.is_some_and(|most| all.len() >= most) {
                break;
            }
        }
        Ok(all)
    }
}

/// Takes up to `most` rows from the front of the picks.
pub(crate) fn take_picks(picks: &mut Vec<RowSpan>, most: usize) -> Vec<RowSpan> {
    let (mut whole, mut rows) = (0, 0);
    while whole < picks.len() && rows + picks[whole].rows <= most {
        rows += picks[whole].rows;
        whole += 1;
    }
    let mut taken: Vec<RowSpan> = picks.drain(..whole).collect();
    if rows < most
        && let Some(next) = picks.first_mut()
    {
        let part = most - rows;
        taken.push(RowSpan { rows: part, ..*next });
        next.start += part as u64;
        next.rows -= part;
    }
    taken
}

/// Takes up to `most` rows from the end of the picks, keeping their order.
fn take_last_picks(picks: &mut Vec<RowSpan>, most: usize) -> Vec<RowSpan> {
    let (mut first, mut rows) = (picks.len(), 0);
    while first > 0 && rows + picks[first - 1].rows <= most {
        first -= 1;
        rows += picks[first].rows;
    }
    // Older rows stay with the row before them, to which they belong.
    while picks.get(first).is_some_and(|pick| pick.rows == 0) {
        first += 1;
    }
    let mut taken = picks.split_off(first);
    if rows < most
        && let Some(before) = picks.last_mut()
    {
        let part = most - rows;
        before.rows -= part;
        taken.insert(0, RowSpan { start: before.start + before.rows as u64, rows: part, ..*before });
    }
    taken
}
