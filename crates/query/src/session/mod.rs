//! A session parses statements and runs them one after the other.

mod asof_joins;
pub(crate) mod column_types;
mod file_names;
pub(crate) mod kept_plans;
mod named;
mod parameter_values;
mod parameters;
mod parse;
pub(crate) mod plan_cache;
mod planning;
pub(crate) mod planning_state;
pub(crate) mod prepared;
mod prepared_query;
mod run;
mod settings;
mod transaction;
mod views;

use crate::answer::Answer;
use crate::dialect::{Dialect, SessionParts};
use crate::runtime::{QueryRuntime, task_context};
use crate::session::column_types::ColumnTypes;
use crate::session::plan_cache::{KeptMemory, PlanCache};
use crate::session::planning_state::SpareState;
use crate::session::prepared_query::KeptQuery;
use crate::settings::SessionSettings;
use crate::transaction::{SharedSettings, Transaction};
use crate::transfer::files::Files;
use crate::transfer::read_files;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::logical_expr::DmlStatement;
use datafusion::optimizer::Optimizer;
use datafusion::prelude::{SessionConfig, SessionContext};
use fleetdb_engine::{ColumnType, Database, Reader, Result, TableId, TableSchema, View};
use fleetdb_functions::concat_texts::BoundTexts;
use fleetdb_functions::errors::engine_error;
use fleetdb_functions::function_memory::FunctionMemory;
use fleetdb_functions::values::zone::CurrentZone;
use fleetdb_plan::asof::PlanAsofJoins;
use fleetdb_plan::catalog::ViewTables;
use fleetdb_plan::computed_columns::ComputedColumns;
use fleetdb_plan::finer_times::FinerTimes;
use fleetdb_plan::functions;
use fleetdb_plan::gapfill::FillGaps;
use fleetdb_plan::limits::{BudgetPool, Canceller, Limits};
use fleetdb_plan::logical_optimizer::LogicalOptimizer;
use fleetdb_plan::nullable_subqueries::NullableSubqueries;
use fleetdb_plan::planner::FleetPlanner;
use fleetdb_plan::rules::{logical_rules, physical_rules};
use fleetdb_plan::store::{Refresh, Store};
use fleetdb_plan::system::SystemTables;
use fleetdb_plan::temporary::TemporaryTables;
use fleetdb_plan::whole_numbers::CheckWholeNumbers;
use fleetdb_statement::Statement;
use fleetdb_statement::named::NamedStatements;
use fleetdb_statement::names::{CATALOG, TEMPORARY_TABLES, table_name};
use fleetdb_statement::stack::with_stack;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The schema of temporary tables that last for one statement.
pub(crate) const TEMPORARY: &str = "temporary";
pub(crate) const SCHEMA: &str = "public";
/// Spill limit per session, as a multiple of its memory limit, so that one runaway query cannot
/// fill the disk.
const TEMPORARY_SHARE: u64 = 16;

/// Runs SQL on a database, one statement at a time. Each thread uses its own session.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_query::Session;
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
/// session.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (id, ts))").unwrap();
/// let answer = session.sql("INSERT INTO t VALUES (1, '2026-01-01', 0.5), (1, '2026-01-02', 1.5)").unwrap();
/// assert_eq!(answer.tag(), Some("INSERT 0 2"));
/// let rows = session.sql("SELECT sum(v) FROM t WHERE id = 1").unwrap().collect().unwrap();
/// assert_eq!(rows[0].num_rows(), 1);
/// ```
pub struct Session {
    pub(crate) store: Store,
    pub(crate) context: SessionContext,
    /// The context that plans run in. Only SET and RESET of DataFusion's settings replace it.
    pub(crate) tasks: Mutex<Arc<TaskContext>>,
    planning: Arc<SpareState>,
    optimizer: LogicalOptimizer,
    pub(crate) tables: Arc<ViewTables>,
    pub(crate) runtime: Arc<QueryRuntime>,
    pub(crate) limits: Arc<Limits>,
    /// Memory for the output of the running statement's functions.
    pub(crate) made: Arc<FunctionMemory>,
    pub(crate) transaction: Arc<Mutex<Transaction>>,
    /// The tables that only this session sees.
    pub(crate) temporaries: Arc<TemporaryTables>,
    /// The zone of the running statement.
    pub(crate) zone: CurrentZone,
    pub(crate) named: Mutex<NamedStatements>,
    /// Queries that were asked again as texts.
    kept: Mutex<PlanCache<KeptQuery>>,
    pub(crate) dialect: Arc<dyn Dialect>,
    files: Files,
    /// The number of the next temporary table.
    pub(crate) statements: AtomicU64,
}

impl Session {
    /// Creates a session on an open database, for statements of this dialect.
    ///
    /// # Errors
    /// The runtime of the query engine does not start.
    pub fn new(db: Arc<Database>, dialect: Arc<dyn Dialect>) -> Result<Self> {
        Self::on(Store::Writer(db), dialect)
    }

