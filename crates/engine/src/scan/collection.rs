//! The rows of a collection in one source, many at a time. Each row is a container of its own. Picking
//! rows one by one takes longer than reading them.

use super::bounds::ScanBounds;
use super::merge::RowSpan;
use super::source::Source;
use crate::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::key::{self, KeyValue};
use crate::schema::TableSchema;
use crate::segment::index::IndexBlock;
use std::sync::Arc;

/// The keys of rows that follow each other in a source.
#[derive(Clone)]
pub(crate) enum RowKeys {
    /// All are of one container.
    Container(Arc<[KeyValue]>),
    /// Each row has its own: the keys of a memtable from this position on.
    OfMemtable(usize),
    /// The same, for the keys of a block of a segment's container index.
    OfBlock(Arc<IndexBlock>, usize),
}

impl RowKeys {
    /// Whether all rows have one key.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// A column of the key of one of the rows, given the row's position among them and their source.
    pub(crate) fn value(&self, row: usize, source: &Source, types: &[ColumnType], place: usize) -> Result<KeyValue> {
        let key = match (self, source) {
            (Self::Container(key), _) => return Ok(key[place].clone()),
            (Self::OfMemtable(first), Source::Memtable(sorted)) => sorted.keys.get(first + row),
            (Self::OfBlock(block, first), _) => block.keys.get(first + row),
            (Self::OfMemtable(_), Source::Segment { .. }) => {
                return Err(Error::bug("keys of a memtable, but rows of a segment"));
            }
        };
        key::decode_column(key, types, place)
    }
}

/// The rows that are left of a collection's only source.
pub(crate) struct CollectionRows {
    /// The next row of a memtable, or of a block.
    next: usize,
    block: usize,
}

impl CollectionRows {
    /// All rows, if the only source has just rows that are wanted and valid.
    pub(crate) fn of(schema: &TableSchema, sources: &[Source], bounds: &ScanBounds) -> Option<Self> {
        let [source] = sources else { return None };
        let is_whole = match source {
            // Only the rows that are wanted were sorted.
            Source::Memtable(sorted) => sorted.order().len() == sorted.keys.len(),
            Source::Segment { listed, deletes, .. } => {
                let facts = &listed.segment.facts;
                let wants_all = bounds.keys.is_none() && bounds.tests.is_empty();
                let is_valid = listed.entry.slices.is_empty() && !deletes.concern_segment(&listed.entry);
                wants_all && is_valid && facts.rows == facts.containers
            }
        };
        (schema.time.is_none() && !bounds.merges_fields && is_whole).then_some(Self { next: 0, block: 0 })
    }

    /// Takes the next rows, up to `most`; `None` at the end.
    pub(crate) fn next(&mut self, source: &Source, most: usize) -> Result<Option<(RowKeys, RowSpan)>> {
        match source {
            Source::Memtable(sorted) => {
                let rows = most.min(sorted.keys.len() - self.next);
                let first = self.next;
                self.next += rows;
                let span = RowSpan { source: 0, start: first as u64, rows };
                Ok((rows > 0).then_some((RowKeys::OfMemtable(first), span)))
            }
            Source::Segment { listed, .. } => {
                while self.block < listed.segment.blocks().len() {
                    let block = listed.segment.block(self.block)?;
                    let first = self.next;
                    let rows = most.min(block.keys.len() - first);
                    if rows > 0 {
                        self.next += rows;
                        let span = RowSpan { source: 0, start: block.starts[first], rows };
                        return Ok(Some((RowKeys::OfBlock(block, first), span)));
                    }
                    (self.block, self.next) = (self.block + 1, 0);
                }
                Ok(None)
            }
        }
    }
}
