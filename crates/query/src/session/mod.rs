//! A session parses statements and runs them one after the other.

mod named;
mod parse;
mod planning;
pub(crate) mod prepared;
mod settings;
mod transaction;

use crate::answer::Answer;
use crate::dialect::{Dialect, SessionParts};
use crate::runtime::{QueryRuntime, task_context};
use crate::settings::SessionSettings;
use crate::statement::depth::UNCHECKED_LEVELS;
use crate::statement::memory::StatementMemory;
use crate::statement::named::NamedStatements;
use crate::statement::names::{CATALOG, identifier, table_name};
use crate::statement::setting_names::sets_datafusion;
use crate::statement::stack::{Deep, with_stack};
use crate::statement::{Statement, shown_name, writes_rows, written};
use crate::tables::alter::alter_table;
use crate::tables::ddl::{self, write_words};
use crate::tables::options::TableOptions;
use crate::transaction::{SharedSettings, Transaction};
use crate::transfer::copy_from::copy_from;
use crate::transfer::export::{FileFormat, write_file};
use crate::transfer::files::Files;
use crate::write::returning::Returning;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, DmlStatement, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{DiscardObject, Statement as SqlStatement};
use fleetdb_engine::{Code, ColumnType, Database, Error, Reader, Result, TableId, TableSchema, View};
use fleetdb_plan::asof::PlanAsofJoins;
use fleetdb_plan::catalog::ViewTables;
use fleetdb_plan::computed_columns::ComputedColumns;
use fleetdb_plan::errors::{engine_error, unsupported};
use fleetdb_plan::finer_times::FinerTimes;
use fleetdb_plan::functions;
use fleetdb_plan::functions::concat_texts::BoundTexts;
use fleetdb_plan::functions::function_memory::FunctionMemory;
use fleetdb_plan::gapfill::FillGaps;
use fleetdb_plan::limits::{BudgetPool, Canceller, Limits};
use fleetdb_plan::planner::FleetPlanner;
use fleetdb_plan::rules::{logical_rules, physical_rules};
use fleetdb_plan::store::Store;
use fleetdb_plan::system::SystemTables;
use fleetdb_plan::whole_numbers::CheckWholeNumbers;
use fleetdb_plan::zone::CurrentZone;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The schema of temporary tables that last for one statement.
pub(crate) const TEMPORARY: &str = "temporary";
const SCHEMA: &str = "public";
/// Spill limit per session, as a multiple of its memory limit, so that one runaway query cannot
/// fill the disk.
const TEMPORARY_SHARE: u64 = 16;
/// The tag of an INSERT before its count, as in PostgreSQL: it includes an object id that is always
/// 0.
const INSERTED: &str = "INSERT 0";

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
    pub(crate) tables: Arc<ViewTables>,
    pub(crate) runtime: Arc<QueryRuntime>,
    pub(crate) limits: Arc<Limits>,
    /// Memory for the output of the running statement's functions.
    pub(crate) made: Arc<FunctionMemory>,
    pub(crate) transaction: Arc<Mutex<Transaction>>,
    /// The zone of the running statement.
    pub(crate) zone: CurrentZone,
    pub(crate) named: Mutex<NamedStatements>,
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
        Self::on(Store::Reader(reader), dialect)
    }

    /// Restricts the local files that the session's statements may read and write.
    #[must_use]
    pub fn with_files(self, files: Files) -> Self {
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
        // The time zone of TIMESTAMPTZ, and of now() and similar functions.
        config.options_mut().execution.time_zone = Some(ColumnType::UTC.to_owned());
        // Locates errors in the text.
        config.options_mut().sql_parser.collect_spans = true;
        let tables = Arc::new(ViewTables::new(&store));
        let catalog = Arc::new(MemoryCatalogProvider::new());
        catalog.register_schema(SCHEMA, Arc::clone(&tables) as Arc<_>).map_err(engine_error)?;
        catalog.register_schema("system", Arc::new(SystemTables::new(&store))).map_err(engine_error)?;
        catalog.register_schema(TEMPORARY, Arc::new(MemorySchemaProvider::new())).map_err(engine_error)?;
        let memory = store.query_memory();
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
            .with_optimizer_rules(logical_rules(&limits))
            .with_query_planner(Arc::new(FleetPlanner))
            .with_physical_optimizer_rules(physical_rules(&limits))
            .build();
        let tasks = Mutex::new(task_context(&state));
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, catalog);
        functions::register(&context, &tables, &made).map_err(engine_error)?;
        let transaction = Arc::new(Mutex::new(Transaction::none(&store.query_memory())));
        let settings = SharedSettings(Arc::clone(&transaction));
        let parts = SessionParts { context: context.clone(), tables: Arc::clone(&tables), settings };
        dialect.register(parts).map_err(engine_error)?;
        Ok(Self {
            store,
            context,
            tasks,
            tables,
            runtime: Arc::new(runtime),
            limits,
            made,
            transaction,
            zone,
            named: Mutex::default(),
            dialect,
            files: Files::default(),
            statements: AtomicU64::new(0),
        })
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
            Some(tables) if transaction.is_none() => Ok(self.store.view_of(tables)),
            _ => {
                let base = transaction.base(|| self.store.view());
                transaction.over(base)
            }
        }
    }

    /// Makes the following statements see the current state of the database.
    pub(crate) fn refresh(&self) -> Result<()> {
        self.tables.show(self.current(None)?);
        Ok(())
    }

    /// Sets the statement timeout; `None` means no limit. `SET statement_timeout` changes it as
    /// well, and RESET restores this value.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.start_with(SessionSettings::with_timeout(timeout));
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
        self.dialect.discard();
        Ok(())
    }

    /// Runs a text that consists of exactly one statement.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse) and [`execute`](Self::execute).
    pub fn sql(&self, text: &str) -> Result<Answer> {
        self.execute(self.parse_one(text)?)
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
        let held = statement.1.clone();
        let done = self.named(statement).and_then(|statement| {
            let levels = statement.0.levels();
            with_stack(levels, || self.run(statement.0.into_inner(), described)).map(|answer| answer.of_levels(levels))
        });
        let made = self.made.take();
        let done = done.map(|answer| answer.charged_to((held, made)));
        self.tables.release();
        if done.is_err() {
            self.transaction().fail();
        }
        done
    }

    fn run(&self, statement: ParsedStatement, described: Option<&SchemaRef>) -> Result<Answer> {
        if self.is_read_only()
            && let Some(what) = written(&statement)
        {
            self.check_may_write(what)?;
        }
        let mut sql = match statement {
            set @ (ParsedStatement::Statement(_) | ParsedStatement::Reset(_)) if is_setting(&set) => {
                let tag = if sets(&set) { "SET" } else { "RESET" };
                return self
                    .set(&Statement(Deep::new(set, UNCHECKED_LEVELS), StatementMemory::default()))
                    .map(|_| Answer::done(tag));
            }
            ParsedStatement::Statement(sql) => sql,
            ParsedStatement::CopyTo(copy) => return self.copy_to(&copy),
            other => return self.run_planned(other),
        };
        let returning = Returning::take(&mut sql, described)?;
        let returning = returning.as_ref();
        match *sql {
            begin @ SqlStatement::StartTransaction { .. } => {
                let begin = ParsedStatement::Statement(Box::new(begin));
                let begin = Statement(Deep::new(begin, UNCHECKED_LEVELS), StatementMemory::default());
                self.begin_as(&begin).map(|_| Answer::done("BEGIN"))
            }
            SqlStatement::Commit { chain: true, .. } | SqlStatement::Rollback { chain: true, .. } => {
                Err(unsupported("AND CHAIN"))
            }
            SqlStatement::Commit { .. } => {
                let committed = self.commit();
                self.transaction_ended();
                committed
            }
            SqlStatement::Rollback { savepoint: None, .. } => {
                let done = self.transaction().roll_back().map(|()| Answer::done("ROLLBACK"));
                self.transaction_ended();
                done
            }
            SqlStatement::Rollback { savepoint: Some(name), .. } => {
                self.roll_back_to(&identifier(&name)).map(|_| Answer::done("ROLLBACK"))
            }
            SqlStatement::Savepoint { name } => {
                self.transaction().save(identifier(&name)).map(|()| Answer::done("SAVEPOINT"))
            }
            SqlStatement::ReleaseSavepoint { name } => {
                self.transaction().release(&identifier(&name)).map(|()| Answer::done("RELEASE"))
            }
            SqlStatement::AlterTable(alter) => {
                self.check_transaction()?;
                let altered = self.runtime.block_on(alter_table(self.store.writer()?, &self.context, &alter));
                self.transaction().drop_fixed_view();
                altered
            }
            SqlStatement::CreateTable(mut create) => {
                let options = TableOptions::take(&mut create.table_options)?;
                // DataFusion resolves a key's columns only among the columns listed in the
                // statement.
                let key = create.query.as_ref().map(|_| ddl::take_primary_key(&mut create.constraints)).transpose()?;
                let statement = ParsedStatement::Statement(Box::new(SqlStatement::CreateTable(create)));
                self.create_table(statement, key, &options)
            }
            copy @ SqlStatement::Copy { .. } => {
                self.outside_transaction("COPY ... FROM")?;
                copy_from(self.store.writer()?, &copy, &self.files, self.zone())
                    .map(|rows| Answer::done(format!("COPY {rows}")))
            }
            SqlStatement::Vacuum(vacuum) => {
                self.outside_transaction("VACUUM")?;
                let db = self.store.writer()?;
                if vacuum.full { db.compact() } else { db.settle() }.map(|()| Answer::done("VACUUM"))
            }
            // The planner needs no collected statistics.
            SqlStatement::Analyze(_) => Ok(Answer::done("ANALYZE")),
            // Comments are not stored; programs send them when they create tables.
            SqlStatement::Comment { .. } => Ok(Answer::done("COMMENT")),
            SqlStatement::Prepare { name, data_types, statement } => {
                self.check_transaction()?;
                self.keep_named(&name, data_types, &statement).map(|()| Answer::done("PREPARE"))
            }
            SqlStatement::Deallocate { name, .. } => {
                self.check_transaction()?;
                self.forget_named(&name);
                Ok(Answer::done("DEALLOCATE"))
            }
            SqlStatement::Discard { object_type: DiscardObject::ALL } => {
                self.discard_all().map(|()| Answer::done("DISCARD ALL"))
            }
            SqlStatement::ShowVariable { variable } if self.setting(&shown_name(&variable)).is_some() => {
                self.show(&shown_name(&variable))
            }
            SqlStatement::Insert(insert) => self.insert(insert, returning).map(|done| self.done(INSERTED, done)),
            SqlStatement::Update(update) => self.update(&update, returning).map(|done| self.done("UPDATE", done)),
            SqlStatement::Delete(delete) => self.delete(delete, returning).map(|done| self.done("DELETE", done)),
            SqlStatement::Truncate(truncate) => {
                let [table] = truncate.table_names.as_slice() else {
                    return Err(Error::new(Code::NotSupported, "TRUNCATE takes one table at a time"));
                };
                self.truncate(&table.name).map(|_| Answer::done("TRUNCATE TABLE"))
            }
            other @ SqlStatement::Query(_) if writes_rows(&other) => {
                self.insert_several(&other).map(|done| self.done(INSERTED, done))
            }
            other => self.run_planned(ParsedStatement::Statement(Box::new(other))),
        }
    }

    /// `COPY table TO 'file'` or `COPY (query) TO 'file'`. The format is that of STORED AS, or of
    /// the file's extension.
    fn copy_to(&self, copy: &CopyToStatement) -> Result<Answer> {
        if !copy.partitioned_by.is_empty() || !copy.options.is_empty() {
            return Err(unsupported("COPY with options or PARTITIONED BY"));
        }
        let path = Path::new(&copy.target);
        self.files.check(path)?;
        let format = match copy.stored_as.as_deref() {
            None => FileFormat::of(path)?,
            Some("CSV") => FileFormat::Csv,
            Some("PARQUET") => FileFormat::Parquet,
            Some(other) => return Err(unsupported(&format!("COPY ... STORED AS {other}"))),
        };
        let query = match &copy.source {
            CopyToSource::Relation(table) => format!("SELECT * FROM {table}"),
            CopyToSource::Query(query) => query.to_string(),
        };
        self.transaction().check()?;
        self.refresh()?;
        let plan = self.plan(&query)?;
        if matches!(plan, LogicalPlan::Dml(_)) {
            return Err(unsupported("COPY of a statement that writes to a file"));
        }
        let rows = write_file(self.start(plan)?, path, format, |_| ())?;
        Ok(Answer::done(format!("COPY {rows}")))
    }

    /// Runs a statement that DataFusion handles unchanged.
    fn run_planned(&self, statement: ParsedStatement) -> Result<Answer> {
        let plan = self.plan_of(statement)?;
        match &plan {
            LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => {
                self.transaction().check_not_written(table_name(&drop.name)?)?;
                let dropped = ddl::drop_table(self.store.writer()?, drop);
                self.transaction().drop_fixed_view();
                return dropped;
            }
            LogicalPlan::Ddl(other) => return Err(unsupported(ddl::words_of(other))),
            LogicalPlan::Dml(dml) => return Err(unsupported(write_words(&dml.op))),
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => return self.start(plan).map(Answer::of_plan),
            _ => {}
        }
        self.start(plan)
    }

    fn create_table(
        &self,
        statement: ParsedStatement,
        key: Option<Vec<String>>,
        options: &TableOptions,
    ) -> Result<Answer> {
        match key {
            Some(_) => self.outside_transaction("CREATE TABLE ... AS")?,
            None => self.check_transaction()?,
        }
        let plan = self.plan_of(statement)?;
        let LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) = plan else {
            return Err(unsupported("this form of CREATE TABLE"));
        };
        let filled = key.is_some();
        let created = ddl::create_table(self.store.writer()?, &create, key, options)?;
        self.transaction().drop_fixed_view();
        if !created || !filled {
            return Ok(Answer::done("CREATE TABLE"));
        }
        let CreateMemoryTable { name, input, .. } = create;
        let name = table_name(&name)?.to_owned();
        match self.fill(&name, input.as_ref().clone()) {
            Ok(rows) => Ok(Answer::done(format!("SELECT {rows}"))),
            Err(error) => {
                // Undoes the statement's effects.
                self.store.writer()?.drop_table(&name)?;
                Err(error)
            }
        }
    }

    /// Writes a query's rows to a newly created table.
    fn fill(&self, name: &str, query: LogicalPlan) -> Result<u64> {
        self.refresh()?;
        let source = self.runtime.block_on(self.context.table_provider(name)).map_err(engine_error)?;
        let plan = datafusion::logical_expr::LogicalPlanBuilder::insert_into(
            query,
            name,
            datafusion::datasource::provider_as_source(source),
            InsertOp::Append,
        );
        self.write_streaming(plan.and_then(|plan| plan.build()).map_err(engine_error)?)
    }

    /// The table that a statement writes to.
    pub(crate) fn schema_of(&self, dml: &DmlStatement) -> Result<Arc<TableSchema>> {
        self.tables.schema(table_name(&dml.table_name)?)
    }
}

/// Whether a statement is one for [`Session::set`].
fn is_setting(statement: &ParsedStatement) -> bool {
    let is_one = match statement {
        ParsedStatement::Reset(_) => true,
        ParsedStatement::Statement(sql) => matches!(sql.as_ref(), SqlStatement::Set(_) | SqlStatement::Reset(_)),
        _ => false,
    };
    is_one && !sets_datafusion(statement)
}

fn sets(statement: &ParsedStatement) -> bool {
    matches!(statement, ParsedStatement::Statement(sql) if matches!(sql.as_ref(), SqlStatement::Set(_)))
}
