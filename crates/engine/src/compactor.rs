//! The compactor: merges segments in the background.
//!
//! The `fleetdb-compact` thread runs the steps that [`plan`](crate::compaction::plan) chooses, one
//! at a time: after each change by a flush, and once a second for retention. Without threads the
//! caller runs the same steps. [`crate::compaction`] merges, [`crate::listing`] lists the result.

use crate::compaction::plan::{self, Step};
use crate::compaction::{self, Job};
use crate::deletes::{DeleteSet, Deletes};
use crate::error::{Error, Result};
use crate::flush;
use crate::ids::{SegmentId, TableId};
use crate::io::threads;
use crate::manifest::{Edit, SegmentEntry, Slice, State};
use crate::schema::TableSchema;
use crate::segment::{Listed, Segments, file_name};
use crate::state::Shared;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Milliseconds between checks for rows that retention has expired.
const TICK_MS: u64 = 1_000;
/// Maximum milliseconds that a paused compaction sleeps before it checks whether it must stop.
const NAP_MS: u64 = 50;
/// With this many processors, a merge can go on while a flush works.
const MANY_PROCESSORS: usize = 4;

/// The inputs of a plan.
struct PlanFacts {
    deletes: DeleteSet,
    expired: Option<i64>,
    purged: u64,
}

impl Shared {
    /// The compaction thread: runs steps while there are any, then waits for a change.
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

    /// Compacts until nothing is left to do. With `full`, every partition becomes one run.
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

    /// Runs one compaction step, for the first table that needs one; `false` if none does.
    fn compact_once(&self, full: bool) -> Result<bool> {
        let _one = self.compaction.lock();
        if self.counters.stopping.load(Ordering::Acquire) {
            return Ok(false);
        }
        let Some((schema, step, facts)) = self.plan(full) else { return Ok(false) };
        self.queue.lock().compacting = Some(schema.name.clone());
        match step {
            Step::Drop(removed, sliced) => self.exchange(&schema, removed, sliced, Vec::new())?,
            Step::Merge(ids, span) => self.merge(&schema, &ids, span, &facts, false)?,
            // With few processors, a merge, a flush and commits at the same time slow each other down.
            Step::MergeJoined(ids, span) => {
                self.merge(&schema, &ids, span, &facts, threads::processors() < MANY_PROCESSORS)?;
            }
        }
        Ok(true)
    }

    /// The deletes that the manifest lists for a table, and the sequence up to which a segment
    /// written now has them applied.
    pub(crate) fn listed_deletes(state: &State, table: TableId) -> (DeleteSet, u64) {
        let deletes = state.deletes_of(table);
        // Covers the id of every delete, so that a rewritten segment never looks in need of another
        // rewrite.
        let purged = deletes.iter().map(|delete| delete.id).fold(state.flushed_sequence.0, u64::max);
        (DeleteSet::new(std::iter::once(Arc::new(Deletes::listed(deletes)))), purged)
    }

    fn plan(&self, full: bool) -> Option<(Arc<TableSchema>, Step, PlanFacts)> {
        let now_ns = self.io.clock.wall_ns();
        let segments: Vec<Arc<Segments>> =
            self.catalog.read().tables.values().map(|table| Arc::clone(&table.segments)).collect();
        // Those that cannot be read are merged, which reports the error.
        segments.iter().flat_map(|list| list.iter()).for_each(|listed| drop(listed.segment.read_container_times()));
        let times: HashMap<_, _> = segments.iter().flat_map(|list| list.container_times()).collect();
        let times_of = |id| times.get(&id).copied();
        let manifest = self.manifest.lock();
        let state = manifest.state();
        for schema in state.tables.values() {
            let apart = self.apart.load(Ordering::Relaxed);
            let (older, newer): (Vec<&SegmentEntry>, Vec<_>) =
                state.segments_of(schema.id).partition(|entry| entry.generation.0 <= apart);
            let deletes = state.deletes_of(schema.id);
            let expired = schema.expired(now_ns);
            let facts = plan::Facts { deletes, expired, flushed: state.flushed, full, times_of: &times_of };
            if let Some(step) = plan::next(&newer, &facts).or_else(|| plan::next(&older, &facts)) {
                let (deletes, purged) = Self::listed_deletes(state, schema.id);
                let facts = PlanFacts { deletes, expired, purged };
                return Some((Arc::new(schema.clone()), step, facts));
            }
        }
        None
    }

