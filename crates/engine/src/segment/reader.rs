//! An open segment: its facts and page offsets are in memory, everything else is read on demand.
//!
//! Each part's checksum is verified before the part is decoded.

use super::byte_values::{ByteDictionary, take_byte_codes, take_lowest_bytes, take_small_deltas};
use super::cache::{Cache, Cached, Part};
use super::compression::decompress;
use super::encoding::{self, Physical};
use super::index::{self, BlockEntry, IndexBlock};
use super::lists::{ELEMENT_BYTES, PageLevels};
use super::page::{Dictionary, Page};
use super::page_header::{Encoding, PageHeader};
use super::{FACTS_KEY, FORMAT_VERSION, Facts, PAGE_ROWS};
use crate::column::BytesBuilder;
use crate::column_type::ColumnType;
use crate::error::{Error, Result};
use crate::ids::{ColumnId, SegmentId};
use crate::io::{ReadFile, Storage};
use crate::lane::{Lane, NullMask};
use crate::schema::Role;
use bytes::Bytes;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use std::sync::{Arc, OnceLock};

/// The most containers of a segment whose times are kept in memory.
const MAX_TIMED_CONTAINERS: u64 = 1_024;

/// The largest valid size of a plain page or dictionary.
const MAX_PAGE_BYTES: usize = 1 << 31;

/// An open segment.
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) name: String,
    pub(crate) facts: Facts,
    file: Arc<dyn ReadFile>,
    /// The first row of each row group, and the end of the last one.
    group_starts: Vec<usize>,
    columns: Vec<StoredPages>,
    first_key: Vec<u8>,
    blocks: Vec<BlockEntry>,
    cache: Arc<Cache>,
    container_times: OnceLock<ContainerTimes>,
}

/// The key of each container of a segment, and its first and last time.
pub(crate) type ContainerTimes = Vec<(Vec<u8>, (i64, i64))>;

/// The locations of a column's pages.
struct StoredPages {
    id: ColumnId,
    column_type: ColumnType,
    nullable: bool,
    /// Size after encoding, before zstd.
    plain_bytes: usize,
    /// Number of values with NULLs; in a column of arrays, of their elements.
    values: usize,
    groups: Vec<StoredGroup>,
    /// All pages of the file, in row order.
    pages: Vec<(u64, usize)>,
}

/// A column's pages in one row group.
struct StoredGroup {
    dictionary: Option<(u64, usize)>,
    first_page: usize,
    /// Rows per page; the last page may have fewer.
    page_rows: usize,
}

/// Page number of rows that do not exist: reading it is an error.
const NOWHERE: usize = usize::MAX;

/// The location of a row in a column.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The page number.
    pub(crate) page: usize,
    /// The row's position in the page.
    pub(crate) at: usize,
    /// Number of rows in the page from there on.
    pub(crate) rows: usize,
}

impl StoredPages {
    /// Locates a row; for `group_starts` see [`Segment`].
    fn place(&self, row: usize, group_starts: &[usize]) -> Place {
        let next = group_starts.partition_point(|start| *start <= row);
        let (Some(&end), Some(group)) = (group_starts.get(next), self.groups.get(next.wrapping_sub(1))) else {
            return Place { page: NOWHERE, at: 0, rows: usize::MAX };
        };
        let start = group_starts[next - 1];
        let (page, at) = ((row - start) / group.page_rows, (row - start) % group.page_rows);
        let rows = group.page_rows.min(end - start - page * group.page_rows) - at;
        Place { page: group.first_page + page, at, rows }
    }
}

/// The page size of a row group with `rows` rows; `None` if the pages are not as a segment has
/// them.
fn page_rows(locations: &[PageLocation], rows: usize) -> Option<usize> {
    let rows_of_first = match locations {
        [first, second, ..] => usize::try_from(second.first_row_index.checked_sub(first.first_row_index)?).ok()?,
        _ => PAGE_ROWS,
    };
    let is_size = rows_of_first.is_power_of_two() && rows_of_first <= PAGE_ROWS;
    let are_even = |of: usize| {
        let mut starts = locations.iter().map(|page| page.first_row_index);
        locations.len() == rows.div_ceil(of) && (0..rows).step_by(of).all(|start| starts.next() == Some(start as i64))
    };
    (is_size && are_even(rows_of_first)).then_some(rows_of_first)
}

