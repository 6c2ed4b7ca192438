//! `PREPARE name AS statement`, `EXECUTE name (values)` and `DEALLOCATE name`: statements that a
//! session keeps by name. EXECUTE replaces `$1`, `$2`, ... by the values and plans the statement
//! again. (<https://www.postgresql.org/docs/current/sql-prepare.html>)

use crate::names::{identifier, object_name};
use crate::session::Session;
use crate::stack::with_stack;
use crate::statement::Statement;
use crate::walk::visit_expressions;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Ident, Statement as SqlStatement, Value as Literal};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_plan::errors::unsupported;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{MutexGuard, PoisonError};

/// The maximum number of statements a session keeps.
const MAX_STATEMENTS: usize = 1_000;
/// The maximum size of one statement, and of all together, in bytes of text. A parsed statement is
/// tens of times as large as its text.
const MAX_BYTES: usize = 1 << 20;

/// A session's named statements.
pub(crate) type NamedStatements = HashMap<String, NamedStatement>;

pub(crate) struct NamedStatement {
    statement: Statement,
    /// The declared types of the first parameters.
    types: Vec<DataType>,
    bytes: usize,
}

impl NamedStatement {
    /// The statement with these values in place of its parameters.
    fn with(&self, name: &str, values: &[Expr]) -> Result<Statement> {
        let takes = self.statement.parameters().max(self.types.len());
        if values.len() != takes {
            return Err(Error::new(
                Code::Syntax,
                format!("EXECUTE {name} gives {} values, the prepared statement takes {takes}", values.len()),
            ));
        }
        if let Some(other) = values.iter().find(|value| !is_constant(value)) {
            return Err(Error::new(Code::Syntax, format!("EXECUTE {name}: {other} is no value")));
        }
        let typed = values.iter().enumerate().map(|(place, value)| match self.types.get(place) {
            Some(data_type) => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(value.clone()),
                data_type: data_type.clone(),
                array: false,
                format: None,
            },
            None if matches!(value, Expr::Value(_) | Expr::UnaryOp { .. }) => value.clone(),
            None => Expr::Nested(Box::new(value.clone())),
        });
        let typed: Vec<_> = typed.collect();
        self.statement.with_parameters(|place| typed.get(place).cloned())
    }
}

impl Statement {
    /// Whether this is an EXECUTE or explains one: the statement it names may change between runs.
    pub fn is_execute(&self) -> bool {
        let mut inner = &*self.0;
        while let ParsedStatement::Explain(explain) = inner {
            inner = &explain.statement;
        }
        matches!(inner, ParsedStatement::Statement(sql) if matches!(sql.as_ref(), SqlStatement::Execute { .. }))
    }
}

impl Session {
    /// Replaces an EXECUTE, possibly within an EXPLAIN, by the statement it names; returns any
    /// other statement unchanged.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if there is no statement of this
    /// name, or its parameters do not match the values.
    pub fn named(&self, statement: Statement) -> Result<Statement> {
        with_stack(statement.0.levels(), || self.named_shallow(statement))
    }

    fn named_shallow(&self, mut statement: Statement) -> Result<Statement> {
        let around = statement.0.levels();
        let mut inner = &mut *statement.0;
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
        let levels = around + found.0.levels();
        *inner = found.0.into_inner();
        statement.0.set_levels(levels);
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

/// Whether an expression contains no columns: a column would resolve within the named statement.
fn is_constant(value: &Expr) -> bool {
    let of_others = |expr: &Expr| match expr {
        Expr::Value(value) if !matches!(value.value, Literal::Placeholder(_)) => ControlFlow::Continue(()),
        Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(value, of_others).is_continue()
}

fn no_statement(name: &str) -> Error {
    Error::new(Code::UndefinedStatement, format!("there is no prepared statement '{name}' in this session: PREPARE it"))
}

#[cfg(test)]
#[path = "named_tests.rs"]
mod tests;
