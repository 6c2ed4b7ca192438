//! Counting rows without reading them, as far as indexes know their number.
//!
//! 1. A source whose rows all match, and whose times no other source overlaps, has a number of rows.
//! 2. Other sources are merged container by container, without reading rows of containers that only
//!    one source has.
//! 3. The rows of all segments of a table are counted once for each list of segments.

use super::bounds::ScanBounds;
use super::merge::{self, Merge};
use super::source::{PageMemo, Source};
use super::{ScanRequest, Sources, TableView};
use crate::deletes::{Span, are_apart};
use crate::error::{Error, Result};
use std::sync::Arc;

impl TableView {
    /// The number of rows of the table; see [`count_of`](Self::count_of).
    pub fn count(&self) -> Result<u64> {
        self.count_of(&ScanRequest::all())
    }

    /// The number of rows that match a request; its columns and limit are ignored. A segment is not
    /// read if all its rows match and its times do not overlap another source.
    ///
    /// # Errors
    /// See [`scan`](Self::scan).
    pub fn count_of(&self, request: &ScanRequest) -> Result<u64> {
        let bounds = self.bounds(request)?;
        let Sources { list, _charges } = self.sources(&bounds, 0)?;
        let list = Arc::into_inner(list).ok_or_else(|| Error::bug("the sources of a count are shared"))?;
        if !self.are_segments_whole(&bounds) || !are_memtables_apart(&list) {
            return self.count_in(list, &bounds);
        }
        let (segments, memtables) = list.into_iter().partition(|source| matches!(source, Source::Segment { .. }));
        let in_segments = match self.segments.rows.get() {
            Some(rows) => *rows,
            None => {
                let rows = self.count_in(segments, &bounds)?;
                *self.segments.rows.get_or_init(|| rows)
            }
        };
        Ok(in_segments + self.count_in(memtables, &bounds)?)
    }

    /// Whether all rows of all segments match, and none is deleted.
    fn are_segments_whole(&self, bounds: &ScanBounds) -> bool {
        let mut entries = self.segments.iter().map(|listed| &listed.entry);
        entries.all(|entry| bounds.takes_all_of(entry.times) && !self.deletes.concern_segment(entry))
    }

    fn count_in(&self, list: Vec<Source>, bounds: &ScanBounds) -> Result<u64> {
        let spans: Vec<Option<Span>> = list.iter().map(Source::span).collect();
        let apart = |number: usize, span: Span| {
            let others = spans.iter().enumerate().filter(|(other, _)| *other != number);
            others.flat_map(|(_, other)| other).all(|other| are_apart(*other, span))
        };
        let known: Vec<Option<u64>> = list
            .iter()
            .zip(&spans)
            .enumerate()
            .map(|(number, (source, span))| match span {
                None => Some(0),
                Some(span) => source.whole_rows(*span, bounds, &self.deletes).filter(|_| apart(number, *span)),
            })
            .collect();
        let mut rows: u64 = known.iter().flatten().sum();
        let rest: Vec<Source> =
            list.into_iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(s, _)| s).collect();
        let rest = Arc::new(rest);
        let mut memos = PageMemo::of_each(&rest);
        let mut merge = Merge::new(&rest, bounds.clone());
        while let Some(runs) = merge.next()? {
            let picks = merge::pick(&rest, &runs, &merge.bounds, &mut memos)?;
            rows += picks.iter().map(|pick| pick.rows as u64).sum::<u64>();
        }
        Ok(rows)
    }
}

/// Whether no row of a memtable can have the primary key of a row of a segment.
fn are_memtables_apart(list: &[Source]) -> bool {
    let spans = |wants_segments: bool| {
        let of_kind = move |source: &&Source| matches!(source, Source::Segment { .. }) == wants_segments;
        list.iter().filter(of_kind).filter_map(Source::span)
    };
    spans(false).all(|memtable| spans(true).all(|segment| are_apart(memtable, segment)))
}

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
