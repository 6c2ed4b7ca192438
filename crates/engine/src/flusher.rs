//! The flusher: freezes full memtables and turns them into segments in the background.
//!
//! 1. A committer that finds the memtables full begins a new generation ([`Shared::freeze`]).
//! 2. The `fleetdb-flush` thread repeatedly flushes the oldest frozen generation. Without threads
//!    the caller runs the same steps. [`crate::flush`] writes the segments, [`crate::listing`]
//!    lists them.

use crate::deletes::DeleteSet;
use crate::error::Result;
use crate::flush::{self, flush_table};
use crate::ids::{Generation, TableId};
use crate::manifest::{Edit, SegmentEntry};
use crate::state::{Commit, Frozen, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Milliseconds until a failed flush is retried.
const RETRY_MS: u64 = 1_000;

impl Shared {
    /// Begins a new generation if there is anything to freeze. Returns the newest frozen
    /// generation. The caller holds the commit lock.
    pub(crate) fn freeze(&self, commit: &mut Commit) -> Generation {
        let mut catalog = self.catalog.write();
        let full = commit.generation;
        (commit.memtable_bytes, commit.memtable_rows) = (0, 0);
        if catalog.tables.values().all(|table| table.active.read().is_empty()) {
            return Generation(full.0.saturating_sub(1));
        }
        commit.generation = Generation(full.0 + 1);
        catalog.tables.values_mut().for_each(|table| table.freeze(commit.generation));
        self.log.rotate(commit.generation, commit.sequence);
        let mut queue = self.queue.lock();
        queue.frozen.push(Frozen { generation: full, last: commit.sequence });
        self.wake.notify_all();
        full
    }

    /// Waits until every generation up to `up_to` is in segments.
    fn flush_frozen(&self, up_to: Generation) -> Result<()> {
        if !self.has_threads() {
            self.log.step();
            return self.flush_all();
        }
        let mut queue = self.queue.lock();
        queue.flush_error = None;
        queue.urgent += 1;
        self.wake.notify_all();
        while queue.flush_error.is_none() && queue.frozen.iter().any(|frozen| frozen.generation <= up_to) {
            self.wake.wait(&mut queue);
        }
        queue.urgent -= 1;
        queue.flush_error.clone().map_or(Ok(()), Err)
    }

    /// Flushes everything. Batches that arrive meanwhile stay in memory. The log begins with a new
    /// file and has no spare file afterwards, because the caller may have nothing more to write.
    pub(crate) fn flush_now(&self) -> Result<()> {
        self.log.check_open()?;
        self.log.remove_spare();
        let up_to = self.freeze(&mut self.commit.lock());
        self.flush_frozen(up_to)?;
        self.log.remove_spare();
        Ok(())
    }

    /// Flushes everything while no batch can arrive: the caller holds the commit lock.
    pub(crate) fn flush_within(&self, commit: &mut Commit) -> Result<()> {
        self.log.check_open()?;
        let up_to = self.freeze(commit);
        self.flush_frozen(up_to)
    }

    /// The flush thread: repeatedly flushes the oldest frozen generation.
    pub(crate) fn run_flushes(&self) {
        loop {
            let mut queue = self.queue.lock();
            let next = loop {
                match queue.frozen.first() {
                    _ if queue.stop => return,
                    Some(_) if queue.is_held_back() => self.wake.wait(&mut queue),
                    Some(&next) if queue.flush_error.is_none() => {
                        queue.flushing = true;
                        break next;
                    }
                    Some(_) => {
                        // The last attempt failed: wait a while, or until a caller requests a
                        // flush.
                        self.wake.wait_for(&mut queue, Duration::from_millis(RETRY_MS));
                        queue.flush_error = None;
                    }
                    None => self.wake.wait(&mut queue),
                }
            };
            drop(queue);
            let outcome = self.flush_generation(next);
            self.flushed(next, outcome).ok();
        }
    }

    fn flushed(&self, done: Frozen, outcome: Result<()>) -> Result<()> {
        let mut queue = self.queue.lock();
        queue.flushing = false;
        match &outcome {
            Ok(()) => {
                queue.frozen.retain(|frozen| frozen.generation != done.generation);
                queue.changed = true;
            }
            Err(error) => {
                // The disk may be full.
                self.log.remove_spare();
                queue.flush_error = Some(error.clone());
            }
        }
        self.wake.notify_all();
        outcome
    }

    /// Flushes all frozen generations on this thread.
    pub(crate) fn flush_all(&self) -> Result<()> {
        loop {
            let next = self.queue.lock().frozen.first().copied();
            let Some(next) = next else { return Ok(()) };
            self.queue.lock().flush_error = None;
            self.flushed(next, self.flush_generation(next))?;
        }
    }

    /// Flushes one generation; see [`crate::flush`] for the order of steps.
    fn flush_generation(&self, frozen: Frozen) -> Result<()> {
        let generation = frozen.generation;
        let mut work = Vec::new();
        for table in self.catalog.read().tables.values() {
            for memtable in table.frozen.iter().filter(|memtable| memtable.generation() == generation) {
                let inner = memtable.read();
                work.push((Arc::clone(&table.schema), memtable.view(&inner), Arc::clone(inner.deletes())));
            }
        }
        let (mut entries, mut deletes) = (Vec::new(), Vec::new());
        for (schema, view, own) in work {
            deletes.extend(own.to_list().into_iter().map(|delete| (schema.id, delete)));
            let set = DeleteSet::new(std::iter::once(own));
            let storage = self.io.storage.as_ref();
            match flush_table(storage, &schema, generation, view, &set, || self.next_segment_id()) {
                Ok(written) => entries.extend(written),
                Err(error) => {
                    flush::remove(storage, &entries);
                    return Err(error);
                }
            }
        }
        // The batches of this generation must be durable before the manifest lists their segments:
        // the WAL of a later generation may hold less than the sequence that the edit names.
        if let Err(error) = self.log.flush(frozen.last) {
            flush::remove(self.io.storage.as_ref(), &entries);
            return Err(error);
        }
        let mut manifest = self.manifest.lock();
        // The table may have been dropped meanwhile.
        let known = |table: &TableId| manifest.state().tables.contains_key(table);
        let dropped: Vec<SegmentEntry> = entries.extract_if(.., |entry| !known(&entry.table)).collect();
        flush::remove(self.io.storage.as_ref(), &dropped);
        deletes.retain(|(table, _)| known(table));
        let segments = entries.clone();
        let log = Some(self.log.mark());
        let edit = Edit::Flush { generation, sequence: frozen.last, segments, deletes, log };
        self.list(&mut manifest, &edit, &entries)?;
        drop(manifest);
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        self.counters.flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.log.retire(generation)
    }
}
