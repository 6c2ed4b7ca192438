//! Sums of differences of times. In PostgreSQL, a difference is an interval with days and a time of less
//! than a day, and a sum adds days and times apart: the sum of 23 and of 12 hours is 35 hours. In DataFusion
//! a difference is a duration, which does not tell.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use fleetdb_functions::conversions::SPLIT_DAYS;

/// The operands of the sum or difference of two spans of time that need a change; `None` if neither does.
pub(super) fn sides_meant(binary: &BinaryExpr, schema: &DFSchema) -> Option<[Option<Expr>; 2]> {
    if !matches!(binary.op, Operator::Plus | Operator::Minus) {
        return None;
    }
    let (left, right) = (binary.left.get_type(schema).ok()?, binary.right.get_type(schema).ok()?);
    if !is_span(&left) || !is_span(&right) {
        return None;
    }
    let sides = [interval(&binary.left, schema), interval(&binary.right, schema)];
    sides.iter().any(Option::is_some).then_some(sides)
}

/// `sum` of differences; `None` for any other aggregate.
pub(super) fn sum_meant(sum: &AggregateFunction, schema: &DFSchema) -> Option<Expr> {
    let [of] = sum.params.args.as_slice() else { return None };
    let of = (sum.func.name() == "sum").then(|| interval(of, schema))??;
    let mut sum = sum.clone();
    sum.params.args = vec![of];
    Some(Expr::AggregateFunction(sum))
}

/// `sum` of differences over a window; `None` for any other window function.
pub(super) fn window_sum_meant(sum: &WindowFunction, schema: &DFSchema) -> Option<Expr> {
    let [of] = sum.params.args.as_slice() else { return None };
    let of = (sum.fun.name() == "sum").then(|| interval(of, schema))??;
    let mut sum = sum.clone();
    sum.params.args = vec![of];
    Some(Expr::from(sum))
}

/// Whether values of a type are spans of time.
pub(super) fn is_span(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// A difference as an interval; `None` for anything else.
fn interval(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    matches!(of.get_type(schema), Ok(DataType::Duration(_))).then(|| SPLIT_DAYS.call(vec![of.clone()]))
}
