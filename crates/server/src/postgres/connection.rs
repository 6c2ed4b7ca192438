//! One client: its identity, its session, and the rows it has written but not yet committed.

use super::copy_in::CopyingIn;
use super::cursors::Cursors;
use super::pending::Pending;
use super::prepared_statement::PreparedStatement;
use super::query::KeptQuery;
use crate::access::{Identity, Role};
use crate::clients::{Connected, Registration};
use crate::error::{postgres_error, user_error};
use crate::server::Shared;
use crate::sessions::ClientSession;
use fleetdb_postgres::{Client, ClientState, SessionUser};
use fleetdb_query::{Canceller, PlanCache, SessionSettings};
use futures::{Sink, SinkExt};
use parking_lot::Mutex;
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{NoticeResponse, TransactionStatus};
use pgwire::messages::startup::ParameterStatus;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Notify;

/// How often to check whether a statement has ended while the server stops.
const BUSY_LOOK: Duration = Duration::from_millis(5);

/// Time limit for a running statement to end once its connection is ended, and for the client to
/// read the reason.
pub(super) const END_LIMIT: Duration = Duration::from_secs(5);

/// One client's connection. Its messages are handled one after another, so no lock is held for
/// long.
pub(crate) struct Connection {
    pub(super) shared: Arc<Shared>,
    address: SocketAddr,
    came: SystemTime,
    identity: OnceLock<Identity>,
    rights: Mutex<Rights>,
    /// The client's number, and its entry in the list of clients.
    registration: OnceLock<(i32, Registration)>,
    /// The settings the client sent when it connected.
    settings: OnceLock<SessionSettings>,
    /// The name of the zone that was last reported to the client.
    told_zone: Mutex<String>,
    /// Created by the first statement, so that an idle connection costs no session.
    session: Mutex<Option<ClientSession>>,
    /// Writes since the last Sync, outside a transaction.
    pub(super) pending: Mutex<Pending>,
    /// Queries that are not prepared, without the literals that they compare columns with.
    pub(super) plans: Mutex<PlanCache<KeptQuery>>,
    /// Statements that are prepared without a name.
    pub(super) unnamed: Mutex<PlanCache<PreparedStatement>>,
    pub(super) copying: Mutex<Option<CopyingIn>>,
    pub(super) cursors: Cursors,
    /// Number of rows that a COPY TO STDOUT has sent.
    pub(super) copied_out: Arc<AtomicUsize>,
    /// The warning to send with the next answer.
    warning: Mutex<Option<String>>,
    /// Whether a message is being processed.
    is_busy: AtomicBool,
    newest: Mutex<Newest>,
    /// Why the connection is to end.
    end: OnceLock<End>,
    told_to_end: Notify,
}

/// What the client may do.
#[derive(Default)]
struct Rights {
    /// Whether the client has given a password.
    is_authenticated: bool,
    /// The role as last looked up; `None` if it must be looked up again.
    role: Option<Role>,
    is_admin: bool,
}

/// The latest statement.
#[derive(Clone)]
struct Newest {
    text: Arc<str>,
    began: Option<SystemTime>,
    /// When the statement began, or when it had been answered.
    changed: SystemTime,
}

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The server is stopping, or another client has ended the connection.
    Command,
    /// The client was idle for too long.
    Idle,
    /// The client was idle for too long in an open transaction.
    IdleInTransaction,
    /// The client's user was removed.
    Removed,
}

impl End {
    /// What the client is told, in PostgreSQL's words.
    pub(super) fn error(self) -> ErrorInfo {
        let (code, why) = match self {
            Self::Command => ("57P01", "administrator command"),
            Self::Idle => ("57P05", "idle-session timeout"),
            Self::IdleInTransaction => ("25P03", "idle-in-transaction timeout"),
            Self::Removed => ("28000", "removal of its user"),
        };
        ErrorInfo::new("FATAL".to_owned(), code.to_owned(), format!("terminating connection due to {why}"))
    }
}

impl Connection {
    pub(super) fn new(shared: &Arc<Shared>, address: SocketAddr) -> Self {
        let came = SystemTime::now();
        Self {
            shared: Arc::clone(shared),
            address,
            came,
            identity: OnceLock::new(),
            rights: Mutex::default(),
            registration: OnceLock::new(),
            settings: OnceLock::new(),
            told_zone: Mutex::default(),
            session: Mutex::default(),
            pending: Mutex::new(Pending::new(&shared.store.query_memory())),
            plans: Mutex::new(PlanCache::new(&shared.kept_memory)),
            unnamed: Mutex::new(PlanCache::new(&shared.kept_memory)),
            copying: Mutex::default(),
            cursors: Cursors::default(),
            copied_out: Arc::default(),
            warning: Mutex::default(),
            is_busy: AtomicBool::new(false),
            newest: Mutex::new(Newest { text: "".into(), began: None, changed: came }),
            end: OnceLock::new(),
            told_to_end: Notify::new(),
        }
    }

