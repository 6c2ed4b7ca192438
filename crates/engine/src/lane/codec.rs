//! The encoding of lanes, in the WAL and in a segment's container index.
//!
//! A lane is: a form byte (bit 7: a NULL mask follows), then
//! - form 0, constant: the value (8 bytes);
//! - form 1, steps: the first value and the step (8 bytes each), `value[i] = first + i * step`;
//! - form 2, frame of reference: base, scale (8 bytes each), width in bits (1 byte), then
//!   `(value - base) / scale` in `width` bits each, lowest bits first, padded to whole bytes;
//!
//! then, if bit 7 is set, the NULL mask: one bit per value, lowest first, padded to whole bytes.
//! All numbers are little-endian. The reader knows the number of values. (Frame of reference:
//! Goldstein, Ramakrishnan, Shaft, "Compressing relations and indexes", ICDE 1998.)

use super::{Lane, NullMask};
use crate::error::{Error, Result};

const CONSTANT: u8 = 0;
const STEPS: u8 = 1;
const FRAME: u8 = 2;
const HAS_NULLS: u8 = 0x80;

/// `value = base + scale * small` for all values of a lane, with `small` below `2^width_bits`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) base: u64,
    pub(crate) scale: u64,
    /// The largest `small`.
    most: u64,
    by_scale: ExactDivision,
}

impl Frame {
    /// The frame of these values, taken as signed numbers.
    pub(crate) fn of(values: &[u64]) -> Self {
        let Some(&first) = values.first() else {
            return Self::constant(0);
        };
        let (mut least, mut most) = (first as i64, first as i64);
        for &value in values {
            least = least.min(value as i64);
            most = most.max(value as i64);
        }
        if least == most {
            return Self::constant(first);
        }
        let base = least as u64;
        let span = (most as u64).wrapping_sub(base);
        let mut by_scale = ExactDivision::by(1);
        // A search for a common factor pays only where plain differences are wide: for timestamps.
        if span >> 16 != 0 {
            by_scale = ExactDivision::by(span);
            for &value in values {
                let difference = value.wrapping_sub(base);
                if !by_scale.divides(difference) {
                    by_scale = ExactDivision::by(greatest_common_divisor(difference, by_scale.divisor));
                    if by_scale.divisor == 1 {
                        break;
                    }
                }
            }
        }
        Self { base, scale: by_scale.divisor, most: span / by_scale.divisor, by_scale }
    }

    fn constant(value: u64) -> Self {
        Self { base: value, scale: 0, most: 0, by_scale: ExactDivision::by(1) }
    }

    /// The bits needed for the largest `small`.
    pub(crate) fn width_bits(&self) -> u32 {
        64 - self.most.leading_zeros()
    }

    /// The `small` of a value.
    pub(crate) fn small(&self, value: u64) -> u64 {
        let difference = value.wrapping_sub(self.base);
        if self.scale <= 1 { difference } else { self.by_scale.quotient(difference) }
    }
}

/// Divides multiples of a number by it with a multiplication: by the inverse of its odd part modulo
/// 2^64. (Granlund, Montgomery, "Division by invariant integers using multiplication", PLDI 1994,
/// section 9.)
#[derive(Clone, Copy, Debug)]
struct ExactDivision {
    divisor: u64,
    /// The divisor is an odd number times 2 to this power.
    twos: u32,
    inverse: u64,
    /// The largest quotient by the odd part.
    most: u64,
}

impl ExactDivision {
    /// Division by a number that is not 0.
    fn by(divisor: u64) -> Self {
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // Newton's iteration doubles the bits that are right, beginning with 3.
        let next = |inverse: u64| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        let inverse = (0..5).fold(odd, |inverse, _| next(inverse));
        Self { divisor, twos, inverse, most: u64::MAX / odd }
    }

    fn divides(self, number: u64) -> bool {
        let is_even_enough = number & ((1 << self.twos) - 1) == 0;
        is_even_enough && self.quotient(number) <= self.most
    }

