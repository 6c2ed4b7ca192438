//! `BEGIN`, `SAVEPOINT`, `COMMIT`, `ROLLBACK`: collects inserts and deletes into one atomic batch.
//!
//! No row is written before COMMIT. Tables, however, are created, altered and dropped at once, even
//! if the transaction is rolled back later. Queries within the transaction see the collected
//! changes ([`Transaction::over`]). The rows that its changes depend on are compared at COMMIT
//! ([`Guard`]). As in PostgreSQL, after an error only ROLLBACK is accepted, possibly to a
//! savepoint.

use crate::answer::Answer;
use crate::guard::Guard;
use crate::session::Session;
use crate::settings::{ScopedSettings, TransactionModes};
use fleetdb_engine::{Batch, Code, Error, MAX_BATCH_BYTES, MemoryReservation, Overlay, QueryMemory, Result, View};
use std::sync::{MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The transaction of a session.
pub(crate) struct Transaction {
    /// The collected changes: one part since BEGIN and one per savepoint. Empty outside a
    /// transaction.
    parts: Vec<Part>,
    /// When the current or latest transaction began.
    began: SystemTime,
    /// Whether a statement has failed.
    has_failed: bool,
    /// The total size of the parts.
    bytes: usize,
    memory: MemoryReservation,
    /// The number of savepoints set in this session so far.
    savepoints: u64,
    /// The collected changes as queries see them; set by the first query.
    seen: Option<Seen>,
    /// The view below those changes, set by the first query if all queries see the same one.
    fixed_view: Option<View>,
    /// The modes of the open transaction.
    modes: TransactionModes,
    /// The session's settings. They are kept here because transactions set some locally and undo
    /// others.
    pub(crate) settings: ScopedSettings,
}

struct Seen {
    overlay: Overlay,
    /// Changes since the last query.
    since: Batches,
}

/// Consecutive batches. The deletes of a batch precede its rows, so a delete after rows starts a
/// new batch.
#[derive(Default)]
struct Batches(Vec<Batch>);

impl Batches {
    fn push(&mut self, batch: Batch) {
        match self.0.last_mut() {
            Some(last) if !batch.has_deletes() => last.coalesce(batch),
            _ => self.0.push(batch),
        }
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(Batch::bytes).sum()
    }

    fn has_rows(&self, table: &str) -> bool {
        self.0.iter().any(|batch| batch.tables().any(|of_rows| of_rows == table))
    }

    /// Combines all batches into one.
    fn into_one(self, view: impl FnOnce() -> View) -> Result<Batch> {
        let mut batches = self.0.into_iter();
        let first = batches.next().unwrap_or_default();
        if batches.len() == 0 {
            return Ok(first);
        }
        let view = view();
        batches.try_fold(first, |all, batch| all.followed_by(batch, &view))
    }
}

#[derive(Default)]
struct Part {
    /// The name and number of the savepoint at its start; `None` for BEGIN.
    savepoint: Option<(String, u64)>,
    /// The settings before this part.
    settings: ScopedSettings,
    batches: Batches,
    guards: Vec<Guard>,
}

impl Part {
    fn bytes(&self) -> usize {
        let name = self.savepoint.as_ref().map_or(0, |(name, _)| name.len());
        size_of::<Self>() + name + self.batches.bytes() + self.guards.iter().map(Guard::bytes).sum::<usize>()
    }
}

impl Transaction {
    /// No transaction. Collected changes are charged to this memory.
    pub(crate) fn none(memory: &QueryMemory) -> Self {
        Self {
            parts: Vec::new(),
            began: UNIX_EPOCH,
            has_failed: false,
            bytes: 0,
            memory: memory.reservation(),
            savepoints: 0,
            seen: None,
            fixed_view: None,
            modes: TransactionModes::default(),
            settings: ScopedSettings::default(),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.parts.is_empty()
    }

    /// When the open transaction began; `None` if there is none.
    pub(crate) fn began(&self) -> Option<SystemTime> {
        (!self.is_none()).then_some(self.began)
    }

    /// The number of savepoints set in this session so far.
    pub(crate) fn savepoints(&self) -> u64 {
        self.savepoints
    }

    /// `BEGIN`.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if !self.is_none() {
            return Err(Error::new(Code::InTransaction, "there is a transaction already: COMMIT or ROLLBACK it first"));
        }
        self.modes = self.settings.now().modes();
        self.began = SystemTime::now();
        self.add_part(None)
    }

    /// The modes of the open transaction, or else those for single statements.
    pub(crate) fn modes(&self) -> TransactionModes {
        if self.is_none() { self.settings.now().modes() } else { self.modes }
    }

    /// Sets the modes of the open transaction; returns `false` if there is none.
    pub(crate) fn set_modes(&mut self, modes: TransactionModes) -> bool {
        self.modes = modes;
        !self.is_none()
    }

    /// Fails if the transaction is read-only.
    pub(crate) fn check_may_write(&self, what: &str) -> Result<()> {
        if self.modes().is_read_only {
            return Err(Error::new(
                Code::ReadOnlyTransaction,
                format!(
                    "cannot execute {what} in a read-only transaction: begin one with BEGIN READ WRITE, or SET \
                 default_transaction_read_only = off"
                ),
            ));
        }
        Ok(())
    }

    /// Called when a table was created, altered or dropped, so that queries see the change.
    pub(crate) fn drop_fixed_view(&mut self) {
        self.fixed_view = None;
    }

    /// Ends the transaction for a `COMMIT`. Returns the changes to write and the rows they depend
    /// on, or `None` if a statement had failed. The tables are those of the view.
    pub(crate) fn take(&mut self, view: impl FnOnce() -> View) -> Result<Option<(Batch, Vec<Guard>)>> {
        let has_failed = self.has_failed;
        let (mut batches, mut guards) = (Batches::default(), Vec::new());
        for part in self.end(!has_failed)? {
            part.batches.0.into_iter().for_each(|batch| batches.push(batch));
            guards.extend(part.guards);
        }
        if has_failed {
            return Ok(None);
        }
        Ok(Some((batches.into_one(view)?, guards)))
    }

    /// Whether COMMIT must compare rows.
    pub(crate) fn is_guarded(&self) -> bool {
        self.parts.iter().any(|part| !part.guards.is_empty())
    }

    /// `ROLLBACK`.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        self.end(false).map(drop)
    }

    fn end(&mut self, is_committed: bool) -> Result<Vec<Part>> {
        self.check_open()?;
        (self.has_failed, self.bytes, self.seen, self.fixed_view) = (false, 0, None, None);
        self.memory.release();
        let parts = std::mem::take(&mut self.parts);
        if let (false, Some(first)) = (is_committed, parts.first()) {
            self.settings = first.settings.clone();
        }
        self.settings.end_local();
        Ok(parts)
    }

    /// Goes back to these settings, at the latest when the open transaction is rolled back.
    pub(crate) fn undo_settings(&mut self, before: ScopedSettings) {
        match self.parts.first_mut() {
            Some(first) => first.settings = before,
            None => self.settings = before,
        }
    }

    /// `SAVEPOINT`.
    pub(crate) fn save(&mut self, name: String) -> Result<()> {
        self.check_open()?;
        self.check()?;
        self.savepoints += 1;
        self.add_part(Some((name, self.savepoints)))
    }

    /// `RELEASE SAVEPOINT`: removes the savepoint and keeps the changes made since.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        self.check()?;
        let place = self.find(name)?;
        let released = self.parts.split_off(place);
        // BEGIN's part has no savepoint, so a part before this one exists.
        if let Some(before) = self.parts.last_mut() {
            for part in released {
                part.batches.0.into_iter().for_each(|batch| before.batches.push(batch));
                before.guards.extend(part.guards);
            }
        }
        self.count_bytes();
        Ok(())
    }

    /// `ROLLBACK TO SAVEPOINT`: discards the changes made since and keeps the savepoint; returns
    /// its number.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<u64> {
        let place = self.find(name)?;
        let Some(Part { savepoint, settings, .. }) = self.parts.drain(place..).next() else { return Ok(0) };
        let number = savepoint.as_ref().map_or(0, |(_, number)| *number);
        self.settings = settings.clone();
        self.parts.push(Part { savepoint, settings, ..Part::default() });
        (self.has_failed, self.seen) = (false, None);
        self.count_bytes();
        Ok(number)
    }

    /// All tables as they are now, or as the transaction first saw them, without its own changes.
    pub(crate) fn base(&mut self, now: impl FnOnce() -> View) -> View {
        match self.modes().is_repeatable && !self.is_none() {
            true => self.fixed_view.get_or_insert_with(now).clone(),
            false => now(),
        }
    }

    /// A view of all tables with the collected changes on top.
    pub(crate) fn over(&mut self, view: View) -> Result<View> {
        if self.parts.iter().all(|part| part.batches.bytes() == 0) {
            return Ok(view);
        }
        // If a table has changed since, the rows are validated again, by column name.
        let seen = self.seen.take().filter(|seen| seen.overlay.fits(&view));
        let mut seen = seen.unwrap_or_else(|| {
            let mut since = Batches::default();
            self.parts.iter().flat_map(|part| &part.batches.0).for_each(|batch| since.push(batch.clone()));
            Seen { overlay: Overlay::default(), since }
        });
        for batch in std::mem::take(&mut seen.since).0 {
            seen.overlay.add(&batch, &view)?;
        }
        let over = seen.overlay.over(view);
        self.seen = Some(seen);
        Ok(over)
    }

    /// Rejects statements after one that failed.
    pub(crate) fn check(&self) -> Result<()> {
        if self.has_failed {
            return Err(Error::new(
                Code::FailedTransaction,
                "a statement of this transaction failed: ROLLBACK it, or to a savepoint",
            ));
        }
        Ok(())
    }

    /// Marks the transaction as failed.
    pub(crate) fn fail(&mut self) {
        if let Some(last) = self.parts.last_mut() {
            // The changes of the last part are discarded by any rollback.
            (last.batches, self.has_failed, self.seen) = (Batches::default(), true, None);
            last.guards.clear();
        }
    }

    /// Collects rows.
    pub(crate) fn insert(&mut self, rows: Batch) -> Result<()> {
        self.gather(rows)
    }

    /// Fails if rows were collected for a table that is to be dropped.
    pub(crate) fn check_not_written(&self, table: &str) -> Result<()> {
        self.check()?;
        if self.has_rows(table) {
            return Err(Error::new(
                Code::NotSupported,
                format!("DROP TABLE {table} after an INSERT into it in one transaction is not supported: COMMIT first"),
            ));
        }
        Ok(())
    }

    fn has_rows(&self, table: &str) -> bool {
        self.parts.iter().any(|part| part.batches.has_rows(table))
    }

    /// Collects a change that depends on existing rows.
    pub(crate) fn change(&mut self, change: Batch, guard: Option<Guard>) -> Result<()> {
        self.gather(change)?;
        let (Some(guard), Some(last)) = (guard, self.parts.last_mut()) else { return Ok(()) };
        self.bytes += guard.bytes();
        last.guards.push(guard);
        self.check_size()
    }

    fn gather(&mut self, batch: Batch) -> Result<()> {
        self.check_open()?;
        self.check_may_write("INSERT")?;
        let Some(last) = self.parts.last_mut() else { return Ok(()) };
        if let Some(seen) = &mut self.seen {
            seen.since.push(batch.clone());
        }
        self.bytes -= last.batches.bytes();
        last.batches.push(batch);
        self.bytes += last.batches.bytes();
        self.check_size()
    }

    fn add_part(&mut self, savepoint: Option<(String, u64)>) -> Result<()> {
        let part = Part { savepoint, settings: self.settings.clone(), ..Part::default() };
        self.bytes += part.bytes();
        self.parts.push(part);
        self.check_size()
    }

    /// Fails early if the changes are too large to be committed.
    fn check_size(&mut self) -> Result<()> {
        if self.bytes > MAX_BATCH_BYTES {
            let bytes = self.bytes;
            return Err(Error::new(
                Code::LimitExceeded,
                format!("a transaction of {bytes} bytes: the most is {MAX_BATCH_BYTES}, COMMIT more often"),
            ));
        }
        self.memory.grow_to("this transaction", self.bytes)
    }

    fn count_bytes(&mut self) {
        self.bytes = self.parts.iter().map(Part::bytes).sum();
    }

    fn check_open(&self) -> Result<()> {
        if self.is_none() {
            return Err(Error::new(Code::NoTransaction, "there is no transaction: begin one with BEGIN"));
        }
        Ok(())
    }

    /// The part that begins with the latest savepoint of this name.
    fn find(&self, name: &str) -> Result<usize> {
        self.check_open()?;
        let is_it = |part: &Part| part.savepoint.as_ref().is_some_and(|(of_part, _)| of_part == name);
        let found = self.parts.iter().rposition(is_it);
        found.ok_or_else(|| {
            Error::new(Code::UndefinedSavepoint, format!("there is no savepoint '{name}' in this transaction"))
        })
    }
}

