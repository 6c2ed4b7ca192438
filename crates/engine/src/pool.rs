//! A pool of byte strings. Each is stored once and identified by a small number.
//!
//! Used for the text columns of a memtable and for its container keys. The pool is append-only: a
//! number stays valid for the memtable's life, and the WAL of the same generation refers to it.
//!
//! A value costs its bytes plus about 22. Recent values of up to 16 bytes, which most tags are, are
//! found by comparing their bytes in a register, without following a pointer. A pool grows in small
//! steps, because a commit waits for each: bytes are in blocks that stay where they are, and the
//! table of numbers keeps the hashes.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// A value of up to 16 bytes: its bytes and its length.
type Short = (u128, u8);

/// Number of recent values remembered; a power of two.
const RECENT: usize = 128;
/// Bytes of a block of values. A longer value has a block of its own.
const BLOCK_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Pool {
    blocks: Vec<Vec<u8>>,
    /// Memory of all blocks.
    block_bytes: usize,
    ends: Vec<End>,
    /// Length of all values together.
    value_bytes: usize,
    numbers: HashTable<Known>,
    /// Recent values, at slots chosen by their bytes. Tags usually have few distinct values that
    /// recur.
    recent: Vec<(Short, u32)>,
    hasher: DefaultHashBuilder,
    /// Number of entries that are already in the WAL.
    logged: usize,
}

/// Where a value ends. It begins where the one before ends, or with its block.
#[derive(Clone, Copy)]
struct End {
    block: u32,
    offset: u32,
}

/// A value in the table: its number, and the lower half of its hash.
struct Known {
    number: u32,
    hash: u32,
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Average bytes per entry.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.value_bytes / self.ends.len().max(1)
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        entry(&self.blocks, &self.ends, number)
    }

    pub(crate) fn find(&self, value: &[u8]) -> Option<u32> {
        self.find_hashed(value, self.hasher.hash_one(value) as u32)
    }

    fn find_hashed(&self, value: &[u8], hash: u32) -> Option<u32> {
        let same = |known: &Known| known.hash == hash && self.get(known.number) == value;
        self.numbers.find(spread(hash), same).map(|known| known.number)
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
        let hash = self.hasher.hash_one(value) as u32;
        self.find_hashed(value, hash).unwrap_or_else(|| {
            let number = self.append(value);
            self.numbers.insert_unique(spread(hash), Known { number, hash }, |known| spread(known.hash));
            number
        })
    }

    /// Adds a value without a look at whether it is there. [`find`](Self::find) and
    /// [`intern`](Self::intern) do not know it.
    pub(crate) fn append(&mut self, value: &[u8]) -> u32 {
        let number = self.ends.len() as u32;
        let has_room = self.blocks.last().is_some_and(|block| block.len() + value.len() <= BLOCK_BYTES);
        if !has_room {
            self.blocks.push(Vec::new());
        }
        let place = self.blocks.len() - 1;
        let block = &mut self.blocks[place];
        let (len, before) = (block.len() + value.len(), block.capacity());
        if len > before {
            // Most pools stay small: the first block grows.
            let capacity = if place == 0 { (2 * before).min(BLOCK_BYTES) } else { BLOCK_BYTES };
            block.reserve_exact(capacity.max(len) - block.len());
            self.block_bytes += block.capacity() - before;
        }
        block.extend_from_slice(value);
        self.value_bytes += value.len();
        self.ends.push(End { block: place as u32, offset: len as u32 });
        number
    }

    /// The entries not yet in the WAL. Marks them as logged.
    pub(crate) fn take_unlogged(&mut self) -> impl ExactSizeIterator<Item = &[u8]> {
        let first = std::mem::replace(&mut self.logged, self.ends.len());
        (first..self.ends.len()).map(|i| entry(&self.blocks, &self.ends, i as u32))
    }

    /// Marks all entries as logged.
    pub(crate) fn mark_logged(&mut self) {
        self.logged = self.ends.len();
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.block_bytes
            + self.blocks.capacity() * size_of::<Vec<u8>>()
            + self.ends.capacity() * size_of::<End>()
            + self.numbers.capacity() * (size_of::<Known>() + 2)
            + self.recent.capacity() * size_of::<(Short, u32)>()
    }
}

fn entry<'a>(blocks: &'a [Vec<u8>], ends: &[End], number: u32) -> &'a [u8] {
    let number = number as usize;
    let End { block, offset } = ends[number];
    let start = match number.checked_sub(1).map(|before| ends[before]) {
        Some(before) if before.block == block => before.offset,
        _ => 0,
    };
    &blocks[block as usize][start as usize..offset as usize]
}

/// The hash for the table, which takes its slot from the lowest bits and a tag from the highest.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
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
