//! PostgreSQL's system catalog, as clients query it: psql's `\d`, JDBC's metadata, DBeaver,
//! Grafana.
//!
//! The crate `datafusion-pg-catalog` supplies most tables and functions, and rewrites statements
//! that DataFusion cannot plan. FleetDB adds primary keys ([`keys`]), checks,
//! foreign keys and defaults ([`constraints`]), types of columns ([`attributes`]) and their names
//! ([`columns`]), further views ([`views`]), settings ([`settings`]), connected clients
//! ([`activity`], [`clients`]), advisory locks ([`advisory`]), some functions ([`functions`],
//! [`locks`]), and further rewrites, both of text ([`fragments`]) and of parsed statements
//! ([`rewrite`], [`relations`]). [`schema`] combines them. A session sets up the catalog with its
//! first statement about it.

mod about;
mod activity;
mod advisory;
mod arrays;
mod attributes;
mod clients;
mod columns;
mod constraints;
mod fragments;
mod functions;
mod keys;
mod live;
mod locks;
mod relations;
mod rewrite;
mod schema;
mod settings;
mod subqueries;
mod tables;
mod views;

pub use about::is_about;
pub use advisory::{AdvisoryLocks, HeldLocks};
pub use clients::{Client, ClientState, Clients, EmbeddedClient, SessionUser};
pub use settings::setting;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::error::DataFusionError;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use datafusion_pg_catalog::pg_catalog::{PgCatalogSchemaProvider, PgCatalogStaticTables};
use datafusion_pg_catalog::setup_pg_catalog;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use fleetdb_engine::Result;
use fleetdb_functions::errors::{engine_error, syntax_error, too_deep};
use fleetdb_functions::names::{NEXT_NUMBER, RAISE_NUMBERS};
use fleetdb_query::{ColumnTypes, Declare, SessionParts};
use fleetdb_statement::depth::Links;
use fleetdb_statement::grammar::Grammar;
use fleetdb_statement::names::CATALOG;
use fleetdb_statement::sequences::without_casts;
use fleetdb_statement::stack::with_stack;
use fleetdb_statement::words::first_word;
use futures::FutureExt;
use schema::CatalogSchema;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The schema's name.
const PG_CATALOG: &str = "pg_catalog";

/// Maximum nesting of parentheses.
const MAX_NESTED: usize = 14;
/// Maximum number of operators in a row.
const MAX_IN_ROW: usize = 400;

/// The tables that never change, shared by all sessions because they take some megabytes.
static TABLES: OnceLock<Arc<PgCatalogStaticTables>> = OnceLock::new();

/// What the catalog shows of a server and its session.
pub struct Shown {
    /// The session's advisory locks.
    pub locks: Arc<HeldLocks>,
    /// The clients of the server, and the client that the session works for.
    pub clients: Arc<dyn Clients>,
    /// Whom the session works for.
    pub session_user: Arc<Mutex<SessionUser>>,
    /// The rows of `pg_cursors`.
    pub cursors: Arc<Mutex<Vec<Declare>>>,
}

/// A session's catalog, once it is set up.
#[derive(Default)]
pub struct PgCatalog(OnceLock<Result<Registered>>);

struct Registered {
    parser: PostgresCompatibilityParser,
    catalog: Arc<dyn CatalogProvider>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // The schema refers to the catalog that contains it, so neither would ever be freed. A
        // schema with tables can always be deregistered this way.
        self.catalog.deregister_schema(PG_CATALOG, true).ok();
    }
}

impl PgCatalog {
    /// Parses the statements of a text [about the catalog](is_about).
    ///
    /// # Errors
    /// A syntax error, or nesting too deep for the catalog's parser, which parses call arguments
    /// twice.
    pub fn parse(
        &self,
        shown: &Shown,
        session: &SessionParts,
        text: &str,
        links: Links,
    ) -> Result<Vec<ParsedStatement>> {
        if links.nested > MAX_NESTED || links.in_row > MAX_IN_ROW {
            return Err(too_deep(format_args!(
                "about the catalog, more than {MAX_NESTED} parentheses within others or {MAX_IN_ROW} operators in a row"
            )));
        }
        with_stack(links.in_row, || self.parse_replaced(shown, session, fragments::replaced(text)))
    }

