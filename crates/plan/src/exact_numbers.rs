//! Decimal numbers and floats that meet.
//!
//! DataFusion plans a literal like `1.19` as a float, and would convert the decimal number that it
//! meets to a float. [`with_exact_numbers`] replaces the literal by the decimal number that its text
//! says, before types are coerced: in arithmetic, comparisons, lists, CASE, and functions that return
//! one of their arguments. A cast of a float to a decimal number rounds the float's shortest text, as
//! PostgreSQL does, so that `1.005` becomes `1.01`. Quotients of decimal numbers are rounded as well.

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, Signature, SimpleScalarUDF, Volatility,
};
use fleetdb_engine::{ColumnType, Decimal};
use fleetdb_functions::errors::query_error;
use fleetdb_functions::expressions::rewritten;
use fleetdb_functions::quotient::QUOTIENT;
use fleetdb_functions::values::literals;
use std::cell::Cell;
use std::sync::Arc;

/// Functions whose arguments are of one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Replaces the float literals of a plan that meet decimal numbers. See the module documentation.
///
/// # Errors
/// Those of rewriting a plan.
pub fn with_exact_numbers(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_changed = Cell::new(false);
    let exact = plan.transform_up_with_subqueries(|node| {
        let rewrite = |expr: Expr, schema: &DFSchema| {
            expr.transform_up(|expr| exact(expr, schema)?.transform_data(|expr| Ok(rounded_quotient(expr, schema))))
        };
        let concerns =
            |expr: &Expr| float(expr).is_some() || decimal_cast(expr).is_some() || operands_of_quotient(expr).is_some();
        let node = rewritten(node, concerns, rewrite)?;
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
    if let Some((of, precision, scale)) = decimal_cast(&expr) {
        let is_float = matches!(of.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
        return Ok(match is_float {
            true => Transformed::yes(rounding(precision, scale).call(vec![of.clone()])),
            false => Transformed::no(expr),
        });
    }
    let replaced = |expr: Expr| match float(&expr).and_then(decimal) {
        Some(exact) => Transformed::yes(Expr::Literal(exact, None)),
        None => Transformed::no(expr),
    };
    match expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            if !meet(&results.map(AsRef::as_ref).collect::<Vec<_>>(), schema) {
                return Ok(Transformed::no(Expr::Case(case)));
            }
            let result = |expr: Box<Expr>| Box::new(replaced(*expr).data);
            let when_then_expr = case.when_then_expr.into_iter().map(|(when, then)| (when, result(then))).collect();
            Ok(Transformed::yes(Expr::Case(Case::new(case.expr, when_then_expr, case.else_expr.map(result)))))
        }
        expr => {
            let operands: Vec<&Expr> = match &expr {
                Expr::BinaryExpr(of) => vec![&of.left, &of.right],
                Expr::Between(of) => vec![&of.expr, &of.low, &of.high],
                Expr::InList(of) => std::iter::once(of.expr.as_ref()).chain(&of.list).collect(),
                Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.name()) => call.args.iter().collect(),
                _ => return Ok(Transformed::no(expr)),
            };
            match meet(&operands, schema) {
                true => expr.map_children(|operand| Ok(replaced(operand))),
                false => Ok(Transformed::no(expr)),
            }
        }
    }
}

/// A quotient of a decimal number, or of an integer by one, as a call that rounds.
fn rounded_quotient(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_exact = |operand: &Expr| {
        operand.get_type(schema).is_ok_and(|of| of.is_integer() || matches!(of, DataType::Decimal128(..)))
    };
    let is_decimal = |operand: &Expr| matches!(operand.get_type(schema), Ok(DataType::Decimal128(..)));
    let quotient = operands_of_quotient(&expr)
        .filter(|(left, right)| is_exact(left) && is_exact(right) && (is_decimal(left) || is_decimal(right)))
        .map(|(left, right)| QUOTIENT.call(vec![left.clone(), right.clone()]));
    quotient.map_or_else(|| Transformed::no(expr), Transformed::yes)
}

fn operands_of_quotient(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right }) => Some((left, right)),
        _ => None,
    }
}

/// Whether decimal numbers meet float literals, and no other floats.
fn meet(operands: &[&Expr], schema: &DFSchema) -> bool {
    let is_decimal = |operand: &&Expr| matches!(operand.get_type(schema), Ok(DataType::Decimal128(..)));
    let is_exact = |operand: &&Expr| match operand.get_type(schema) {
        Ok(DataType::Float32 | DataType::Float64) => float(operand).and_then(decimal).is_some(),
        _ => true,
    };
    let has_literal = operands.iter().any(|operand| float(operand).is_some());
    has_literal && operands.iter().any(is_decimal) && operands.iter().all(is_exact)
}

/// What a cast to the decimal type of a column converts, and the precision and scale of that type.
fn decimal_cast(expr: &Expr) -> Option<(&Expr, u8, u8)> {
    let Expr::Cast(cast) = expr else { return None };
    match ColumnType::from_arrow(cast.field.data_type()) {
        Ok(ColumnType::Decimal { precision, scale }) => Some((&cast.expr, precision, scale)),
        _ => None,
    }
}

/// The function that rounds floats to decimal numbers with this precision and scale.
fn rounding(precision: u8, scale: u8) -> ScalarUDF {
    let data_type = ColumnType::Decimal { precision, scale }.to_arrow();
    let (name, return_type) = (format!("round_to_{data_type}"), data_type.clone());
    let of = move |args: &[ArrayRef]| -> Result<ArrayRef> {
        let round = |value: f64| -> Result<i128> {
            let number = literals::decimal_of(&value.to_string(), precision, scale).map_err(query_error)?;
            Ok(number.unscaled.into())
        };
        let floats = args[0].as_primitive::<Float64Type>();
        let rounded = floats.iter().map(|value| value.map(round).transpose()).collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(rounded.with_data_type(data_type.clone())))
    };
    let of = Arc::new(make_scalar_function(of, Vec::new()));
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    SimpleScalarUDF::new_with_signature(name, signature, return_type, of).into()
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
    decimal_of(&float.to_string())
}

/// The decimal number that a text says, with its own digits; `None` if there is none of up to 18 digits.
pub fn decimal_of(text: &str) -> Option<ScalarValue> {
    let number = Decimal::read(text)?;
    let digits = number.unscaled.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as u8 + 1);
    let precision = digits.max(number.scale).max(1);
    Some(ScalarValue::Decimal128(Some(number.unscaled.into()), precision, number.scale as i8))
}
