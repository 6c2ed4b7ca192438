//! Connected clients and their activity, for `pg_stat_activity`, `pg_cancel_backend` and
//! `pg_terminate_backend` (<https://www.postgresql.org/docs/current/monitoring-stats.html>). The
//! server implements [`Clients`] and sessions query it.

use std::net::SocketAddr;
use std::time::SystemTime;

/// The activity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// Running a statement.
    Active,
    /// Idle, outside a transaction.
    Idle,
    /// Idle, inside a transaction.
    IdleInTransaction,
    /// Idle, inside a failed transaction that can only be rolled back.
    IdleInFailedTransaction,
}

impl ClientState {
    /// PostgreSQL's name for it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// A client connected to a server.
#[derive(Clone, Debug)]
pub struct Client {
    /// The number by which the client is cancelled; in PostgreSQL, the number of its process.
    pub number: i32,
    /// The user's name.
    pub user: String,
    /// The application name the client gave.
    pub application_name: String,
    /// The client's address.
    pub address: Option<SocketAddr>,
    /// When the client connected.
    pub came: SystemTime,
    /// When the current transaction began.
    pub transaction_began: Option<SystemTime>,
    /// When the newest statement began.
    pub statement_began: Option<SystemTime>,
    /// When the activity last changed.
    pub changed: SystemTime,
    /// The current activity.
    pub state: ClientState,
    /// The text of the newest statement, possibly truncated.
    pub statement: String,
}

impl Client {
    /// The maximum number of bytes shown of a statement's text, like PostgreSQL's
    /// `track_activity_query_size`.
    pub const STATEMENT_BYTES: usize = 1_024;
}

/// The clients of a server.
pub trait Clients: Send + Sync {
    /// Lists all clients.
    fn all(&self) -> Vec<Client>;

    /// The user of a client; `None` if no client has this number.
    fn user(&self, number: i32) -> Option<String>;

    /// Cancels the statement that a client is running, if any.
    fn cancel(&self, number: i32);

    /// Ends a client's connection.
    fn end(&self, number: i32);
}

/// The client and user a session works for.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_postgres::{Postgres, SessionUser};
/// use fleetdb_query::Session;
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let postgres = Postgres::new();
/// let session = Session::new(db.into(), postgres.clone()).unwrap();
/// postgres.set_user(SessionUser { number: 7, user: "ann".to_owned(), is_admin: false, may_end: true });
/// let rows = session.sql("SELECT pg_backend_pid(), current_user").unwrap().collect().unwrap();
/// assert_eq!(rows[0].num_rows(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUser {
    /// The client's number, as in [`Client`].
    pub number: i32,
    /// The user's name.
    pub user: String,
    /// Whether the user may see and cancel other users' statements.
    pub is_admin: bool,
    /// Whether the user may cancel statements and end connections. False for read-only access.
    pub may_end: bool,
}

impl Default for SessionUser {
    /// For a program with exclusive use of the database.
    fn default() -> Self {
        let number = i32::try_from(std::process::id()).unwrap_or(1);
        Self { number, user: "postgres".to_owned(), is_admin: true, may_end: true }
    }
}

/// The only client of an embedded database, with the time at which it started.
pub struct EmbeddedClient(pub SystemTime);

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
