//! Decodes values that need a byte each, as codes of small dictionaries and fields of a small range
//! do, straight into packed lanes, and not to 64 bits each first.

use super::encoding::{
    Physical, block_header, byte_streams, delta_header, outside_dictionary, take_codes_as, too_short,
};
use crate::error::Result;
use crate::lane::codec::unpack_bytes_to;
use crate::lane::{Lane, NullMask};

/// Decodes `len` codes of a dictionary with `entries` entries, of `width` bits each (at most 8).
pub(crate) fn take_byte_codes(bytes: &[u8], len: usize, width: u32, entries: usize) -> Result<Vec<u8>> {
    let unpack = |packed: &[u8], count, codes: &mut Vec<u8>| unpack_bytes_to(packed, count, width, codes);
    take_codes_as(bytes, (len, width, entries), unpack, |code| u8::try_from(code).map_err(|_| outside_dictionary()))
}

/// Decodes `len` BYTE_STREAM_SPLIT values that differ in their lowest byte alone; `None` if they do not.
pub(crate) fn take_lowest_bytes(bytes: &[u8], len: usize, physical: Physical) -> Result<Option<Lane>> {
    let mut streams = byte_streams(bytes, len, physical)?;
    let Some(lowest) = streams.next() else { return Ok(None) };
    let mut base = 0;
    for (place, stream) in streams.enumerate() {
        if stream[1..] != stream[..len - 1] {
            return Ok(None);
        }
        base |= u64::from(stream[0]) << (u8::BITS as usize * (place + 1));
    }
    let base = if matches!(physical, Physical::Four { .. }) { physical.widen(base as u32) } else { base };
    Ok(Some(Lane::of_bytes(base, lowest.to_vec())))
}

/// A numeric dictionary whose values are a byte each, added to the least one.
pub(crate) struct ByteDictionary {
    least: u64,
    bytes: [u8; 1 << u8::BITS],
}

impl ByteDictionary {
    /// Takes the first 256 values of a dictionary, which codes of a byte stand for; `None` if they need
    /// more than a byte themselves.
    pub(crate) fn of(dictionary: &[u64]) -> Option<Self> {
        let least = dictionary.iter().map(|&value| value as i64).min()? as u64;
        let mut bytes = [0; 1 << u8::BITS];
        for (byte, value) in bytes.iter_mut().zip(dictionary) {
            *byte = u8::try_from(value.wrapping_sub(least)).ok()?;
        }
        Some(Self { least, bytes })
    }

    /// The values that these codes stand for.
    pub(crate) fn values(&self, codes: &[u8]) -> Lane {
        Lane::of_bytes(self.least, codes.iter().map(|&code| self.bytes[usize::from(code)]).collect())
    }
}

/// The most values whose sums of differences do not overflow.
const MAX_VALUES: usize = 1 << 15;

/// Decodes `len` DELTA_BINARY_PACKED values whose differences are small; `None` if they are not.
pub(crate) fn take_small_deltas(mut bytes: &[u8], len: usize, physical: Physical) -> Result<Option<Lane>> {
    let bytes = &mut bytes;
    let (mini_values, first) = delta_header(bytes, len)?;
    if len == 0 || len > MAX_VALUES {
        return Ok(None);
    }
    // The differences from the first value.
    let mut sums: Vec<i32> = Vec::with_capacity(len);
    sums.push(0);
    let (mut sum, mut unpacked) = (0, Vec::with_capacity(mini_values));
    while sums.len() < len {
        let (least, widths) = block_header(bytes)?;
        let Ok(least) = i16::try_from(least).map(i32::from) else { return Ok(None) };
        for width in widths.map(u32::from) {
            let (from, take) = (sums.len(), mini_values.min(len - sums.len()));
            if take == 0 {
                break;
            }
            if width > u8::BITS {
                return Ok(None);
            }
            let stored = mini_values * width as usize / 8;
            let (packed, rest) = bytes.split_at_checked(stored).ok_or_else(too_short)?;
            *bytes = rest;
            unpacked.clear();
            let small = match width {
                0 => {
                    unpacked.resize(mini_values, 0);
                    &unpacked[..]
                }
                u8::BITS => packed,
                _ => {
                    unpack_bytes_to(packed, mini_values, width, &mut unpacked)?;
                    &unpacked[..]
                }
            };
            sums.resize(from + take, 0);
            for (at, &small) in sums[from..].iter_mut().zip(small) {
                sum += least + i32::from(small);
                *at = sum;
            }
        }
    }
    let raw = |sum: i32| {
        let value = first.wrapping_add(sum as u64);
        if matches!(physical, Physical::Four { .. }) { physical.widen(value as u32) } else { value }
    };
    let (low, high) = sums.iter().fold((0, 0), |(low, high), &sum| (sum.min(low), sum.max(high)));
    let spans_a_byte = high - low <= i32::from(u8::MAX) && raw(high).wrapping_sub(raw(low)) == (high - low) as u64;
    Ok(Some(if spans_a_byte {
        Lane::of_bytes(raw(low), sums.iter().map(|sum| (sum - low) as u8).collect())
    } else {
        Lane::plain(sums.into_iter().map(raw).collect(), NullMask::default())
    }))
}

#[cfg(test)]
#[path = "byte_values_tests.rs"]
mod tests;
