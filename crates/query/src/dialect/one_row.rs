//! Subqueries that are an aggregate without GROUP BY, as `(SELECT max(v) FROM reads r WHERE r.id = m.id)`: each gives one row,
//! where there are no rows to add up as well. DataFusion makes groups of those that look at the rows around them (55.2,
//! `PullUpCorrelatedExpr`), and a group without rows is none. It minds this only where the subquery is a value.
//!
//! 1. `EXISTS` of one is true.
//! 2. `v IN`, `v > ANY` and `v > ALL` of one are comparisons with a value.
//! 3. What has one further within, and looks at the rows around it, is refused: the answer would be wrong.

use crate::errors::query_error;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Subquery, lit};
use fleetdb_engine::{Code, Error};

const REFUSED: &str = "an aggregate in a subquery of this form, which looks at the rows around it, is not supported: select the \
                       aggregate itself, without LIMIT, HAVING or another query around it, or use GROUP BY and a join";

/// A condition of such a subquery in other words; `None` for anything else.
///
/// # Errors
/// It is one that is refused.
pub(super) fn of_one_row(expr: &Expr) -> Result<Option<Expr>> {
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

/// What the aggregate of a value adds up, under HAVING as well; `None` if it is no such value.
fn aggregate_of(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    match plan {
        LogicalPlan::Projection(projection) => aggregate_of(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => aggregate_of(&alias.input),
        LogicalPlan::Filter(filter) => aggregate_of(&filter.input),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Some(&aggregate.input),
        _ => None,
    }
}

/// Refuses a plan that has an aggregate without GROUP BY of rows that depend on those around the subquery.
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

/// Whether a plan, without the subqueries in it, has a column of the rows around it.
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
