//! The container index: each container's row range, its totals, and its last row.
//!
//! It follows the last row group in the segment's file: blocks of [`BLOCK_CONTAINERS`] containers
//! in key order, then a directory of the blocks, which the footer points to. A block (zstd) is:
//! number of containers (4 bytes); the keys, each prefixed by its length (4); lanes of row counts,
//! minimum and maximum times; a flag byte: 1 if fields follow. Then for each field, in column
//! order:
//! - if it is numeric: a flag byte, 1 if lanes follow: of value counts, minima, maxima and sums.
//!   Sums of integers have 64 bits; if one overflows, the lanes are absent.
//! - the values of the containers' last rows: for numbers, a lane; for text, a lane of lengths,
//!   then the bytes.
//!
//! The directory is: the first key, prefixed by its length (4); number of blocks (4); then for each
//! block: offset (8), stored bytes (4), plain bytes (4), CRC32C of the stored bytes (4), first row
//! (8), containers (4), its last key, prefixed by its length (4).

use super::amounts::{Amounts, Sum};
use super::compression::{compressor, decompress};
use crate::column::{BytesBuilder, ColumnBuilder};
use crate::column_type::{ColumnType, widen};
use crate::error::{Error, Result};
use crate::ids::ColumnId;
use crate::key::Keys;
use crate::lane::codec::{self, put_bytes, take, take_bytes, take_u32, take_u64};
use crate::lane::{Lane, NullMask};
use std::collections::VecDeque;
use std::ops::Range;
use zstd::bulk::Compressor;

/// Containers per block.
pub(crate) const BLOCK_CONTAINERS: usize = 128;
/// With fewer rows per container than this, reading the rows is as cheap as reading the block's
/// fields.
const MIN_ROWS_FOR_FIELDS: usize = 32;

/// One container of a segment, for the writer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) rows: usize,
    pub(crate) times: (i64, i64),
}

/// A field, for the index writer.
struct FieldEntries {
    column_type: ColumnType,
    /// Empty unless the field is numeric.
    amounts: VecDeque<Amounts>,
    last: VecDeque<LastValue>,
}

/// A value of a container's last row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LastValue<B = Vec<u8>> {
    Null,
    Raw(u64),
    Bytes(B),
}

/// Collects containers as rows are written, and turns them into blocks as they fill.
pub(crate) struct IndexWriter {
    /// Containers not yet in a block.
    entries: VecDeque<Entry>,
    fields: Vec<FieldEntries>,
    first_key: Vec<u8>,
    blocks: Vec<u8>,
    /// Its offsets are relative to `blocks`.
    directory: Vec<BlockEntry>,
    first_row: u64,
    containers: u64,
    times: (i64, i64),
    zstd: Compressor<'static>,
}

impl IndexWriter {
    /// An empty index for these fields.
    pub(crate) fn new(fields: impl Iterator<Item = ColumnType>) -> Result<Self> {
        let field = |column_type| FieldEntries { column_type, amounts: VecDeque::new(), last: VecDeque::new() };
        Ok(Self {
            entries: VecDeque::new(),
            fields: fields.map(field).collect(),
            first_key: Vec::new(),
            blocks: Vec::new(),
            directory: Vec::new(),
            first_row: 0,
            containers: 0,
            times: (i64::MAX, i64::MIN),
            zstd: compressor()?,
        })
    }

    /// Adds the containers of the next rows. The first may continue the last one already there.
    /// Returns for each its position, for [`add`](Self::add), and its number of rows.
    pub(crate) fn extend(&mut self, entries: &[Entry]) -> Vec<(usize, usize)> {
        let mut places = Vec::with_capacity(entries.len());
        for entry in entries {
            match self.entries.back_mut() {
                Some(last) if last.key == entry.key => {
                    last.rows += entry.rows;
                    last.times.1 = entry.times.1;
                }
                _ => {
                    if self.containers == 0 {
                        self.first_key.clone_from(&entry.key);
                    }
                    self.containers += 1;
                    self.entries.push_back(entry.clone());
                    for field in &mut self.fields {
                        if field.column_type.is_numeric() {
                            field.amounts.push_back(Amounts::none(field.column_type));
                        }
                        field.last.push_back(LastValue::Null);
                    }
                }
            }
            self.times = (self.times.0.min(entry.times.0), self.times.1.max(entry.times.1));
            places.push((self.entries.len() - 1, entry.rows));
        }
        places
    }

