//! One client: who it is, its session, and what it has written that is not yet committed.

use super::copy_in::CopyingIn;
use super::cursors::Cursors;
use super::{CancelKey, Cancels};
use crate::access::Identity;
use crate::error::{postgres_error, user_error};
use crate::server::Shared;
use fleetdb_engine::{Batch, Error, Growing, MAX_BATCH_BYTES, Result, Value};
use fleetdb_query::{Canceller, InsertValues, Session, SessionSettings};
use parking_lot::Mutex;
use pgwire::error::{ErrorInfo, PgWireResult};
use pgwire::messages::response::NoticeResponse;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often a server that stops looks whether a statement has ended.
const BUSY_LOOK: Duration = Duration::from_millis(5);

/// See the module. Messages of a client are handled one after the other: the locks are never waited for long.
pub(crate) struct Connection {
    pub(super) shared: Arc<Shared>,
    cancels: Arc<Cancels>,
    number: OnceLock<i32>,
    identity: OnceLock<Identity>,
    /// What the client has set when it connected.
    settings: OnceLock<SessionSettings>,
    /// Made with the first statement: an idle connection costs no session.
    session: Mutex<Option<Arc<Session>>>,
    /// INSERTs since the last Sync, outside a transaction.
    pending: Mutex<Pending>,
    pub(super) copying: Mutex<Option<CopyingIn>>,
    pub(super) cursors: Cursors,
    /// How many rows a COPY TO STDOUT has sent.
    pub(super) copied_out: Arc<AtomicUsize>,
    /// What the next answer has to warn of.
    warning: Mutex<Option<String>>,
    /// Whether a statement is on its way.
    is_busy: AtomicBool,
}

struct Pending {
    batch: Batch,
    memory: Growing,
}

impl Pending {
    fn gather(&mut self, insert: &InsertValues, values: &[Value]) -> Result<usize> {
        let count = insert.push(values, &mut self.batch)?;
        let bytes = self.batch.bytes();
        if bytes > MAX_BATCH_BYTES {
            return Err(Error::input(format!(
                "{bytes} bytes without a Sync, which are one batch: the most is {MAX_BATCH_BYTES}"
            )));
        }
        self.memory.reach("what is sent without a Sync", bytes)?;
        Ok(count)
    }

    /// What was gathered, if anything was.
    fn take(&mut self) -> Option<Batch> {
        self.memory.clear();
        (!self.batch.is_empty()).then(|| std::mem::take(&mut self.batch))
    }
}

impl Connection {
    pub(super) fn new(shared: &Arc<Shared>, cancels: &Arc<Cancels>) -> Self {
        Self {
            shared: Arc::clone(shared),
            cancels: Arc::clone(cancels),
            number: OnceLock::new(),
            identity: OnceLock::new(),
            settings: OnceLock::new(),
            session: Mutex::default(),
            pending: Mutex::new(Pending { batch: Batch::new(), memory: shared.db.query_memory().growing() }),
            copying: Mutex::default(),
            cursors: Cursors::default(),
            copied_out: Arc::default(),
            warning: Mutex::default(),
            is_busy: AtomicBool::new(false),
        }
    }

    pub(super) fn cancels(&self) -> &Arc<Cancels> {
        &self.cancels
    }

    /// The client begins with these settings.
    pub(super) fn set_first(&self, settings: SessionSettings) {
        self.settings.set(settings).ok();
    }

    /// The client has proven who it is.
    pub(super) fn let_in(self: &Arc<Self>, identity: Identity, key: CancelKey) {
        self.identity.set(identity).ok();
        self.number.set(key.0).ok();
        self.cancels.note(key, self);
    }

    pub(super) fn close(&self) {
        if let Some(number) = self.number.get() {
            self.cancels.forget(*number);
        }
        self.cancel();
    }

    /// Who it is.
    pub(super) fn identity(&self) -> PgWireResult<&Identity> {
        self.identity.get().ok_or_else(|| user_error("28000", "nobody has logged in"))
    }

    /// The session; made when it is asked for first.
    pub(super) fn session(&self) -> PgWireResult<Arc<Session>> {
        let mut session = self.session.lock();
        if let Some(session) = session.as_ref() {
            return Ok(Arc::clone(session));
        }
        let new = self.shared.sessions.make().map_err(|e| postgres_error(&e))?;
        if let Some(settings) = self.settings.get() {
            new.start_with(settings.clone());
        }
        Ok(Arc::clone(session.insert(Arc::new(new))))
    }

    /// The longest message: little from somebody who has not logged in.
    pub(super) fn most_message_bytes(&self) -> usize {
        const OF_A_STRANGER: usize = 64 << 10;
        if self.identity.get().is_some() { self.shared.config.max_body_bytes } else { OF_A_STRANGER }
    }

    fn canceller(&self) -> Option<Canceller> {
        self.session.lock().as_ref().map(|session| session.canceller())
    }

    /// Cancels the statement that runs.
    pub(super) fn cancel(&self) {
        if let Some(canceller) = self.canceller() {
            canceller.cancel();
        }
    }

    /// A statement begins, or everything that was asked has been answered.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Release);
    }

    /// Waits until the server stops and no statement is on its way.
    pub(super) async fn may_be_closed(&self) {
        self.shared.stopped().await;
        // Looked at now and then, so that a statement need not tell anybody when it ends.
        while self.is_busy.load(Ordering::Acquire) {
            tokio::time::sleep(BUSY_LOOK).await;
        }
    }

    /// Has the next answer warn of something, if there is something to warn of.
    pub(super) fn warn(&self, warning: Option<impl Into<String>>) {
        *self.warning.lock() = warning.map(Into::into);
    }

    /// What the answer has to warn of.
    pub(super) fn take_warning(&self) -> Option<NoticeResponse> {
        let warning = self.warning.lock().take()?;
        Some(ErrorInfo::new("WARNING".to_owned(), "01000".to_owned(), warning).into())
    }

    /// Something failed: what was gathered since the last Sync is not written, and a transaction can only be rolled
    /// back.
    pub(super) fn failed(&self) {
        drop(self.pending.lock().take());
        *self.copying.lock() = None;
        if let Some(session) = self.session.lock().as_ref() {
            session.fail_transaction();
        }
    }

    /// Gathers the rows of an INSERT of plain values for the transaction, or for the next Sync; gives how many they are.
    pub(super) fn gather(&self, insert: &InsertValues, values: &[Value]) -> Result<usize> {
        let session = self.session.lock().clone();
        if let Some(session) = &session {
            session.check_may_write("INSERT")?;
        }
        let session = session.filter(|session| session.is_in_transaction());
        let Some(session) = session else { return self.pending.lock().gather(insert, values) };
        let mut rows = Batch::new();
        let count = insert.push(values, &mut rows)?;
        session.gather(rows)?;
        Ok(count)
    }

    /// Writes what was gathered; returns when it is as durable as the server is told.
    pub(super) async fn commit_pending(&self) -> PgWireResult<()> {
        let pending = self.pending.lock().take();
        match pending {
            Some(batch) => self.commit(batch).await,
            None => Ok(()),
        }
    }

    /// Writes a batch, without a thread that waits for it.
    pub(super) async fn commit(&self, batch: Batch) -> PgWireResult<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.shared.commit(batch).await.map(|_| ()).map_err(|e| postgres_error(&e))
    }
}