    /// Parses a text whose fragments of clients have been replaced.
    fn parse_replaced(&self, shown: &Shown, session: &SessionParts, text: String) -> Result<Vec<ParsedStatement>> {
        let registered = self.0.get_or_init(|| {
            let registered = set_up(shown, session).map_err(engine_error);
            session.planning.forget();
            registered
        });
        let registered = registered.as_ref().map_err(Clone::clone)?;
        let text = without_sequence_casts(table_as_select(text));
        let statements = registered.parser.parse(&subqueries::shielded(text)).map_err(syntax_error)?;
        let rewritten = |mut sql| {
            rewrite::rewrite(&mut sql);
            ParsedStatement::Statement(Box::new(sql))
        };
        Ok(statements.into_iter().map(rewritten).collect())
    }
}

/// Removes casts to `regclass` around the names of sequences, which the crate's parser would replace by
/// the numbers of relations.
fn without_sequence_casts(text: String) -> String {
    let lower = text.to_ascii_lowercase();
    if !lower.contains("regclass") || ![NEXT_NUMBER, RAISE_NUMBERS].iter().any(|name| lower.contains(name)) {
        return text;
    }
    let Ok(mut statements) = Parser::parse_sql(&Grammar::of(&text), &text) else { return text };
    without_casts(&mut statements);
    statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Replaces `TABLE name`, which the crate's parser lacks, at the beginning of a text.
fn table_as_select(text: String) -> String {
    let (before, rest) = text.split_at(first_word(&text));
    match rest.split_at_checked("TABLE".len()) {
        Some((word, name)) if word.eq_ignore_ascii_case("table") && name.starts_with(char::is_whitespace) => {
            format!("{before}SELECT * FROM{name}")
        }
        _ => text,
    }
}

fn set_up(shown: &Shown, session: &SessionParts) -> datafusion::error::Result<Registered> {
    let context = &session.context;
    let no_catalog = || DataFusionError::Internal(format!("there is no catalog {CATALOG}"));
    let catalog = context.catalog(CATALOG).ok_or_else(no_catalog)?;
    let registered = Registered { parser: PostgresCompatibilityParser::new(), catalog: Arc::clone(&catalog) };
    // The crate's function of this name leaves out quotes that a name needs.
    let quote_ident = context.udf("quote_ident")?;
    setup_pg_catalog(context, CATALOG, EmptyContextProvider).map_err(|error| *error)?;
    context.register_udf(quote_ident.as_ref().clone());
    // The crate has put its own planner of types in the place of the session's.
    let state = context.state_ref();
    let types = ColumnTypes::before(Arc::new(PgOidTypePlanner));
    let with_types = SessionStateBuilder::new_from_existing(context.state()).with_type_planner(Arc::new(types)).build();
    *state.write() = with_types;
    let tables = match TABLES.get() {
        Some(tables) => Arc::clone(tables),
        None => {
            let tables = Arc::new(PgCatalogStaticTables::try_new()?);
            Arc::clone(TABLES.get_or_init(|| tables))
        }
    };
    let all = PgCatalogSchemaProvider::try_new(context.state().catalog_list().clone(), tables, EmptyContextProvider)?;
    let (declared, view_tables) = (Arc::clone(&shown.cursors), Arc::clone(&session.tables));
    let (of_constraints, of_defaults) = (Arc::clone(&session.tables), Arc::clone(&session.tables));
    let (set, clients, session_user) =
        (session.settings.clone(), Arc::clone(&shown.clients), Arc::clone(&shown.session_user));
    let cursors = move || cursors(&declared.lock().unwrap_or_else(PoisonError::into_inner));
    let all: Arc<dyn SchemaProvider> = Arc::new(all);
    let attributes = attributes::table(all.as_ref(), &context.state(), &session.tables).now_or_never();
    let waits = || DataFusionError::Internal("the catalog's tables wait".to_owned());
    let tables = HashMap::from([
        (tables::ATTRIBUTES, attributes.ok_or_else(waits)??),
        (tables::CURSORS, live::table(cursors)?),
        (keys::KEYS, live::table(move || keys::keys(&view_tables.shown()))?),
        (constraints::CONSTRAINTS, live::table(move || constraints::rows(&of_constraints.shown()))?),
        (constraints::DEFAULTS, live::table(move || constraints::defaults(&of_defaults.shown()))?),
        (settings::ROWS, live::table(move || settings::rows(&set))?),
        (activity::ROWS, live::table(move || activity::rows(clients.as_ref(), &session_user))?),
    ]);
    activity::register(context, &shown.clients, &shown.session_user);
    keys::register_functions(context, &session.tables);
    settings::register(context, &session.settings);
    functions::register(context);
    locks::register(context, &shown.locks);
    catalog.register_schema(PG_CATALOG, Arc::new(CatalogSchema::new(context, all, tables)))?;
    Ok(registered)
}

/// `pg_cursors`: the session's cursors.
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

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;