    /// The quotient of a multiple of the divisor.
    fn quotient(self, multiple: u64) -> u64 {
        (multiple >> self.twos).wrapping_mul(self.inverse)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

/// Appends the encoded lane.
pub(crate) fn encode(values: &[u64], nulls: &NullMask, out: &mut Vec<u8>) {
    let flag = if nulls.nulls() > 0 { HAS_NULLS } else { 0 };
    let step = match values {
        [first, second, ..] => second.wrapping_sub(*first),
        _ => 0,
    };
    let steps = step != 0 && values.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step);
    if steps {
        out.push(STEPS | flag);
        out.extend_from_slice(&values[0].to_le_bytes());
        out.extend_from_slice(&step.to_le_bytes());
    } else {
        let frame = Frame::of(values);
        let width = frame.width_bits();
        if width == 0 {
            out.push(CONSTANT | flag);
            out.extend_from_slice(&frame.base.to_le_bytes());
        } else {
            out.push(FRAME | flag);
            out.extend_from_slice(&frame.base.to_le_bytes());
            out.extend_from_slice(&frame.scale.to_le_bytes());
            out.push(width as u8);
            pack_bits(values.iter().map(|&value| frame.small(value)), width, out);
        }
    }
    if flag != 0 {
        pack_bits((0..values.len()).map(|i| u64::from(nulls.is_null(i))), 1, out);
    }
}

/// Decodes a lane of `len` values from the front of `bytes` and advances `bytes`.
///
/// # Errors
/// There are too few bytes, or the form is unknown.
pub(crate) fn decode(bytes: &mut &[u8], len: usize) -> Result<Lane> {
    let form = take::<1>(bytes)?[0];
    let mut lane = match form & !HAS_NULLS {
        CONSTANT => Lane::constant(Some(take_u64(bytes)?), len),
        STEPS => {
            let (first, step) = (take_u64(bytes)?, take_u64(bytes)?);
            let value = |i: usize| first.wrapping_add(step.wrapping_mul(i as u64));
            Lane::plain((0..len).map(value).collect(), NullMask::default())
        }
        FRAME => {
            let (base, scale) = (take_u64(bytes)?, take_u64(bytes)?);
            let width = u32::from(take::<1>(bytes)?[0]);
            let smalls = unpack_bits(bytes, len, width)?;
            let value = |small: u64| base.wrapping_add(scale.wrapping_mul(small));
            Lane::plain(smalls.into_iter().map(value).collect(), NullMask::default())
        }
        other => return Err(Error::damaged(format!("unknown lane form {other}"))),
    };
    if form & HAS_NULLS != 0 {
        for (i, bit) in unpack_bits(bytes, len, 1)?.into_iter().enumerate() {
            if bit == 1 {
                lane.nulls.set(i, true);
            }
        }
    }
    Ok(lane)
}

/// Appends values of `width` bits each (1 to 64), lowest bits first.
pub(crate) fn pack_bits(values: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut word, mut used) = (0u64, 0u32);
    for value in values {
        word |= value << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            used -= 64;
            // The top `used` bits of the value did not fit.
            word = if used == 0 { 0 } else { value >> (width - used) };
        }
    }
    let bytes = used.div_ceil(8) as usize;
    out.extend_from_slice(&word.to_le_bytes()[..bytes]);
}

/// Decodes `len` values of `width` bits each from the front of `bytes`.
pub(crate) fn unpack_bits(bytes: &mut &[u8], len: usize, width: u32) -> Result<Vec<u64>> {
    let mut values = Vec::new();
    unpack_bits_to(bytes, len, width, &mut values)?;
    Ok(values)
}

/// Appends `len` decoded values of `width` bits each from the front of `bytes`.
///
/// # Errors
/// There are too few bytes, or the width is invalid.
pub(crate) fn unpack_bits_to(bytes: &mut &[u8], len: usize, width: u32, out: &mut Vec<u64>) -> Result<()> {
    if !(1..=64).contains(&width) {
        return Err(Error::damaged(format!("invalid lane width: {width} bits per value")));
    }
    let total = len
        .checked_mul(width as usize)
        .map(|bits| bits.div_ceil(8))
        .filter(|&total| total <= bytes.len())
        .ok_or_else(too_short)?;
    let (packed, rest) = bytes.split_at(total);
    *bytes = rest;
    match width {
        8 => out.extend(packed.iter().map(|&byte| u64::from(byte))),
        16 => out.extend(packed.as_chunks().0.iter().map(|&two| u64::from(u16::from_le_bytes(two)))),
        32 => out.extend(packed.as_chunks().0.iter().map(|&four| u64::from(u32::from_le_bytes(four)))),
        64 => out.extend(packed.as_chunks().0.iter().map(|&eight| u64::from_le_bytes(eight))),
        _ => unpack_odd(packed, len, width, out),
    }
    Ok(())
}