/// What a session does with its transaction.
impl Session {
    /// Whether a transaction is open, even if one of its statements has failed.
    pub fn is_in_transaction(&self) -> bool {
        !self.transaction().is_none()
    }

    /// When the open transaction began; `None` if there is none.
    pub fn transaction_began(&self) -> Option<SystemTime> {
        self.transaction().began()
    }

    /// Fails if a statement of the open transaction has failed.
    ///
    /// # Errors
    /// A statement of the transaction has failed.
    pub fn check_transaction(&self) -> Result<()> {
        self.transaction().check()
    }

    /// The number of savepoints set so far, which is the number of the last one.
    pub fn savepoints(&self) -> u64 {
        self.transaction().savepoints()
    }

    /// Does what `ROLLBACK TO SAVEPOINT` does, without a statement; returns the savepoint's number.
    ///
    /// # Errors
    /// There is no transaction, or it has no savepoint of this name.
    pub fn roll_back_to(&self, savepoint: &str) -> Result<u64> {
        self.transaction().roll_back_to(savepoint)
    }

    /// Adds rows that needed no planning ([`InsertValues`](crate::InsertValues)) to the transaction.
    ///
    /// # Errors
    /// There is no transaction, one of its statements has failed, or it is too large.
    pub fn gather(&self, rows: Batch) -> Result<()> {
        let mut transaction = self.transaction();
        transaction.check()?;
        transaction.insert(rows)
    }

