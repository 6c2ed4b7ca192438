//! Correlated scalar subqueries that are no aggregate: `SELECT (SELECT name FROM meters m WHERE m.id =
//! r.meter) FROM reads r`. DataFusion plans only aggregates, so the subquery becomes one that also tells
//! whether there are several rows ([`fleetdb_functions::one_value`]).

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};
use fleetdb_functions::one_value::{FEW_VALUES, ONE_VALUE};
use std::sync::Arc;

/// The value of a scalar subquery; `None` if DataFusion plans the subquery.
///
/// # Errors
/// DataFusion cannot aggregate its rows.
pub(super) fn value_of(subquery: &Subquery) -> Result<Option<Expr>> {
    let plan = &subquery.subquery;
    if subquery.outer_ref_columns.is_empty() || plan.schema().fields().len() != 1 || !selects_rows(plan) {
        return Ok(None);
    }
    // A primary key names one row at most, which DataFusion knows.
    if plan.max_rows().is_some_and(|rows| rows <= 1) {
        return Ok(None);
    }
    // The column may be an outer one, which an aggregate cannot have.
    let LogicalPlan::Projection(projection) = plan.as_ref() else { return Ok(None) };
    let [column] = projection.expr.as_slice() else { return Ok(None) };
    if column.contains_outer() {
        return Ok(None);
    }
    let few = FEW_VALUES.call(vec![column.clone().unalias()]).alias(plan.schema().field(0).name());
    let none: [Expr; 0] = [];
    let rows = LogicalPlanBuilder::from(projection.input.as_ref().clone()).aggregate(none, [few])?.build()?;
    let few = Expr::ScalarSubquery(Subquery { subquery: Arc::new(rows), ..subquery.clone() });
    Ok(Some(ONE_VALUE.call(vec![few])))
}

/// Whether a plan selects rows of tables, without aggregates and limits.
fn selects_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(of) => selects_rows(&of.input),
        LogicalPlan::SubqueryAlias(of) => selects_rows(&of.input),
        LogicalPlan::Filter(of) => selects_rows(&of.input),
        LogicalPlan::Join(of) => selects_rows(&of.left) && selects_rows(&of.right),
        LogicalPlan::TableScan(_) => true,
        _ => false,
    }
}
