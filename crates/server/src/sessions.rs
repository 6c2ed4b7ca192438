//! A pool of sessions for requests that keep no state, and running statements whose rows are still
//! being read.

use crate::clients::{Clients, Connected, Registration};
use crate::work::{JobLimiter, Weight};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use fleetdb_engine::{Acknowledged, Result};
use fleetdb_postgres::{AdvisoryLocks, Postgres, SessionUser};
use fleetdb_query::{Answer, Canceller, Files, Session, Store};
use futures::FutureExt;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The largest number of idle sessions that are kept.
const MAX_IDLE: usize = 64;

/// Rows to compute before the first ones are sent.
const FEW_ROWS: usize = 1_000;

/// See [`Running::is_short`].
const SHORT: Duration = Duration::from_millis(1);

/// A session of a client, and its dialect.
#[derive(Clone)]
pub(crate) struct ClientSession {
    session: Arc<Session>,
    pub(crate) postgres: Arc<Postgres>,
}

impl Deref for ClientSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// The pool of idle sessions.
pub(crate) struct Sessions {
    store: Store,
    timeout: Option<Duration>,
    locks: Arc<AdvisoryLocks>,
    clients: Arc<Clients>,
    files: Files,
    idle: Mutex<Vec<ClientSession>>,
}

impl Sessions {
    pub(crate) fn new(store: &Store, clients: &Arc<Clients>, timeout: Option<Duration>, files: Files) -> Self {
        let clients = Arc::clone(clients);
        Self { store: store.clone(), timeout, locks: Arc::default(), clients, files, idle: Mutex::default() }
    }

    /// Creates a session for a caller that keeps it.
    pub(crate) fn make(&self, session_user: SessionUser) -> Result<ClientSession> {
        let postgres = Postgres::sharing(&self.locks, Arc::clone(&self.clients) as Arc<_>);
        let session = Session::on_store(self.store.clone(), Arc::clone(&postgres) as Arc<_>)?;
        let session = session.with_files(self.files.clone());
        session.set_timeout(self.timeout);
        postgres.set_user(session_user);
        Ok(ClientSession { session: Arc::new(session), postgres })
    }

    /// Takes a session from the pool, in the state of a new one.
    pub(crate) fn take(self: &Arc<Self>, session_user: SessionUser) -> Result<Pooled> {
        let idle = self.idle.lock().pop();
        let session = match idle {
            Some(session) => {
                session.set_timeout(self.timeout);
                session.postgres.set_user(session_user);
                // A client that goes away cancels its statement, perhaps when the session is here already.
                session.renew_canceller();
                session
            }
            None => self.make(session_user)?,
        };
        Ok(Pooled {
            session: Some(session),
            sessions: Arc::clone(self),
            is_modified: AtomicBool::new(false),
            client: None,
        })
    }
}

/// A session that returns to the pool when it is dropped.
pub(crate) struct Pooled {
    /// `Some` until this is dropped.
    session: Option<ClientSession>,
    sessions: Arc<Sessions>,
    is_modified: AtomicBool,
    /// The client that uses the session.
    client: Option<(Registration, Arc<dyn Connected>)>,
}

impl Pooled {
    /// Lists the client that uses the session, until the session is returned: a cancel request must
    /// not reach the next user.
    pub(crate) fn register<C: Connected + 'static>(&mut self, number: i32, client: C) {
        let client = Arc::new(client);
        let connected = Arc::downgrade(&client);
        self.client = Some((self.sessions.clients.register(number, None, connected), client));
    }

    /// Marks that a statement changes the session, which is then not reused.
    pub(crate) fn mark_modified(&self) {
        self.is_modified.store(true, Ordering::Relaxed);
    }
}

impl Deref for Pooled {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is taken only when this is dropped")
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.client = None;
        if let Some(session) = &self.session {
            session.postgres.release_locks();
        }
        let mut idle = self.sessions.idle.lock();
        if idle.len() < MAX_IDLE && !self.is_modified.load(Ordering::Relaxed) {
            idle.extend(self.session.take());
        }
    }
}

/// Cancels the statement when dropped, if it is still running.
struct CancelOnDrop(Option<Canceller>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(canceller) = &self.0 {
            canceller.cancel();
        }
    }
}

/// A running statement whose rows are still being read.
pub(crate) struct Running<S> {
    /// `None` while a thread works on the statement, and when all rows have been computed.
    state: Option<(S, Answer)>,
    schema: Option<SchemaRef>,
    tag: Option<String>,
    warning: Option<String>,
    acknowledged: Option<Acknowledged>,
    /// Rows that have been computed but not yet taken.
    buffered: VecDeque<RecordBatch>,
    cancel: CancelOnDrop,
    /// Time to the first rows, without the wait for a turn.
    elapsed: Duration,
}

