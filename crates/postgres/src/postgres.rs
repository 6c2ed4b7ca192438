//! The dialect of a session, with the state that the catalog shows.

use crate::rewrite::rewrite_for_planner;
use crate::types::interval_operators::ScaleIntervals;
use crate::types::lateral_rows::joined;
use crate::types::typing::typed;
use crate::types::zones::{CastByClocks, Clocks};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::Statement;
use fleetdb_engine::{Error, Result};
use fleetdb_pg_catalog::{AdvisoryLocks, Clients, EmbeddedClient, HeldLocks, PgCatalog, SessionUser, Shown};
use fleetdb_query::{CurrentZone, Declare, Dialect, SessionParts, Zone};
use fleetdb_statement::depth::Links;
use std::sync::{Arc, OnceLock, PoisonError};
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
    shown: Shown,
    /// Set when the session is created.
    session: OnceLock<SessionParts>,
}

impl Postgres {
    /// For the session of a program that embeds the database.
    pub fn new() -> Arc<Self> {
        Self::sharing(&Arc::default(), Arc::new(EmbeddedClient(SystemTime::now())))
    }

    /// For a session that shares its advisory locks with others and knows the server's clients.
    pub fn sharing(locks: &Arc<AdvisoryLocks>, clients: Arc<dyn Clients>) -> Arc<Self> {
        Arc::new(Self {
            catalog: PgCatalog::default(),
            shown: Shown {
                locks: Arc::new(HeldLocks::new(Arc::clone(locks))),
                clients,
                session_user: Arc::default(),
                cursors: Arc::default(),
            },
            session: OnceLock::new(),
        })
    }

    /// Sets the client that the session works for from now on.
    pub fn set_user(&self, session_user: SessionUser) {
        *self.shown.session_user.lock().unwrap_or_else(PoisonError::into_inner) = session_user;
    }

    /// Sets the cursors that `pg_cursors` shows. The server keeps the cursors themselves.
    pub fn show_cursors(&self, cursors: Vec<Declare>) {
        *self.shown.cursors.lock().unwrap_or_else(PoisonError::into_inner) = cursors;
    }

    /// Releases the session's advisory locks, so that its next user starts with none.
    pub fn release_locks(&self) {
        self.shown.locks.release_all();
    }
}

impl Dialect for Postgres {
    fn register(&self, session: SessionParts) -> PlanResult<()> {
        session.context.state_ref().write().register_expr_planner(Arc::new(ScaleIntervals))?;
        // A dialect is for one session: a second one would see the tables of the first.
        self.session
            .set(session)
            .map_err(|_| DataFusionError::Configuration("a session needs its own dialect".to_owned()))
    }

    fn analyzer_rules(&self, zone: &CurrentZone) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
        vec![Arc::new(CastByClocks(zone.clone()))]
    }

    fn has_parser_for(&self, text: &str) -> bool {
        fleetdb_pg_catalog::is_about(text)
    }

    fn parse(&self, text: &str, links: Links) -> Result<Vec<ParsedStatement>> {
        let session = self.session.get().ok_or_else(|| Error::bug("the dialect is not registered in a session"))?;
        self.catalog.parse(&self.shown, session, text, links)
    }

    fn rewrite(&self, text: Option<&str>, statements: &mut [&mut Statement]) -> Result<()> {
        rewrite_for_planner(text, statements)
    }

    fn typed(&self, plan: LogicalPlan, zone: Zone, functions: &dyn FunctionRegistry) -> PlanResult<LogicalPlan> {
        typed(joined(plan)?, Clocks { zone, functions })
    }

    fn setting(&self, name: &str) -> Option<(&'static str, &'static str)> {
        fleetdb_pg_catalog::setting(name)
    }

    fn transaction_began(&self) {
        self.shown.locks.begin_transaction();
    }

    fn transaction_ended(&self) {
        self.shown.locks.end_transaction();
    }

    fn discard(&self) {
        self.release_locks();
    }
}

#[cfg(test)]
#[path = "postgres_tests.rs"]
mod tests;
