//! The cache of decoded pages, dictionaries and index blocks: one per database, bounded in bytes.

use super::index::IndexBlock;
use super::page::{Dictionary, Page};
use crate::ids::SegmentId;
use quick_cache::Weighter;
use quick_cache::sync::Cache as QuickCache;
use std::sync::Arc;

/// A cacheable part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Page { column: u32, page: u32 },
    Dictionary { column: u32, row_group: u32 },
    Index { block: u32 },
}

#[derive(Clone)]
pub(crate) enum Cached {
    Page(Arc<Page>),
    Dictionary(Arc<Dictionary>),
    Index(Arc<IndexBlock>),
}

#[derive(Clone)]
struct Bytes;

impl Weighter<(SegmentId, Part), Cached> for Bytes {
    fn weight(&self, _key: &(SegmentId, Part), value: &Cached) -> u64 {
        const ENTRY_BYTES: usize = 96;
        (ENTRY_BYTES
            + match value {
                Cached::Page(page) => page.bytes(),
                Cached::Dictionary(dictionary) => dictionary.bytes(),
                Cached::Index(block) => block.bytes(),
            }) as u64
    }
}

/// Decoded parts of segments.
pub(crate) struct Cache(QuickCache<(SegmentId, Part), Cached, Bytes>);

impl Cache {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        // Approximate number of pages that fit; only sizes the tables.
        let items = (capacity_bytes / (32 << 10)).max(16);
        Self(QuickCache::with_weighter(items, capacity_bytes as u64, Bytes))
    }

    pub(crate) fn get(&self, segment: SegmentId, part: Part) -> Option<Cached> {
        self.0.get(&(segment, part))
    }

    pub(crate) fn put(&self, segment: SegmentId, part: Part, value: Cached) {
        self.0.insert((segment, part), value);
    }

    /// Maximum bytes it holds.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.0.capacity()
    }

    /// Bytes held now.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}