    /// Does what `BEGIN` does, without a statement.
    ///
    /// # Errors
    /// A transaction is already open, or the database is read-only.
    pub fn begin(&self) -> Result<()> {
        self.store.writer()?;
        self.transaction().begin()?;
        self.dialect.transaction_began();
        Ok(())
    }

    /// Called when the transaction has ended; releases its advisory locks. A transaction that was
    /// [taken](Self::take_transaction) must have been written before, so that the next holder of
    /// such a lock sees its changes. A transaction that is still open, because its COMMIT could not
    /// start, is rolled back.
    pub fn transaction_ended(&self) {
        {
            let mut transaction = self.transaction();
            if !transaction.is_none() {
                // This fails only if there is no transaction.
                transaction.roll_back().ok();
            }
        }
        self.dialect.transaction_ended();
    }

    /// Ends the transaction like COMMIT, but leaves the writing to the caller: returns the batch to
    /// write, or `None` if a statement had failed and nothing must be written. The rows that the
    /// transaction [depends on](Self::has_read_rows) are not compared.
    ///
    /// # Errors
    /// There is no transaction.
    pub fn take_transaction(&self) -> Result<Option<Batch>> {
        Ok(self.transaction().take(|| self.store.view())?.map(|(batch, _)| batch))
    }

    /// Whether the open transaction depends on rows that it read, which COMMIT compares.
    pub fn has_read_rows(&self) -> bool {
        self.transaction().is_guarded()
    }