impl<S: Deref<Target = Session> + Send + 'static> Running<S> {
    /// Runs a statement up to its first rows on another thread; `begin` executes it.
    ///
    /// # Errors
    /// Those of the statement, or of [`JobLimiter::run`].
    pub(crate) async fn start(
        work: &JobLimiter,
        weight: Weight,
        session: S,
        begin: impl FnOnce(&S) -> Result<Answer> + Send + 'static,
    ) -> Result<Self> {
        let cancel = CancelOnDrop(Some(session.announce()));
        // The canceller stays here, so that the statement ends if its caller no longer waits.
        let begun = work.run_as(weight, move || Self::begun(session, begin)).await;
        Self::watched(begun, cancel)
    }

    /// Like [`start`](Self::start), but on this thread; see [`JobLimiter::run_here`].
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) async fn start_here(
        work: &JobLimiter,
        weight: Weight,
        session: S,
        begin: impl FnOnce(&S) -> Result<Answer>,
    ) -> Result<Self> {
        let cancel = CancelOnDrop(Some(session.announce()));
        let begun = work.run_here(weight, move || Self::begun(session, begin)).await;
        Self::watched(begun, cancel)
    }

    /// Like [`start_here`](Self::start_here), for a statement that is likely to be short: this
    /// thread's other tasks move to another thread only once the statement has proved long
    /// ([`next_soon`]). `None` if `begin` gives no answer.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) async fn start_short(
        work: &JobLimiter,
        session: S,
        begin: impl FnOnce(&S) -> Result<Option<Answer>>,
    ) -> Result<Option<Self>> {
        let mut cancel = CancelOnDrop(Some(session.announce()));
        let begun = work.acquire(Weight::Light).await.map(|_permit| {
            let at = Instant::now();
            // A read may have to wait for the cluster's log.
            let answer = match session.waits_to_show() {
                true => tokio::task::block_in_place(|| begin(&session)),
                false => begin(&session),
            };
            let answer = answer.transpose()?;
            Some(answer.and_then(|answer| Self::with_first_rows(session, answer, at, next_soon)))
        });
        match begun.transpose() {
            Some(begun) => Self::watched(begun, cancel).map(Some),
            None => {
                cancel.0 = None;
                Ok(None)
            }
        }
    }

    fn begun(session: S, begin: impl FnOnce(&S) -> Result<Answer>) -> Result<Self> {
        let at = Instant::now();
        let answer = begin(&session)?;
        Self::with_first_rows(session, answer, at, Answer::next)
    }

    /// Reads the first rows. Most answers end with them, and are then not asked again.
    fn with_first_rows(
        session: S,
        mut answer: Answer,
        begun: Instant,
        next: impl Fn(&mut Answer) -> Option<Result<RecordBatch>>,
    ) -> Result<Self> {
        let (schema, tag) = (answer.schema(), answer.tag().map(str::to_owned));
        let (warning, acknowledged) = (answer.warning().map(str::to_owned), answer.acknowledged());
        let (mut buffered, mut rows) = (VecDeque::new(), 0);
        while rows < FEW_ROWS
            && let Some(batch) = next(&mut answer).transpose()?
        {
            rows += batch.num_rows();
            buffered.push_back(batch);
        }
        let state = (rows >= FEW_ROWS).then_some((session, answer));
        let (cancel, elapsed) = (CancelOnDrop(None), begun.elapsed());
        Ok(Self { state, schema, tag, warning, acknowledged, buffered, cancel, elapsed })
    }

    /// Arms `cancel` for a statement that still runs; `begun` is an error if there was no thread
    /// for it.
    fn watched(begun: Result<Result<Self>>, mut cancel: CancelOnDrop) -> Result<Self> {
        match begun.flatten() {
            Ok(mut running) if running.state.is_some() => {
                running.cancel = cancel;
                Ok(running)
            }
            // Disarm `cancel`, because the session may be running another statement by now, which
            // must not be cancelled.
            ended => {
                cancel.0 = None;
                ended
            }
        }
    }

    /// Prepares for more rows, perhaps after other statements of the session: an earlier cancel no
    /// longer applies, and the statement's time limit starts anew.
    pub(crate) fn resume(&mut self) {
        if let Some((session, answer)) = &mut self.state {
            session.resume(answer);
        }
    }

    /// Whether the statement was so short that it may run on a thread without moving the thread's
    /// other tasks.
    pub(crate) fn is_short(&self) -> bool {
        self.state.is_none() && self.elapsed < SHORT
    }

    /// The schema of the rows, if the statement returns rows.
    pub(crate) fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// The command tag of a statement that returns no rows.
    pub(crate) fn tag(&self) -> &str {
        self.tag.as_deref().unwrap_or_default()
    }

    /// The command tag of a statement that returns rows, without their number.
    pub(crate) fn verb(&self) -> &str {
        self.tag().rsplit_once(' ').map_or("SELECT", |(verb, _)| verb)
    }

    /// What the user should know although the statement succeeded.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The last batch that the statement committed.
    pub(crate) fn acknowledged(&self) -> Option<Acknowledged> {
        self.acknowledged
    }

    /// The next rows; `None` when there are no more. No thread waits between calls.
    ///
    /// # Errors
    /// The statement failed while running.
    pub(crate) async fn next(&mut self, work: &JobLimiter) -> Result<Option<RecordBatch>> {
        if let Some(buffered) = self.buffered.pop_front() {
            return Ok(Some(buffered));
        }
        let Some((session, mut answer)) = self.state.take() else { return Ok(None) };
        let next = work.run(move || {
            let next = answer.next().transpose();
            (session, answer, next)
        });
        let (session, answer, next) = next.await?;
        let next = next?;
        match next {
            Some(_) => self.state = Some((session, answer)),
            // The session may be running another statement by now.
            None => self.cancel.0 = None,
        }
        Ok(next)
    }
}

/// The next rows. Stays on this thread as long as they come without a wait or a pause. Plans pause
/// every 128 batches (tokio's budget), so even queries on all threads at once do not block other
/// tasks for long.
fn next_soon(answer: &mut Answer) -> Option<Result<RecordBatch>> {
    let soon = answer.next_rows().now_or_never();
    soon.unwrap_or_else(|| tokio::task::block_in_place(|| answer.next()))
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
