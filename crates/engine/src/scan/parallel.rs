//! Reads the rows of a long scan with several threads, as batches or as totals.
//!
//! Rows are picked in order by one thread at a time, which takes little, and are read by all
//! threads, which takes most of the time ("morsels": Leis et al., "Morsel-driven parallelism",
//! SIGMOD 2014). What is picked at once is a chunk of a few batches. Chunks are yielded in the
//! order in which they were picked, so the rows and their order are those of a scan by one thread.
//! The thread that asks for rows reads chunks as well while the next one is not ready. The number
//! of chunks that are ahead of it is limited, and their memory is charged.

use super::picker::{PickedRows, Picker};
use super::resources::{Helpers, ScanResources};
use super::source::PageMemo;
use super::{INDEX_BLOCK_BYTES, PAGE_BYTES};
use crate::error::{Error, Result};
use crate::io::Joiner;
use crate::io::threads::start_helper;
use crate::memory::Charge;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Helper threads of one scan, at most. More would wait for the thread that takes the rows.
const MAX_HELPERS: usize = 7;
/// Batches of a chunk, at most. At each end of a chunk, pages are decoded twice.
const MAX_CHUNK_BATCHES: usize = 4;
/// Picking a few rows of each of this many containers takes as long as picking and reading a batch
/// of rows of few containers.
pub(super) const CONTAINERS_OF_PICK: usize = 64;
/// A chunk gets another batch only while it has rows of fewer containers.
const MAX_CHUNK_CONTAINERS: usize = MAX_CHUNK_BATCHES * CONTAINERS_OF_PICK;
/// A chunk gets another batch only while its columns take less than this.
const CHUNK_BYTES: usize = 4 << 20;
/// Helpers may take one part in this many of the free memory. What they take, a query may need.
const FREE_SHARE: usize = 4;
/// Chunks that may be read and not yielded, in addition to one for each thread.
const SPARE_CHUNKS: usize = 1;

/// Reads picked rows. Each thread has its own.
pub(super) trait PickReader: Send + Sized + 'static {
    /// A scan that runs alone asks for helper threads each time it has picked this many times,
    /// where [`CONTAINERS_OF_PICK`] containers count as a pick of their own. A shorter scan would
    /// not pay for their start.
    const PICKS_ALONE: usize;
    /// What it makes of the rows that are picked at once.
    type Output: Send + 'static;

    /// Reads picked rows.
    fn read(&mut self, picked: Vec<PickedRows>) -> Result<Self::Output>;

    /// The same for another thread.
    fn another(&self) -> Self;

    /// The pages that its thread used last, with which it also picks while it is alone.
    fn memos(&mut self) -> &mut [PageMemo];

    /// Number of columns that it reads, at most.
    fn columns(&self) -> usize;

    /// Bytes of stack that it needs in addition to the usual stack.
    fn stack_bytes(&self) -> usize {
        0
    }
}

/// The readers of a scan.
pub(super) struct ParallelReader<R: PickReader> {
    shared: Arc<Shared<R::Output>>,
    threads: Vec<Joiner>,
    /// The rest of the chunk that is being yielded.
    batches: VecDeque<R::Output>,
    _helpers: Helpers,
    _charge: Charge,
}

struct Shared<B> {
    chunks: Mutex<Chunks<B>>,
    /// A chunk was read or yielded, or there are no more.
    changed: Condvar,
    /// Whether the scan was dropped.
    is_dropped: AtomicBool,
}

/// The chunks of a scan, numbered in order.
struct Chunks<B> {
    picker: Box<Picker>,
    /// For picking.
    memos: Vec<PageMemo>,
    chunk_batches: usize,
    /// Chunks that may be picked and not yielded.
    max_ahead: u64,
    /// The next chunk to pick.
    next: u64,
    /// The next chunk to yield.
    yields: u64,
    /// Chunks that are read and not yielded.
    read: BTreeMap<u64, Result<Vec<B>>>,
    /// Whether there is nothing more to pick.
    is_at_end: bool,
    /// Why picking ended early; it is returned after the rows before it.
    error: Option<Error>,
    has_panicked: bool,
}

/// What a thread can do next.
enum Step {
    /// Read this chunk: its number, and the rows of each batch.
    Read(u64, Vec<Vec<PickedRows>>),
    /// Wait for a change.
    Wait,
    /// Nothing: all chunks are picked.
    End,
}

