//! Rewrites intervals in PostgreSQL's text forms. DataFusion parses intervals with Arrow, which reads
//! only numbers with units.

use arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use arrow::datatypes::IntervalMonthDayNano;
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, Interval, Statement, UnaryOperator, Value as Literal,
};
use fleetdb_functions::values::intervals::interval_of_text;
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// Rewrites interval literals that Arrow cannot read as months, days and nanoseconds, and those behind a
/// minus, which DataFusion puts in front of the text, where it is for the first part only (55.2).
pub(super) fn in_known_units(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        match expr {
            Expr::Interval(Interval { value, leading_field: None, .. }) => rewrite(value),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } => {
                if let Expr::Interval(Interval { value, leading_field: None, .. }) = of.as_mut()
                    && negate(value)
                {
                    *expr = std::mem::replace(of.as_mut(), Expr::value(Literal::Null));
                }
            }
            Expr::Cast { expr: value, data_type: SqlType::Interval { .. }, .. } => rewrite(value),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Negates the text of an interval; `false` if it is none.
fn negate(value: &mut Expr) -> bool {
    let Expr::Value(literal) = value else { return false };
    let Literal::SingleQuotedString(text) = &mut literal.value else { return false };
    let Some(IntervalMonthDayNano { months, days, nanoseconds }) = interval_of_text(text) else { return false };
    let parts = (months.checked_neg(), days.checked_neg(), nanoseconds.checked_neg());
    let (Some(months), Some(days), Some(nanoseconds)) = parts else { return false };
    *text = format!("{months} months {days} days {nanoseconds} nanoseconds");
    true
}

fn rewrite(value: &mut Expr) {
    if let Expr::Value(literal) = value
        && let Literal::SingleQuotedString(text) = &mut literal.value
        && parse_interval_month_day_nano(text).is_err()
        && let Some(interval) = interval_of_text(text)
    {
        let IntervalMonthDayNano { months, days, nanoseconds } = interval;
        *text = format!("{months} months {days} days {nanoseconds} nanoseconds");
    }
}
