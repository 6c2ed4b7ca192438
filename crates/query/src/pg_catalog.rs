//! The catalog that clients of PostgreSQL look into: psql's `\d`, JDBC's metadata, DBeaver, Grafana.
//!
//! Tables, functions and the rewriting of what DataFusion does not plan come from the crate `datafusion-pg-catalog`. They
//! cost some milliseconds to set up, so a session gets them with its first statement that asks for them.

use crate::answer::engine_error;
use crate::session::{CATALOG, Session};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::setup_pg_catalog;
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use fleetdb_engine::{Error, Result};
use std::sync::OnceLock;

/// What only statements about the catalog have in them, in lower case.
const WORDS: [&str; 9] = [
    "pg_",
    "::reg",
    "current_schema",
    "current_database",
    "current_catalog",
    "session_user",
    "quote_ident",
    "has_table_privilege",
    "_upper(",
];

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
        let set_up = || match setup_pg_catalog(&session.context, CATALOG, EmptyContextProvider) {
            Ok(()) => Ok(PostgresCompatibilityParser::new()),
            Err(error) => Err(engine_error(*error)),
        };
        let parser = self.0.get_or_init(set_up).as_ref().map_err(Clone::clone)?;
        let statements = parser.parse(text).map_err(|e| Error::input(format!("syntax: {e}")))?;
        Ok(Some(statements.into_iter().map(|sql| ParsedStatement::Statement(Box::new(sql))).collect()))
    }
}