    /// Adds the values of a field (given by its index among the fields) for the rows of
    /// [`extend`](Self::extend). `text` returns the bytes for a code.
    pub(crate) fn add(&mut self, field: usize, places: &[(usize, usize)], lane: &Lane, text: &dyn Fn(u64) -> Vec<u8>) {
        let field = &mut self.fields[field];
        let column_type = field.column_type;
        let mut row = 0;
        for &(place, rows) in places {
            if let Some(total) = field.amounts.get_mut(place) {
                if let (Some(values), 0) = (lane.as_plain(), lane.nulls().nulls()) {
                    total.add_all(&values[row..row + rows], 0, true, column_type);
                } else {
                    let values = (row..row + rows).filter_map(|row| lane.get(row));
                    values.for_each(|value| total.add(value, column_type));
                }
            }
            row += rows;
            field.last[place] = match lane.get(row - 1) {
                None => LastValue::Null,
                Some(code) if column_type.is_bytes() => LastValue::Bytes(text(code)),
                Some(raw) => LastValue::Raw(raw),
            };
        }
    }

    /// Writes the full blocks. The last container is kept: more of its rows may follow.
    pub(crate) fn write_full(&mut self) -> Result<()> {
        while self.entries.len() > BLOCK_CONTAINERS {
            self.write_block(BLOCK_CONTAINERS)?;
        }
        Ok(())
    }

    fn write_block(&mut self, containers: usize) -> Result<()> {
        let block: Vec<Entry> = self.entries.drain(..containers).collect();
        let rows: usize = block.iter().map(|entry| entry.rows).sum();
        let with_fields = rows / containers >= MIN_ROWS_FOR_FIELDS;
        let mut plain = Vec::new();
        plain.extend_from_slice(&(containers as u32).to_le_bytes());
        block.iter().for_each(|entry| put_bytes(&mut plain, &entry.key));
        put_lane(&mut plain, block.iter().map(|entry| entry.rows as u64));
        put_lane(&mut plain, block.iter().map(|entry| entry.times.0 as u64));
        put_lane(&mut plain, block.iter().map(|entry| entry.times.1 as u64));
        plain.push(u8::from(with_fields));
        for field in &mut self.fields {
            let amounts: Vec<Amounts> = field.amounts.drain(..containers.min(field.amounts.len())).collect();
            let last: Vec<LastValue> = field.last.drain(..containers).collect();
            if with_fields {
                if field.column_type.is_numeric() {
                    put_amounts(&mut plain, &amounts);
                }
                put_last(&mut plain, &last, field.column_type);
            }
        }
        let stored = self.zstd.compress(&plain).map_err(|e| Error::bug(format!("zstd compression failed: {e}")))?;
        self.directory.push(BlockEntry {
            offset: self.blocks.len() as u64,
            stored_bytes: stored.len() as u32,
            plain_bytes: plain.len() as u32,
            crc: crc32c::crc32c(&stored),
            first_row: self.first_row,
            containers: containers as u32,
            last_key: block.last().map(|entry| entry.key.clone()).unwrap_or_default(),
        });
        self.first_row += rows as u64;
        self.blocks.extend_from_slice(&stored);
        Ok(())
    }

    /// Appends the blocks and the directory to `out`, which will be at `offset` in the file.
    pub(crate) fn finish(mut self, offset: u64, out: &mut Vec<u8>) -> Result<IndexFacts> {
        self.write_full()?;
        if !self.entries.is_empty() {
            self.write_block(self.entries.len())?;
        }
        let start = out.len();
        out.extend_from_slice(&self.blocks);
        let directory = out.len();
        put_bytes(out, &self.first_key);
        out.extend_from_slice(&(self.directory.len() as u32).to_le_bytes());
        for entry in &self.directory {
            out.extend_from_slice(&(offset + entry.offset).to_le_bytes());
            out.extend_from_slice(&entry.stored_bytes.to_le_bytes());
            out.extend_from_slice(&entry.plain_bytes.to_le_bytes());
            out.extend_from_slice(&entry.crc.to_le_bytes());
            out.extend_from_slice(&entry.first_row.to_le_bytes());
            out.extend_from_slice(&entry.containers.to_le_bytes());
            put_bytes(out, &entry.last_key);
        }
        Ok(IndexFacts {
            directory_offset: offset + (directory - start) as u64,
            directory_bytes: (out.len() - directory) as u64,
            directory_crc: crc32c::crc32c(&out[directory..]),
            rows: self.first_row,
            containers: self.containers,
            times: self.times,
        })
    }
}

/// What the footer needs from a finished index.
pub(crate) struct IndexFacts {
    pub(crate) directory_offset: u64,
    pub(crate) directory_bytes: u64,
    pub(crate) directory_crc: u32,
    pub(crate) rows: u64,
    pub(crate) containers: u64,
    pub(crate) times: (i64, i64),
}

