//! Subqueries that are an aggregate without GROUP BY, such as `(SELECT max(v) FROM reads r WHERE
//! r.id = m.id)`. Each returns one row, even for empty input. DataFusion turns correlated ones into
//! grouped aggregates (55.2, `PullUpCorrelatedExpr`), which return no row for empty input; it
//! compensates only where the subquery is a scalar value.
//!
//! 1. `EXISTS` of such a subquery is true.
//! 2. `v IN`, `v > ANY` and `v > ALL` of one become comparisons with a scalar.
//! 3. A correlated one nested within another subquery is refused, because the result would be
//!    wrong.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Subquery, lit};
use fleetdb_engine::{Code, Error};
use fleetdb_functions::errors::query_error;

const REFUSED: &str = "an aggregate in a subquery of this form, which looks at the rows around it, is not supported: select the \
                       aggregate itself, without LIMIT, HAVING or another query around it, or use GROUP BY and a join";

/// Rewrites a condition on such a subquery; `None` for any other expression.
///
/// # Errors
/// The subquery must be refused.
pub(crate) fn of_one_row(expr: &Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::Exists(Exists { subquery, negated }) if gives_one_row(&subquery.subquery) => Some(lit(!negated)),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) if gives_one_row(&subquery.subquery) => {
            let op = if *negated { Operator::NotEq } else { Operator::Eq };
            Some(compared(expr, op, subquery)?)
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, .. }) if gives_one_row(&subquery.subquery) => {
            Some(compared(expr, *op, subquery)?)
        }
        Expr::ScalarSubquery(subquery) => {
            let within = aggregate_of(&subquery.subquery).unwrap_or(&subquery.subquery);
            refuse(within)?;
            None
        }
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => {
            refuse(&subquery.subquery)?;
            None
        }
        _ => None,
    })
}

fn compared(expr: &Expr, op: Operator, subquery: &Subquery) -> Result<Expr> {
    refuse(aggregate_of(&subquery.subquery).unwrap_or(&subquery.subquery))?;
    let value = Expr::ScalarSubquery(subquery.clone());
    Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(expr.clone()), op, Box::new(value))))
}

fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// The input of a scalar subquery's aggregate, possibly below HAVING; `None` if it is no such
/// subquery.
fn aggregate_of(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => aggregate_of(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => aggregate_of(&alias.input),
        LogicalPlan::Filter(filter) => aggregate_of(&filter.input),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Some(&aggregate.input),
        _ => None,
    }
}

/// Refuses a plan that contains a correlated aggregate without GROUP BY.
fn refuse(plan: &LogicalPlan) -> Result<()> {
    let mut is_refused = false;
    plan.apply(|node| {
        is_refused |=
            matches!(node, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty()) && looks_around(node)?;
        Ok(if is_refused { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match is_refused {
        true => Err(query_error(Error::new(Code::NotSupported, REFUSED))),
        false => Ok(()),
    }
}

/// Whether a plan, not counting its nested subqueries, refers to outer columns.
fn looks_around(plan: &LogicalPlan) -> Result<bool> {
    let mut does = false;
    plan.apply(|node| {
        for expr in node.expressions() {
            does |= expr.exists(|expr| Ok(matches!(expr, Expr::OuterReferenceColumn(..))))?;
        }
        Ok(if does { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(does)
}
