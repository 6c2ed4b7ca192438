//! `BEGIN`, `SAVEPOINT`, `COMMIT`, `ROLLBACK`: collects inserts and deletes into one atomic batch.
//!
//! No row is written before COMMIT. Tables, however, are created, altered and dropped at once, even
//! if the transaction is rolled back later. Queries within the transaction see the collected
//! changes ([`Transaction::over`]). The rows that its changes depend on are compared at COMMIT
//! ([`Guard`]). As in PostgreSQL, after an error only ROLLBACK is accepted, possibly to a
//! savepoint.

use crate::settings::{ScopedSettings, TransactionModes, Warning};
use crate::write::guard::Guard;
use fleetdb_engine::{Batch, Code, Error, MAX_BATCH_BYTES, MemoryReservation, Overlay, QueryMemory, Result, View};
use fleetdb_plan::temporary::{TablesByName, TemporaryTables};
use fleetdb_statement::setting_names::setting_name;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const ENCODING: &str = "texts are UTF-8: setting client_encoding changes nothing";
pub(crate) const NO_TRANSACTION: &str = "this is for a transaction, and there is none: it changes nothing";

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
    /// The session's temporary tables, which rolling back restores.
    temporaries: Arc<TemporaryTables>,
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
    /// The temporary tables before this part.
    temporaries: Arc<TablesByName>,
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
    pub(crate) fn none(memory: &QueryMemory, temporaries: &Arc<TemporaryTables>) -> Self {
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
            temporaries: Arc::clone(temporaries),
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
        let changes = self.take_changes(view);
        self.end(matches!(changes, Ok(Some(_))))?;
        changes
    }

    /// The changes to write and the rows they depend on, for a `COMMIT` that may
    /// [give them back](Self::give_back); `None` if a statement had failed. The tables are those of the
    /// view. The caller ends the transaction, or gives the changes back.
    pub(crate) fn take_changes(&mut self, view: impl FnOnce() -> View) -> Result<Option<(Batch, Vec<Guard>)>> {
        self.check_open()?;
        if self.has_failed {
            return Ok(None);
        }
        // Until it ends or has them again: whoever takes them may panic.
        self.has_failed = true;
        let (mut batches, mut guards) = (Batches::default(), Vec::new());
        for part in &mut self.parts {
            std::mem::take(&mut part.batches).0.into_iter().for_each(|batch| batches.push(batch));
            guards.append(&mut part.guards);
        }
        Ok(Some((batches.into_one(view)?, guards)))
    }

    /// Gives back what a `COMMIT` has [taken](Self::take_changes) and not written. Its savepoints are
    /// released.
    pub(crate) fn give_back(&mut self, changes: Batch, guards: Vec<Guard>) {
        self.parts.truncate(1);
        if let Some(first) = self.parts.first_mut() {
            (first.batches, first.guards) = (Batches(vec![changes]), guards);
        }
        (self.has_failed, self.seen) = (false, None);
        self.count_bytes();
    }

    /// Whether COMMIT must compare rows.
    pub(crate) fn is_guarded(&self) -> bool {
        self.parts.iter().any(|part| !part.guards.is_empty())
    }

    /// `ROLLBACK`.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        self.end(false)
    }

    /// Ends the transaction, whose changes are written or not.
    pub(crate) fn end(&mut self, is_committed: bool) -> Result<()> {
        self.check_open()?;
        (self.has_failed, self.bytes, self.seen, self.fixed_view) = (false, 0, None, None);
        self.memory.release();
        let parts = std::mem::take(&mut self.parts);
        match parts.first() {
            Some(first) if !is_committed => {
                self.settings = first.settings.clone();
                self.temporaries.restore(Arc::clone(&first.temporaries));
            }
            _ => self.temporaries.end_transaction(),
        }
        self.settings.end_local();
        Ok(())
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
        let Some(Part { savepoint, settings, temporaries, .. }) = self.parts.drain(place..).next() else {
            return Ok(0);
        };
        let number = savepoint.as_ref().map_or(0, |(_, number)| *number);
        self.settings = settings.clone();
        self.temporaries.restore(Arc::clone(&temporaries));
        self.parts.push(Part { savepoint, settings, temporaries, ..Part::default() });
        (self.has_failed, self.seen) = (false, None);
        self.count_bytes();
        Ok(number)
    }

    /// All tables as they are now, or as the transaction first saw them, without its own changes.
    ///
    /// # Errors
    /// Those of `now`.
    pub(crate) fn base(&mut self, now: impl FnOnce() -> Result<View>) -> Result<View> {
        if !self.modes().is_repeatable || self.is_none() {
            return now();
        }
        match &self.fixed_view {
            Some(view) => Ok(view.clone()),
            None => Ok(self.fixed_view.insert(now()?).clone()),
        }
    }

    /// The view that all its statements see, if there is one.
    pub(crate) fn fixed_view(&self) -> Option<View> {
        self.fixed_view.clone()
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
        let (settings, temporaries) = (self.settings.clone(), self.temporaries.now());
        let part = Part { savepoint, settings, temporaries, ..Part::default() };
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

impl Transaction {
    /// The value of a setting that can change; `None` for others.
    pub(crate) fn setting(&self, name: &str) -> Option<String> {
        match setting_name(name).as_str() {
            name @ ("transaction_read_only" | "transaction_isolation") => Some(self.modes().get(name).to_owned()),
            name => self.settings.now().get(name),
        }
    }

    /// Changes a PostgreSQL setting, or resets it if there is no value; returns a warning.
    pub(crate) fn change_setting(&mut self, name: &str, value: Option<&str>, is_local: bool) -> Result<Warning> {
        if is_local && self.is_none() {
            return Ok(Some(NO_TRANSACTION));
        }
        match (name, value) {
            ("transaction_read_only" | "transaction_isolation", Some(value)) => {
                let mut modes = self.modes();
                let warning = modes.set(name, value)?;
                Ok(if self.set_modes(modes) { warning } else { Some(NO_TRANSACTION) })
            }
            ("client_encoding", Some(encoding)) if !is_utf8(encoding) => Ok(Some(ENCODING)),
            _ => self.settings.change(name, value, is_local).map(|()| None),
        }
    }
}

/// The settings of a session, for functions that read or change them while it runs a statement.
#[derive(Clone)]
pub struct SharedSettings(pub(crate) Arc<Mutex<Transaction>>);

impl SharedSettings {
    /// The value of a setting that can change; `None` for others.
    pub fn get(&self, name: &str) -> Option<String> {
        self.lock().setting(name)
    }

    /// Changes a setting as SET does, or SET LOCAL.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn change(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        self.lock().change_setting(&setting_name(name), value, is_local).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, Transaction> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_utf8(encoding: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|name| encoding.eq_ignore_ascii_case(name))
}
