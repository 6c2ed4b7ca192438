//! `INTERVAL '1 hour' * 3`, `0.5 * INTERVAL '1 day'` and `INTERVAL '1 hour' / 4`, which DataFusion
//! lacks; also the types of parameters and texts in such operations and next to times: `ts + '1
//! hour'`, `ts - '2026-01-01'`.
//!
//! As in PostgreSQL (`interval_mul` in its `timestamp.c`), fractions of months carry into days,
//! with 30 days to a month, and fractions of days into the time, with 24 hours to a day. Each fraction is
//! rounded to a millionth before it is carried.

use arrow::array::{AsArray, PrimitiveArray};
use arrow::compute::try_binary;
use arrow::datatypes::{DataType, Field, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use arrow::error::ArrowError;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::conversions::SPLIT_DAYS;
use fleetdb_functions::expressions::on_arrays;
use fleetdb_functions::values::intervals::interval_literal;
use std::sync::Arc;

const DAYS_PER_MONTH: f64 = 30.0;
const SECONDS_PER_DAY: f64 = 86_400.0;
const NS_PER_US: f64 = 1e3;
const US_PER_SECOND: f64 = 1e6;

/// Replaces the operators by the function.
#[derive(Debug)]
pub(crate) struct ScaleIntervals;

impl ExprPlanner for ScaleIntervals {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        // Types are resolved only for these operators: resolving them in a long chain of ANDs would
        // walk the whole chain at each operator.
        match expr.op {
            BinaryOperator::Multiply | BinaryOperator::Divide => {}
            BinaryOperator::Plus | BinaryOperator::Minus => {
                return Ok(PlannerResult::Original(typed_operands_of_time(expr, schema)?));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        }
        let of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
        let (left, right) = (of(&expr.left), of(&expr.right));
        let is_interval = |of: &DataType| matches!(of, DataType::Interval(_) | DataType::Duration(_));
        // A parameter of unknown type counts as a number as well.
        let is_number = |of: &DataType, expr: &Expr| of.is_numeric() || is_untyped_parameter(expr);
        let (divides, swaps) = match expr.op {
            BinaryOperator::Multiply if is_interval(&left) && is_number(&right, &expr.right) => (false, false),
            BinaryOperator::Multiply if is_number(&left, &expr.left) && is_interval(&right) => (false, true),
            BinaryOperator::Divide if is_interval(&left) && is_number(&right, &expr.right) => (true, false),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (interval, number) = if swaps { (expr.right, expr.left) } else { (expr.left, expr.right) };
        let number = with_type(number, DataType::Float64);
        let is_difference = matches!(if swaps { right } else { left }, DataType::Duration(_));
        let interval = if is_difference { SPLIT_DAYS.call(vec![interval]) } else { interval };
        Ok(PlannerResult::Planned(ScalarUDF::new_from_impl(Scale::new(divides)).call(vec![interval, number])))
    }
}

fn is_untyped_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}

fn with_type(expr: Expr, data_type: DataType) -> Expr {
    match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = Field::new("", data_type, true);
            Expr::Placeholder(Placeholder::new_with_field(id, Some(Arc::new(field))))
        }
        other => other,
    }
}

/// Types the operands in `ts + $1` and `ts - '2026-01-01'`: as in PostgreSQL, the operand added to a
/// time is an interval, and a text subtracted from a time is a time.
fn typed_operands_of_time(mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<RawBinaryExpr> {
    let is_plus = expr.op == BinaryOperator::Plus;
    let of = |time: &Expr| time.get_type(schema).unwrap_or(DataType::Null);
    if let Some(right) = typed_operand(&expr.right, || of(&expr.left), is_plus)? {
        expr.right = right;
    } else if let Some(left) = typed_operand(&expr.left, || of(&expr.right), is_plus)? {
        expr.left = left;
    }
    Ok(expr)
}

/// Gives an untyped operand next to a time its type; `None` for anything else.
fn typed_operand(expr: &Expr, time: impl Fn() -> DataType, is_plus: bool) -> Result<Option<Expr>> {
    let text = match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        expr if is_plus && is_untyped_parameter(expr) => None,
        _ => return Ok(None),
    };
    let time = time();
    let is_timestamp = matches!(time, DataType::Timestamp(..));
    Ok(match text {
        None => is_timestamp.then(|| with_type(expr.clone(), DataType::Interval(IntervalUnit::MonthDayNano))),
        Some(text) if is_plus => is_timestamp.then(|| interval_literal(text)).transpose()?,
        Some(text) if is_timestamp || matches!(time, DataType::Date32 | DataType::Date64) => {
            Some(cast(lit(text.clone()), time))
        }
        Some(_) => None,
    })
}

/// An interval multiplied or divided by a number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Scale {
    divides: bool,
    signature: Signature,
}

impl Scale {
    fn new(divides: bool) -> Self {
        let types = vec![DataType::Interval(IntervalUnit::MonthDayNano), DataType::Float64];
        Self { divides, signature: Signature::exact(types, Volatility::Immutable) }
    }

    fn scaled(&self, of: IntervalMonthDayNano, number: f64) -> Result<IntervalMonthDayNano, ArrowError> {
        if self.divides && number == 0.0 {
            return Err(ArrowError::DivideByZero);
        }
        let scaled = |count: f64| if self.divides { count / number } else { count * number };
        let rounded = |fraction: f64| (fraction * US_PER_SECOND).round_ties_even() / US_PER_SECOND;
        let (months, days) = (scaled(f64::from(of.months)), scaled(f64::from(of.days)));
        let days_of_month = rounded(months.fract() * DAYS_PER_MONTH);
        let seconds = rounded((days.fract() + days_of_month.fract()) * SECONDS_PER_DAY);
        let whole_days = (seconds / SECONDS_PER_DAY).trunc();
        let us = scaled(of.nanoseconds as f64 / NS_PER_US) + (seconds - whole_days * SECONDS_PER_DAY) * US_PER_SECOND;
        let (days, ns) = (days.trunc() + days_of_month.trunc() + whole_days, us.round_ties_even() * NS_PER_US);
        let fits = |count: f64, most: f64| count.abs() < most;
        if !fits(months, f64::from(i32::MAX)) || !fits(days, f64::from(i32::MAX)) || !fits(ns, i64::MAX as f64) {
            return Err(ArrowError::ArithmeticOverflow("interval out of range".to_owned()));
        }
        Ok(IntervalMonthDayNano::new(months as i32, days as i32, ns as i64))
    }
}

impl ScalarUDFImpl for Scale {
    fn name(&self) -> &str {
        if self.divides { "interval_div" } else { "interval_mul" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args, |columns| {
            let [intervals, numbers] = columns else {
                return Err(misuse(format!("{} takes an interval and a number", self.name())));
            };
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
            let numbers = numbers.as_primitive::<Float64Type>();
            let scaled: PrimitiveArray<IntervalMonthDayNanoType> =
                try_binary(intervals, numbers, |interval, number| self.scaled(interval, number))?;
            Ok(Arc::new(scaled))
        })
    }
}
