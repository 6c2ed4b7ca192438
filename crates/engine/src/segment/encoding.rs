//! Parquet's value encodings, for the physical types that segments use.
//!
//! PLAIN, BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, and the RLE / bit-packing hybrid for definition
//! levels and dictionary codes, as the Apache Parquet format defines them ("Encodings.md"). Values
//! are raw 64-bit numbers; [`Physical`] says how many of their bytes are stored.

use super::page_header::{put_varint, take_varint};
use crate::column_type::{ColumnType, UUID_BYTES};
use crate::error::{Error, Result};
use crate::lane::codec::{pack_bits, put_bytes, take, take_bytes, unpack_bits, unpack_bits_to};
use crate::lane::{NullMask, lowest_bits};
use parquet::basic::Type;
use std::slice::ChunksExact;

/// How a column's values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Physical {
    Bit,
    /// 4 bytes; sign- or zero-extended when read.
    Four {
        signed: bool,
    },
    Eight,
    /// Bytes behind their length.
    Bytes,
    /// As many bytes for each value.
    Fixed,
}

impl Physical {
    pub(crate) fn of(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean => Self::Bit,
            ColumnType::Int8 | ColumnType::Int16 | ColumnType::Int32 | ColumnType::Date32 => {
                Self::Four { signed: true }
            }
            ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::Float32 => {
                Self::Four { signed: false }
            }
            // As Parquet's readers expect it; see "DECIMAL" in Parquet's logical types.
            ColumnType::Decimal { precision: ..=9, .. } => Self::Four { signed: true },
            ColumnType::Utf8 | ColumnType::Json | ColumnType::Jsonb | ColumnType::Binary => Self::Bytes,
            ColumnType::Uuid => Self::Fixed,
            // Its elements are stored.
            ColumnType::Array(element) => Self::of(element.column_type()),
            _ => Self::Eight,
        }
    }

    /// Whether values are bytes, not raw values.
    pub(crate) fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::Fixed)
    }

    /// Appends bytes as PLAIN.
    pub(crate) fn put_bytes(self, out: &mut Vec<u8>, bytes: &[u8]) {
        match self {
            Self::Fixed => out.extend_from_slice(bytes),
            _ => put_bytes(out, bytes),
        }
    }

    /// Takes a PLAIN value of bytes.
    pub(crate) fn take_bytes<'a>(self, bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
        match self {
            Self::Fixed => {
                let (value, rest) = bytes.split_at_checked(UUID_BYTES).ok_or_else(too_short)?;
                *bytes = rest;
                Ok(value)
            }
            _ => take_bytes(bytes),
        }
    }

    /// The bytes of this many PLAIN values of bytes without their lengths.
    pub(crate) fn text_bytes(self, stored_bytes: usize, values: usize) -> usize {
        match self {
            Self::Fixed => stored_bytes,
            _ => stored_bytes.saturating_sub(size_of::<u32>() * values),
        }
    }

    /// The raw value of 4 stored bytes.
    pub(super) fn widen(self, value: u32) -> u64 {
        match self {
            Self::Four { signed: true } => value as i32 as u64,
            _ => u64::from(value),
        }
    }
}

/// The Parquet type of a column's values; of an array's elements.
pub(crate) fn parquet_type(column_type: ColumnType) -> Type {
    let is_float = match column_type {
        ColumnType::Array(element) => element.column_type().is_float(),
        other => other.is_float(),
    };
    match Physical::of(column_type) {
        Physical::Bit => Type::BOOLEAN,
        Physical::Four { .. } if is_float => Type::FLOAT,
        Physical::Four { .. } => Type::INT32,
        Physical::Eight if is_float => Type::DOUBLE,
        Physical::Eight => Type::INT64,
        Physical::Bytes => Type::BYTE_ARRAY,
        Physical::Fixed => Type::FIXED_LEN_BYTE_ARRAY,
    }
}

/// Encodes values as PLAIN.
pub(crate) fn put_plain(values: &[u64], physical: Physical, out: &mut Vec<u8>) {
    match physical {
        Physical::Bit => pack_bits(values.iter().copied(), 1, out),
        Physical::Four { .. } => {
            values.iter().for_each(|&v| out.extend_from_slice(&(v as u32).to_le_bytes()));
        }
        _ => values.iter().for_each(|&v| out.extend_from_slice(&v.to_le_bytes())),
    }
}

