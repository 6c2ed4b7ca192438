//! `v = ANY (SELECT v FROM reads)`, `v > ALL (SELECT ...)`: a value compared with each row of a subquery.
//!
//! 1. `= ANY` and `<> ALL` are IN and NOT IN, which DataFusion plans as joins by hash ([`as_in`]).
//! 2. Of the others DataFusion makes a condition over the subquery's own columns (55.2, `rewrite_set_comparison`). Where the
//!    outer table has the subquery's name, both sides are one column to it, and a row is compared with itself
//!    (<https://github.com/apache/datafusion/issues/25258>). The subquery's column gets a name of its own ([`apart`]).

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::expr::SetComparison;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, Subquery};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as SqlExpr, Statement, visit_expressions_mut};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The name of the subquery's column, which no column of a statement has.
const NAME: &str = "any:";

/// Writes `= ANY` and `<> ALL` of a subquery as IN and NOT IN.
pub(super) fn as_in(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        let (left, right, negated) = match expr {
            SqlExpr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => (left, right, false),
            SqlExpr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => (left, right, true),
            _ => return ControlFlow::<()>::Continue(()),
        };
        if let SqlExpr::Subquery(query) = right.as_ref() {
            let (left, subquery) = (left.clone(), query.clone());
            *expr = SqlExpr::Nested(Box::new(SqlExpr::InSubquery { expr: left, subquery, negated }));
        }
        ControlFlow::Continue(())
    });
}

/// A comparison with a subquery whose column has a name of its own.
///
/// # Errors
/// DataFusion's, if the column can have no other name.
pub(super) fn apart(compared: &SetComparison) -> Result<Expr> {
    let plan = compared.subquery.subquery.as_ref().clone();
    let Some((table, column)) = plan.schema().iter().next() else { return Ok(Expr::SetComparison(compared.clone())) };
    let column = Expr::Column(Column::from((table, column))).alias(NAME);
    // A name for the whole subquery would hide what it compares with the rows around it.
    let subquery = LogicalPlanBuilder::from(plan).project([column])?.build()?;
    let subquery = Subquery { subquery: Arc::new(subquery), ..compared.subquery.clone() };
    Ok(Expr::SetComparison(SetComparison { subquery, ..compared.clone() }))
}