fn put_lane(out: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
    codec::encode(&values.collect::<Vec<_>>(), &NullMask::default(), out);
}

fn put_amounts(out: &mut Vec<u8>, amounts: &[Amounts]) {
    let sums: Option<Vec<u64>> = amounts
        .iter()
        .map(|amounts| match amounts.sum {
            Sum::Float(sum) => Some(sum.to_bits()),
            Sum::Integer(sum) => i64::try_from(sum).ok().map(|sum| sum as u64),
        })
        .collect();
    out.push(u8::from(sums.is_some()));
    if let Some(sums) = sums {
        put_lane(out, amounts.iter().map(|amounts| amounts.count));
        put_lane(out, amounts.iter().map(|amounts| amounts.least));
        put_lane(out, amounts.iter().map(|amounts| amounts.most));
        put_lane(out, sums.into_iter());
    }
}

fn put_last(out: &mut Vec<u8>, last: &[LastValue], column_type: ColumnType) {
    let mut nulls = NullMask::default();
    let mut values = Vec::with_capacity(last.len());
    for (place, value) in last.iter().enumerate() {
        values.push(match value {
            LastValue::Raw(raw) => *raw,
            LastValue::Bytes(bytes) => bytes.len() as u64,
            LastValue::Null => {
                nulls.set(place, true);
                0
            }
        });
    }
    codec::encode(&values, &nulls, out);
    if column_type.is_bytes() {
        for value in last {
            if let LastValue::Bytes(bytes) = value {
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// A block's entry in the directory.
#[derive(Clone, Debug)]
pub(crate) struct BlockEntry {
    pub(crate) offset: u64,
    pub(crate) stored_bytes: u32,
    pub(crate) plain_bytes: u32,
    pub(crate) crc: u32,
    pub(crate) first_row: u64,
    pub(crate) containers: u32,
    pub(crate) last_key: Vec<u8>,
}

/// Reads the directory: the segment's first key, and the blocks.
pub(crate) fn read_directory(mut bytes: &[u8]) -> Result<(Vec<u8>, Vec<BlockEntry>)> {
    let bytes = &mut bytes;
    let first_key = take_bytes(bytes)?.to_vec();
    let blocks = take_u32(bytes)?;
    let mut entries = Vec::new();
    for _ in 0..blocks {
        entries.push(BlockEntry {
            offset: take_u64(bytes)?,
            stored_bytes: take_u32(bytes)?,
            plain_bytes: take_u32(bytes)?,
            crc: take_u32(bytes)?,
            first_row: take_u64(bytes)?,
            containers: take_u32(bytes)?,
            last_key: take_bytes(bytes)?.to_vec(),
        });
    }
    Ok((first_key, entries))
}

/// A decoded block.
pub(crate) struct IndexBlock {
    pub(crate) keys: Keys,
    /// The first row of each container, then the end of the last one.
    pub(crate) starts: Vec<u64>,
    pub(crate) times: Vec<(i64, i64)>,
    /// In column order; empty if the block has no fields.
    fields: Vec<FieldLanes>,
}

struct FieldLanes {
    id: ColumnId,
    column_type: ColumnType,
    amounts: Option<AmountLanes>,
    /// The values of the containers' last rows.
    last: ColumnBuilder,
}

struct AmountLanes {
    count: Lane,
    least: Lane,
    most: Lane,
    sum: Lane,
}

impl IndexBlock {
    /// Decodes a block whose checksum matched; `fields` are the segment's.
    pub(crate) fn read(
        stored: &[u8],
        entry: &BlockEntry,
        fields: impl Iterator<Item = (ColumnId, ColumnType)>,
    ) -> Result<Self> {
        let plain =
            decompress(stored, entry.plain_bytes as usize).map_err(|e| e.context("a block of the container index"))?;
        let mut bytes = &plain[..];
        let bytes = &mut bytes;
        let containers = take_u32(bytes)? as usize;
        if containers != entry.containers as usize || containers > BLOCK_CONTAINERS {
            return Err(Error::damaged("a block of the container index has the wrong number of containers"));
        }
        let mut keys = Keys::default();
        for _ in 0..containers {
            keys.push(take_bytes(bytes)?);
        }
        let rows = codec::decode(bytes, containers)?;
        let mut starts = Vec::with_capacity(containers + 1);
        let mut row = entry.first_row;
        starts.push(row);
        for i in 0..containers {
            row = row.saturating_add(rows.value(i));
            starts.push(row);
        }
        let (least, most) = (codec::decode(bytes, containers)?, codec::decode(bytes, containers)?);
        let times = (0..containers).map(|i| (least.value(i) as i64, most.value(i) as i64)).collect();
        let mut block = Self { keys, starts, times, fields: Vec::new() };
        if take::<1>(bytes)?[0] == 1 {
            for (id, column_type) in fields {
                block.fields.push(FieldLanes::read(bytes, id, column_type, containers)?);
            }
        }
        Ok(block)
    }

    fn field(&self, column: ColumnId) -> Option<&FieldLanes> {
        self.fields.iter().find(|field| field.id == column)
    }

    /// The totals of a container's values in a numeric field, if the block has them.
    pub(crate) fn amounts(&self, container: usize, column: ColumnId, column_type: ColumnType) -> Option<Amounts> {
        let field = self.field(column)?;
        let lanes = field.amounts.as_ref()?;
        let sum = lanes.sum.value(container);
        let stored = Amounts {
            count: lanes.count.value(container),
            least: lanes.least.value(container),
            most: lanes.most.value(container),
            sum: if field.column_type.is_float() {
                Sum::Float(f64::from_bits(sum))
            } else {
                Sum::Integer(i128::from(sum as i64))
            },
        };
        Some(stored.widened(field.column_type, column_type))
    }

    /// Whether the block has the last rows.
    pub(crate) fn knows_last(&self) -> bool {
        !self.fields.is_empty()
    }

    /// A field of a container's last row; NULL if the segment lacks the field.
    pub(crate) fn last(&self, container: usize, column: ColumnId, column_type: ColumnType) -> LastValue<&[u8]> {
        let Some(field) = self.field(column) else { return LastValue::Null };
        match &field.last {
            ColumnBuilder::Bytes(bytes) => bytes.get(container).map_or(LastValue::Null, LastValue::Bytes),
            ColumnBuilder::Raw(lane) => lane
                .get(container)
                .map_or(LastValue::Null, |raw| LastValue::Raw(widen(raw, field.column_type, column_type))),
        }
    }

    /// Appends a field of the last rows of containers; NULL if the segment lacks the field.
    pub(crate) fn push_last(
        &self,
        containers: Range<usize>,
        column: ColumnId,
        column_type: ColumnType,
        out: &mut ColumnBuilder,
    ) {
        let Some(field) = self.field(column) else { return out.push_raw(None, containers.len()) };
        let start = out.len();
        out.extend(&field.last, containers.start, containers.len());
        if field.column_type != column_type {
            out.widen(start, field.column_type, column_type);
        }
    }

    /// The bytes of the longest text field in the last rows of containers.
    pub(crate) fn last_text_bytes(&self, containers: Range<usize>) -> usize {
        let bytes_of = |field: &FieldLanes| match &field.last {
            ColumnBuilder::Bytes(bytes) => bytes.bytes_within(containers.start, containers.len()),
            ColumnBuilder::Raw(_) => 0,
        };
        self.fields.iter().map(bytes_of).max().unwrap_or(0)
    }

    /// Approximate bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.memory_bytes() + self.starts.len() * 24 + self.fields.iter().map(FieldLanes::bytes).sum::<usize>()
    }
}

impl FieldLanes {
    fn read(bytes: &mut &[u8], id: ColumnId, column_type: ColumnType, containers: usize) -> Result<Self> {
        let mut amounts = None;
        if column_type.is_numeric() && take::<1>(bytes)?[0] == 1 {
            amounts = Some(AmountLanes {
                count: codec::decode(bytes, containers)?.pack(),
                least: codec::decode(bytes, containers)?.pack(),
                most: codec::decode(bytes, containers)?.pack(),
                sum: codec::decode(bytes, containers)?.pack(),
            });
        }
        let values = codec::decode(bytes, containers)?;
        if !column_type.is_bytes() {
            return Ok(Self { id, column_type, amounts, last: ColumnBuilder::Raw(values.pack()) });
        }
        let mut last = BytesBuilder::with_capacity(containers, 0);
        for container in 0..containers {
            let Some(len) = values.get(container) else {
                last.push(None);
                continue;
            };
            let (text, rest) = bytes
                .split_at_checked(usize::try_from(len).unwrap_or(usize::MAX))
                .ok_or_else(|| Error::damaged("a block of the container index ends within a string"))?;
            last.push(Some(text));
            *bytes = rest;
        }
        Ok(Self { id, column_type, amounts, last: ColumnBuilder::Bytes(last) })
    }

    fn bytes(&self) -> usize {
        let lanes = |a: &AmountLanes| a.count.bytes() + a.least.bytes() + a.most.bytes() + a.sum.bytes();
        self.amounts.as_ref().map_or(0, lanes) + self.last.bytes()
    }
}