/// Appends `len` decoded values of `width` bits each (1 to 8) from the front of `packed`.
///
/// # Errors
/// There are too few bytes.
pub(crate) fn unpack_bytes_to(packed: &[u8], len: usize, width: u32, out: &mut Vec<u8>) -> Result<()> {
    let total = len.saturating_mul(width as usize).div_ceil(8);
    let packed = packed.get(..total).ok_or_else(too_short)?;
    if width == u8::BITS {
        out.extend_from_slice(packed);
        return Ok(());
    }
    let mask = u8::MAX >> (u8::BITS - width);
    let end = out.len() + len;
    out.reserve(len);
    // Eight values take `width` bytes: one load for all of them.
    for at in (0..total).step_by(width as usize) {
        let word = match packed[at..].first_chunk() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => {
                let mut eight = [0; 8];
                eight[..total - at].copy_from_slice(&packed[at..]);
                u64::from_le_bytes(eight)
            }
        };
        let values: [u8; 8] = std::array::from_fn(|i| (word >> (i as u32 * width)) as u8 & mask);
        out.extend_from_slice(&values[..(end - out.len()).min(8)]);
    }
    Ok(())
}

/// Decodes values of any width.
fn unpack_odd(packed: &[u8], len: usize, width: u32, out: &mut Vec<u64>) {
    /// A value lies within this many bytes from its first byte.
    const WINDOW_BYTES: usize = 16;
    let mask = u64::MAX >> (64 - width);
    let mut padded = Vec::with_capacity(packed.len() + WINDOW_BYTES);
    padded.extend_from_slice(packed);
    padded.resize(packed.len() + WINDOW_BYTES, 0);
    fn window<const N: usize>(padded: &[u8], byte: usize) -> [u8; N] {
        padded.get(byte..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
    let place = |i: usize| {
        // The product of `len` and the width was checked.
        let bit = i.wrapping_mul(width as usize);
        (bit / 8, (bit % 8) as u32)
    };
    let start = out.len();
    if width < 8 {
        // Eight values take `width` bytes: one load for all of them.
        out.resize(start + len.next_multiple_of(8), 0);
        for (group, values) in out[start..].as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut word = u64::from_le_bytes(window(&padded, group * width as usize));
            for value in values {
                *value = word & mask;
                word >>= width;
            }
        }
        out.truncate(start + len);
    } else if width.is_multiple_of(8) {
        let bytes = width as usize / 8;
        out.extend((0..len).map(|i| u64::from_le_bytes(window(&padded, i.wrapping_mul(bytes))) & mask));
    } else if width <= 57 {
        // With up to 7 bits before it, a value still fits in one load.
        out.extend((0..len).map(|i| {
            let (byte, shift) = place(i);
            u64::from_le_bytes(window(&padded, byte)) >> shift & mask
        }));
    } else {
        out.extend((0..len).map(|i| {
            let (byte, shift) = place(i);
            (u128::from_le_bytes(window(&padded, byte)) >> shift) as u64 & mask
        }));
    }
}

fn too_short() -> Error {
    Error::damaged("the data ends within a value")
}

/// Takes `N` bytes from the front.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or_else(too_short)?;
    *bytes = rest;
    Ok(*taken)
}

/// Takes a little-endian `u64` from the front.
pub(crate) fn take_u64(bytes: &mut &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(take(bytes)?))
}

/// Takes a little-endian `u32` from the front.
pub(crate) fn take_u32(bytes: &mut &[u8]) -> Result<u32> {
    Ok(u32::from_le_bytes(take(bytes)?))
}

/// Takes a byte string prefixed by its length (4 bytes).
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = take_u32(bytes)? as usize;
    if len > bytes.len() {
        return Err(too_short());
    }
    let (taken, rest) = bytes.split_at(len);
    *bytes = rest;
    Ok(taken)
}

/// Appends a byte string prefixed by its length (4 bytes). Admission ensures a length below 2^32.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
