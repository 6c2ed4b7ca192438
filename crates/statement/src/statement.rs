//! A parsed statement and its properties.

use crate::depth::LIGHT_LEVELS;
use crate::memory::StatementMemory;
use crate::stack::{Deep, with_stack};
use crate::walk::{visit_expressions, visit_expressions_mut};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{Expr, Statement as SqlStatement, UnaryOperator, Value as Literal};
use fleetdb_engine::{Error, Result, Value};
use fleetdb_functions::parameters::number;
use std::ops::ControlFlow;

/// A parsed statement.
#[derive(Clone)]
pub struct Statement {
    tree: Deep<ParsedStatement>,
    held: StatementMemory,
    /// Whether parts of the tree come from other texts.
    is_mixed: bool,
}

impl std::fmt::Display for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tree.fmt(f)
    }
}

impl Statement {
    /// A statement, with the memory that it holds.
    pub fn new(tree: Deep<ParsedStatement>, held: StatementMemory) -> Self {
        Self { tree, held, is_mixed: false }
    }

    /// Its tree.
    pub fn tree(&self) -> &Deep<ParsedStatement> {
        &self.tree
    }

    /// Says that parts of the tree come from other texts, so that positions in it mislead.
    pub fn set_mixed(&mut self) {
        self.is_mixed = true;
    }

    /// Whether parts of the tree come from other texts.
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// The memory that is held for it.
    pub fn held(&self) -> &StatementMemory {
        &self.held
    }

    /// Its tree, to be changed.
    pub fn tree_mut(&mut self) -> &mut Deep<ParsedStatement> {
        &mut self.tree
    }

    /// Its tree, and the memory that is held for it until it is planned.
    pub fn into_parts(self) -> (ParsedStatement, StatementMemory) {
        (self.tree.into_inner(), self.held)
    }

    /// The number of parameters: the largest of `$1`, `$2`, ... Those of an explained statement count;
    /// those of the statement that a PREPARE names are for its EXECUTE.
    pub fn parameters(&self) -> usize {
        let (mut most, mut inner) = (0, &*self.tree);
        while let ParsedStatement::Explain(explain) = inner {
            inner = &explain.statement;
        }
        if let ParsedStatement::Statement(sql) = inner
            && !matches!(sql.as_ref(), SqlStatement::Prepare { .. })
        {
            let _ = visit_expressions(sql.as_ref(), |expr| {
                if let Expr::Value(literal) = expr
                    && let Literal::Placeholder(name) = &literal.value
                {
                    most = most.max(number(name).map_or(0, |number| number + 1));
                }
                ControlFlow::<()>::Continue(())
            });
        }
        most
    }

    /// Whether the statement is planned quickly, like [`is_light`](crate::is_light) for its text.
    pub fn is_light(&self) -> bool {
        self.tree.levels() <= LIGHT_LEVELS
    }

    /// Releases the memory reserved for the statement, if the caller accounts for it in another
    /// way.
    pub fn give_back_memory(&mut self) {
        self.held = StatementMemory::default();
    }

    /// Runs a step over the statement with enough stack for its depth.
    pub fn with_stack<R>(&self, step: impl FnOnce() -> R) -> R {
        with_stack(self.tree.levels(), step)
    }

    /// Replaces the parameters `$1`, `$2`, ... by these values, as literals.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if a parameter has no value.
    pub fn with_values(&self, values: &[Value]) -> Result<Self> {
        self.with_parameters(|number| values.get(number).map(literal_of))
    }

    /// Replaces the parameters, counted from 0, by these expressions.
    pub(crate) fn with_parameters(&self, value_of: impl Fn(usize) -> Option<Expr>) -> Result<Self> {
        let mut statement = self.clone();
        let mut inner = &mut *statement.tree;
        while let ParsedStatement::Explain(explain) = inner {
            inner = &mut explain.statement;
        }
        let ParsedStatement::Statement(sql) = inner else { return Ok(statement) };
        let put_in = visit_expressions_mut(sql.as_mut(), |expr: &mut Expr| {
            if let Expr::Value(literal) = expr
                && let Literal::Placeholder(name) = &literal.value
            {
                let Some(value) = number(name).and_then(&value_of) else { return ControlFlow::Break(name.clone()) };
                *expr = value;
            }
            ControlFlow::Continue(())
        });
        match put_in {
            ControlFlow::Continue(()) => Ok(statement),
            ControlFlow::Break(name) => Err(Error::invalid(format!("parameter {name} has no value"))),
        }
    }

    /// The SQL statement, unless it is one of DataFusion's extensions.
    pub fn sql(&self) -> Option<&SqlStatement> {
        match &*self.tree {
            ParsedStatement::Statement(sql) => Some(sql),
            _ => None,
        }
    }
}

fn literal_of(value: &Value) -> Expr {
    let number = |text: String| match text.strip_prefix('-') {
        // The minus sign is an operator.
        Some(digits) => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(Expr::value(Literal::Number(digits.to_owned(), false))),
        })),
        None => Expr::value(Literal::Number(text, false)),
    };
    match value {
        Value::Null => Expr::value(Literal::Null),
        Value::Boolean(value) => Expr::value(Literal::Boolean(*value)),
        Value::Int(value) => number(value.to_string()),
        Value::UInt(value) => number(value.to_string()),
        Value::Float(value) if value.is_finite() => number(format!("{value:e}")),
        Value::Float(value) => Expr::value(Literal::SingleQuotedString(value.to_string())),
        Value::Decimal(value) => number(value.to_string()),
        Value::Text(text) => Expr::value(Literal::SingleQuotedString(text.clone())),
        Value::Uuid(uuid) => Expr::value(Literal::SingleQuotedString(uuid.to_string())),
        Value::Array(array) => Expr::value(Literal::SingleQuotedString(array.to_string())),
        Value::Binary(bytes) => {
            Expr::value(Literal::HexStringLiteral(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
        }
    }
}
