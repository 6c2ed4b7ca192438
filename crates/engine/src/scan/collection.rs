//! The rows of a collection in one source, many at a time. Each is a container of its own, and to pick
//! them one by one takes longer than to read them.

use super::bounds::ScanBounds;
use super::merge::RowSpan;
use super::source::Source;
use crate::column_type::ColumnType;
use crate::error::Result;
use crate::key::{self, KeyValue};
use crate::schema::TableSchema;
use crate::segment::index::IndexBlock;
use std::sync::Arc;

/// The keys of rows that follow each other in a source.
#[derive(Clone)]
pub(crate) enum RowKeys {
    /// All are of one container.
    Container(Arc<[KeyValue]>),
    /// Each is of its own: these of a memtable, from a position on.
    OfMemtable(usize),
    /// The same in a block of a segment's container index.
    OfBlock(Arc<IndexBlock>, usize),
}

impl RowKeys {
    /// Whether all rows have one key.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// Passes a key column's value of each of the rows to `take`; `rows` are positions among them.
    pub(crate) fn each(
        &self,
        rows: impl Iterator<Item = usize>,
        source: &Source,
        (part, types): (usize, &[ColumnType]),
        mut take: impl FnMut(&KeyValue),
    ) -> Result<()> {
        for row in rows {
            let key = match (self, source) {
                (Self::OfMemtable(first), Source::Memtable(sorted)) => sorted.keys.get(first + row),
                (Self::OfBlock(block, first), _) => block.keys.get(first + row),
                (Self::Container(key), _) => {
                    take(&key[part]);
                    continue;
                }
                (Self::OfMemtable(_), Source::Segment { .. }) => continue,
            };
            take(&key::decode(key, types)?[part]);
        }
        Ok(())
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
            Source::Memtable(sorted) => sorted.order.len() == sorted.keys.len(),
            Source::Segment { listed, deletes, .. } => {
                let facts = &listed.segment.facts;
                let wants_all = bounds.keys.is_none() && bounds.tests.is_empty() && bounds.prefix.is_empty();
                let is_valid = listed.entry.slices.is_empty() && !deletes.concern_segment(&listed.entry);
                wants_all && is_valid && facts.rows == facts.containers
            }
        };
        (schema.time.is_none() && !bounds.merges_fields && is_whole).then_some(Self { next: 0, block: 0 })
    }

    /// At most so many of the next rows; `None` at the end.
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
