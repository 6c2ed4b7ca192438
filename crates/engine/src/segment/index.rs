//! The container index: which rows of a segment are whose, and what they amount to.
//!
//! Behind the last row group, in the segment's file: blocks of [`BLOCK_CONTAINERS`] containers in key
//! order, then a directory of the blocks, which the footer points at. A block (zstd) is: containers
//! (4 bytes); the keys, each with its length (4) in front; lanes of row counts, least and largest
//! times; a flag byte: 1 if statistics follow; then for each numeric field, in column order: lanes
//! of the count of values, least, largest, and sum. Sums of integers are 64 bits; if one overflows, its
//! column's flag byte in front of the lanes is 0 and the lanes are absent.
//! The directory is: the first key with its length (4) in front; blocks (4), then for each: offset (8), stored bytes (4), plain bytes (4), CRC32C
//! of the stored bytes (4), first row (8), containers (4), its last key with its length (4) in front.

use crate::error::{Error, Result};
use crate::lane::codec::{self, put_bytes, take, take_bytes, take_u32, take_u64};
use crate::lane::{Lane, NullMask};
use crate::schema::ColumnType;

/// Containers in a block.
pub(crate) const BLOCK_CONTAINERS: usize = 128;
/// Below this many rows a container, reading the rows is as cheap as reading statistics.
const LEAST_ROWS_FOR_STATISTICS: usize = 32;

/// What a container's values of one column amount to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Amounts {
    /// Values that are not NULL.
    pub(crate) count: u64,
    /// The least value, raw; meaningless if there is no value.
    pub(crate) least: u64,
    /// The largest value, raw.
    pub(crate) most: u64,
    pub(crate) sum: Sum,
}

/// A sum, exact for integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sum {
    Integer(i128),
    Float(f64),
}

impl Amounts {
    pub(crate) fn none(column_type: ColumnType) -> Self {
        let sum = if column_type.is_float() { Sum::Float(0.0) } else { Sum::Integer(0) };
        Self { count: 0, least: 0, most: 0, sum }
    }

    /// Adds one value.
    pub(crate) fn add(&mut self, raw: u64, column_type: ColumnType) {
        if self.count == 0 || is_less(raw, self.least, column_type) {
            self.least = raw;
        }
        if self.count == 0 || is_less(self.most, raw, column_type) {
            self.most = raw;
        }
        self.count += 1;
        match &mut self.sum {
            Sum::Float(sum) => *sum += as_float(raw, column_type),
            Sum::Integer(sum) => *sum += as_integer(raw, column_type),
        }
    }

    /// Adds values of which none is NULL.
    pub(crate) fn add_all(&mut self, raws: &[u64], column_type: ColumnType) {
        if column_type.is_float() || column_type == ColumnType::UInt64 {
            return raws.iter().for_each(|&raw| self.add(raw, column_type));
        }
        let Some(&first) = raws.first() else { return };
        let (mut least, mut most, mut sum) = (first as i64, first as i64, 0i128);
        for &raw in raws {
            least = least.min(raw as i64);
            most = most.max(raw as i64);
            sum += i128::from(raw as i64);
        }
        let (least, most) = (least as u64, most as u64);
        self.merge(&Self { count: raws.len() as u64, least, most, sum: Sum::Integer(sum) }, column_type);
    }

    /// Adds what other values of the same column amount to.
    pub(crate) fn merge(&mut self, other: &Self, column_type: ColumnType) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 || is_less(other.least, self.least, column_type) {
            self.least = other.least;
        }
        if self.count == 0 || is_less(self.most, other.most, column_type) {
            self.most = other.most;
        }
        self.count += other.count;
        match (&mut self.sum, other.sum) {
            (Sum::Float(sum), Sum::Float(other)) => *sum += other,
            (Sum::Integer(sum), Sum::Integer(other)) => *sum += other,
            // Both come from the same column type.
            _ => debug_assert!(false, "sums of two kinds"),
        }
    }
}

pub(crate) fn as_float(raw: u64, column_type: ColumnType) -> f64 {
    match column_type {
        ColumnType::Float32 => f64::from(f32::from_bits(raw as u32)),
        _ => f64::from_bits(raw),
    }
}

pub(crate) fn as_integer(raw: u64, column_type: ColumnType) -> i128 {
    match column_type {
        ColumnType::UInt64 => i128::from(raw),
        _ => i128::from(raw as i64),
    }
}

/// The order of values; NaN is the largest float.
fn is_less(a: u64, b: u64, column_type: ColumnType) -> bool {
    if column_type.is_float() {
        let (a, b) = (as_float(a, column_type), as_float(b, column_type));
        a < b || (b.is_nan() && !a.is_nan())
    } else {
        as_integer(a, column_type) < as_integer(b, column_type)
    }
}

/// One container of a segment, as the writer knows it.
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) rows: usize,
    pub(crate) times: (i64, i64),
}

