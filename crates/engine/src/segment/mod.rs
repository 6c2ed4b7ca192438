//! Segments: immutable Parquet files, sorted by (key, time), with each primary key once.
//!
//! 1. [`encoding`], [`page_header`], [`lists`]: values, pages and arrays in Parquet's format.
//! 2. [`writer`] writes sorted rows to a file: pages of [`PAGE_ROWS`] rows (fewer if texts are
//!    long) with checksums, each column's encoding chosen by trial, page index, statistics,
//!    container index ([`index`]), footer.
//! 3. [`reader`]: an open segment. It reads pages and index blocks on demand and keeps them in
//!    [`cache`].

pub(crate) mod amounts;
mod byte_values;
pub(crate) mod cache;
pub(crate) mod compression;
mod division;
pub(crate) mod encoding;
pub(crate) mod index;
pub(crate) mod lists;
pub(crate) mod page;
pub(crate) mod page_header;
mod page_output;
pub(crate) mod pages;
pub(crate) mod reader;
pub(crate) mod writer;

use crate::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, Generation, SegmentId, TableId};
use crate::io::Io;
use crate::manifest::SegmentEntry;
use crate::schema::Role;
use reader::ContainerTimes;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Rows per page. A column of long texts has pages of 2,048, 1,024 and so on. All pages of a column
/// in a row group have the same size, so that a row's page can be computed.
pub(crate) const PAGE_ROWS: usize = 4_096;
/// Maximum rows in a row group; a multiple of [`PAGE_ROWS`].
pub(crate) const ROW_GROUP_ROWS: usize = 128 * PAGE_ROWS;
/// The directory of the segments, within the database.
pub(crate) const DIRECTORY: &str = "segments";
/// The key of [`Facts`] in the footer's metadata.
pub(crate) const FACTS_KEY: &str = "fleetdb.segment";
/// The version of [`Facts`] and of the container index.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// What a segment's footer says beyond Parquet's own metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The version of this structure and of the container index.
    pub version: u32,
    /// The table of the rows.
    pub table: TableId,
    /// The memtable generation that the rows come from. Rows of a larger generation win.
    pub generation: Generation,
    /// Number of rows.
    pub rows: u64,
    /// Number of containers.
    pub containers: u64,
    /// Minimum and maximum time, in the time column's unit; 0 in a collection.
    pub times: (i64, i64),
    /// The columns as stored in the file.
    pub columns: Vec<StoredColumn>,
    /// File offset of the container index's directory.
    pub index_offset: u64,
    /// Length of that directory.
    pub index_bytes: u64,
    /// CRC32C of that directory.
    pub index_crc: u32,
}

/// A column of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredColumn {
    /// The column's id in the table.
    pub id: ColumnId,
    /// Its type when the segment was written.
    pub column_type: ColumnType,
    /// Its role in a row.
    pub role: Role,
}

/// A segment in a table's list: the open file and its manifest entry.
pub(crate) struct Listed {
    pub(crate) segment: Arc<reader::Segment>,
    pub(crate) entry: SegmentEntry,
}

impl Listed {
    /// Opens a segment and checks it against its manifest entry.
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

    /// The same open file with its current manifest entry.
    pub(crate) fn again(self: &Arc<Self>, entry: &SegmentEntry) -> Arc<Self> {
        if self.entry == *entry {
            return Arc::clone(self);
        }
        Arc::new(Self { segment: Arc::clone(&self.segment), entry: entry.clone() })
    }
}

/// The segments of a table, oldest first.
#[derive(Default)]
pub(crate) struct Segments {
    list: Vec<Arc<Listed>>,
    /// The number of rows, once it was counted.
    pub(crate) rows: OnceLock<u64>,
}

impl Segments {
    /// Segments in any order.
    pub(crate) fn new(mut list: Vec<Arc<Listed>>) -> Self {
        list.sort_by_key(|listed| (listed.entry.generation, listed.entry.id));
        Self { list, rows: OnceLock::new() }
    }

    /// The times of the segments' containers, as far as they were read.
    pub(crate) fn container_times(&self) -> HashMap<SegmentId, &ContainerTimes> {
        self.list.iter().filter_map(|listed| Some((listed.entry.id, listed.segment.container_times()?))).collect()
    }
}

impl Deref for Segments {
    type Target = [Arc<Listed>];

    fn deref(&self) -> &[Arc<Listed>] {
        &self.list
    }
}

/// The file name of a segment.
pub(crate) fn file_name(table: TableId, id: SegmentId) -> String {
    format!("{}/{:016}.parquet", directory(table), id.0)
}

/// The directory of a table's segments.
pub(crate) fn directory(table: TableId) -> String {
    format!("{DIRECTORY}/{table}")
}
