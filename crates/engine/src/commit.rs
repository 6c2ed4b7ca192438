//! The commit: admits a batch, assigns its sequence, logs it and applies it.
//!
//! 1. [`Shared::commit`] admits without a lock. Then it takes the commit lock, once the memtables
//!    have room ([`Shared::wait_for_room`]).
//! 2. [`Shared::apply`] resolves, logs and applies under the write locks of the memtables that the
//!    batch touches, so that a reader sees the batch whole or not at all.
//! 3. The log calls the batch's completion ([`completion`]) when the batch is as durable as
//!    requested.

use crate::error::{Code, Error, Result};
use crate::ids::{Sequence, TableId};
use crate::manifest::Delete;
use crate::scan::{View, removal};
use crate::settings::Durability;
use crate::state::{Commit, Shared};
use crate::wal::log::{Log, Waiting};
use crate::wal::record::{self, Removal, Section};
use crate::write::admit::{Admitted, admit};
use crate::write::batch::{Batch, MAX_BATCH_BYTES};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Enough for most single-row frames.
const SMALL_PAYLOAD_BYTES: usize = 512;

/// The outcome of a commit that never waits; see
/// [`Database::try_commit`](crate::Database::try_commit).
pub enum TryCommit<'db> {
    /// Nothing was done: the memtables are full, or a read-modify-write statement blocks other
    /// writers.
    Full,
    /// The log thread will write the batch, or it is already written.
    Queued,
    /// The batch is in the log's queue, probably alone: the caller may sync it.
    NeedsSync(PendingSync<'db>),
}

/// A sync that no other batch is likely to share. A caller on a thread that may block runs it with
/// [`sync`](Self::sync), which saves the hand-over to the log thread and back. If this is dropped,
/// the log thread runs the sync.
pub struct PendingSync<'db>(Option<&'db Log>);

impl PendingSync<'_> {
    /// Makes the batch durable on this thread.
    pub fn sync(mut self) {
        if let Some(log) = self.0.take() {
            log.lead();
        }
    }
}

impl Drop for PendingSync<'_> {
    fn drop(&mut self) {
        if let Some(log) = self.0 {
            log.wake();
        }
    }
}

/// An acknowledged batch: its sequence and its durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The batch's position in the order of all batches.
    pub sequence: Sequence,
    /// The level it was written with; see [`Durability`].
    pub durability: Durability,
}

pub(crate) type Done = Box<dyn FnOnce(Result<Acknowledged>) + Send>;

/// Receives the outcome of one batch.
pub(crate) struct Outcome(Arc<(Mutex<Option<Result<Acknowledged>>>, Condvar)>);

/// A completion, and the outcome to wait on.
pub(crate) fn completion() -> (Done, Outcome) {
    let outcome = Arc::new((Mutex::new(None), Condvar::new()));
    let done = Arc::clone(&outcome);
    let done = move |result| {
        *done.0.lock() = Some(result);
        done.1.notify_one();
    };
    (Box::new(done), Outcome(outcome))
}

impl Outcome {
    pub(crate) fn wait(&self) -> Result<Acknowledged> {
        let (result, ready) = &*self.0;
        let mut result = result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => ready.wait(&mut result),
            }
        }
    }
}

