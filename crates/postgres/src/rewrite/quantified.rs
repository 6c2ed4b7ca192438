//! `v = ANY (SELECT v FROM reads)`, `v > ALL (SELECT ...)`: a value compared with each row of a
//! subquery.
//!
//! 1. `= ANY` and `<> ALL` are IN and NOT IN, which DataFusion plans as hash joins ([`as_in`]).
//! 2. The other comparisons become conditions over the subquery's own columns in DataFusion (55.2,
//!    `rewrite_set_comparison`). If the outer table has the same name as the subquery's, DataFusion
//!    confuses the two columns and compares a row with itself
//!    (<https://github.com/apache/datafusion/issues/25258>). A unique name for the subquery's
//!    column avoids this ([`apart`]).

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::expr::SetComparison;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, Subquery};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as SqlExpr, Statement};
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The name of the subquery's column. No column of a statement has this name.
const NAME: &str = "any:";

/// Rewrites `= ANY` and `<> ALL` of a subquery as IN and NOT IN.
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

/// Renames the subquery's column to a unique name.
///
/// # Errors
/// DataFusion cannot rename the column.
pub(crate) fn apart(compared: &SetComparison) -> Result<Expr> {
    let plan = compared.subquery.subquery.as_ref().clone();
    let Some((table, column)) = plan.schema().iter().next() else { return Ok(Expr::SetComparison(compared.clone())) };
    let column = Expr::Column(Column::from((table, column))).alias(NAME);
    // An alias for the whole subquery would hide its comparisons with outer columns.
    let subquery = LogicalPlanBuilder::from(plan).project([column])?.build()?;
    let subquery = Subquery { subquery: Arc::new(subquery), ..compared.subquery.clone() };
    Ok(Expr::SetComparison(SetComparison { subquery, ..compared.clone() }))
}
