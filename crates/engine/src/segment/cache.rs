//! The cache of decoded pages, dictionaries and index blocks, and of the rows of containers in
//! memtables: one per database, bounded in bytes.

use super::index::IndexBlock;
use super::page::{Dictionary, Page};
use crate::ids::SegmentId;
use crate::memtable::container_rows::{ContainerRows, KeepRows, MemtableContainer};
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

/// What an entry of the cache is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Segment(SegmentId, Part),
    Memtable(MemtableContainer),
}

#[derive(Clone)]
pub(crate) enum Cached {
    Page(Arc<Page>),
    Dictionary(Arc<Dictionary>),
    Index(Arc<IndexBlock>),
    ContainerRows(Arc<ContainerRows>),
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Cached> for Bytes {
    fn weight(&self, _key: &Key, value: &Cached) -> u64 {
        const ENTRY_BYTES: usize = 96;
        (ENTRY_BYTES
            + match value {
                Cached::Page(page) => page.bytes(),
                Cached::Dictionary(dictionary) => dictionary.bytes(),
                Cached::Index(block) => block.bytes(),
                Cached::ContainerRows(rows) => rows.bytes(),
            }) as u64
    }
}

/// Decoded parts of segments, and rows of memtables.
pub(crate) struct Cache(QuickCache<Key, Cached, Bytes>);

impl Cache {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        // Approximate number of pages that fit; only sizes the tables.
        let items = (capacity_bytes / (32 << 10)).max(16);
        Self(QuickCache::with_weighter(items, capacity_bytes as u64, Bytes))
    }

    pub(crate) fn get(&self, segment: SegmentId, part: Part) -> Option<Cached> {
        self.0.get(&Key::Segment(segment, part))
    }

    pub(crate) fn put(&self, segment: SegmentId, part: Part, value: Cached) {
        self.0.insert(Key::Segment(segment, part), value);
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

impl KeepRows for Cache {
    fn kept(&self, container: MemtableContainer) -> Option<Arc<ContainerRows>> {
        match self.0.get(&Key::Memtable(container))? {
            Cached::ContainerRows(rows) => Some(rows),
            _ => None,
        }
    }

    fn keep(&self, container: MemtableContainer, rows: Arc<ContainerRows>) {
        self.0.insert(Key::Memtable(container), Cached::ContainerRows(rows));
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        // `quick_cache` divides its capacity among four parts for each processor, and a part takes no entry
        // that is larger than itself.
        bytes as u64 <= self.capacity_bytes() / 128
    }
}
