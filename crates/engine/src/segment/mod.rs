//! Segments: immutable Parquet files, sorted by (key, time), each primary key once.
//!
//! 1. [`encoding`], [`page_header`]: values and pages as Parquet wants them.
//! 2. [`writer`]: sorted rows to a file: pages of [`PAGE_ROWS`] rows (fewer where texts are long) with checksums, the
//!    encoding of each column chosen by trial, page index, statistics, container index ([`index`]), footer.
//! 3. [`reader`]: an open segment; pages and index blocks are read when needed and kept in [`cache`].

pub(crate) mod cache;
pub(crate) mod compression;
pub(crate) mod encoding;
pub(crate) mod index;
pub(crate) mod page;
pub(crate) mod page_header;
pub(crate) mod pages;
pub(crate) mod reader;
pub(crate) mod writer;

use crate::error::{Error, Result};
use crate::ids::{ColumnId, Generation, SegmentId, TableId};
use crate::io::Io;
use crate::manifest::SegmentEntry;
use crate::schema::{ColumnType, Role};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Rows in a page; a column of long texts has pages of 2,048, 1,024 and so on, the same in all of a row group, so that a
/// row's page is known without a search.
pub(crate) const PAGE_ROWS: usize = 4_096;
/// The most rows in a row group; a multiple of [`PAGE_ROWS`].
pub(crate) const ROW_GROUP_ROWS: usize = 128 * PAGE_ROWS;
/// The directory of segments in the database.
pub(crate) const DIRECTORY: &str = "segments";
/// The key in the footer's metadata under which [`Facts`] stand.
pub(crate) const FACTS_KEY: &str = "fleetdb.segment";
/// The version of [`Facts`] and of the container index.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// What a segment's footer says of it beyond Parquet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The version of this structure and of the container index.
    pub version: u32,
    /// The table whose rows these are.
    pub table: TableId,
    /// Which turn of the memtables they come from: later rows win over earlier ones.
    pub generation: Generation,
    /// How many rows there are.
    pub rows: u64,
    /// How many containers they belong to.
    pub containers: u64,
    /// The least and the largest time, in the time column's unit; 0 in a collection.
    pub times: (i64, i64),
    /// The columns as the file has them.
    pub columns: Vec<StoredColumn>,
    /// Where the directory of the container index begins in the file.
    pub index_offset: u64,
    /// Its length in bytes.
    pub index_bytes: u64,
    /// Its CRC32C.
    pub index_crc: u32,
}

/// A column of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredColumn {
    /// The table's column.
    pub id: ColumnId,
    /// Its type when the segment was written.
    pub column_type: ColumnType,
    /// What it does in its row.
    pub role: Role,
}

/// A segment as a table lists it: the open file, and what the manifest says of it.
pub(crate) struct Listed {
    pub(crate) segment: Arc<reader::Segment>,
    pub(crate) entry: SegmentEntry,
}

impl Listed {
    /// Opens a segment and compares it with its manifest entry.
    pub(crate) fn open(io: &Io, entry: &SegmentEntry, cache: &Arc<cache::Cache>) -> Result<Arc<Self>> {
        let name = file_name(entry.table, entry.id);
        let segment = reader::Segment::open(io.storage.as_ref(), &name, entry.id, cache)?;
        let facts = &segment.facts;
        if (facts.table, facts.generation, facts.rows) != (entry.table, entry.generation, entry.rows) {
            return Err(Error::damaged(format!(
                "segment {name} is not the file that the manifest lists; restore it from a backup"
            )));
        }
        Ok(Arc::new(Self { segment: Arc::new(segment), entry: entry.clone() }))
    }

    /// The same open file under what the manifest says of it now.
    pub(crate) fn again(self: &Arc<Self>, entry: &SegmentEntry) -> Arc<Self> {
        if self.entry == *entry {
            return Arc::clone(self);
        }
        Arc::new(Self { segment: Arc::clone(&self.segment), entry: entry.clone() })
    }
}

/// The name of a segment's file.
pub(crate) fn file_name(table: TableId, id: SegmentId) -> String {
    format!("{}/{:016}.parquet", directory(table), id.0)
}

/// The directory of a table's segments.
pub(crate) fn directory(table: TableId) -> String {
    format!("{DIRECTORY}/{table}")
}