    /// Ends the transaction: writes its batch, or rolls it back if a statement had failed.
    ///
    /// # Errors
    /// There is no transaction, rows that it depends on have changed, or those of the write.
    pub(crate) fn commit(&self) -> Result<Answer> {
        let Some((batch, guards)) = self.transaction().take(|| self.store.view())? else {
            return Ok(Answer::done("ROLLBACK"));
        };
        let db = self.store.writer()?;
        if guards.is_empty() {
            db.commit(batch)?;
        } else {
            db.transact(|view| self.check_guards(view, &guards).map(|()| batch))?;
        }
        Ok(Answer::done("COMMIT"))
    }

    /// Marks the transaction as failed by an error outside the session: only ROLLBACK is accepted
    /// then.
    pub fn fail_transaction(&self) {
        self.transaction().fail();
    }

    /// Refuses a statement in an open transaction.
    ///
    /// # Errors
    /// A transaction is open.
    pub(crate) fn outside_transaction(&self, what: &str) -> Result<()> {
        let transaction = self.transaction();
        transaction.check()?;
        if transaction.is_none() {
            return Ok(());
        }
        Err(Error::new(Code::NotSupported, format!("{what} is not supported in a transaction: COMMIT first")))
    }

    /// The session's transaction, locked.
    pub(crate) fn transaction(&self) -> MutexGuard<'_, Transaction> {
        self.transaction.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
