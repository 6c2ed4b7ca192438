//! Decimal numbers and floats that meet.
//!
//! DataFusion plans a literal like `1.19` as a float, and would convert the decimal number that it
//! meets to a float. [`with_exact_numbers`] replaces the literal by the decimal number that its text
//! says, before types are coerced: in arithmetic, comparisons, lists, CASE, and functions that return
//! one of their arguments. A cast of a float to a decimal number rounds the float's shortest text, as
//! PostgreSQL does, so that `1.005` becomes `1.01`.

use crate::errors::{misfit, query_error};
use crate::expressions::rewritten;
use crate::literals::numeric_overflow;
use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use fleetdb_engine::{ColumnType, Decimal, DecimalError};
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
        let rewrite = |expr: Expr, schema: &DFSchema| expr.transform_up(|expr| exact(expr, schema));
        let concerns = |expr: &Expr| float(expr).is_some() || decimal_cast(expr).is_some();
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
    if let Some((of, to)) = decimal_cast(&expr) {
        let is_float = matches!(of.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
        return Ok(match is_float {
            true => Transformed::yes(rounding(to).call(vec![of.clone()])),
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

/// What a cast to a column's decimal type converts, and that type.
fn decimal_cast(expr: &Expr) -> Option<(&Expr, ColumnType)> {
    let Expr::Cast(cast) = expr else { return None };
    let to = ColumnType::from_arrow(cast.field.data_type()).ok().filter(|to| to.is_decimal())?;
    Some((&cast.expr, to))
}

/// The function that rounds floats to decimal numbers of a type.
fn rounding(to: ColumnType) -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    let of = move |args: &[ArrayRef]| -> Result<ArrayRef> {
        let ColumnType::Decimal { precision, scale } = to else { return Ok(cast(&args[0], &to.to_arrow())?) };
        let round = |value: f64| match Decimal::parse(&value.to_string(), precision, scale) {
            Ok(number) => Ok(i128::from(number.unscaled)),
            Err(DecimalError::OutOfRange) => Err(query_error(numeric_overflow(to))),
            Err(DecimalError::Malformed) => Err(query_error(misfit(&value.to_string(), &to.to_arrow()))),
        };
        let floats = args[0].as_primitive::<Float64Type>();
        let rounded = floats.iter().map(|value| value.map(round).transpose()).collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(rounded.with_data_type(to.to_arrow())))
    };
    let of = Arc::new(make_scalar_function(of, Vec::new()));
    SimpleScalarUDF::new_with_signature(format!("round_to_{to}"), signature, to.to_arrow(), of).into()
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
