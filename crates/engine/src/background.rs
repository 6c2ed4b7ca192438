//! Background work: freezing full memtables, flushing them, and compaction.
//!
//! 1. A committer that finds the memtables full begins a new generation ([`Shared::freeze`]).
//! 2. The thread `fleetdb-flush` makes segments of the oldest frozen generation, again and again.
//!    If compaction is far behind, it waits, and then so do writers ([`plan::MOST_RUNS`]).
//! 3. The thread `fleetdb-compact` does what [`plan`](crate::compaction::plan) says, one step after the other, when a
//!    flush changed something, and each second for retention. Without threads the caller runs the same steps.
//!
//! Every change of the segments is one manifest edit, made under the manifest's lock, then shown to readers
//! under the catalog's. Files go last; while a backup reads, they wait ([`Shared::pin`]).

use crate::catalog::Catalog;
use crate::commit::Commit;
use crate::compaction::plan::{self, Step};
use crate::compaction::{self, Job};
use crate::db::Shared;
use crate::deletes::{DeleteSet, Deletes};
use crate::error::{Error, Result};
use crate::flush::{self, flush_table};
use crate::ids::{Generation, SegmentId, Sequence, TableId};
use crate::io::Io;
use crate::manifest::file::Manifest;
use crate::manifest::{Edit, SegmentEntry, Slice, State};
use crate::memory::Budget;
use crate::schema::TableSchema;
use crate::segment::cache::Cache;
use crate::segment::reader::Segment;
use crate::segment::{Listed, file_name};
use crate::wal::frame;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Milliseconds until a failed flush or compaction is tried again.
const RETRY_MS: u64 = 1_000;
/// Milliseconds between two looks at what retention has expired.
const TICK_MS: u64 = 1_000;
/// Milliseconds that a throttled compaction sleeps at most before it looks whether it must stop.
const NAP_MS: u64 = 50;

/// A generation that waits to be flushed.
#[derive(Clone, Copy)]
pub(crate) struct Frozen {
    pub(crate) generation: Generation,
    pub(crate) last: Sequence,
}

/// What waits for the background threads.
pub(crate) struct Queue {
    pub(crate) frozen: Vec<Frozen>,
    /// Why the last flush failed, until one succeeds.
    pub(crate) flush_error: Option<Error>,
    /// Why the last compaction failed, until one succeeds.
    pub(crate) compaction_error: Option<Error>,
    /// A flush or a setting changed what there is to compact.
    pub(crate) changed: bool,
    /// The table that is being compacted.
    pub(crate) compacting: Option<String>,
    /// A partition has too many runs: flushes wait for compaction.
    pub(crate) behind: bool,
    /// How many wait for a flush that they asked for, which is not held back.
    urgent: usize,
    stop: bool,
    /// How many backups read files, and the files that are to go when they are done.
    pins: usize,
    unpinned: Vec<String>,
}

/// What background work has done since the database was opened.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    /// Set when the database closes: a merge stops at its next row group.
    stopping: AtomicBool,
}

impl Queue {
    /// Whether flushes wait for compaction. If that fails there is no point in waiting.
    pub(crate) fn is_held_back(&self) -> bool {
        self.behind && self.urgent == 0 && self.compaction_error.is_none()
    }

    pub(crate) fn new(frozen: Vec<Frozen>) -> Self {
        Self {
            frozen,
            flush_error: None,
            compaction_error: None,
            changed: true,
            compacting: None,
            behind: false,
            urgent: 0,
            stop: false,
            pins: 0,
            unpinned: Vec::new(),
        }
    }
}

impl Shared {
    /// Begins a new generation, if there is anything to freeze. Gives the last generation that is frozen now. The
    /// caller holds the commit lock.
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

    /// Waits until every generation up to this one is in segments.
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

    /// Makes segments of everything; batches that come meanwhile stay in memory.
    pub(crate) fn flush_now(&self) -> Result<()> {
        self.log.check_open()?;
        let up_to = self.freeze(&mut self.commit.lock());
        self.flush_frozen(up_to)
    }

    /// Makes segments of everything while no batch can come: the caller holds the commit lock.
    pub(crate) fn flush_within(&self, commit: &mut Commit) -> Result<()> {
        self.log.check_open()?;
        let up_to = self.freeze(commit);
        self.flush_frozen(up_to)
    }

    /// Lets both threads end; a running merge stops at its next row group.
    pub(crate) fn stop_background(&self) {
        self.counters.stopping.store(true, Ordering::Release);
        self.queue.lock().stop = true;
        self.wake.notify_all();
    }