/// Decodes `len` PLAIN values.
pub(crate) fn take_plain(mut bytes: &[u8], len: usize, physical: Physical) -> Result<Vec<u64>> {
    match physical {
        Physical::Bit => unpack_bits(&mut bytes, len, 1),
        Physical::Four { .. } => {
            let (chunks, _) = bytes.as_chunks::<4>();
            let chunks = chunks.get(..len).ok_or_else(too_short)?;
            Ok(chunks.iter().map(|&c| physical.widen(u32::from_le_bytes(c))).collect())
        }
        _ => {
            let (chunks, _) = bytes.as_chunks::<8>();
            let chunks = chunks.get(..len).ok_or_else(too_short)?;
            Ok(chunks.iter().map(|&c| u64::from_le_bytes(c)).collect())
        }
    }
}

/// Writes the first byte of each value, then the second byte of each, and so on.
pub(crate) fn put_byte_stream_split(values: &[u64], physical: Physical, out: &mut Vec<u8>) {
    let width = if matches!(physical, Physical::Four { .. }) { 4 } else { 8 };
    for byte in 0..width {
        out.extend(values.iter().map(|&v| (v >> (8 * byte)) as u8));
    }
}

/// Decodes `len` BYTE_STREAM_SPLIT values.
pub(crate) fn take_byte_stream_split(bytes: &[u8], len: usize, physical: Physical) -> Result<Vec<u64>> {
    let mut values = vec![0u64; len];
    for (byte, stream) in byte_streams(bytes, len, physical)?.enumerate() {
        for (value, &part) in values.iter_mut().zip(stream) {
            *value |= u64::from(part) << (8 * byte);
        }
    }
    if matches!(physical, Physical::Four { .. }) {
        values.iter_mut().for_each(|value| *value = physical.widen(*value as u32));
    }
    Ok(values)
}

/// The first bytes of `len` BYTE_STREAM_SPLIT values, their second bytes, and so on; nothing without values.
pub(super) fn byte_streams(bytes: &[u8], len: usize, physical: Physical) -> Result<ChunksExact<'_, u8>> {
    let width = if matches!(physical, Physical::Four { .. }) { 4 } else { 8 };
    if bytes.len() != len * width {
        return Err(too_short());
    }
    Ok(bytes.chunks_exact(len.max(1)))
}

/// Values per block of differences: the minimum that the format allows.
const TIGHT_BLOCK: usize = 128;
/// For differences in whole bytes, one width per 256 values suffices.
const WHOLE_BYTES_BLOCK: usize = 1024;
/// Bit widths per block.
const MINIS: usize = 4;

/// Encodes each value's difference from the previous one, in blocks with 4 bit widths each.
///
/// With `whole_bytes`, all blocks share one frame of reference and have widths of whole bytes,
/// which the format allows. Equal differences are then equal bytes, and zstd compresses noisy
/// random walks better than tight widths would.
pub(crate) fn put_delta(values: &[u64], physical: Physical, whole_bytes: bool, out: &mut Vec<u8>) {
    let four = matches!(physical, Physical::Four { .. });
    let block_values = if whole_bytes { WHOLE_BYTES_BLOCK } else { TIGHT_BLOCK };
    let mini_values = block_values / MINIS;
    put_varint(out, block_values as u64);
    put_varint(out, MINIS as u64);
    put_varint(out, values.len() as u64);
    let Some(&first) = values.first() else {
        put_varint(out, 0);
        return;
    };
    put_varint(out, zigzag(if four { i64::from(first as i32) } else { first as i64 }));
    let difference = |value: u64, before: u64| {
        let difference = value.wrapping_sub(before) as i64;
        if four { i64::from(difference as i32) } else { difference }
    };
    let small = |delta: i64, least: i64| {
        let small = delta.wrapping_sub(least) as u64;
        if four { small & 0xffff_ffff } else { small }
    };
    let least_of_all = values.windows(2).map(|pair| difference(pair[1], pair[0])).min().unwrap_or(0);
    let mut deltas = [0i64; WHOLE_BYTES_BLOCK];
    let mut before = first;
    for block in values[1..].chunks(block_values) {
        let mut least = i64::MAX;
        for (delta, &value) in deltas.iter_mut().zip(block) {
            *delta = difference(value, before);
            least = least.min(*delta);
            before = value;
        }
        if whole_bytes {
            least = least_of_all;
        }
        put_varint(out, zigzag(least));
        let widths_at = out.len();
        out.extend_from_slice(&[0; MINIS]);
        for (mini, deltas) in deltas[..block.len()].chunks(mini_values).enumerate() {
            let small = |&delta: &i64| small(delta, least);
            let mut width = 64 - deltas.iter().fold(0, |most, d| most | small(d)).leading_zeros();
            if whole_bytes {
                width = width.next_multiple_of(8);
            }
            out[widths_at + mini] = width as u8;
            if width > 0 {
                let padding = std::iter::repeat_n(0, mini_values - deltas.len());
                pack_bits(deltas.iter().map(small).chain(padding), width, out);
            }
        }
    }
}

