//! A pool of byte strings. Each is stored once and identified by a small number.
//!
//! Used for the text columns of a memtable and for its container keys. The pool is append-only: a
//! number stays valid for the memtable's life, and the WAL of the same generation refers to it.
//!
//! A value costs its bytes plus about 18. Recent values of up to 16 bytes, which most tags are, are
//! found by comparing their bytes in a register, without following a pointer.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// A value of up to 16 bytes: its bytes and its length.
type Short = (u128, u8);

/// Number of recent values remembered; a power of two.
const RECENT: usize = 128;

#[derive(Default)]
pub(crate) struct Pool {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    numbers: HashTable<u32>,
    /// Recent values, at slots chosen by their bytes. Tags usually have few distinct values that
    /// recur.
    recent: Vec<(Short, u32)>,
    hasher: DefaultHashBuilder,
    /// Number of entries that are already in the WAL.
    logged: usize,
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Average bytes per entry.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.bytes.len() / self.ends.len().max(1)
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        entry(&self.bytes, &self.ends, number)
    }

    pub(crate) fn find(&self, value: &[u8]) -> Option<u32> {
        let same = |&number: &u32| self.get(number) == value;
        self.numbers.find(self.hasher.hash_one(value), same).copied()
    }

    /// The number of `value`, which is added if it is new.
    pub(crate) fn intern(&mut self, value: &[u8]) -> u32 {
        let short = short(value).map(|short| (short, recent_place(short)));
        if let Some((short, place)) = short
            && let Some(&(known, number)) = self.recent.get(place)
            && known == short
        {
            return number;
        }
        let number = self.intern_known_or_new(value);
        if let Some((short, place)) = short {
            // No value has this length: it marks an empty slot.
            self.recent.resize(RECENT, ((0, u8::MAX), 0));
            self.recent[place] = (short, number);
        }
        number
    }

    fn intern_known_or_new(&mut self, value: &[u8]) -> u32 {
        let Self { bytes, ends, numbers, hasher, .. } = self;
        let hash = hasher.hash_one(value);
        let same = |&number: &u32| entry(bytes, ends, number) == value;
        if let Some(&number) = numbers.find(hash, same) {
            return number;
        }
        let number = ends.len() as u32;
        bytes.extend_from_slice(value);
        ends.push(bytes.len());
        numbers.insert_unique(hash, number, |&n| hasher.hash_one(entry(bytes, ends, n)));
        number
    }

    /// The entries not yet in the WAL. Marks them as logged.
    pub(crate) fn take_unlogged(&mut self) -> impl ExactSizeIterator<Item = &[u8]> {
        let first = std::mem::replace(&mut self.logged, self.ends.len());
        (first..self.ends.len()).map(|i| entry(&self.bytes, &self.ends, i as u32))
    }

    /// Marks all entries as logged.
    pub(crate) fn mark_logged(&mut self) {
        self.logged = self.ends.len();
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * 8
            + self.numbers.capacity() * 6
            + self.recent.capacity() * size_of::<(Short, u32)>()
    }
}

fn entry<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

/// The slot of a recent value: the top bits of a product, which depend on all its bytes.
fn recent_place((bytes, _): Short) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let folded = (bytes as u64).wrapping_mul(ODD) ^ (bytes >> 64) as u64;
    (folded.wrapping_mul(ODD) >> (64 - RECENT.ilog2())) as usize
}

/// A value of up to 16 bytes as an integer, lowest byte first. The length distinguishes trailing
/// zeros.
fn short(value: &[u8]) -> Option<Short> {
    let len = value.len();
    let word = |at: usize| -> Option<u128> {
        value.get(at..at + 8)?.first_chunk::<8>().map(|chunk| u128::from(u64::from_le_bytes(*chunk)))
    };
    let bytes = match len {
        17.. => return None,
        8..=16 => word(0)? | word(len - 8)? << (8 * (len - 8)),
        _ => value.iter().rev().fold(0, |bytes, &byte| bytes << 8 | u128::from(byte)),
    };
    Some((bytes, len as u8))
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