impl<R: PickReader> ParallelReader<R> {
    /// Starts helper threads for the rows that are left. Gives the picker back if none is free, or
    /// if memory is scarce.
    pub(super) fn start(
        picker: Box<Picker>,
        reader: &R,
        resources: &Arc<ScanResources>,
        batch_bytes: usize,
    ) -> std::result::Result<Self, Box<Picker>> {
        let Some(helpers) = resources.take_helpers(MAX_HELPERS) else { return Err(picker) };
        let chunk_batches = (CHUNK_BYTES / batch_bytes.max(1)).clamp(1, MAX_CHUNK_BATCHES);
        let max_ahead = helpers.count + 1 + SPARE_CHUNKS;
        let of_chunks = max_ahead.saturating_mul(chunk_batches).saturating_mul(batch_bytes);
        let of_thread = picker.sources().len() * (INDEX_BLOCK_BYTES + reader.columns() * PAGE_BYTES);
        let bytes = helpers.count.saturating_mul(of_thread).saturating_add(of_chunks);
        if bytes > resources.budget.free_bytes() / FREE_SHARE {
            return Err(picker);
        }
        let Ok(charge) = resources.budget.charge("a scan", bytes) else { return Err(picker) };
        let shared = Arc::new(Shared {
            chunks: Mutex::new(Chunks {
                memos: PageMemo::of_each(picker.sources()),
                picker,
                chunk_batches,
                max_ahead: max_ahead as u64,
                next: 0,
                yields: 0,
                read: BTreeMap::new(),
                is_at_end: false,
                error: None,
                has_panicked: false,
            }),
            changed: Condvar::new(),
            is_dropped: AtomicBool::new(false),
        });
        // If the system refuses a thread, the scan goes on with fewer.
        let spawn = |_| {
            let (shared, mut reader) = (Arc::clone(&shared), reader.another());
            start_helper(reader.stack_bytes(), move || shared.help(&mut reader)).ok()
        };
        let threads = (0..helpers.count).map_while(spawn).collect();
        Ok(Self { shared, threads, batches: VecDeque::new(), _helpers: helpers, _charge: charge })
    }

    /// What is read of the next batch; `None` at the end. `reader` is that of this thread.
    pub(super) fn next(&mut self, reader: &mut R) -> Result<Option<R::Output>> {
        loop {
            if let Some(batch) = self.batches.pop_front() {
                return Ok(Some(batch));
            }
            match self.shared.next_chunk(reader)? {
                Some(chunk) => self.batches = chunk.into(),
                None => return Ok(None),
            }
        }
    }
}

impl<R: PickReader> Drop for ParallelReader<R> {
    fn drop(&mut self) {
        self.shared.is_dropped.store(true, Ordering::Relaxed);
        self.shared.chunks.lock().is_at_end = true;
        self.shared.changed.notify_all();
        for join in self.threads.drain(..) {
            join();
        }
    }
}

impl<B: Send> Shared<B> {
    /// Reads chunks until there are no more: a helper thread.
    fn help(&self, reader: &mut impl PickReader<Output = B>) {
        let _guard = PanicGuard(self);
        let mut chunks = self.chunks.lock();
        loop {
            match chunks.step() {
                Step::Read(number, rows) => self.read(&mut chunks, number, rows, reader),
                Step::Wait => self.changed.wait(&mut chunks),
                Step::End => return,
            }
        }
    }

    /// The next chunk in order; `None` at the end. Reads chunks until it is there.
    fn next_chunk(&self, reader: &mut impl PickReader<Output = B>) -> Result<Option<Vec<B>>> {
        let mut chunks = self.chunks.lock();
        loop {
            let next = chunks.yields;
            if let Some(chunk) = chunks.read.remove(&next) {
                chunks.yields += 1;
                self.changed.notify_all();
                return chunk.map(Some);
            }
            if chunks.has_panicked {
                return Err(Error::bug("a thread of a scan panicked"));
            }
            match chunks.step() {
                Step::Read(number, rows) => self.read(&mut chunks, number, rows, reader),
                Step::End if chunks.yields == chunks.next => return chunks.error.take().map_or(Ok(None), Err),
                // Helpers are reading the chunk.
                Step::Wait | Step::End => self.changed.wait(&mut chunks),
            }
        }
    }

    fn read(
        &self,
        chunks: &mut MutexGuard<'_, Chunks<B>>,
        number: u64,
        rows: Vec<Vec<PickedRows>>,
        reader: &mut impl PickReader<Output = B>,
    ) {
        let batches = MutexGuard::unlocked(chunks, || {
            let wanted = rows.into_iter().take_while(|_| !self.is_dropped.load(Ordering::Relaxed));
            wanted.map(|rows| reader.read(rows)).collect()
        });
        chunks.read.insert(number, batches);
        self.changed.notify_all();
    }
}

impl<B> Chunks<B> {
    /// Picks the next chunk, if that is possible now.
    fn step(&mut self) -> Step {
        if self.is_at_end {
            return Step::End;
        }
        if self.next - self.yields >= self.max_ahead {
            return Step::Wait;
        }
        let (mut chunk, mut containers) = (Vec::with_capacity(self.chunk_batches), 0);
        while chunk.len() < self.chunk_batches && containers < MAX_CHUNK_CONTAINERS && !self.is_at_end {
            match self.picker.next(&mut self.memos) {
                Ok(rows) if rows.is_empty() => self.is_at_end = true,
                Ok(rows) => {
                    containers += rows.len();
                    chunk.push(rows);
                }
                Err(error) => {
                    self.is_at_end = true;
                    self.error = Some(error);
                }
            }
        }
        if chunk.is_empty() {
            return Step::End;
        }
        self.next += 1;
        Step::Read(self.next - 1, chunk)
    }
}

/// Tells the scan that a helper thread panics, so that it does not wait for the thread's chunk.
struct PanicGuard<'a, B>(&'a Shared<B>);

impl<B> Drop for PanicGuard<'_, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.chunks.lock().has_panicked = true;
            self.0.changed.notify_all();
        }
    }
}
