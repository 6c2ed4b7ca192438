//! Any number of primary keys whose rows a merge leaves out, buffered in a temporary file.
//!
//! 1. [`DeletedKeys`] receives them in (key, time) order and assigns each to the segments that may
//!    hold it, by time. Each segment has its own list. What exceeds the list's buffer goes to the
//!    file, in pieces.
//! 2. [`SegmentDeletes`] walks a segment's list in parallel with the segment's rows.
//!
//! The file belongs to the running process: it is not synced, and the next open removes it.

use crate::error::{Error, Result};
use crate::io::{ReadFile, Storage, WriteFile};
use crate::lane::codec::{put_bytes, take, take_bytes, take_u64};
use crate::manifest::{SegmentEntry, Slice};
use crate::memory::{MemoryReservation, QueryMemory};
use crate::scan::merge::RowSpan;
use crate::scan::source::{PageMemo, Source};
use crate::schema::TableSchema;
use crate::segment::PAGE_ROWS;
use crate::segment::directory;
use crate::write::admit::Keys;
use bytes::Bytes;
use std::sync::Arc;

/// Bytes of a list kept in memory; earlier ones are in the file.
const BUFFER_BYTES: usize = 8 << 10;
/// Memory for each piece in the file.
const PIECE_BYTES: usize = size_of::<(u64, usize)>();
/// What the memory is for, in messages.
const WHAT: &str = "a DELETE of many rows";

/// Precedes a time: its container is that of the previous time, or its key follows.
const SAME_KEY: u8 = 0;
const NEW_KEY: u8 = 1;

/// The keys that one segment may hold.
struct List {
    times: (i64, i64),
    slices: Vec<Slice>,
    buffer: Vec<u8>,
    /// Offsets and lengths of the pieces in the file that precede the buffer.
    pieces: Vec<(u64, usize)>,
    last_key: Vec<u8>,
    is_empty: bool,
}

impl List {
    fn may_hold(&self, time: i64) -> bool {
        let within = |slice: &Slice| (slice.from..=slice.to).contains(&time);
        (self.times.0..=self.times.1).contains(&time) && (self.slices.is_empty() || self.slices.iter().any(within))
    }

    fn push(&mut self, key: &[u8], time: i64) {
        if self.is_empty || self.last_key != key {
            self.buffer.push(NEW_KEY);
            put_bytes(&mut self.buffer, key);
            key.clone_into(&mut self.last_key);
        } else {
            self.buffer.push(SAME_KEY);
        }
        self.buffer.extend_from_slice(&time.to_le_bytes());
        self.is_empty = false;
    }
}

/// Primary keys in order, in one list per segment that may hold them.
pub(crate) struct DeletedKeys<'a> {
    storage: &'a dyn Storage,
    name: String,
    file: Box<dyn WriteFile>,
    file_bytes: u64,
    lists: Vec<List>,
    /// The lists that may hold the times in `span`.
    near: Vec<usize>,
    span: (i64, i64),
    last: Option<(Vec<u8>, i64)>,
    budget: QueryMemory,
    memory: MemoryReservation,
    memory_bytes: usize,
    count: u64,
}

impl<'a> DeletedKeys<'a> {
    /// An empty set of keys for these segments of a table.
    pub(crate) fn new<'s>(
        storage: &'a dyn Storage,
        schema: &TableSchema,
        segments: impl Iterator<Item = &'s SegmentEntry>,
        budget: QueryMemory,
    ) -> Result<Self> {
        let lists = segments.map(|entry| List {
            times: entry.times,
            slices: entry.slices.clone(),
            buffer: Vec::new(),
            pieces: Vec::new(),
            last_key: Vec::new(),
            is_empty: true,
        });
        let lists: Vec<List> = lists.collect();
        let name = format!("{}/gone.tmp", directory(schema.id));
        // A leftover file would be in the way.
        storage.remove(&name).ok();
        let file = storage.create(&name)?;
        let memory = budget.reservation();
        let (near, span, last) = (Vec::new(), (i64::MAX, i64::MIN), None);
        Ok(Self {
            storage,
            name,
            file,
            file_bytes: 0,
            lists,
            near,
            span,
            last,
            budget,
            memory,
            memory_bytes: 0,
            count: 0,
        })
    }

    /// Number of keys.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds the keys and times of rows, in order; a collection has no times.
    pub(crate) fn push(&mut self, keys: &Keys, times: &[u64], rows: usize) -> Result<()> {
        for row in 0..rows {
            let (key, time) = (keys.get(row), times.get(row).map_or(0, |time| *time as i64));
            match &mut self.last {
                Some((last, last_time)) if last == key && *last_time == time => continue,
                Some((last, last_time)) if (last.as_slice(), *last_time) > (key, time) => {
                    return Err(Error::bug("keys of rows to delete came out of order"));
                }
                Some((last, last_time)) => {
                    key.clone_into(last);
                    *last_time = time;
                }
                None => self.last = Some((key.to_vec(), time)),
            }
            self.count += 1;
            self.add(key, time)?;
        }
        Ok(())
    }

    fn add(&mut self, key: &[u8], time: i64) -> Result<()> {
        if !(self.span.0..=self.span.1).contains(&time) {
            self.look_near(time);
        }
        for near in 0..self.near.len() {
            let list = &mut self.lists[self.near[near]];
            if !list.may_hold(time) {
                continue;
            }
            if list.buffer.capacity() == 0 {
                self.memory_bytes += BUFFER_BYTES;
                self.memory.grow_to(WHAT, self.memory_bytes)?;
                list.buffer.reserve(BUFFER_BYTES);
            }
            list.push(key, time);
            if list.buffer.len() < BUFFER_BYTES - size_of::<i64>() {
                continue;
            }
            self.file.write(&list.buffer)?;
            list.pieces.push((self.file_bytes, list.buffer.len()));
            self.file_bytes += list.buffer.len() as u64;
            list.buffer.clear();
            self.memory_bytes += PIECE_BYTES;
            self.memory.grow_to(WHAT, self.memory_bytes)?;
        }
        Ok(())
    }

    /// Finds the lists that may hold a time, and the span of times with the same lists.
    fn look_near(&mut self, time: i64) {
        self.near.clear();
        self.span = (i64::MIN, i64::MAX);
        for (number, list) in self.lists.iter().enumerate() {
            let (from, to) = list.times;
            let span = &mut self.span;
            if time < from {
                span.1 = span.1.min(from - 1);
            } else if to < time {
                span.0 = span.0.max(to + 1);
            } else {
                *span = (span.0.max(from), span.1.min(to));
                self.near.push(number);
            }
        }
    }

    /// Returns the keys of each segment, in the order of the segments; `None` for a segment that
    /// holds none. The keys own the file, which is already unlinked, and the memory.
    pub(crate) fn finish(mut self) -> Result<Vec<Option<SegmentDeletes>>> {
        let file = self.storage.read(&self.name)?;
        let memory = Arc::new(std::mem::replace(&mut self.memory, self.budget.reservation()));
        let deleted = |list: List| {
            (!list.is_empty).then(|| SegmentDeletes {
                file: Arc::clone(&file),
                pieces: list.pieces.into_iter(),
                rest: list.buffer,
                piece: Bytes::new(),
                at: 0,
                key: Vec::new(),
                time: None,
                started: false,
                _memory: Arc::clone(&memory),
                slices: list.slices.into_iter().map(|slice| Slice { rows: 0, ..slice }).collect(),
            })
        };
        Ok(std::mem::take(&mut self.lists).into_iter().map(deleted).collect())
    }
}

