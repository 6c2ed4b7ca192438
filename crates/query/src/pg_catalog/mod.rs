//! The catalog that clients of PostgreSQL look into: psql's `\d`, JDBC's metadata, DBeaver, Grafana.
//!
//! Tables, functions and the rewriting of what DataFusion does not plan come from the crate `datafusion-pg-catalog`;
//! primary keys ([`keys`]), names of types ([`columns`]), settings ([`settings`]) and some statements' parts that are not
//! planned ([`parts`]) are ours.
//! It costs some milliseconds to set up, so a session gets it with its first statement that asks for it.

mod columns;
mod keys;
mod live;
mod parts;
mod settings;

pub use settings::setting;

use crate::answer::engine_error;
use crate::session::{CATALOG, Session};
use crate::statement::Declare;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{PgCatalogSchemaProvider, PgCatalogStaticTables};
use datafusion_pg_catalog::setup_pg_catalog;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use fleetdb_engine::{Error, Result};
use futures::FutureExt;
use std::sync::{Arc, OnceLock, PoisonError};

/// Its schema.
const PG_CATALOG: &str = "pg_catalog";

/// What only statements about the catalog have in them, in lower case.
const WORDS: [&str; 12] = [
    "pg_",
    "::reg",
    "current_schema",
    "current_database",
    "current_catalog",
    "current_setting",
    "session_user",
    "quote_ident",
    "parse_ident",
    "has_table_privilege",
    "information_schema.columns",
    "_upper(",
];

/// The tables that never change, for all sessions: they are some megabytes.
static TABLES: OnceLock<Arc<PgCatalogStaticTables>> = OnceLock::new();

/// A session's catalog, when it has one.
#[derive(Default)]
pub(crate) struct PgCatalog(OnceLock<Result<PostgresCompatibilityParser>>);

impl PgCatalog {
    /// The statements of a text about the catalog; `None` if it is not about it.
    pub(crate) fn parse(&self, session: &Session, text: &str) -> Result<Option<Vec<ParsedStatement>>> {
        let lower = text.to_ascii_lowercase();
        let reads = ["select", "with", "show"].iter().any(|word| lower.trim_start().starts_with(word));
        if !reads || !WORDS.iter().any(|word| lower.contains(word)) {
            return Ok(None);
        }
        let set_up = || match set_up(session) {
            Ok(()) => Ok(PostgresCompatibilityParser::new()),
            Err(error) => Err(engine_error(error)),
        };
        let parser = self.0.get_or_init(set_up).as_ref().map_err(Clone::clone)?;
        let statements = parser.parse(&parts::replaced(text)).map_err(|e| Error::input(format!("syntax: {e}")))?;
        Ok(Some(statements.into_iter().map(|sql| ParsedStatement::Statement(Box::new(sql))).collect()))
    }
}

fn set_up(session: &Session) -> datafusion::error::Result<()> {
    let context = &session.context;
    setup_pg_catalog(context, CATALOG, EmptyContextProvider).map_err(|error| *error)?;
    let no_catalog = || DataFusionError::Internal(format!("there is no catalog {CATALOG}"));
    let catalog = context.catalog(CATALOG).ok_or_else(no_catalog)?;
    let tables = match TABLES.get() {
        Some(tables) => Arc::clone(tables),
        None => {
            let tables = Arc::new(PgCatalogStaticTables::try_new()?);
            Arc::clone(TABLES.get_or_init(|| tables))
        }
    };
    let all = PgCatalogSchemaProvider::try_new(context.state().catalog_list().clone(), tables, EmptyContextProvider)?;
    // Nothing waits: the tables are there. The thread may be one that must not block.
    let waits = || DataFusionError::Internal("planning waits".to_owned());
    let plan = |sql: String| context.sql(&sql).now_or_never().ok_or_else(waits)?;
    let declared = Arc::clone(&session.cursors);
    let more = vec![
        (columns::NAME, plan(columns::query())?.into_view()),
        ("pg_cursors", live::table(move || cursors(&declared.lock().unwrap_or_else(PoisonError::into_inner)))?),
    ];
    keys::register_schema(&catalog, Arc::new(all), &session.tables, more, plan)?;
    keys::register_functions(context, &session.tables);
    settings::register(context);
    Ok(())
}

/// `pg_cursors`: those of the session.
fn cursors(declared: &[Declare]) -> datafusion::error::Result<RecordBatch> {
    let texts =
        |text: fn(&Declare) -> &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(declared.iter().map(text))) };
    let holds: BooleanArray = declared.iter().map(|cursor| Some(cursor.holds)).collect();
    let never: ArrayRef = Arc::new(BooleanArray::from(vec![false; declared.len()]));
    let columns: [(&str, ArrayRef); 5] = [
        ("name", texts(|cursor| &cursor.name)),
        ("statement", texts(|cursor| &cursor.query)),
        ("is_holdable", Arc::new(holds)),
        ("is_binary", Arc::clone(&never)),
        ("is_scrollable", never),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
