//! Who is connected to a server and what they do, for `pg_stat_activity`, `pg_cancel_backend` and `pg_terminate_backend`
//! (<https://www.postgresql.org/docs/current/monitoring-stats.html>). The server knows them; a session asks it.

use std::net::SocketAddr;
use std::time::SystemTime;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// A statement of it runs.
    Active,
    /// Nothing.
    Idle,
    /// Nothing, with a transaction open.
    IdleInTransaction,
    /// Nothing, with a transaction open that can only be rolled back.
    IdleInFailedTransaction,
}

impl ClientState {
    /// In PostgreSQL's words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// A client of a server.
#[derive(Clone, Debug)]
pub struct Client {
    /// What it is cancelled by; that of a process in PostgreSQL.
    pub number: i32,
    /// Who it is.
    pub user: String,
    /// What the program calls itself.
    pub application_name: String,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// When it came.
    pub came: SystemTime,
    /// When its transaction began.
    pub transaction_began: Option<SystemTime>,
    /// When its newest statement began.
    pub statement_began: Option<SystemTime>,
    /// When it began to do what it does.
    pub changed: SystemTime,
    /// What it does.
    pub state: ClientState,
    /// Its newest statement's text, or the beginning of it.
    pub statement: String,
}

impl Client {
    /// Bytes of a statement's text that are shown, as PostgreSQL's `track_activity_query_size`.
    pub const STATEMENT_BYTES: usize = 1_024;
}

/// The clients of a server.
pub trait Clients: Send + Sync {
    /// All of them.
    fn all(&self) -> Vec<Client>;

    /// Who a client is; `None` if there is none of this number.
    fn user(&self, number: i32) -> Option<String>;

    /// Cancels the statement that a client runs, if it runs one.
    fn cancel(&self, number: i32);

    /// Ends a client's connection.
    fn end(&self, number: i32);
}

/// Whom a session works for.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_query::{Session, SessionUser};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into()).unwrap();
/// session.set_user(SessionUser { number: 7, user: "ann".to_owned(), is_admin: false, may_end: true });
/// let rows = session.sql("SELECT pg_backend_pid(), current_user").unwrap().collect().unwrap();
/// assert_eq!(rows[0].num_rows(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUser {
    /// Of [`Client`].
    pub number: i32,
    /// Who it is.
    pub user: String,
    /// Whether it may cancel what others do, and see their statements.
    pub is_admin: bool,
    /// Whether it may end what is done, as who only reads may not.
    pub may_end: bool,
}

impl Default for SessionUser {
    /// Who has the database to himself.
    fn default() -> Self {
        let number = i32::try_from(std::process::id()).unwrap_or(1);
        Self { number, user: "postgres".to_owned(), is_admin: true, may_end: true }
    }
}

/// The program itself, which has the database to itself, since then.
pub(crate) struct EmbeddedClient(pub(crate) SystemTime);

impl Clients for EmbeddedClient {
    fn all(&self) -> Vec<Client> {
        let SessionUser { number, user, .. } = SessionUser::default();
        let (application_name, statement) = Default::default();
        vec![Client {
            number,
            user,
            application_name,
            address: None,
            came: self.0,
            transaction_began: None,
            statement_began: None,
            changed: self.0,
            state: ClientState::Active,
            statement,
        }]
    }

    fn user(&self, _number: i32) -> Option<String> {
        None
    }

    fn cancel(&self, _number: i32) {}

    fn end(&self, _number: i32) {}
}
