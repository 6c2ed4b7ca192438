//! A named statement, and its copy with the values of an EXECUTE in place of its parameters.

use crate::Statement;
use crate::built::cast;
use crate::walk::visit_expressions;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Statement as SqlStatement, Value as Literal};
use fleetdb_engine::{Code, Error, Result};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// A session's named statements.
pub type NamedStatements = HashMap<String, NamedStatement>;

/// A statement that PREPARE has named.
pub struct NamedStatement {
    /// The statement.
    pub statement: Statement,
    /// The declared types of the first parameters.
    pub types: Vec<DataType>,
    /// The memory that it holds.
    pub bytes: usize,
}

impl NamedStatement {
    /// The statement with these values in place of its parameters.
    ///
    /// # Errors
    /// There are too many or too few values, or one is not constant.
    pub fn with(&self, name: &str, values: &[Expr]) -> Result<Statement> {
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
            Some(data_type) => cast(value.clone(), data_type.clone()),
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
        let mut inner = &**self.tree();
        while let ParsedStatement::Explain(explain) = inner {
            inner = &explain.statement;
        }
        matches!(inner, ParsedStatement::Statement(sql) if matches!(sql.as_ref(), SqlStatement::Execute { .. }))
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