    /// Merges segments. With `after_flushes`, it pauses while the flush thread works.
    fn merge(
        &self,
        schema: &Arc<TableSchema>,
        ids: &[SegmentId],
        span: (i64, i64),
        facts: &PlanFacts,
        after_flushes: bool,
    ) -> Result<()> {
        let inputs: Vec<Arc<Listed>> = {
            let catalog = self.catalog.read();
            let Some(table) = catalog.tables.get(&schema.id) else { return Ok(()) };
            table.segments.iter().filter(|listed| ids.contains(&listed.entry.id)).map(Arc::clone).collect()
        };
        let _charge = self.budget.charge_compaction(compaction::work_bytes(inputs.len()))?;
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
            self.pause(start_ns, bytes, after_flushes)
        };
        let storage = self.io.storage.as_ref();
        let added = compaction::merge(storage, &job, None, || self.next_segment_id(), pause)?;
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

    /// Waits as the throttle demands, and for a flush if `after_flushes` says so. Returns an error if the
    /// database is being closed.
    fn pause(&self, start_ns: u64, bytes: u64, after_flushes: bool) -> Result<()> {
        loop {
            if self.counters.stopping.load(Ordering::Acquire) {
                return Err(Error::closed("the database is closing"));
            }
            if !self.has_threads() {
                return Ok(());
            }
            let mut nap = self.throttled(start_ns, bytes);
            let mut queue = self.queue.lock();
            if after_flushes && queue.is_flush_first() {
                nap = Duration::MAX;
            }
            if nap.is_zero() {
                return Ok(());
            }
            self.wake.wait_for(&mut queue, nap.min(Duration::from_millis(NAP_MS)));
        }
    }

    /// How long a merge that began at `start_ns` and has written `bytes` is ahead of the throttle.
    fn throttled(&self, start_ns: u64, bytes: u64) -> Duration {
        let rate = self.settings.compaction_bytes_per_s;
        if rate == 0 {
            return Duration::ZERO;
        }
        let due_ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let passed_ns = u128::from(self.io.clock.monotonic_ns().saturating_sub(start_ns));
        Duration::from_nanos(u64::try_from(due_ns.saturating_sub(passed_ns)).unwrap_or(u64::MAX))
    }

    /// Replaces segments: first in the manifest, then for readers, then the files.
    fn exchange(
        &self,
        schema: &TableSchema,
        removed: Vec<SegmentId>,
        sliced: Vec<(SegmentId, Vec<Slice>)>,
        added: Vec<SegmentEntry>,
    ) -> Result<()> {
        let names = self.exchange_listed(schema, removed, sliced, added)?;
        self.remove_files(names.into_iter())
    }

    /// Replaces segments in the manifest and for readers. Returns the files that are no longer
    /// listed.
    pub(crate) fn exchange_listed(
        &self,
        schema: &TableSchema,
        removed: Vec<SegmentId>,
        sliced: Vec<(SegmentId, Vec<Slice>)>,
        added: Vec<SegmentEntry>,
    ) -> Result<Vec<String>> {
        let mut manifest = self.manifest.lock();
        if !manifest.state().tables.contains_key(&schema.id) {
            // Dropped meanwhile, with all its segments.
            flush::remove(self.io.storage.as_ref(), &added);
            return Ok(Vec::new());
        }
        let names: Vec<String> = removed.iter().map(|id| file_name(schema.id, *id)).collect();
        let edit = Edit::Compact { removed, sliced, added: added.clone() };
        self.list(&mut manifest, &edit, &added)?;
        Ok(names)
    }
}
