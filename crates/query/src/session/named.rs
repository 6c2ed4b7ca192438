//! `PREPARE name AS statement`, `EXECUTE name (values)` and `DEALLOCATE name`: statements that a
//! session keeps by name. EXECUTE replaces `$1`, `$2`, ... by the values and plans the statement
//! again. (<https://www.postgresql.org/docs/current/sql-prepare.html>)

use super::Session;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{DataType, Ident, Statement as SqlStatement};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_functions::errors::unsupported;
use fleetdb_statement::Statement;
use fleetdb_statement::named::{NamedStatement, NamedStatements};
use fleetdb_statement::names::{identifier, object_name};
use fleetdb_statement::stack::with_stack;
use std::sync::{MutexGuard, PoisonError};

/// The maximum number of statements a session keeps.
const MAX_STATEMENTS: usize = 1_000;
/// The maximum size of one statement, and of all together, in bytes of text. A parsed statement is
/// tens of times as large as its text.
const MAX_BYTES: usize = 1 << 20;

impl Session {
    /// Replaces an EXECUTE, possibly within an EXPLAIN, by the statement it names; returns any
    /// other statement unchanged.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if there is no statement of this
    /// name, or its parameters do not match the values.
    pub fn named(&self, statement: Statement) -> Result<Statement> {
        with_stack(statement.tree().levels(), || self.named_shallow(statement))
    }

    fn named_shallow(&self, mut statement: Statement) -> Result<Statement> {
        let around = statement.tree().levels();
        let mut inner = &mut **statement.tree_mut();
        while let ParsedStatement::Explain(explain) = inner {
            inner = &mut explain.statement;
        }
        let ParsedStatement::Statement(sql) = &inner else { return Ok(statement) };
        let SqlStatement::Execute { name: Some(name), parameters, immediate: false, into, using, .. } = sql.as_ref()
        else {
            return Ok(statement);
        };
        if !into.is_empty() || !using.is_empty() {
            return Err(unsupported("EXECUTE with INTO or USING"));
        }
        let name = object_name(name)?;
        let named = self.names();
        let named = named.get(&name).ok_or_else(|| no_statement(&name))?;
        let found = named.with(&name, parameters)?;
        let levels = around + found.tree().levels();
        let (named, _held) = found.into_parts();
        *inner = named;
        statement.tree_mut().set_levels(levels);
        Ok(statement)
    }

    /// `PREPARE`.
    pub(crate) fn keep_named(&self, name: &Ident, types: Vec<DataType>, statement: &SqlStatement) -> Result<()> {
        use SqlStatement::{Delete, Insert, Query, Update};
        if !matches!(statement, Query(_) | Insert(_) | Update(_) | Delete(_)) {
            return Err(unsupported("PREPARE of anything but SELECT, INSERT, UPDATE and DELETE"));
        }
        let (name, text) = (identifier(name), statement.to_string());
        // Parsed as a statement of its own so that it is rewritten like one.
        let named = NamedStatement { statement: self.parse_one(&text)?, types, bytes: text.len() };
        let mut names = self.names();
        if names.contains_key(&name) {
            return Err(Error::new(
                Code::DuplicateStatement,
                format!("prepared statement '{name}' exists already: DEALLOCATE it"),
            ));
        }
        let bytes = names.values().map(|named| named.bytes).sum::<usize>() + named.bytes;
        if names.len() >= MAX_STATEMENTS || bytes > MAX_BYTES {
            return Err(Error::new(
                Code::LimitExceeded,
                format!(
                    "{} prepared statements of {bytes} bytes: the most is {MAX_STATEMENTS} of {MAX_BYTES}, DEALLOCATE some",
                    names.len() + 1
                ),
            ));
        }
        names.insert(name, named);
        Ok(())
    }

    /// `DEALLOCATE`. Clients also send it for statements prepared by the protocol, which the
    /// session does not know.
    pub(crate) fn forget_named(&self, name: &Ident) {
        let mut names = self.names();
        match name.quote_style {
            None if name.value.eq_ignore_ascii_case("all") => names.clear(),
            _ => drop(names.remove(&identifier(name))),
        }
    }

    pub(crate) fn names(&self) -> MutexGuard<'_, NamedStatements> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_statement(name: &str) -> Error {
    Error::new(Code::UndefinedStatement, format!("there is no prepared statement '{name}' in this session: PREPARE it"))
}

#[cfg(test)]
#[path = "named_tests.rs"]
mod tests;