impl Shared {
    fn admit<'b>(&self, batch: &'b Batch) -> Result<Vec<Admitted<'b>>> {
        let bytes = batch.bytes();
        if bytes > MAX_BATCH_BYTES {
            return Err(Error::new(
                Code::LimitExceeded,
                format!("the batch has {bytes} bytes, but the limit is {MAX_BATCH_BYTES}: split it"),
            ));
        }
        let catalog = self.catalog.read();
        let schemas = batch.parts.iter().map(|part| Ok(Arc::clone(&catalog.get(part.table())?.schema)));
        let schemas = schemas.collect::<Result<Vec<_>>>()?;
        drop(catalog);
        let admitted = batch.parts.iter().zip(&schemas).map(|(part, schema)| admit(schema, part));
        let admitted = admitted.collect::<Result<Vec<_>>>()?;
        for rows in &admitted {
            if let Some(number) = rows.greatest_number {
                let mut numbers = self.numbers.lock();
                let numbers = numbers.entry(rows.schema.id).or_default();
                numbers.greatest = numbers.greatest.max(number);
            }
        }
        Ok(admitted)
    }

    /// Checks rows of a batch against the CHECKs of their tables, before the batch is complete.
    pub(crate) fn check_rows(&self, batch: &Batch) -> Result<()> {
        for part in &batch.parts {
            let schema = Arc::clone(&self.catalog.read().get(part.table())?.schema);
            if !schema.checks.is_empty() {
                admit(&schema, part)?;
            }
        }
        Ok(())
    }

    pub(crate) fn commit(&self, batch: &Batch, waiting: Waiting, done: Done) -> Result<TryCommit<'_>> {
        self.log.check()?;
        let mut admitted = self.admit(batch)?;
        let Some(mut commit) = self.lock_commit(waiting)? else { return Ok(TryCommit::Full) };
        // The schema may have changed since admission. It cannot change while the commit lock is
        // held.
        while !self.is_current(&admitted) {
            admitted = self.admit(batch)?;
        }
        let removals = self.removals(batch)?;
        let durability = self.durability_of(batch)?;
        let leads = self.apply(&mut commit, admitted, removals, durability, done, waiting);
        drop(commit);
        Ok(self.lead(leads, durability, waiting))
    }

    /// Reads and writes under one commit lock. A caller that never waits must call again if the outcome is
    /// [`TryCommit::Full`]: `change` was not called then.
    pub(crate) fn transact(
        &self,
        change: impl FnOnce(&View) -> Result<Batch>,
        waiting: Waiting,
        done: Done,
    ) -> Result<TryCommit<'_>> {
        self.log.check()?;
        let Some(mut commit) = self.lock_commit(waiting)? else { return Ok(TryCommit::Full) };
        let batch = change(&self.view())?;
        let admitted = self.admit(&batch)?;
        let removals = self.removals(&batch)?;
        let durability = self.durability_of(&batch)?;
        let leads = self.apply(&mut commit, admitted, removals, durability, done, waiting);
        drop(commit);
        Ok(self.lead(leads, durability, waiting))
    }

    /// Takes the commit lock; `None` if the caller does not wait and would have to.
    fn lock_commit(&self, waiting: Waiting) -> Result<Option<MutexGuard<'_, Commit>>> {
        match waiting {
            Waiting::ForRoom | Waiting::ForOutcome => self.wait_for_room().map(Some),
            Waiting::Never => Ok(self.try_open_commit()?.and_then(|commit| self.room(commit))),
        }
    }

    /// Runs the log's next step if the committer must, or leaves it to a committer that never waits.
    fn lead(&self, leads: bool, durability: Durability, waiting: Waiting) -> TryCommit<'_> {
        let leads = leads && self.has_threads();
        if leads && waiting == Waiting::Never && durability >= Durability::Sync {
            return TryCommit::NeedsSync(PendingSync(Some(&self.log)));
        }
        if leads {
            self.log.lead();
        }
        TryCommit::Queued
    }

    fn durability_of(&self, batch: &Batch) -> Result<Durability> {
        let durability = batch.durability.unwrap_or(self.settings.durability);
        if durability == Durability::Shared {
            self.log.check_shared()?;
        }
        Ok(durability)
    }

    /// Logs and applies an admitted batch: first the removals, then the rows. Returns whether the
    /// committer must run the log's next step.
    fn apply(
        &self,
        commit: &mut Commit,
        admitted: Vec<Admitted<'_>>,
        removals: Vec<Removal>,
        durability: Durability,
        done: Done,
        waiting: Waiting,
    ) -> bool {
        let sequence = Sequence(commit.sequence.0 + 1);
        let leads;
        {
            let catalog = self.catalog.read();
            let rows = admitted.iter().filter(|part| part.rows > 0).map(|part| part.schema.id);
            let mut ids: Vec<TableId> = rows.chain(removals.iter().map(|removal| removal.table)).collect();
            ids.sort_unstable();
            ids.dedup();
            // `is_current` and `removals` have found every table.
            let mut guards: Vec<_> = ids.iter().map(|id| catalog.tables[id].active.write()).collect();
            let bytes_before: usize = guards.iter().map(|inner| inner.bytes()).sum();
            let place = |table: TableId| ids.partition_point(|id| *id < table);
            let mut payload = Vec::with_capacity(SMALL_PAYLOAD_BYTES);
            let generation = commit.generation;
            for removal in removals {
                record::encode_removal(&removal, &mut payload);
                let Removal { table, key, from, to } = removal;
                guards[place(table)].delete(Delete { id: sequence.0, generation, key, from, to });
            }
            let mut sections: Vec<(usize, Section<'_>)> = Vec::new();
            for part in admitted.into_iter().filter(|part| part.rows > 0) {
                let number = place(part.schema.id);
                let inner = &mut guards[number];
                // If a batch has several sections for one table, each must be resolved after the
                // one before is applied.
                for (_, earlier) in sections.extract_if(.., |(of, _)| *of == number) {
                    inner.apply(&earlier);
                }
                let section = inner.resolve(part);
                inner.log(&section, &mut payload);
                sections.push((number, section));
            }
            if payload.is_empty() {
                // What it found may still have to be shared.
                let sequence = commit.sequence;
                let done = move |result: Result<()>| done(result.map(|()| Acknowledged { sequence, durability }));
                self.log.confirm(sequence, durability, Box::new(done));
                return false;
            }
            let completion = Box::new(move |result: Result<()>| {
                done(result.map(|()| Acknowledged { sequence, durability }));
            });
            leads = self.log.enqueue(sequence, durability, &payload, completion, waiting);
            for (number, section) in sections {
                guards[number].apply(&section);
            }
            commit.sequence = sequence;
            let bytes: usize = guards.iter().map(|inner| inner.bytes()).sum();
            commit.memtable_bytes = (commit.memtable_bytes + bytes).saturating_sub(bytes_before);
            let rows = guards.iter().map(|inner| inner.rows());
            commit.memtable_rows = rows.fold(commit.memtable_rows, usize::max);
        }
        self.applied.store(sequence.0, Ordering::Release);
        if self.is_full(commit) && self.queue.lock().frozen.is_empty() {
            self.freeze(commit);
        }
        leads
    }

    /// A batch's deletes in the engine's form. The caller holds the commit lock.
    fn removals(&self, batch: &Batch) -> Result<Vec<Removal>> {
        let catalog = self.catalog.read();
        batch.deletes.iter().map(|request| removal(&catalog.get(&request.table)?.schema, request)).collect()
    }

    fn is_current(&self, admitted: &[Admitted<'_>]) -> bool {
        let catalog = self.catalog.read();
        admitted.iter().all(|part| {
            let table = catalog.tables.get(&part.schema.id);
            table.is_some_and(|table| Arc::ptr_eq(&table.schema, &part.schema))
        })
    }
}
