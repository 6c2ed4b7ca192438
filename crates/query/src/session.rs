//! A session: parses statements and runs them one after the other.

use crate::answer::{Answer, engine_error};
use crate::catalog::ViewTables;
use crate::ddl;
use crate::functions;
use crate::store::Store;
use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, WriteOp};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement as ParsedStatement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use fleetdb_engine::{Database, Error, Reader, Result, View};
use std::sync::Arc;
use tokio::runtime::Runtime;

const CATALOG: &str = "fleetdb";
const SCHEMA: &str = "public";

/// One parsed statement.
pub struct Statement(ParsedStatement);

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Runs SQL over a database.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_query::Session;
/// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into()).unwrap();
/// session.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP, v DOUBLE, PRIMARY KEY (id, ts))").unwrap();
/// let answer = session.sql("INSERT INTO t VALUES (1, '2026-01-01', 0.5), (1, '2026-01-02', 1.5)").unwrap();
/// assert_eq!(answer.tag(), Some("INSERT 0 2"));
/// let rows = session.sql("SELECT sum(v) FROM t WHERE id = 1").unwrap().collect().unwrap();
/// assert_eq!(rows[0].num_rows(), 1);
/// ```
pub struct Session {
    store: Store,
    context: SessionContext,
    tables: Arc<ViewTables>,
    runtime: Arc<Runtime>,
}

impl Session {
    /// A session on an open database.
    ///
    /// # Errors
    /// The runtime of the query engine does not start.
    pub fn new(db: Arc<Database>) -> Result<Self> {
        Self::on(Store::Writer(db))
    }

    /// A session that only reads, beside a process that writes; each statement sees what is there when it begins.
    ///
    /// # Errors
    /// The runtime of the query engine does not start.
    pub fn read_only(reader: Arc<Reader>) -> Result<Self> {
        Self::on(Store::Reader(reader))
    }

    fn on(store: Store) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|e| Error::io("start the query engine", &e))?;
        let mut config = SessionConfig::new()
            .with_information_schema(true)
            .with_default_catalog_and_schema(CATALOG, SCHEMA)
            .with_create_default_catalog_and_schema(false)
            // One partition keeps the scan's order, so that grouping by key streams.
            .with_target_partitions(1);
        config.options_mut().sql_parser.map_string_types_to_utf8view = false;
        let tables = Arc::new(ViewTables::new(&store));
        let catalog = Arc::new(MemoryCatalogProvider::new());
        catalog.register_schema(SCHEMA, Arc::clone(&tables) as Arc<_>).map_err(engine_error)?;
        let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
        let context = SessionContext::new_with_state(state);
        context.register_catalog(CATALOG, catalog);
        functions::register(&context);
        Ok(Self { store, context, tables, runtime: Arc::new(runtime) })
    }

    /// The tables as they are now.
    pub fn view(&self) -> View {
        self.store.view()
    }

    /// Splits a text into its statements.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) with line and column.
    pub fn parse(&self, text: &str) -> Result<Vec<Statement>> {
        let statements = DFParserBuilder::new(text)
            .with_dialect(&PostgreSqlDialect {})
            .build()
            .and_then(|mut parser| parser.parse_statements())
            .map_err(|e| engine_error(e).context("syntax"))?;
        Ok(statements.into_iter().map(Statement).collect())
    }

    /// Runs a text of exactly one statement.
    ///
    /// # Errors
    /// As [`parse`](Self::parse) and [`execute`](Self::execute).
    pub fn sql(&self, text: &str) -> Result<Answer> {
        let mut statements = self.parse(text)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => self.execute(statement),
            (None, _) => Err(Error::input("there is no statement in the text")),
            (Some(_), false) => Err(Error::input("there is more than one statement in the text")),
        }
    }

    /// Runs a statement. Rows come when the answer is asked for them; everything else is done, and
    /// durable, when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) for a statement that does not fit the tables, or
    /// what the engine says.
    pub fn execute(&self, statement: Statement) -> Result<Answer> {
        self.tables.refresh()?;
        let plan = self.runtime.block_on(self.context.state().statement_to_plan(statement.0)).map_err(engine_error)?;
        let insert = match &plan {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
                return ddl::create_table(self.store.writer()?, create);
            }
            LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => return ddl::drop_table(self.store.writer()?, drop),
            LogicalPlan::Ddl(other) => return Err(unsupported(other.name())),
            LogicalPlan::Copy(_) => return Err(unsupported("COPY")),
            LogicalPlan::Dml(dml) => match dml.op {
                WriteOp::Insert(_) => true,
                _ => return Err(unsupported(dml.op.name())),
            },
            _ => false,
        };
        let stream = self
            .runtime
            .block_on(async { self.context.execute_logical_plan(plan).await?.execute_stream().await })
            .map_err(engine_error)?;
        let answer = Answer::rows(stream, Arc::clone(&self.runtime));
        if !insert {
            return Ok(answer);
        }
        let counts = answer.collect()?;
        let count: u64 = counts
            .iter()
            .filter_map(|batch| batch.columns().first()?.as_primitive_opt::<UInt64Type>())
            .flat_map(|column| column.iter().flatten())
            .sum();
        // The form of psql: an object id that is always 0, and the count.
        Ok(Answer::done(format!("INSERT 0 {count}")))
    }
}

fn unsupported(what: &str) -> Error {
    Error::input(format!("{what} is not supported: there are CREATE TABLE, DROP TABLE, INSERT, SELECT and EXPLAIN"))
}
