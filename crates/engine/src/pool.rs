//! A pool of byte strings, each kept once and named by a small number.
//!
//! Used for the text columns of a memtable and for the keys of its containers. Append-only: a
//! number stays valid for the memtable's life, and the WAL of the same generation refers to it.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

#[derive(Default)]
pub(crate) struct Pool {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// How many entries the WAL has been told of.
    logged: usize,
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
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
        let hash = self.hasher.hash_one(value);
        let Self { bytes, ends, numbers, hasher, .. } = self;
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

    /// The entries that the WAL has not been told of; from now on it has.
    pub(crate) fn take_unlogged(&mut self) -> impl ExactSizeIterator<Item = &[u8]> {
        let first = std::mem::replace(&mut self.logged, self.ends.len());
        (first..self.ends.len()).map(|i| entry(&self.bytes, &self.ends, i as u32))
    }

    /// The WAL has been told of every entry.
    pub(crate) fn mark_logged(&mut self) {
        self.logged = self.ends.len();
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * 8 + self.numbers.capacity() * 5
    }
}

fn entry<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}