    /// Stores the settings the client starts with.
    pub(super) fn set_startup_settings(&self, settings: SessionSettings) {
        settings.zone_name().clone_into(&mut self.told_zone.lock());
        self.settings.set(settings).ok();
    }

    /// The name of the zone that the client started with.
    pub(super) fn first_zone(&self) -> String {
        self.settings.get().cloned().unwrap_or_default().zone_name().to_owned()
    }

    /// Reports the session's zone to the client if it has changed.
    pub(super) async fn report_settings<C>(&self, client: &mut C) -> PgWireResult<()>
    where
        C: Sink<PgWireBackendMessage> + Unpin,
        PgWireError: From<C::Error>,
    {
        let Some(session) = self.known_session() else { return Ok(()) };
        let Some(zone) = session.zone_changed_from(&self.told_zone.lock()) else { return Ok(()) };
        self.told_zone.lock().clone_from(&zone);
        let told = ParameterStatus::new("TimeZone".to_owned(), zone);
        client.feed(PgWireBackendMessage::ParameterStatus(told)).await?;
        Ok(())
    }

    /// Records that the client has logged in.
    pub(super) fn logged_in(
        self: &Arc<Self>,
        identity: Identity,
        is_authenticated: bool,
        number: i32,
        secret: Vec<u8>,
    ) {
        *self.rights.lock() = Rights { is_authenticated, role: None, is_admin: identity.role == Role::Admin };
        self.identity.set(identity).ok();
        let connected = Arc::<Self>::downgrade(self);
        self.registration.set((number, self.shared.clients.register(number, Some(secret), connected))).ok();
    }

    /// Who the client is.
    pub(super) fn identity(&self) -> PgWireResult<&Identity> {
        self.identity.get().ok_or_else(|| user_error("28000", "the client has not logged in"))
    }

    /// What the client may do now. It is looked up once between two Syncs, because users may be
    /// changed or removed while they are connected.
    ///
    /// # Errors
    /// The user was removed: the connection ends.
    pub(super) fn role(&self) -> PgWireResult<Role> {
        let identity = self.identity()?;
        let mut rights = self.rights.lock();
        if let Some(role) = rights.role {
            return Ok(role);
        }
        let role = self.shared.access.role(&identity.name, rights.is_authenticated).map_err(|e| postgres_error(&e))?;
        let Some(role) = role else {
            self.end_for(End::Removed);
            return Err(user_error("28000", format!("user \"{}\" no longer exists", identity.name)));
        };
        rights.role = Some(role);
        if std::mem::replace(&mut rights.is_admin, role == Role::Admin) != rights.is_admin
            && let Some(session) = self.session.lock().as_ref()
        {
            session.postgres.set_user(self.session_user(identity, role));
        }
        Ok(role)
    }

    /// Makes the next statement look up what the client may do.
    pub(super) fn ask_rights_again(&self) {
        self.rights.lock().role = None;
    }

    fn session_user(&self, identity: &Identity, role: Role) -> SessionUser {
        let number = self.registration.get().map_or(0, |(number, _)| *number);
        Identity { name: identity.name.clone(), role }.session_user(number)
    }

    /// The session, if there is one yet.
    pub(super) fn known_session(&self) -> Option<ClientSession> {
        self.session.lock().clone()
    }

    /// The session, created on first use.
    pub(super) fn session(&self) -> PgWireResult<ClientSession> {
        // Look up the role before locking the session, because a changed role takes that lock.
        let (role, identity) = (self.role()?, self.identity()?);
        let mut session = self.session.lock();
        if let Some(session) = session.as_ref() {
            return Ok(session.clone());
        }
        let new = self.shared.sessions.make(self.session_user(identity, role)).map_err(|e| postgres_error(&e))?;
        if let Some(settings) = self.settings.get() {
            new.start_with(settings.clone()).map_err(|e| postgres_error(&e))?;
        }
        Ok(session.insert(new).clone())
    }

    /// The longest message that is accepted; a client that has not logged in may send only short
    /// ones.
    pub(super) fn most_message_bytes(&self) -> usize {
        const BEFORE_LOGIN: usize = 64 << 10;
        if self.identity.get().is_some() { self.shared.config.max_body_bytes } else { BEFORE_LOGIN }
    }

    fn canceller(&self) -> Option<Canceller> {
        self.session.lock().as_ref().map(|session| session.canceller())
    }

    /// Marks that a message is being processed.
    pub(super) fn set_busy(&self) {
        self.is_busy.store(true, Ordering::Release);
    }