/// Takes the header of `len` DELTA_BINARY_PACKED values: how many values have one bit width, and the
/// first value.
pub(super) fn delta_header(bytes: &mut &[u8], len: usize) -> Result<(usize, u64)> {
    let mut number = || take_varint(bytes).ok_or_else(too_short);
    let block_values = number()?;
    let known = [TIGHT_BLOCK, WHOLE_BYTES_BLOCK].contains(&(block_values as usize));
    if !known || number()? != MINIS as u64 || number()? != len as u64 {
        return Err(Error::damaged("invalid header of delta-packed values"));
    }
    Ok((block_values as usize / MINIS, unzigzag(number()?) as u64))
}

/// Takes the header of a block of differences: the least one, and the bit widths of the differences
/// minus the least one.
pub(super) fn block_header(bytes: &mut &[u8]) -> Result<(i64, [u8; MINIS])> {
    let least = unzigzag(take_varint(bytes).ok_or_else(too_short)?);
    Ok((least, take(bytes)?))
}

/// Decodes `len` DELTA_BINARY_PACKED values.
pub(crate) fn take_delta(mut bytes: &[u8], len: usize, physical: Physical) -> Result<Vec<u64>> {
    let bytes = &mut bytes;
    let (mini_values, mut value) = delta_header(bytes, len)?;
    let mut values = Vec::with_capacity(len + mini_values);
    if len > 0 {
        values.push(value);
    }
    while values.len() < len {
        let (least, widths) = block_header(bytes)?;
        let least = least as u64;
        for width in widths {
            let take = mini_values.min(len - values.len());
            if take == 0 {
                break;
            }
            let from = values.len();
            match width {
                0 => values.resize(from + take, 0),
                // Noisy walks have one-byte differences; these are summed as they are read.
                8 => {
                    let (packed, rest) = bytes.split_at_checked(mini_values).ok_or_else(too_short)?;
                    *bytes = rest;
                    values.resize(from + take, 0);
                    for (sum, &small) in values[from..].iter_mut().zip(packed) {
                        value = value.wrapping_add(least.wrapping_add(u64::from(small)));
                        *sum = value;
                    }
                    continue;
                }
                _ => {
                    unpack_bits_to(bytes, mini_values, u32::from(width), &mut values)?;
                    values.truncate(from + take);
                }
            }
            for small in &mut values[from..] {
                value = value.wrapping_add(least.wrapping_add(*small));
                *small = value;
            }
        }
    }
    if matches!(physical, Physical::Four { .. }) {
        values.iter_mut().for_each(|value| *value = physical.widen(*value as u32));
    }
    Ok(values)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Encodes small numbers of `width` bits as runs of one value and sequences of packed values.
pub(crate) fn put_hybrid(values: &[u64], width: u32, out: &mut Vec<u8>) {
    let mut at = 0;
    let mut packed_from = 0;
    while at < values.len() {
        let run = values[at..].iter().take_while(|&&v| v == values[at]).count();
        // A packed sequence has a multiple of 8 values, so a run can begin only at such a position.
        let into_stretch = (8 - (at - packed_from) % 8) % 8;
        if run >= into_stretch + 8 {
            let start = at + into_stretch;
            put_packed(&values[packed_from..start], width, out);
            put_varint(out, ((run - into_stretch) as u64) << 1);
            let bytes = width.div_ceil(8) as usize;
            out.extend_from_slice(&values[at].to_le_bytes()[..bytes]);
            at += run;
            packed_from = at;
        } else {
            at += run;
        }
    }
    put_packed(&values[packed_from..], width, out);
}

fn put_packed(values: &[u64], width: u32, out: &mut Vec<u8>) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    put_varint(out, (groups as u64) << 1 | 1);
    let padding = std::iter::repeat_n(0, groups * 8 - values.len());
    if width > 0 {
        pack_bits(values.iter().copied().chain(padding), width, out);
    }
}

