//! Comparisons of times with constants of a finer unit, such as `ts < '2026-01-01 10:00:00.6'` for
//! a column that counts seconds.
//!
//! DataFusion converts the column to the finer unit. Then it moves the conversion to the constant,
//! which it truncates (55.2, `try_cast_literal_to_type`), so that the condition above misses the
//! rows at 10:00:00. The rule [`FinerTimes`] rounds the constant in the direction that keeps the
//! meaning: `ts < c` becomes `ts < ceil(c)`, and `ts > c` becomes `ts > floor(c)`.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, in_list, not};
use datafusion::optimizer::AnalyzerRule;
use fleetdb_functions::expressions::{per_second, rewritten};
use fleetdb_functions::values::rounding::{self, Rounding};

/// The analyzer rule. See the module documentation.
#[derive(Debug)]
pub struct FinerTimes;

impl AnalyzerRule for FinerTimes {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rounded = plan.transform_up_with_subqueries(|node| {
            rewritten(
                node,
                |expr| matches!(expr, Expr::Cast(cast) if per_second(cast.field.data_type()).is_some()),
                |expr, schema| expr.transform_up(|expr| rounded(expr, schema)),
            )
        });
        rounded.data()
    }

    fn name(&self) -> &'static str {
        "finer_times"
    }
}

/// Replaces a comparison with a constant of a finer unit.
fn rounded(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let replaced = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match coarser(left, schema) {
            Some(times) => times.compared(*op, right),
            None => coarser(right, schema).zip(op.swap()).and_then(|(times, op)| times.compared(op, left)),
        },
        Expr::Between(Between { expr, negated, low, high }) => coarser(expr, schema).and_then(|times| {
            let low = times.compared(Operator::GtEq, low)?;
            let is_between = low.and(times.compared(Operator::LtEq, high)?);
            Some(if *negated { not(is_between) } else { is_between })
        }),
        Expr::InList(InList { expr, list, negated }) => match coarser(expr, schema) {
            Some(times) => times.one_of(list, *negated)?,
            None => None,
        },
        _ => None,
    };
    Ok(replaced.map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// Times that are compared in a finer unit than their own.
struct Coarser<'a> {
    times: &'a Expr,
    data_type: DataType,
    finer: &'a DataType,
}

/// The times that an expression converts to a finer unit. A conversion between times with and
/// without a zone does not change the number of units.
fn coarser<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<Coarser<'a>> {
    let Expr::Cast(cast) = expr else { return None };
    let (times, finer) = (cast.expr.as_ref(), cast.field.data_type());
    if is_constant(times) {
        return None;
    }
    let data_type = times.get_type(schema).ok()?;
    let is_finer = per_second(finer)? > per_second(&data_type)?;
    is_finer.then_some(Coarser { times, data_type, finer })
}

impl Coarser<'_> {
    /// A comparison with a constant of the finer unit.
    fn compared(&self, op: Operator, constant: &Expr) -> Option<Expr> {
        if !is_constant(constant) {
            return None;
        }
        let (down, up) = (self.rounded(constant, Rounding::Down), self.rounded(constant, Rounding::Up));
        let with = |op, rounded| binary_expr(self.times.clone(), op, rounded);
        // False for times that are not NULL.
        let never = || with(Operator::NotEq, self.times.clone());
        let equal = |down: Expr, up: Expr| {
            let is_exact = down.clone().eq(up.clone());
            with(Operator::Eq, down.clone()).and(is_exact).or(never().and(down.not_eq(up)))
        };
        Some(match op {
            Operator::Lt | Operator::GtEq => with(op, up),
            Operator::LtEq | Operator::Gt => with(op, down),
            Operator::Eq => equal(down, up),
            Operator::NotEq => not(equal(down, up)),
            Operator::IsNotDistinctFrom => {
                with(op, down.clone()).and(binary_expr(down, Operator::IsNotDistinctFrom, up))
            }
            Operator::IsDistinctFrom => with(op, down.clone()).or(binary_expr(down, Operator::IsDistinctFrom, up)),
            _ => return None,
        })
    }

    /// A comparison with literals of the finer unit, without those that no time equals. `None` if
    /// the list has anything else.
    fn one_of(&self, list: &[Expr], negated: bool) -> Result<Option<Expr>> {
        let mut kept = Vec::with_capacity(list.len());
        for item in list {
            let value = match item {
                Expr::Literal(value, _) => value.cast_to(self.finer)?,
                Expr::Cast(cast) => match cast.expr.as_ref() {
                    Expr::Literal(value, _) => value.cast_to(cast.field.data_type())?.cast_to(self.finer)?,
                    _ => return Ok(None),
                },
                _ => return Ok(None),
            };
            let coarse = value.cast_to(&self.data_type)?;
            if coarse.cast_to(self.finer)? == value {
                kept.push(Expr::Literal(coarse, None));
            }
        }
        Ok(Some(match kept.is_empty() {
            false => in_list(self.times.clone(), kept, negated),
            true => {
                let op = if negated { Operator::Eq } else { Operator::NotEq };
                binary_expr(self.times.clone(), op, self.times.clone())
            }
        }))
    }

    fn rounded(&self, constant: &Expr, rounding: Rounding) -> Expr {
        rounding::rounded(constant.clone(), self.data_type.clone(), rounding)
    }
}

/// Whether the expression has the same value for all rows and can be evaluated while planning.
fn is_constant(expr: &Expr) -> bool {
    let varies = expr.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Placeholder(_)
        ))
    });
    !varies.unwrap_or(true) && !expr.is_volatile()
}