    /// The flush thread: flushes the oldest frozen generation, again and again.
    pub(crate) fn run_flushes(&self) {
        loop {
            let mut queue = self.queue.lock();
            let next = loop {
                match queue.frozen.first() {
                    _ if queue.stop => return,
                    Some(_) if queue.is_held_back() => self.wake.wait(&mut queue),
                    Some(&next) if queue.flush_error.is_none() => break next,
                    Some(_) => {
                        // Failed before: wait a while, or until somebody asks for it.
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
        match &outcome {
            Ok(()) => {
                queue.frozen.retain(|frozen| frozen.generation != done.generation);
                queue.changed = true;
            }
            Err(error) => queue.flush_error = Some(error.clone()),
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

    fn next_segment_id(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes segments of one generation; see [`crate::flush`] for the order of steps.
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
        // The batches of this generation must be durable before the manifest says where they are: a
        // later generation's WAL may hold less than the sequence the edit names.
        if let Err(error) = self.log.flush(frozen.last) {
            flush::remove(self.io.storage.as_ref(), &entries);
            return Err(error);
        }
        let mut manifest = self.manifest.lock();
        // A table may have been dropped meanwhile.
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
        self.io.storage.remove(&frame::file_name(generation))
    }

    /// Makes an edit that adds these segments, and shows readers what the manifest lists then. After an error the
    /// segments' files are gone, unless the manifest failed: then it may list them.
    fn list(&self, manifest: &mut Manifest, edit: &Edit, added: &[SegmentEntry]) -> Result<()> {
        let opened = added.iter().map(|entry| open_segment(&self.io, entry, &self.cache));
        let listed = opened.collect::<Result<Vec<_>>>().and_then(|opened| {
            manifest.append(edit)?;
            Ok(opened)
        });
        match listed {
            Ok(opened) => {
                show(&mut self.catalog.write(), manifest.state(), &opened, &self.budget);
                let state = manifest.state();
                let mut tables = state.tables.keys();
                let mut queue = self.queue.lock();
                queue.behind = tables.any(|id| plan::is_behind(&state.segments_of(*id).collect::<Vec<_>>()));
                self.wake.notify_all();
                Ok(())
            }
            Err(error) => {
                self.fail_without_lock();
                if !manifest.has_failed() {
                    flush::remove(self.io.storage.as_ref(), added);
                }
                Err(error)
            }
        }
    }

    /// Takes no more batches when the writer's lock is lost: another process may write.
    pub(crate) fn fail_without_lock(&self) {
        if let Err(lost) = self.io.storage.check_lock() {
            self.log.fail(&lost);
        }
    }

    /// The compaction thread: steps as long as there are any, then waits for a change.
    pub(crate) fn run_compactions(&self) {
        loop {
            {
                let mut queue = self.queue.lock();
                if !queue.stop && !queue.changed {
                    self.wake.wait_for(&mut queue, Duration::from_millis(TICK_MS));
                }
                if queue.stop {
                    return;
                }
                queue.changed = false;
            }
            self.compact_all(false).ok();
        }
    }

    /// Compacts until there is nothing to do; with `full` every partition becomes one run.
    pub(crate) fn compact_all(&self, full: bool) -> Result<()> {
        let outcome = loop {
            match self.compact_once(full) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let mut queue = self.queue.lock();
        queue.compacting = None;
        queue.compaction_error = outcome.as_ref().err().cloned();
        self.wake.notify_all();
        outcome
    }

    /// One step of compaction, of the first table that needs one; `false` if none does.
    fn compact_once(&self, full: bool) -> Result<bool> {
        let _one = self.compaction.lock();
        if self.counters.stopping.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Some((schema, step, facts)) = self.plan(full) else { return Ok(false) };
        self.queue.lock().compacting = Some(schema.name.clone());
        match step {
            Step::Drop(removed, sliced) => self.exchange(&schema, removed, sliced, Vec::new())?,
            Step::Merge(ids, span) => self.merge(&schema, &ids, span, &facts)?,
        }
        Ok(true)
    }

    fn plan(&self, full: bool) -> Option<(Arc<TableSchema>, Step, PlanFacts)> {
        let now_ns = self.io.clock.wall_ns();
        let manifest = self.manifest.lock();
        let state = manifest.state();
        for schema in state.tables.values() {
            let segments: Vec<&SegmentEntry> = state.segments_of(schema.id).collect();
            let deletes = state.deletes_of(schema.id);
            let expired = schema.expired(now_ns);
            let facts = plan::Facts { deletes, expired, flushed: state.flushed, full };
            if let Some(step) = plan::next(&segments, &facts) {
                // Whatever their numbers: a rewritten segment must not look as if it had to be rewritten again.
                let purged = deletes.iter().map(|delete| delete.id).fold(state.flushed_sequence.0, u64::max);
                let deletes = DeleteSet::new(std::iter::once(Arc::new(Deletes::listed(deletes))));
                let facts = PlanFacts { deletes, expired, purged };
                return Some((Arc::new(schema.clone()), step, facts));
            }
        }
        None
    }

    fn merge(&self, schema: &Arc<TableSchema>, ids: &[SegmentId], span: (i64, i64), facts: &PlanFacts) -> Result<()> {
        let inputs: Vec<Arc<Listed>> = {
            let catalog = self.catalog.read();
            let Some(table) = catalog.tables.get(&schema.id) else { return Ok(()) };
            table.segments.iter().filter(|listed| ids.contains(&listed.entry.id)).map(Arc::clone).collect()
        };
        let _charge = self.budget.charge("a compaction", compaction::work_bytes(inputs.len()))?;
        let job = Job {
            schema,
            inputs: &inputs,
            span,
            deletes: &facts.deletes,
            purged: facts.purged,
            expired: facts.expired,
        };
        let start_ns = self.io.clock.monotonic_ns();
        let mut bytes = 0;
        let pause = |written: u64| {
            bytes += written;
            self.pause(start_ns, bytes)
        };
        let storage = self.io.storage.as_ref();
        let added = compaction::merge(storage, &job, || self.next_segment_id(), pause)?;
        let (mut removed, mut sliced) = (Vec::new(), Vec::new());
        for listed in &inputs {
            let outside = |slice: &&Slice| slice.to < span.0 || span.1 < slice.from;
            let left: Vec<Slice> = listed.entry.slices.iter().filter(outside).copied().collect();
            if left.is_empty() { removed.push(listed.entry.id) } else { sliced.push((listed.entry.id, left)) }
        }
        self.counters.compacted_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        self.exchange(schema, removed, sliced, added)
    }

    /// Waits as the throttle demands; an error if the database is being closed.
    fn pause(&self, start_ns: u64, bytes: u64) -> Result<()> {
        loop {
            if self.counters.stopping.load(Ordering::Acquire) {
                return Err(Error::closed("the database is being closed"));
            }
            let rate = self.settings.compaction_bytes_per_s;
            if rate == 0 || !self.has_threads() {
                return Ok(());
            }
            let due_ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
            let passed_ns = u128::from(self.io.clock.monotonic_ns().saturating_sub(start_ns));
            let Some(wait_ns) = due_ns.checked_sub(passed_ns).filter(|wait_ns| *wait_ns > 0) else { return Ok(()) };
            let nap =
                Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX)).min(Duration::from_millis(NAP_MS));
            self.wake.wait_for(&mut self.queue.lock(), nap);
        }
    }

    /// Exchanges segments: manifest, readers, then files.
    fn exchange(
        &self,
        schema: &TableSchema,
        removed: Vec<SegmentId>,
        sliced: Vec<(SegmentId, Vec<Slice>)>,
        added: Vec<SegmentEntry>,
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        if !manifest.state().tables.contains_key(&schema.id) {
            // Dropped meanwhile, with all its segments.
            flush::remove(self.io.storage.as_ref(), &added);
            return Ok(());
        }
        let names: Vec<String> = removed.iter().map(|id| file_name(schema.id, *id)).collect();
        let edit = Edit::Compact { removed, sliced, added: added.clone() };
        self.list(&mut manifest, &edit, &added)?;
        drop(manifest);
        self.remove_files(names.into_iter())
    }

    /// Removes files that nothing lists any more, now or when no backup reads them.
    pub(crate) fn remove_files(&self, names: impl Iterator<Item = String>) -> Result<()> {
        let mut queue = self.queue.lock();
        if queue.pins > 0 {
            queue.unpinned.extend(names);
            return Ok(());
        }
        drop(queue);
        names.map(|name| self.io.storage.remove(&name)).fold(Ok(()), Result::and)
    }

    /// Keeps every file that is listed now until [`unpin`](Self::unpin).
    pub(crate) fn pin(&self) {
        self.queue.lock().pins += 1;
    }

    pub(crate) fn unpin(&self) {
        let mut queue = self.queue.lock();
        queue.pins -= 1;
        if queue.pins == 0 {
            for name in std::mem::take(&mut queue.unpinned) {
                // Left behind it is removed by the next opening.
                self.io.storage.remove(&name).ok();
            }
        }
    }
}

/// What a plan was made with.
struct PlanFacts {
    deletes: DeleteSet,
    expired: Option<i64>,
    purged: u64,
}

/// Shows readers the segments and deletes that the manifest lists now, and no memtable that they replace. Segments
/// that the catalog does not have open yet are in `opened`.
fn show(catalog: &mut Catalog, state: &State, opened: &[Arc<Listed>], budget: &Arc<Budget>) {
    for (id, table) in &mut catalog.tables {
        for flushed in table.frozen.extract_if(.., |memtable| memtable.generation() <= state.flushed) {
            flushed.leave_to_views(budget);
        }
        let segments = table.segments.iter().chain(opened.iter().filter(|listed| listed.entry.table == *id));
        let listed = segments.filter_map(|listed| Some(listed.again(state.segments.get(&listed.entry.id)?)));
        table.set_segments(listed.collect(), state.deletes_of(*id));
    }
}

/// Opens a segment and compares it with its manifest entry.
pub(crate) fn open_segment(io: &Io, entry: &SegmentEntry, cache: &Arc<Cache>) -> Result<Arc<Listed>> {
    let name = file_name(entry.table, entry.id);
    let segment = Segment::open(io.storage.as_ref(), &name, entry.id, cache)?;
    let facts = &segment.facts;
    if (facts.table, facts.generation, facts.rows) != (entry.table, entry.generation, entry.rows) {
        return Err(Error::damaged(format!(
            "segment {name} is not the file that the manifest lists; restore it from a backup"
        )));
    }
    Ok(Arc::new(Listed { segment: Arc::new(segment), entry: entry.clone() }))
}
