//! Deletes: rows that readers must not see although an older source still holds them.
//!
//! 1. A delete names one container or all, and a time range. It applies to every older generation,
//!    and to the rows that were in its own generation's memtable before it ([`Marked`]).
//! 2. Memtables are filtered when they are sorted. Segments have holes ([`Deletes::holes`]) until a
//!    compaction rewrites them without the deleted rows.
//! 3. A flush records its generation's deletes in the manifest. The manifest drops a delete when it
//!    applies to no remaining segment.

use crate::ids::Generation;
use crate::manifest::{Delete, SegmentEntry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A range of times, inclusive at both ends.
pub(crate) type Span = (i64, i64);

/// Whether no time is in both.
pub(crate) fn are_apart(one: Span, other: Span) -> bool {
    one.1 < other.0 || other.1 < one.0
}

/// Whether all times of `other` are in `span`.
pub(crate) fn covers(span: Span, other: Span) -> bool {
    span.0 <= other.0 && other.1 <= span.1
}

/// A delete, and the number of rows that its generation's memtable had before it.
#[derive(Clone, Debug)]
pub(crate) struct Marked {
    pub(crate) delete: Delete,
    pub(crate) rows_before: u32,
}

impl Marked {
    /// Whether it deletes this row of a memtable.
    fn hits(&self, generation: Generation, row: u32, time: i64) -> bool {
        let older = generation < self.delete.generation;
        (older || (generation == self.delete.generation && row < self.rows_before))
            && (self.delete.from..=self.delete.to).contains(&time)
    }
}

/// The deletes of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletes {
    all_keys: Vec<Marked>,
    by_key: BTreeMap<Vec<u8>, Vec<Marked>>,
    len: usize,
}

impl Deletes {
    /// The deletes that the manifest lists.
    pub(crate) fn listed(deletes: &[Delete]) -> Self {
        let mut all = Self::default();
        for delete in deletes {
            all.push(Marked { delete: delete.clone(), rows_before: 0 });
        }
        all
    }

    pub(crate) fn push(&mut self, marked: Marked) {
        self.len += 1;
        match &marked.delete.key {
            None => self.all_keys.push(marked),
            Some(key) => self.by_key.entry(key.clone()).or_default().push(marked),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Approximate bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        const KEY_BYTES: usize = 32;
        self.len * (size_of::<Marked>() + 2 * KEY_BYTES)
    }

    fn iter(&self) -> impl Iterator<Item = &Marked> {
        self.all_keys.iter().chain(self.by_key.values().flatten())
    }

    /// All deletes as the manifest stores them, in order.
    pub(crate) fn to_list(&self) -> Vec<Delete> {
        let mut list: Vec<Delete> = self.iter().map(|marked| marked.delete.clone()).collect();
        list.sort_by_key(|delete| delete.id);
        list
    }
}

/// All deletes that apply to a reader: those in the manifest and those of each memtable.
#[derive(Clone, Default)]
pub(crate) struct DeleteSet(Option<Arc<[Arc<Deletes>]>>);

impl DeleteSet {
    pub(crate) fn new(layers: impl Iterator<Item = Arc<Deletes>>) -> Self {
        let layers: Vec<_> = layers.filter(|layer| layer.len() > 0).collect();
        Self((!layers.is_empty()).then(|| layers.into()))
    }

    fn layers(&self) -> &[Arc<Deletes>] {
        self.0.as_deref().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// These deletes and those of one more memtable.
    pub(crate) fn and(&self, layer: &Arc<Deletes>) -> Self {
        Self::new(self.layers().iter().chain([layer]).map(Arc::clone))
    }

    /// Whether a memtable of this generation may hold deleted rows.
    pub(crate) fn concern(&self, generation: Generation) -> bool {
        self.layers().iter().flat_map(|layer| layer.iter()).any(|marked| marked.delete.generation >= generation)
    }

    /// Whether rows of a container in a memtable of this generation may be deleted.
    pub(crate) fn concern_container(&self, generation: Generation, key: &[u8]) -> bool {
        let concerns = |marked: &Marked| marked.delete.generation >= generation;
        self.layers().iter().any(|layer| {
            let of_key = layer.by_key.get(key).into_iter().flatten();
            layer.all_keys.iter().chain(of_key).any(concerns)
        })
    }

    /// Whether any delete may hide a row of a segment.
    pub(crate) fn concern_segment(&self, segment: &SegmentEntry) -> bool {
        self.layers().iter().flat_map(|layer| layer.iter()).any(|marked| marked.delete.concerns(segment))
    }

    /// Whether a row of a memtable is deleted.
    pub(crate) fn hit(&self, generation: Generation, key: &[u8], row: u32, time: i64) -> bool {
        let hits = |marked: &Marked| marked.hits(generation, row, time);
        self.layers().iter().any(|layer| {
            layer.all_keys.iter().any(hits) || layer.by_key.get(key).is_some_and(|of_key| of_key.iter().any(hits))
        })
    }

    /// The time ranges of a segment in which the rows of all containers are deleted.
    pub(crate) fn holes(&self, segment: &SegmentEntry) -> Vec<Span> {
        let all_keys = self.layers().iter().flat_map(|layer| &layer.all_keys);
        all_keys.filter(|m| m.delete.concerns(segment)).map(|m| (m.delete.from, m.delete.to)).collect()
    }

    /// The time ranges of a segment in which this container's rows are deleted, besides
    /// [`holes`](Self::holes).
    pub(crate) fn holes_of(&self, segment: &SegmentEntry, key: &[u8]) -> Vec<Span> {
        let of_key = self.layers().iter().filter_map(|layer| layer.by_key.get(key)).flatten();
        of_key.filter(|m| m.delete.concerns(segment)).map(|m| (m.delete.from, m.delete.to)).collect()
    }
}

/// Removes `hole` from `spans`, which are ordered and disjoint.
pub(crate) fn without(spans: Vec<Span>, hole: Span) -> Vec<Span> {
    let mut left = Vec::with_capacity(spans.len() + 1);
    for (from, to) in spans {
        if hole.1 < from || to < hole.0 {
            left.push((from, to));
            continue;
        }
        if from < hole.0 {
            left.push((from, hole.0 - 1));
        }
        if hole.1 < to {
            left.push((hole.1 + 1, to));
        }
    }
    left
}

#[cfg(test)]
#[path = "deletes_tests.rs"]
mod tests;