    /// Marks that everything the client asked has been answered.
    pub(super) fn set_idle(&self) {
        if self.is_busy.swap(false, Ordering::AcqRel) {
            self.newest.lock().changed = SystemTime::now();
        }
    }

    /// Records that a statement with this text begins.
    pub(super) fn statement_started(&self, text: &Arc<str>) {
        let now = SystemTime::now();
        *self.newest.lock() = Newest { text: Arc::clone(text), began: Some(now), changed: now };
    }

    /// Makes the connection end, for this reason unless there is one already.
    pub(super) fn end_for(&self, end: End) {
        self.end.set(end).ok();
        self.told_to_end.notify_one();
    }

    /// Whether the connection is to end, because of a command or a timeout.
    pub(super) fn is_to_end(&self) -> bool {
        self.end.get().is_some()
    }

    /// Waits until the connection is to end and no statement is running; returns the reason.
    pub(super) async fn ended(&self) -> End {
        let mut cut_off = None;
        tokio::select! {
            () = self.shared.stopped() => {}
            () = self.told_to_end.notified() => cut_off = Some(Instant::now() + END_LIMIT),
        }
        // Polled, so that a statement need not signal its end.
        while self.is_busy.load(Ordering::Acquire) && cut_off.is_none_or(|at| Instant::now() < at) {
            tokio::time::sleep(BUSY_LOOK).await;
        }
        self.end.get().copied().unwrap_or(End::Command)
    }

    /// How long the client may be idle, and what happens after that.
    pub(super) fn idle_limit(&self) -> Option<(Duration, End)> {
        if self.copying.lock().is_some() {
            return None;
        }
        let Some(session) = self.known_session() else {
            return Some((self.settings.get()?.idle_limit(false)?, End::Idle));
        };
        let end = if session.is_in_transaction() { End::IdleInTransaction } else { End::Idle };
        Some((session.idle_limit()?, end))
    }

    /// Sends a warning, if there is one, with the next answer.
    pub(super) fn warn(&self, warning: Option<impl Into<String>>) {
        *self.warning.lock() = warning.map(Into::into);
    }

    /// Adds to the warning that is sent with the next answer.
    pub(super) fn warn_also(&self, more: String) {
        let mut warning = self.warning.lock();
        *warning = Some(match warning.take() {
            Some(first) => format!("{first}; {more}"),
            None => more,
        });
    }

    /// The warning to send with this answer.
    pub(super) fn take_warning(&self) -> Option<NoticeResponse> {
        let warning = self.warning.lock().take()?;
        Some(ErrorInfo::new("WARNING".to_owned(), "01000".to_owned(), warning).into())
    }

    /// Handles a failure: discards what was gathered since the last Sync and leaves an open
    /// transaction able only to roll back. Returns the status to report; after a failed COMMIT
    /// there is no transaction.
    pub(super) fn failed(&self) -> TransactionStatus {
        self.pending.lock().clear();
        *self.copying.lock() = None;
        match self.session.lock().as_ref() {
            Some(session) if session.is_in_transaction() => {
                session.fail_transaction();
                TransactionStatus::Error
            }
            _ => TransactionStatus::Idle,
        }
    }
}

impl Connected for Connection {
    fn client(&self, number: i32) -> Client {
        let session = self.known_session();
        let settings = session.as_ref().map(|session| session.settings()).or_else(|| self.settings.get().cloned());
        let state = match &session {
            _ if self.is_busy.load(Ordering::Acquire) || self.copying.lock().is_some() => ClientState::Active,
            Some(session) if session.check_transaction().is_err() => ClientState::IdleInFailedTransaction,
            Some(session) if session.is_in_transaction() => ClientState::IdleInTransaction,
            _ => ClientState::Idle,
        };
        let Newest { text, began, changed } = self.newest.lock().clone();
        Client {
            number,
            user: self.user(),
            application_name: settings.unwrap_or_default().application_name().to_owned(),
            address: Some(self.address),
            came: self.came,
            transaction_began: session.and_then(|session| session.transaction_began()),
            statement_began: began,
            changed,
            state,
            statement: text.to_string(),
        }
    }

    fn user(&self) -> String {
        self.identity.get().map(|identity| identity.name.clone()).unwrap_or_default()
    }

    fn cancel(&self) {
        if let Some(canceller) = self.canceller() {
            canceller.cancel();
        }
    }

    fn end(&self) {
        self.end_for(End::Command);
        self.cancel();
    }

    fn users_changed(&self) {
        self.ask_rights_again();
        // The role is not kept: the users may change once more before the next statement.
        let Ok(identity) = self.identity() else { return };
        let is_authenticated = self.rights.lock().is_authenticated;
        if matches!(self.shared.access.role(&identity.name, is_authenticated), Ok(None)) {
            self.end_for(End::Removed);
            self.cancel();
        }
    }
}