/// A segment's file, for the `parquet` crate's footer reader.
struct FooterReader<'a>(&'a dyn ReadFile);

impl Length for FooterReader<'_> {
    fn len(&self) -> u64 {
        self.0.len_bytes()
    }
}

impl ChunkReader for FooterReader<'_> {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let len = usize::try_from(self.0.len_bytes().saturating_sub(start)).unwrap_or(usize::MAX);
        Ok(bytes::Buf::reader(self.get_bytes(start, len)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.0.read_at(start, length).map_err(|e| parquet::errors::ParquetError::External(Box::new(e)))
    }
}

/// Reads a Parquet footer and FleetDB's metadata in it.
pub(crate) fn read_footer(file: &dyn ReadFile, name: &str) -> Result<(ParquetMetaData, Facts)> {
    let damaged = |what: String| {
        Error::damaged(format!("segment {name}: {what}. Its rows cannot be read; restore the file from a backup"))
    };
    let metadata = ParquetMetaDataReader::new()
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&FooterReader(file))
        .map_err(|e| damaged(format!("the Parquet footer cannot be read: {e}")))?;
    let json = metadata
        .file_metadata()
        .key_value_metadata()
        .and_then(|pairs| pairs.iter().find(|pair| pair.key == FACTS_KEY))
        .and_then(|pair| pair.value.as_deref())
        .ok_or_else(|| damaged(format!("the footer has no entry {FACTS_KEY}")))?;
    let facts: Facts = serde_json::from_str(json)
        .map_err(|e| damaged(format!("the footer's entry {FACTS_KEY} cannot be decoded: {e}")))?;
    if facts.version != FORMAT_VERSION {
        return Err(Error::invalid(format!(
            "segment {name} has format version {}, but this program reads {FORMAT_VERSION}: use a newer version of \
             FleetDB",
            facts.version
        )));
    }
    Ok((metadata, facts))
}

impl Segment {
    /// Opens the file `name`.
    pub(crate) fn open(storage: &dyn Storage, name: &str, id: SegmentId, cache: &Arc<Cache>) -> Result<Self> {
        let file = storage.read(name)?;
        let (metadata, facts) = read_footer(file.as_ref(), name)?;
        let damaged = |what: &str| Error::damaged(format!("segment {name}: {what}; restore the file from a backup"));
        let descr = metadata.file_metadata().schema_descr();
        let offsets = metadata.offset_index().ok_or_else(|| damaged("it has no offset index"))?;
        if descr.num_columns() != facts.columns.len() {
            return Err(damaged("its footer is inconsistent about columns"));
        }
        let mut group_starts = vec![0_usize];
        for group in metadata.row_groups() {
            let rows = usize::try_from(group.num_rows()).ok().filter(|rows| *rows > 0);
            let end = rows.and_then(|rows| group_starts[group_starts.len() - 1].checked_add(rows));
            group_starts.push(end.ok_or_else(|| damaged("it has an empty row group"))?);
        }
        if group_starts.last().is_none_or(|end| *end as u64 != facts.rows) {
            return Err(damaged("its footer is inconsistent about rows"));
        }
        let mut columns = Vec::with_capacity(facts.columns.len());
        for (place, stored) in facts.columns.iter().enumerate() {
            let mut chunks = StoredPages {
                id: stored.id,
                column_type: stored.column_type,
                nullable: descr.column(place).max_def_level() > 0,
                plain_bytes: 0,
                values: 0,
                groups: Vec::new(),
                pages: Vec::new(),
            };
            for (number, group) in metadata.row_groups().iter().enumerate() {
                let rows = group_starts[number + 1] - group_starts[number];
                let plain_bytes = usize::try_from(group.column(place).uncompressed_size()).unwrap_or(0);
                chunks.plain_bytes = chunks.plain_bytes.saturating_add(plain_bytes);
                let values = usize::try_from(group.column(place).num_values()).unwrap_or(0);
                chunks.values = chunks.values.saturating_add(values);
                let offsets = offsets.get(number).and_then(|offsets| offsets.get(place));
                let locations = offsets.ok_or_else(|| damaged("its offset index is too short"))?.page_locations();
                let first = locations.first().map_or(0, |page| page.offset as u64);
                let dictionary = group.column(place).dictionary_page_offset();
                chunks.groups.push(StoredGroup {
                    dictionary: dictionary.map(|at| (at as u64, first.saturating_sub(at as u64) as usize)),
                    first_page: chunks.pages.len(),
                    page_rows: page_rows(locations, rows)
                        .ok_or_else(|| damaged("its footer is inconsistent about pages"))?,
                });
                let pages = locations.iter();
                chunks.pages.extend(pages.map(|p| (p.offset as u64, p.compressed_page_size.max(0) as usize)));
            }
            columns.push(chunks);
        }
        let directory = file.read_at(facts.index_offset, facts.index_bytes as usize)?;
        if crc32c::crc32c(&directory) != facts.index_crc {
            return Err(damaged("the directory of the container index has a wrong checksum"));
        }
        let (first_key, blocks) = index::read_directory(&directory)?;
        let cache = Arc::clone(cache);
        let (name, container_times) = (name.to_owned(), OnceLock::new());
        Ok(Self { id, name, facts, file, group_starts, columns, first_key, blocks, cache, container_times })
    }

