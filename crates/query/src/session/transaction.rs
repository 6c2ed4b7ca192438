//! A session's transaction: BEGIN, COMMIT and ROLLBACK, and the rows that they collect.

use super::Session;
use crate::answer::Answer;
use crate::transaction::Transaction;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use fleetdb_engine::{Batch, Code, Error, Result};
use fleetdb_statement::Statement;
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

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
        self.store.writer()?.check(&rows)?;
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

    /// Runs a BEGIN with its modes; returns a warning.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    pub fn begin_as(&self, statement: &Statement) -> Result<Option<&'static str>> {
        let given = match statement.sql() {
            Some(SqlStatement::StartTransaction { modes, .. }) => modes.as_slice(),
            _ => &[],
        };
        self.begin()?;
        let mut transaction = self.transaction();
        let (modes, warning) = transaction.modes().with(given);
        transaction.set_modes(modes);
        Ok(warning)
    }

    /// Tells the dialect that the transaction has ended; PostgreSQL's releases its advisory locks. A
    /// transaction that was [taken](Self::take_transaction) must have been written before, so that
    /// the next holder of such a lock sees its changes. A transaction that is still open, because its COMMIT could not
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
        // SET LOCAL ends with the transaction.
        let durability = self.durability();
        let taken = self.transaction().take(|| self.store.view())?;
        Ok(taken.map(|(batch, _)| batch.with_durability(durability)))
    }

    /// Whether the open transaction depends on rows that it read, which COMMIT compares.
    pub fn has_read_rows(&self) -> bool {
        self.transaction().is_guarded()
    }

    /// Does what `COMMIT` does, without a statement. If the engine has no room for the changes now
    /// ([`Code::Busy`]), nothing is written and the transaction stays open, without its savepoints: the
    /// caller may commit it again.
    ///
    /// ```
    /// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
    /// use fleetdb_query::Session;
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    /// session.begin().unwrap();
    /// assert_eq!(session.commit_or_stay().unwrap().tag(), Some("COMMIT"));
    /// assert!(!session.is_in_transaction());
    /// ```
    ///
    /// # Errors
    /// There is no transaction, rows that it depends on have changed, or the write fails.
    pub fn commit_or_stay(&self) -> Result<Answer> {
        self.begin_statement();
        let committed = self.write_transaction();
        if !self.is_in_transaction() {
            self.dialect.transaction_ended();
        }
        committed
    }

    /// Ends the transaction: writes its batch, or rolls it back if a statement had failed.
    ///
    /// # Errors
    /// There is no transaction, rows that it depends on have changed, or the write fails.
    pub(super) fn commit(&self) -> Result<Answer> {
        let committed = self.write_transaction();
        self.transaction_ended();
        committed
    }

    /// Writes the changes of the transaction and ends it. If the engine has no room for them, it stays
    /// open.
    fn write_transaction(&self) -> Result<Answer> {
        let durability = self.durability();
        let taken = self.transaction().take_changes(|| self.store.view());
        let (batch, guards) = match taken {
            Ok(Some(changes)) => changes,
            Ok(None) => return self.transaction().roll_back().map(|()| Answer::done("ROLLBACK")),
            Err(error) => {
                // This fails only if there is no transaction.
                self.transaction().roll_back().ok();
                return Err(error);
            }
        };
        let is_empty = batch.is_empty();
        // The engine takes it when there is room.
        let mut batch = Some(batch.with_durability(durability));
        let written = self.store.writer().and_then(|db| match &batch {
            Some(batch) if guards.is_empty() => db.commit(batch),
            _ => db.transact(|view| {
                self.check_guards(view, &guards)?;
                Ok(batch.take().unwrap_or_default())
            }),
        });
        let mut transaction = self.transaction();
        match (written, batch) {
            (Ok(acknowledged), _) => {
                let acknowledged = (!is_empty).then_some(acknowledged);
                transaction.end(true).map(|()| Answer::done("COMMIT").acknowledged_by(acknowledged))
            }
            (Err(error), Some(batch)) if error.code() == Code::Busy => {
                transaction.give_back(batch, guards);
                Err(error)
            }
            (Err(error), _) => transaction.roll_back().and(Err(error)),
        }
    }

    /// Ends the transaction without writing its rows.
    ///
    /// # Errors
    /// There is no transaction.
    pub(super) fn roll_back(&self) -> Result<Answer> {
        let done = self.transaction().roll_back().map(|()| Answer::done("ROLLBACK"));
        self.transaction_ended();
        done
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

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
