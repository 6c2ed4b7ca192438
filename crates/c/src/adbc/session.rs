//! A connection's session, which its statements and their results share.
//!
//! Without autocommit, a statement that writes rows begins a transaction, and commit or rollback ends it.
//! Queries begin none, unless the isolation is REPEATABLE READ. Definitions of tables are effective at once.

use crate::stop::{Begun, Stop};
use crate::work::{Done, PreparedStatement, Work};
use adbc_core::CancelHandle;
use adbc_core::error::Result as AdbcResult;
use fleetdb_engine::{Batch, Code, Error, Result, Value};
use fleetdb_query::Statement;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// A connection's session. Whoever waits for a program's stream must not hold its lock: the stream may read
/// a result of the same session.
pub(super) struct Session {
    state: Mutex<State>,
    stop: Arc<Stop>,
}

/// A session with the modes of its connection.
pub(super) struct State {
    pub(super) work: Work,
    is_autocommit: bool,
    pub(super) is_repeatable: bool,
}

/// Cancels what a connection or a statement runs.
pub(super) struct Cancel(pub(super) Arc<Stop>);

impl CancelHandle for Cancel {
    fn try_cancel(&self) -> AdbcResult<()> {
        self.0.stop();
        Ok(())
    }
}

impl Session {
    pub(super) fn new(work: Work) -> Arc<Self> {
        let stop = Arc::clone(work.stop());
        Arc::new(Self { state: Mutex::new(State { work, is_autocommit: true, is_repeatable: false }), stop })
    }

    /// The session, for one step.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends what runs, without the lock.
    pub(super) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }
}

impl State {
    pub(super) fn is_autocommit(&self) -> bool {
        self.is_autocommit
    }

    /// Turns autocommit on or off. Turning it on commits the open transaction.
    ///
    /// # Errors
    /// The commit failed.
    pub(super) fn set_autocommit(&mut self, is_on: bool) -> Result<()> {
        if is_on && !self.is_autocommit {
            self.commit()?;
        }
        self.is_autocommit = is_on;
        Ok(())
    }

    fn is_in_transaction(&self) -> bool {
        self.work.session().is_in_transaction()
    }

    /// Begins a transaction if the next statement needs one.
    fn begin_for(&self, writes_rows: bool) -> Result<()> {
        let is_needed = !self.is_autocommit && (writes_rows || self.is_repeatable);
        if is_needed && !self.is_in_transaction() && self.work.store().writer().is_ok() {
            self.work.session().begin()?;
        }
        Ok(())
    }

    fn check_has_transactions(&self) -> Result<()> {
        match self.is_autocommit {
            true => Err(Error::new(Code::NoTransaction, "there is no transaction, because autocommit is on")),
            false => Ok(()),
        }
    }

    /// Commits the open transaction, if there is one.
    ///
    /// # Errors
    /// Autocommit is on; or a statement of the transaction had failed, or the write fails. The transaction
    /// has then ended, except that it is still open if the engine has no room for it ([`Code::Busy`]).
    pub(super) fn commit(&mut self) -> Result<()> {
        self.check_has_transactions()?;
        match self.is_in_transaction() {
            true => self.work.run("COMMIT").map(drop),
            false => Ok(()),
        }
    }

    /// Rolls the open transaction back, if there is one.
    ///
    /// # Errors
    /// Autocommit is on.
    pub(super) fn rollback(&mut self) -> Result<()> {
        self.check_has_transactions()?;
        match self.is_in_transaction() {
            true => self.work.run_since("ROLLBACK", &self.work.stop().begin().beyond_stops()).map(drop),
            false => Ok(()),
        }
    }

    /// Runs a statement of a call.
    ///
    /// # Errors
    /// Those of the session.
    pub(super) fn execute(&mut self, statement: Statement, begun: &Begun) -> Result<Done> {
        self.begin_for(crate::work::writes_rows(&statement))?;
        self.work.execute(statement, begun)
    }

    /// Runs a prepared statement of a call with these values.
    ///
    /// # Errors
    /// Those of the session.
    pub(super) fn start(&mut self, prepared: &PreparedStatement, values: &[Value], begun: &Begun) -> Result<Done> {
        self.begin_for(prepared.writes_rows())?;
        self.work.start(prepared, values, begun)
    }

    /// Does several writes of a call as one: in the open transaction, or in one of their own.
    ///
    /// # Errors
    /// Those of the writes. A transaction of their own is rolled back.
    pub(super) fn as_one<T>(&mut self, begun: &Begun, writes: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if !self.is_autocommit || self.is_in_transaction() {
            return writes(self);
        }
        self.work.session().begin()?;
        let done = writes(self).and_then(|done| self.work.run_since("COMMIT", begun).map(|_| done));
        if done.is_err() && self.is_in_transaction() {
            self.work.run_since("ROLLBACK", &begun.beyond_stops())?;
        }
        done
    }

    /// Whether rows that are written now belong to a transaction; begins it if they do.
    ///
    /// # Errors
    /// It cannot begin.
    pub(super) fn begin_to_write(&mut self) -> Result<bool> {
        self.begin_for(true)?;
        Ok(self.is_in_transaction())
    }

    /// Writes rows: as a batch, or in the open transaction.
    ///
    /// # Errors
    /// Those of [`Work::write`].
    pub(super) fn write(&mut self, mut rows: Batch) -> Result<()> {
        self.work.write(&mut rows).map_err(|error| match error.code() {
            Code::LimitExceeded if self.is_in_transaction() => {
                error.with_hint("With autocommit, rows are written in several batches.")
            }
            _ => error,
        })
    }
}
