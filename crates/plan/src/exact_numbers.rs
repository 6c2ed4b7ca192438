//! Literals like `1.19` that meet decimal numbers are decimal numbers, as in PostgreSQL.
//!
//! DataFusion plans such a literal as a float, and would convert the decimal number to a float. It
//! is replaced by the decimal number that its text says, before types are coerced: in arithmetic, comparisons, lists, CASE, and functions that return one of their
//! arguments.

use crate::expressions::rewritten;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use fleetdb_engine::Decimal;
use std::cell::Cell;

/// Functions whose arguments are of one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Replaces the float literals of a plan that meet decimal numbers. See the module documentation.
///
/// # Errors
/// Those of rewriting a plan.
pub fn with_exact_numbers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_changed = Cell::new(false);
    let exact = plan.transform_up_with_subqueries(|node| {
        let rewrite = |expr: Expr, schema: &DFSchema| expr.transform_up(|expr| exact(expr, schema));
        let node = rewritten(node, |expr| float(expr).is_some(), rewrite)?;
        has_changed.set(has_changed.get() || node.transformed);
        // The types of columns above a literal change with it.
        match has_changed.get() {
            true => node.map_data(LogicalPlan::recompute_schema),
            false => Ok(node),
        }
    });
    exact.data()
}

/// An expression with decimal numbers in place of the float literals that meet some.
fn exact(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let operands: Vec<&Expr> = match &expr {
        Expr::BinaryExpr(of) => vec![&of.left, &of.right],
        Expr::Between(of) => vec![&of.expr, &of.low, &of.high],
        Expr::InList(of) => std::iter::once(of.expr.as_ref()).chain(&of.list).collect(),
        Expr::Case(of) if of.expr.is_none() => {
            of.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(of.else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.name()) => call.args.iter().collect(),
        _ => return Ok(Transformed::no(expr)),
    };
    let is_decimal = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Decimal128(..)));
    let meets = operands.iter().any(|operand| float(operand).is_some());
    let all_exact = |operand: &&Expr| match operand.get_type(schema) {
        Ok(DataType::Float32 | DataType::Float64) => float(operand).and_then(decimal).is_some(),
        _ => true,
    };
    if !meets || !operands.iter().any(|operand| is_decimal(operand)) || !operands.iter().all(all_exact) {
        return Ok(Transformed::no(expr));
    }
    expr.map_children(|operand| match float(&operand).and_then(decimal) {
        Some(exact) => Ok(Transformed::yes(Expr::Literal(exact, None))),
        None => Ok(Transformed::no(operand)),
    })
}

/// The value of a float literal, perhaps behind a minus sign.
fn float(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => Some(*value),
        Expr::Negative(inner) => float(inner).map(|value| -value),
        _ => None,
    }
}

/// The decimal number that a float literal says.
fn decimal(float: f64) -> Option<ScalarValue> {
    let number = Decimal::read(&float.to_string())?;
    let digits = number.unscaled.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as u8 + 1);
    let precision = digits.max(number.scale).max(1);
    Some(ScalarValue::Decimal128(Some(number.unscaled.into()), precision, number.scale as i8))
}
