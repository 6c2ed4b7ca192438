//! The dialect of a session, with the state that the catalog shows.

use crate::advisory::{AdvisoryLocks, HeldLocks};
use crate::catalog::{self, PgCatalog};
use crate::clients::{Clients, EmbeddedClient, SessionUser};
use crate::functions::intervals::ScaleIntervals;
use crate::rewrite::rewrite_for_planner;
use crate::types::typing::typed;
use crate::types::zones::{CastByClocks, Clocks};
use datafusion::error::Result as PlanResult;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::Statement;
use fleetdb_engine::Result;
use fleetdb_query::depth::Links;
use fleetdb_query::{CurrentZone, Declare, Dialect, Session, Zone};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// PostgreSQL's SQL, for one session.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_postgres::Postgres;
/// use fleetdb_query::Session;
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into(), Postgres::new()).unwrap();
/// let rows = session.sql("SELECT to_char(now(), 'YYYY'), current_database()").unwrap().collect().unwrap();
/// assert_eq!(rows[0].num_rows(), 1);
/// ```
pub struct Postgres {
    catalog: PgCatalog,
    pub(crate) locks: Arc<HeldLocks>,
    /// The clients of the server, and the client that the session works for.
    pub(crate) clients: Arc<dyn Clients>,
    pub(crate) session_user: Arc<Mutex<SessionUser>>,
    /// The rows of `pg_cursors`.
    pub(crate) cursors: Arc<Mutex<Vec<Declare>>>,
}

impl Postgres {
    /// For the session of a program that embeds the database.
    #[expect(clippy::new_ret_no_self, reason = "a session takes its dialect shared")]
    pub fn new() -> Arc<Self> {
        Self::sharing(&Arc::default(), Arc::new(EmbeddedClient(SystemTime::now())))
    }

    /// For a session that shares its advisory locks with others and knows the server's clients.
    pub fn sharing(locks: &Arc<AdvisoryLocks>, clients: Arc<dyn Clients>) -> Arc<Self> {
        Arc::new(Self {
            catalog: PgCatalog::default(),
            locks: Arc::new(HeldLocks::new(Arc::clone(locks))),
            clients,
            session_user: Arc::default(),
            cursors: Arc::default(),
        })
    }

    /// Sets the client that the session works for from now on.
    pub fn set_user(&self, session_user: SessionUser) {
        *self.session_user.lock().unwrap_or_else(PoisonError::into_inner) = session_user;
    }

    /// Sets the cursors that `pg_cursors` shows. The server keeps the cursors themselves.
    pub fn show_cursors(&self, cursors: Vec<Declare>) {
        *self.cursors.lock().unwrap_or_else(PoisonError::into_inner) = cursors;
    }

    /// Releases the session's advisory locks, so that its next user starts with none.
    pub fn release_locks(&self) {
        self.locks.release_all();
    }
}

impl Dialect for Postgres {
    fn register(&self, context: &SessionContext) -> PlanResult<()> {
        context.state_ref().write().register_expr_planner(Arc::new(ScaleIntervals))
    }

    fn analyzer_rules(&self, zone: &CurrentZone) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
        vec![Arc::new(CastByClocks(zone.clone()))]
    }

    fn has_parser_for(&self, text: &str) -> bool {
        catalog::is_about(text)
    }

    fn parse(&self, session: &Session, text: &str, links: Links) -> Result<Vec<ParsedStatement>> {
        self.catalog.parse(self, session, text, links)
    }

    fn rewrite(&self, text: &str, statements: &mut [&mut Statement]) -> Result<()> {
        rewrite_for_planner(text, statements)
    }

    fn typed(&self, plan: LogicalPlan, zone: Zone, functions: &dyn FunctionRegistry) -> PlanResult<LogicalPlan> {
        typed(plan, Clocks { zone, functions })
    }

    fn setting(&self, name: &str) -> Option<(&'static str, &'static str)> {
        catalog::setting(name)
    }

    fn transaction_began(&self) {
        self.locks.begin_transaction();
    }

    fn transaction_ended(&self) {
        self.locks.end_transaction();
    }

    fn discard(&self) {
        self.locks.release_all();
    }
}