    /// The type that a column had when the segment was written; `None` if the segment lacks it.
    pub(crate) fn stored_type(&self, column: ColumnId) -> Option<ColumnType> {
        self.stored(column).map(|stored| stored.column_type)
    }

    /// The file's length in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    pub(crate) fn blocks(&self) -> &[BlockEntry] {
        &self.blocks
    }

    /// Reads the times of the containers, which then stay in memory, if they have a page of rows each on
    /// average, and there are not many.
    pub(crate) fn read_container_times(&self) -> Result<()> {
        let Facts { rows, containers, .. } = self.facts;
        if containers > MAX_TIMED_CONTAINERS
            || rows < containers * PAGE_ROWS as u64
            || self.container_times.get().is_some()
        {
            return Ok(());
        }
        let mut times = ContainerTimes::new();
        for number in 0..self.blocks.len() {
            let block = self.block(number)?;
            times.extend((0..block.keys.len()).map(|place| (block.keys.get(place).to_vec(), block.times[place])));
        }
        self.container_times.get_or_init(|| times);
        Ok(())
    }

    /// The times of the containers, if they were read.
    pub(crate) fn container_times(&self) -> Option<&ContainerTimes> {
        self.container_times.get()
    }

    /// Whether one of these sorted keys lies between the segment's first and last key.
    pub(crate) fn may_hold(&self, keys: &[Vec<u8>]) -> bool {
        let last_key = self.blocks.last().map_or(&[][..], |block| &block.last_key);
        let next = keys.partition_point(|key| *key < self.first_key);
        keys.get(next).is_some_and(|key| key.as_slice() <= last_key)
    }

    /// The number of the first block that may hold `key`.
    pub(crate) fn find_block(&self, key: &[u8]) -> usize {
        self.blocks.partition_point(|block| block.last_key.as_slice() < key)
    }

    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        Error::damaged(format!("segment {}: {what}; restore the file from a backup", self.name))
    }

    /// Whether pages of `bytes` in total leave half of the cache to others.
    pub(crate) fn has_cache_for(&self, bytes: usize) -> bool {
        bytes as u64 <= self.cache.capacity_bytes() / 2
    }

    /// A block of the container index.
    pub(crate) fn block(&self, number: usize) -> Result<Arc<IndexBlock>> {
        let part = Part::Index { block: number as u32 };
        if let Some(Cached::Index(block)) = self.cache.get(self.id, part) {
            return Ok(block);
        }
        let entry = &self.blocks[number];
        let stored = self.file.read_at(entry.offset, entry.stored_bytes as usize)?;
        if crc32c::crc32c(&stored) != entry.crc {
            return Err(self.damaged(format_args!("block {number} of the container index has a wrong checksum")));
        }
        if entry.plain_bytes as usize > MAX_PAGE_BYTES {
            return Err(self.damaged(format_args!("block {number} of the container index is too large")));
        }
        let fields = self.facts.columns.iter().filter(|column| column.role == Role::Field);
        let block = IndexBlock::read(&stored, entry, fields.map(|column| (column.id, column.column_type)))
            .map_err(|e| e.context(format_args!("segment {}", self.name)))?;
        let block = Arc::new(block);
        self.cache.put(self.id, part, Cached::Index(Arc::clone(&block)));
        Ok(block)
    }

    fn stored(&self, column: ColumnId) -> Option<&StoredPages> {
        // At its own id, unless the table has dropped a column.
        let expected = self.columns.get(column.0 as usize).filter(|stored| stored.id == column);
        expected.or_else(|| self.columns.iter().find(|stored| stored.id == column))
    }

    /// Number of pages per column, except for long texts.
    pub(crate) fn pages(&self) -> usize {
        (self.facts.rows as usize).div_ceil(PAGE_ROWS)
    }

    /// Average bytes per row of a text column; little where texts are in a dictionary. Of a column of
    /// arrays, those of the elements in memory.
    pub(crate) fn text_bytes(&self, column: ColumnId) -> usize {
        let stored = self.stored(column).filter(|stored| stored.column_type.is_bytes());
        let bytes = stored.map_or(0, |stored| match stored.column_type {
            ColumnType::Array(_) => stored.plain_bytes.max(stored.values.saturating_mul(ELEMENT_BYTES)),
            _ => stored.plain_bytes,
        });
        bytes / (self.facts.rows as usize).max(1)
    }

    /// Number of pages of a column.
    pub(crate) fn pages_of(&self, column: ColumnId) -> usize {
        self.stored(column).map_or(0, |stored| stored.pages.len())
    }

    /// Locates a row of a column. If the file lacks the column, all its rows are in one page.
    pub(crate) fn place(&self, column: ColumnId, row: usize) -> Place {
        match self.stored(column) {
            Some(stored) => stored.place(row, &self.group_starts),
            None => Place { page: 0, at: row, rows: usize::MAX },
        }
    }

    /// The pages that hold a range of a column's rows, with the number of rows in each.
    pub(crate) fn places(&self, column: ColumnId, start: u64, rows: usize) -> impl Iterator<Item = Place> {
        let (mut row, end) = (start as usize, start as usize + rows);
        std::iter::from_fn(move || {
            if row == end {
                return None;
            }
            let place = self.place(column, row);
            let rows = place.rows.min(end - row);
            row += rows;
            Some(Place { rows, ..place })
        })
    }

    /// Page `number` of a column; `None` if the file lacks the column, which is then NULL. With
    /// `keep` the page is cached.
    pub(crate) fn page(&self, column: ColumnId, number: usize, keep: bool) -> Result<Option<Arc<Page>>> {
        let Some(stored) = self.stored(column) else { return Ok(None) };
        let part = Part::Page { column: column.0, page: number as u32 };
        if let Some(Cached::Page(page)) = self.cache.get(self.id, part) {
            return Ok(Some(page));
        }
        let page = self
            .read_page(stored, number, keep)
            .map_err(|e| e.context(format_args!("segment {}, column {column}, page {number}", self.name)))?;
        let page = Arc::new(if keep { page.packed() } else { page });
        if keep {
            self.cache.put(self.id, part, Cached::Page(Arc::clone(&page)));
        }
        Ok(Some(page))
    }

    /// Reads a page. With `pack`, its values are packed directly where that is faster.
    fn read_page(&self, stored: &StoredPages, number: usize, pack: bool) -> Result<Page> {
        let &(offset, bytes) = stored.pages.get(number).ok_or_else(|| Error::bug("no such page"))?;
        let page = self.file.read_at(offset, bytes)?;
        let (header, body) = checked(&page)?;
        let data = header.data.as_ref().ok_or_else(|| Error::damaged("expected a data page, found a dictionary"))?;
        // The page exists, so some group begins at it or before it.
        let number_of_group = stored.groups.partition_point(|group| group.first_page <= number) - 1;
        let group = &stored.groups[number_of_group];
        let first_row = self.group_starts[number_of_group] + (number - group.first_page) * group.page_rows;
        let rows = stored.place(first_row, &self.group_starts).rows;
        let is_list = matches!(stored.column_type, ColumnType::Array(_));
        if data.rows != rows || (header.values != rows && !is_list) || data.nulls > header.values {
            return Err(Error::damaged(format!("the page has {} rows, expected {rows}", data.rows)));
        }
        let (levels, values) =
            body.split_at_checked(data.level_bytes()).ok_or_else(|| Error::damaged("the page is too short"))?;
        let plain_bytes = header.plain_bytes.saturating_sub(data.level_bytes());
        let decompressed;
        let values = if data.compressed {
            decompressed = decompress(values, plain_bytes)?;
            &decompressed[..]
        } else {
            values
        };
        if let ColumnType::Array(element) = stored.column_type {
            let levels = PageLevels::take(levels, data, header.values, rows)?;
            let elements = header.values - data.nulls;
            let elements =
                self.values(stored, number_of_group, data.encoding, values, NullMask::default(), elements)?;
            return Ok(Page::Bytes(levels.arrays(element, &elements)?));
        }
        let nulls = match stored.nullable && data.nulls > 0 {
            true => encoding::take_levels(levels, rows)?,
            false => NullMask::default(),
        };
        if nulls.nulls() != data.nulls {
            return Err(Error::damaged("the page's levels do not match its header"));
        }
        if pack && data.nulls == 0 {
            let page = self.byte_values(stored, number_of_group, data.encoding, values, rows)?;
            if let Some(page) = page {
                return Ok(page);
            }
        }
        self.values(stored, number_of_group, data.encoding, values, nulls, rows)
    }

    /// Decodes the values of a page without NULLs straight into packed form; `None` if that form has
    /// more than a byte for each.
    fn byte_values(
        &self,
        stored: &StoredPages,
        number_of_group: usize,
        form: Encoding,
        values: &[u8],
        rows: usize,
    ) -> Result<Option<Page>> {
        let physical = Physical::of(stored.column_type);
        match form {
            Encoding::Dictionary => {
                let (width, codes) = encoding::code_width(values)?;
                if width > u8::BITS {
                    return Ok(None);
                }
                let dictionary = self.dictionary(stored, number_of_group)?;
                if physical.is_bytes() {
                    let codes = take_byte_codes(codes, rows, width, dictionary.len())?;
                    return Ok(Some(Page::Codes(Lane::of_bytes(0, codes), dictionary)));
                }
                let Some(of_bytes) = ByteDictionary::of(&dictionary.raw) else { return Ok(None) };
                let codes = take_byte_codes(codes, rows, width, dictionary.raw.len())?;
                Ok(Some(Page::Raw(of_bytes.values(&codes))))
            }
            Encoding::DeltaBinaryPacked if !physical.is_bytes() => {
                Ok(take_small_deltas(values, rows, physical)?.map(Page::Raw))
            }
            Encoding::ByteStreamSplit if !physical.is_bytes() => {
                Ok(take_lowest_bytes(values, rows, physical)?.map(Page::Raw))
            }
            _ => Ok(None),
        }
    }

    /// Decodes the values of `rows` rows of a page.
    fn values(
        &self,
        stored: &StoredPages,
        number_of_group: usize,
        form: Encoding,
        values: &[u8],
        nulls: NullMask,
        rows: usize,
    ) -> Result<Page> {
        let physical = Physical::of(stored.column_type);
        let len = rows - nulls.nulls();
        if form == Encoding::Dictionary {
            let dictionary = self.dictionary(stored, number_of_group)?;
            let (width, codes) = encoding::code_width(values)?;
            if physical.is_bytes() {
                let codes = encoding::take_codes(codes, len, width, dictionary.len())?;
                return Ok(Page::Codes(Lane::spread(codes, nulls, rows), dictionary));
            }
            let mut values = encoding::take_codes(codes, len, width, dictionary.raw.len())?;
            values.iter_mut().for_each(|code| *code = dictionary.raw[*code as usize]);
            return Ok(Page::Raw(Lane::spread(values, nulls, rows)));
        }
        Ok(match (form, physical) {
            (Encoding::Plain, physical) if physical.is_bytes() => {
                let mut rest = values;
                let mut bytes = BytesBuilder::with_capacity(rows, physical.text_bytes(values.len(), len));
                for row in 0..rows {
                    let value = if nulls.is_null(row) { None } else { Some(physical.take_bytes(&mut rest)?) };
                    bytes.push(value);
                }
                Page::Bytes(bytes)
            }
            (_, physical) if physical.is_bytes() => return Err(Error::damaged("text column with a numeric encoding")),
            (Encoding::DeltaBinaryPacked, _) => {
                Page::Raw(Lane::spread(encoding::take_delta(values, len, physical)?, nulls, rows))
            }
            (Encoding::ByteStreamSplit, _) => {
                Page::Raw(Lane::spread(encoding::take_byte_stream_split(values, len, physical)?, nulls, rows))
            }
            _ => Page::Raw(Lane::spread(encoding::take_plain(values, len, physical)?, nulls, rows)),
        })
    }

    fn dictionary(&self, stored: &StoredPages, row_group: usize) -> Result<Arc<Dictionary>> {
        let part = Part::Dictionary { column: stored.id.0, row_group: row_group as u32 };
        if let Some(Cached::Dictionary(dictionary)) = self.cache.get(self.id, part) {
            return Ok(dictionary);
        }
        let place = stored.groups.get(row_group).and_then(|group| group.dictionary);
        let (offset, bytes) = place.ok_or_else(|| Error::damaged("the dictionary is missing"))?;
        let page = self.file.read_at(offset, bytes)?;
        let (header, body) = checked(&page)?;
        let plain = decompress(body, header.plain_bytes)?;
        let mut dictionary = Dictionary { data: Vec::new(), ends: Vec::new(), raw: Vec::new() };
        match Physical::of(stored.column_type) {
            physical if physical.is_bytes() => {
                let mut rest = &plain[..];
                for _ in 0..header.values {
                    dictionary.data.extend_from_slice(physical.take_bytes(&mut rest)?);
                    dictionary.ends.push(dictionary.data.len());
                }
            }
            physical => dictionary.raw = encoding::take_plain(&plain, header.values, physical)?,
        }
        let dictionary = Arc::new(dictionary);
        self.cache.put(self.id, part, Cached::Dictionary(Arc::clone(&dictionary)));
        Ok(dictionary)
    }

    /// The columns in the file.
    pub(crate) fn column_ids(&self) -> impl Iterator<Item = ColumnId> {
        self.columns.iter().map(|stored| stored.id)
    }
}

/// A page's header and body, if the checksum matches.
fn checked(page: &[u8]) -> Result<(PageHeader, &[u8])> {
    let mut body = page;
    let header = PageHeader::read(&mut body)?;
    // The header has no checksum: it must equal what would be written for its contents.
    let mut again = Vec::new();
    header.write(&mut again);
    let lengths = body.len() == header.stored_bytes && header.plain_bytes <= MAX_PAGE_BYTES;
    if !lengths || page[..page.len() - body.len()] != again {
        return Err(Error::damaged("the page's header is damaged"));
    }
    if crc32fast::hash(body) != header.crc {
        return Err(Error::damaged("the page's checksum is wrong"));
    }
    Ok((header, body))
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