impl Drop for DeletedKeys<'_> {
    fn drop(&mut self) {
        // If this fails, the next open removes the file.
        self.storage.remove(&self.name).ok();
    }
}

/// The keys of rows to leave out of one segment, and the number of rows left in each of its slices.
pub(crate) struct SegmentDeletes {
    file: Arc<dyn ReadFile>,
    pieces: std::vec::IntoIter<(u64, usize)>,
    rest: Vec<u8>,
    piece: Bytes,
    at: usize,
    key: Vec<u8>,
    /// `None` at the end.
    time: Option<i64>,
    started: bool,
    _memory: Arc<MemoryReservation>,
    slices: Vec<Slice>,
}

impl SegmentDeletes {
    /// Whether the segment has slices, whose rows are counted.
    pub(crate) fn has_slices(&self) -> bool {
        !self.slices.is_empty()
    }

    /// The slices that still have rows.
    pub(crate) fn into_slices(self) -> Vec<Slice> {
        self.slices.into_iter().filter(|slice| slice.rows > 0).collect()
    }

    /// Returns the remaining rows of a container. The rows are from one source; rows and containers
    /// come in order.
    pub(crate) fn left(
        &mut self,
        key: &[u8],
        picks: Vec<RowSpan>,
        sources: &[Source],
        memos: &mut [PageMemo],
    ) -> Result<Vec<RowSpan>> {
        if !self.started {
            self.started = true;
            self.advance()?;
        }
        while self.time.is_some() && self.key.as_slice() < key {
            self.advance()?;
        }
        if self.slices.is_empty() && (self.time.is_none() || self.key != key) {
            return Ok(picks);
        }
        let mut left: Vec<RowSpan> = Vec::new();
        for pick in picks {
            for start in (0..pick.rows).step_by(PAGE_ROWS) {
                let (first, rows) = (pick.start + start as u64, PAGE_ROWS.min(pick.rows - start));
                let times = sources[pick.source].times(first, rows, &mut memos[pick.source])?;
                for (row, time) in (first..).zip(times) {
                    if self.takes(key, time)? {
                        continue;
                    }
                    self.keep(time);
                    match left.last_mut() {
                        Some(last) if last.source == pick.source && last.start + last.rows as u64 == row => {
                            last.rows += 1;
                        }
                        _ => left.push(RowSpan { source: pick.source, start: row, rows: 1 }),
                    }
                }
            }
        }
        Ok(left)
    }

    /// Whether the container's row with this time is left out.
    fn takes(&mut self, key: &[u8], time: i64) -> Result<bool> {
        while self.key == key {
            match self.time {
                Some(deleted) if deleted < time => self.advance()?,
                deleted => return Ok(deleted == Some(time)),
            }
        }
        Ok(false)
    }

    fn keep(&mut self, time: i64) {
        let place = self.slices.partition_point(|slice| slice.to < time);
        if let Some(slice) = self.slices.get_mut(place) {
            slice.rows += 1;
        }
    }

    fn advance(&mut self) -> Result<()> {
        if self.at == self.piece.len() {
            self.at = 0;
            self.piece = match self.pieces.next() {
                Some((offset, len)) => self.file.read_at(offset, len)?,
                None => Bytes::from(std::mem::take(&mut self.rest)),
            };
        }
        let mut bytes = &self.piece[self.at..];
        if bytes.is_empty() {
            self.time = None;
            self.key.clear();
            return Ok(());
        }
        let len = bytes.len();
        if take::<1>(&mut bytes)?[0] == NEW_KEY {
            take_bytes(&mut bytes)?.clone_into(&mut self.key);
        }
        self.time = Some(take_u64(&mut bytes)? as i64);
        self.at += len - bytes.len();
        Ok(())
    }
}

#[cfg(test)]
#[path = "deleted_keys_tests.rs"]
mod tests;
