//! The seam between a session and a dialect of SQL. A session runs DataFusion's SQL ([`Plain`]); a
//! dialect adds syntax, types, functions and a catalog. `fleetdb-postgres` is PostgreSQL's.

use crate::session::planning_state::SpareState;
use crate::transaction::SharedSettings;
use datafusion::error::Result as PlanResult;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use fleetdb_engine::{Error, Result};
use fleetdb_functions::values::zone::{CurrentZone, Zone};
use fleetdb_plan::catalog::ViewTables;
use fleetdb_statement::depth::Links;
use std::sync::Arc;

/// What a dialect needs of the session that it is for.
#[derive(Clone)]
pub struct SessionParts {
    /// The context that statements are planned in.
    pub context: SessionContext,
    /// The copy of the context's state that plans statements; to be dropped when the context changes.
    pub planning: Arc<SpareState>,
    /// The tables that the running statement sees.
    pub tables: Arc<ViewTables>,
    /// The session's settings.
    pub settings: SharedSettings,
}

/// What a dialect adds to a session. Each session has a dialect of its own, which may hold state.
/// Every method's default adds nothing.
pub trait Dialect: Send + Sync {
    /// Registers the dialect's functions and planners in a new session. Called once.
    ///
    /// # Errors
    /// DataFusion rejects one.
    fn register(&self, _session: SessionParts) -> PlanResult<()> {
        Ok(())
    }

    /// The rules that run before the session's own. `zone` is the zone of the running statement.
    fn analyzer_rules(&self, _zone: &CurrentZone) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
        Vec::new()
    }

    /// Whether [`parse`](Self::parse) parses this text, and not the session.
    fn has_parser_for(&self, _text: &str) -> bool {
        false
    }

    /// Parses the statements of a text for which [`has_parser_for`](Self::has_parser_for) is true.
    /// `links` tells how deep they are.
    ///
    /// # Errors
    /// A syntax error, or the statements are too deep.
    fn parse(&self, _text: &str, _links: Links) -> Result<Vec<ParsedStatement>> {
        Err(Error::bug("the dialect claims a text that it does not parse"))
    }

    /// Rewrites the statements of a text into forms that DataFusion can plan. Statements that the
    /// session made have no text.
    ///
    /// # Errors
    /// A statement has a form that the dialect refuses.
    fn rewrite(&self, _text: Option<&str>, _statements: &mut [&mut SqlStatement]) -> Result<()> {
        Ok(())
    }

    /// Gives a plan's untyped parameters and texts their types, and adapts what its operators mean,
    /// in a session with this zone.
    ///
    /// # Errors
    /// A text does not have the form of its type.
    fn typed(&self, plan: LogicalPlan, _zone: Zone, _functions: &dyn FunctionRegistry) -> PlanResult<LogicalPlan> {
        Ok(plan)
    }

    /// The spelling and the default value of a setting that SHOW knows; `None` if it is unknown.
    fn setting(&self, _name: &str) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Called when the session begins a transaction.
    fn transaction_began(&self) {}

    /// Called when the session's transaction has ended, however it did.
    fn transaction_ended(&self) {}

    /// Called by `DISCARD ALL`: releases what the session holds.
    fn discard(&self) {}
}

/// DataFusion's SQL with FleetDB's tables and functions, and no more.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_query::{Plain, Session};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into(), Plain::new()).unwrap();
/// assert_eq!(session.sql("SELECT 1").unwrap().collect().unwrap()[0].num_rows(), 1);
/// ```
pub struct Plain;

impl Plain {
    /// The dialect, as [`Session::new`](crate::Session::new) takes it.
    pub fn new() -> Arc<Self> {
        Arc::new(Self)
    }
}

impl Dialect for Plain {}