/// A piece of a hybrid encoding. With a width of 0, it is a run of zeros.
enum Piece<'a> {
    Run(u64),
    Packed(&'a [u8]),
}

/// Takes the next piece, and its number of values, at most `left`.
fn take_piece<'a>(bytes: &mut &'a [u8], left: usize, width: u32) -> Result<(Piece<'a>, usize)> {
    let head = take_varint(bytes).ok_or_else(too_short)?;
    let count = usize::try_from(head >> 1).map_err(|_| too_short())?;
    if count == 0 {
        return Err(Error::damaged("an empty run of codes"));
    }
    let is_packed = head & 1 == 1;
    // Packed values come in groups of eight, and a group takes `width` bytes.
    let (size, count) = match is_packed {
        true => (count.saturating_mul(width as usize), count.saturating_mul(8)),
        false => (width.div_ceil(8) as usize, count),
    };
    let (stored, rest) = bytes.split_at_checked(size).ok_or_else(too_short)?;
    *bytes = rest;
    if is_packed && width > 0 {
        return Ok((Piece::Packed(stored), count.min(left)));
    }
    let mut value = [0; 8];
    value.get_mut(..size).ok_or_else(too_short)?.copy_from_slice(stored);
    Ok((Piece::Run(u64::from_le_bytes(value)), count.min(left)))
}

/// Takes the width in bits of a dictionary's codes, which stands before them.
pub(super) fn code_width(values: &[u8]) -> Result<(u32, &[u8])> {
    let (&width, codes) = values.split_first().ok_or_else(too_short)?;
    Ok((u32::from(width), codes))
}

/// Decodes `len` codes of a dictionary with `entries` entries.
pub(crate) fn take_codes(bytes: &[u8], len: usize, width: u32, entries: usize) -> Result<Vec<u64>> {
    let unpack = |mut packed: &[u8], count, codes: &mut Vec<u64>| unpack_bits_to(&mut packed, count, width, codes);
    take_codes_as(bytes, (len, width, entries), unpack, Ok)
}

/// Decodes codes into another type, given how to unpack some and how to convert one.
pub(super) fn take_codes_as<T: Copy + Into<u64>>(
    mut bytes: &[u8],
    (len, width, entries): (usize, u32, usize),
    unpack: impl Fn(&[u8], usize, &mut Vec<T>) -> Result<()>,
    convert: impl Fn(u64) -> Result<T>,
) -> Result<Vec<T>> {
    let mut codes = Vec::with_capacity(len);
    while codes.len() < len {
        let from = codes.len();
        // A run has only one code to check.
        let looked_at = match take_piece(&mut bytes, len - from, width)? {
            (Piece::Packed(packed), count) => {
                unpack(packed, count, &mut codes)?;
                from..codes.len()
            }
            (Piece::Run(code), count) => {
                codes.resize(from + count, convert(code)?);
                from..from + 1
            }
        };
        if codes[looked_at].iter().any(|&code| code.into() >= entries as u64) {
            return Err(outside_dictionary());
        }
    }
    Ok(codes)
}

/// Decodes `len` one-bit definition levels; level 0 is NULL.
pub(crate) fn take_levels(mut bytes: &[u8], len: usize) -> Result<NullMask> {
    let mut nulls = NullMask::default();
    let mut at = 0;
    while at < len {
        let (piece, count) = take_piece(&mut bytes, len - at, 1)?;
        for from in (0..count).step_by(64) {
            let levels = match piece {
                Piece::Run(0) => 0,
                Piece::Run(_) => u64::MAX,
                Piece::Packed(packed) => first_word(&packed[from / 8..]),
            };
            nulls.mark(at + from, !levels & lowest_bits(count - from));
        }
        at += count;
    }
    Ok(nulls)
}

/// The first eight bytes, or fewer, as a number.
fn first_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}

pub(super) fn outside_dictionary() -> Error {
    Error::damaged("a code is outside the dictionary")
}

pub(super) fn too_short() -> Error {
    Error::damaged("the page ends within its values")
}

#[cfg(test)]
#[path = "encoding_tests.rs"]
pub(super) mod tests;