/// Writes the blocks and then the directory to `out`, which stands at `offset` of the file. Gives the
/// directory's offset.
pub(crate) fn write(
    entries: &[Entry],
    amounts: &[(ColumnType, Vec<Amounts>)],
    offset: u64,
    out: &mut Vec<u8>,
) -> Result<u64> {
    let rows: usize = entries.iter().map(|entry| entry.rows).sum();
    let with_amounts = rows / entries.len().max(1) >= LEAST_ROWS_FOR_STATISTICS;
    let mut directory = Vec::new();
    put_bytes(&mut directory, entries.first().map_or(&[], |entry| &entry.key));
    let blocks = entries.len().div_ceil(BLOCK_CONTAINERS);
    directory.extend_from_slice(&(blocks as u32).to_le_bytes());
    let mut first_row = 0u64;
    for (number, block) in entries.chunks(BLOCK_CONTAINERS).enumerate() {
        let mut plain = Vec::new();
        plain.extend_from_slice(&(block.len() as u32).to_le_bytes());
        block.iter().for_each(|entry| put_bytes(&mut plain, &entry.key));
        put_lane(&mut plain, block.iter().map(|entry| entry.rows as u64));
        put_lane(&mut plain, block.iter().map(|entry| entry.times.0 as u64));
        put_lane(&mut plain, block.iter().map(|entry| entry.times.1 as u64));
        plain.push(u8::from(with_amounts));
        if with_amounts {
            let first = number * BLOCK_CONTAINERS;
            for (_, amounts) in amounts {
                put_amounts(&mut plain, &amounts[first..first + block.len()]);
            }
        }
        let stored =
            zstd::bulk::compress(&plain, 1).map_err(|e| Error::bug(format!("zstd refused to compress: {e}")))?;
        directory.extend_from_slice(&(offset + out.len() as u64).to_le_bytes());
        directory.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        directory.extend_from_slice(&(plain.len() as u32).to_le_bytes());
        directory.extend_from_slice(&crc32c::crc32c(&stored).to_le_bytes());
        directory.extend_from_slice(&first_row.to_le_bytes());
        directory.extend_from_slice(&(block.len() as u32).to_le_bytes());
        put_bytes(&mut directory, block.last().map_or(&[], |entry| &entry.key));
        first_row += block.iter().map(|entry| entry.rows as u64).sum::<u64>();
        out.extend_from_slice(&stored);
    }
    let directory_offset = offset + out.len() as u64;
    out.extend_from_slice(&directory);
    Ok(directory_offset)
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

/// A block's line in the directory.
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

/// A block, decoded.
pub(crate) struct IndexBlock {
    pub(crate) keys: Vec<Vec<u8>>,
    /// One more than there are containers: where each begins, and where the last ends.
    pub(crate) starts: Vec<u64>,
    pub(crate) times: Vec<(i64, i64)>,
    /// By numeric field in column order; `None` where there are no statistics.
    amounts: Vec<Option<AmountLanes>>,
}

struct AmountLanes {
    count: Lane,
    least: Lane,
    most: Lane,
    sum: Lane,
}

impl IndexBlock {
    /// Reads a block whose checksum was right.
    pub(crate) fn read(stored: &[u8], entry: &BlockEntry, numeric_fields: usize) -> Result<Self> {
        let plain = zstd::bulk::decompress(stored, entry.plain_bytes as usize)
            .map_err(|e| Error::damaged(format!("a block of the container index does not decompress: {e}")))?;
        let mut bytes = &plain[..];
        let bytes = &mut bytes;
        let containers = take_u32(bytes)? as usize;
        if containers != entry.containers as usize || containers > BLOCK_CONTAINERS {
            return Err(Error::damaged("a block of the container index has another number of containers"));
        }
        let mut keys = Vec::with_capacity(containers);
        for _ in 0..containers {
            keys.push(take_bytes(bytes)?.to_vec());
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
        let mut amounts = Vec::with_capacity(numeric_fields);
        if take::<1>(bytes)?[0] == 1 {
            for _ in 0..numeric_fields {
                amounts.push(if take::<1>(bytes)?[0] == 1 {
                    Some(AmountLanes {
                        count: codec::decode(bytes, containers)?,
                        least: codec::decode(bytes, containers)?,
                        most: codec::decode(bytes, containers)?,
                        sum: codec::decode(bytes, containers)?,
                    })
                } else {
                    None
                });
            }
        }
        Ok(Self { keys, starts, times, amounts })
    }

    /// What a container's values of a numeric field amount to, if that is known.
    pub(crate) fn amounts(&self, container: usize, field: usize, column_type: ColumnType) -> Option<Amounts> {
        let lanes = self.amounts.get(field)?.as_ref()?;
        let sum = lanes.sum.value(container);
        Some(Amounts {
            count: lanes.count.value(container),
            least: lanes.least.value(container),
            most: lanes.most.value(container),
            sum: if column_type.is_float() {
                Sum::Float(f64::from_bits(sum))
            } else {
                Sum::Integer(i128::from(sum as i64))
            },
        })
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let lanes = |a: &AmountLanes| a.count.bytes() + a.least.bytes() + a.most.bytes() + a.sum.bytes();
        self.keys.iter().map(|key| key.capacity() + 24).sum::<usize>()
            + self.starts.len() * 24
            + self.amounts.iter().flatten().map(lanes).sum::<usize>()
    }
}