    /// Creates a read-only session on a database that another process writes. Each statement sees
    /// the state at its start.
    ///
    /// # Errors
    /// The runtime of the query engine does not start.
    pub fn read_only(reader: Arc<Reader>, dialect: Arc<dyn Dialect>) -> Result<Self> {
        Self::on(Store::Reader(reader, Refresh::EachStatement), dialect)
    }

    /// Creates a session on a database that is open for writing or reading.
    ///
    /// # Errors
    /// The runtime of the query engine does not start.
    pub fn on_store(store: Store, dialect: Arc<dyn Dialect>) -> Result<Self> {
        Self::on(store, dialect)
    }

    /// Restricts the local files that the session's statements may read and write.
    #[must_use]
    pub fn with_files(self, files: Files) -> Self {
        read_files::register(&self.context, &files);
        self.planning.forget();
        Self { files, ..self }
    }

    fn on(store: Store, dialect: Arc<dyn Dialect>) -> Result<Self> {
        let (runtime, limits) = (QueryRuntime::new()?, Arc::new(Limits::default()));
        let mut config = SessionConfig::new()
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false)
            // A single partition keeps the scan's order, so that grouping by key streams.
            .with_target_partitions(1);
        config.options_mut().sql_parser.map_string_types_to_utf8view = false;
        config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
        // Programs rely on the order of a subquery's rows, as in PostgreSQL.
        config.options_mut().sql_parser.enable_subquery_sort_elimination = false;
        // The check confuses `b IS TRUE`, which is never NULL, with a plan for it that does not say so.
        config.options_mut().execution.skip_physical_aggregate_schema_check = true;
        // The time zone of TIMESTAMPTZ, and of now() and similar functions.
        config.options_mut().execution.time_zone = Some(ColumnType::UTC.to_owned());
        // Locates errors in the text.
        config.options_mut().sql_parser.collect_spans = true;
        let tables = Arc::new(ViewTables::new(&store));
        let catalog = Arc::new(MemoryCatalogProvider::new());
        catalog.register_schema(SCHEMA, Arc::clone(&tables) as Arc<_>).map_err(engine_error)?;
        catalog.register_schema("system", Arc::new(SystemTables::new(&store))).map_err(engine_error)?;
        catalog.register_schema(TEMPORARY, Arc::new(MemorySchemaProvider::new())).map_err(engine_error)?;
        let temporaries = Arc::new(TemporaryTables::new(store.query_memory()));
        catalog.register_schema(TEMPORARY_TABLES, Arc::clone(&temporaries) as Arc<_>).map_err(engine_error)?;
        let memory = store.query_memory();
        let kept = Mutex::new(PlanCache::new(&Arc::new(KeptMemory::new(&memory))));
        let temporary_bytes = TEMPORARY_SHARE * memory.limit_bytes() as u64;
        let pool: Arc<dyn MemoryPool> = Arc::new(BudgetPool(memory));
        let (made, zone) = (Arc::new(FunctionMemory::new(&pool)), CurrentZone::default());
        let environment = RuntimeEnvBuilder::new().with_memory_pool(pool).with_max_temp_directory_size(temporary_bytes);
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(environment.build_arc().map_err(engine_error)?)
            .with_default_features();
        for rule in dialect.analyzer_rules(&zone) {
            state = state.with_analyzer_rule(rule);
        }
        let state = state
            .with_analyzer_rule(Arc::new(FillGaps))
            .with_analyzer_rule(Arc::new(PlanAsofJoins))
            .with_analyzer_rule(Arc::new(BoundTexts::new(&made)))
            .with_analyzer_rule(Arc::new(CheckWholeNumbers))
            .with_analyzer_rule(Arc::new(FinerTimes))
            .with_analyzer_rule(Arc::new(ComputedColumns))
            .with_analyzer_rule(Arc::new(NullableSubqueries))
            .with_optimizer_rules(logical_rules(Optimizer::new().rules, &limits))
            .with_type_planner(Arc::new(ColumnTypes::default()))
            .with_query_planner(Arc::new(FleetPlanner))
            .with_physical_optimizer_rules(physical_rules(&limits))
            .build();
        let tasks = Mutex::new(task_context(&state));
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, catalog);
        functions::register(&context, &tables, &made).map_err(engine_error)?;
        let files = Files::default();
        read_files::register(&context, &files);
        let transaction = Arc::new(Mutex::new(Transaction::none(&store.query_memory(), &temporaries)));
        let settings = SharedSettings(Arc::clone(&transaction));
        let planning = Arc::new(SpareState::default());
        let parts = SessionParts {
            context: context.clone(),
            planning: Arc::clone(&planning),
            tables: Arc::clone(&tables),
            settings,
        };
        dialect.register(parts).map_err(engine_error)?;
        let session = Self {
            store,
            context,
            tasks,
            planning,
            optimizer: LogicalOptimizer::new(&limits),
            tables,
            runtime: Arc::new(runtime),
            limits,
            made,
            transaction,
            temporaries,
            zone,
            named: Mutex::default(),
            kept,
            dialect,
            files,
            statements: AtomicU64::new(0),
        };
        session.restart_with(SessionSettings::default());
        Ok(session)
    }

    /// The tables as they are now.
    pub fn view(&self) -> View {
        self.store.view()
    }

    /// The given tables, or all, as statements see them now, including the changes of the open
    /// transaction.
    pub(crate) fn current(&self, only: Option<&[TableId]>) -> Result<View> {
        self.store.refresh()?;
        let mut transaction = self.transaction();
        match only {
            Some(tables) if transaction.is_none() => self.settled_view(Some(tables)),
            _ => {
                let base = transaction.base(|| self.settled_view(None))?;
                transaction.over(base)
            }
        }
    }

    /// A view to answer from. The statement's limits end the wait for it.
    pub(crate) fn settled_view(&self, only: Option<&[TableId]>) -> Result<View> {
        self.store.settled_view(only, &|| self.limits.watch().stopped().map_or(Ok(()), Err))
    }

    /// As [`current`](Self::current), for a look at the definitions only: what it shows may be lost, and
    /// nothing waits.
    pub(crate) fn glimpse(&self, tables: &[TableId]) -> Result<View> {
        let mut transaction = self.transaction();
        if transaction.is_none() {
            return Ok(self.store.view_of(Some(tables)));
        }
        let base = transaction.fixed_view().unwrap_or_else(|| self.store.view());
        transaction.over(base)
    }

    /// Makes the following statements see the current state of the database.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.tables.show(self.current(None)?);
        Ok(())
    }

    /// Sets the statement timeout; `None` means no limit. `SET statement_timeout` changes it as
    /// well, and RESET restores this value.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.restart_with(SessionSettings::with_timeout(timeout));
    }

    /// Starts a statement.
    pub(crate) fn begin_statement(&self) {
        let (timeout, zone) = {
            let transaction = self.transaction();
            let settings = transaction.settings.now();
            (settings.timeout(), settings.zone())
        };
        self.zone.set(zone);
        self.limits.begin(timeout);
        self.made.begin();
    }

    /// Returns a handle that cancels the running statement from another thread.
    pub fn canceller(&self) -> Canceller {
        self.limits.canceller()
    }

    /// Like [`canceller`](Self::canceller), but for the next statement, which may be cancelled
    /// before it starts. This is for callers that run a statement on another thread and do not know
    /// when it starts.
    pub fn announce(&self) -> Canceller {
        self.limits.announce()
    }

    /// Gives the session to another user, whose statements an earlier [`Canceller`] does not cancel.
    pub fn renew_canceller(&self) {
        self.limits.renew_canceller();
    }

    /// Resumes reading an answer, possibly after other statements. Earlier cancellations no longer
    /// apply, and the statement timeout starts again.
    pub fn resume(&self, answer: &mut Answer) {
        self.begin_statement();
        answer.watch_by(self.limits.watch());
    }

    /// `DISCARD ALL`: restores the initial state of the session for its next user.
    ///
    /// # Errors
    /// A statement of the open transaction has failed.
    pub fn discard_all(&self) -> Result<()> {
        self.check_transaction()?;
        self.transaction().change_setting("all", None, false)?;
        self.names().clear();
        self.kept().clear();
        self.temporaries.restore(Arc::default());
        self.dialect.discard();
        Ok(())
    }

    /// Runs a text that consists of exactly one statement. The plan of a query that is asked again,
    /// perhaps with other literals in its conditions, is kept.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse) and [`execute`](Self::execute).
    pub fn sql(&self, text: &str) -> Result<Answer> {
        match self.run_kept(text)? {
            Some(answer) => Ok(answer),
            None => self.execute(self.parse_one(text)?),
        }
    }

    /// Runs a statement. Rows are computed when the answer is read. All other effects are complete
    /// and durable when this returns (in a transaction, when it is committed).
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) for a statement that does not match
    /// the tables, or an error of the engine.
    pub fn execute(&self, statement: Statement) -> Result<Answer> {
        self.execute_described(statement, None)
    }

    /// Like [`execute`](Self::execute), for a statement with RETURNING whose columns the client was
    /// told: if they have changed since, nothing is written.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute), or the columns have changed.
    pub fn execute_described(&self, statement: Statement, described: Option<&SchemaRef>) -> Result<Answer> {
        self.begin_statement();
        let held = statement.held().clone();
        let done = self.named(statement).and_then(|statement| self.with_views(statement)).and_then(|statement| {
            let (levels, is_mixed) = (statement.tree().levels(), statement.is_mixed());
            let answer = with_stack(levels, || self.run(statement, described));
            let answer = answer.map_err(|error| if is_mixed { error.without_position() } else { error });
            answer.map(|answer| answer.of_levels(levels))
        });
        let made = self.made.take();
        let done = done.map(|answer| answer.charged_to((held, made)));
        self.tables.release();
        if done.is_err() {
            self.transaction().fail();
        }
        if !self.temporaries.is_empty() && !self.is_in_transaction() {
            self.temporaries.end_transaction();
        }
        done
    }

    /// The table that a statement writes to.
    pub(crate) fn schema_of(&self, dml: &DmlStatement) -> Result<Arc<TableSchema>> {
        self.tables.schema(table_name(&dml.table_name)?)
    }
}
