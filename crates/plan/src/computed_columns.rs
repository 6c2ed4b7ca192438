//! Correlated subqueries that compare an expression with an outer column, such as
//! `(SELECT count(*) FROM reads WHERE reads.ts::date = days.day)`.
//!
//! DataFusion turns such a subquery into a join, and an aggregate in it into one with groups, one
//! for each value of the compared columns. It groups by the column even if the condition compares
//! a cast of the column, so a day with readings at two times gets two rows (55.2,
//! `can_pullup_over_aggregation`). It refuses other expressions. The rule [`ComputedColumns`]
//! computes the expression in a projection below the filter. The condition then compares a column.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator, col, ident};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Begins the names of the new columns. No name of a user contains its last character.
const PREFIX: &str = "compared\u{1f}";

/// The analyzer rule. See the module documentation.
#[derive(Debug)]
pub struct ComputedColumns;

impl AnalyzerRule for ComputedColumns {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut columns = 0;
        let computed = plan.transform_up_with_subqueries(|node| {
            // Only these nodes have columns of their own, so that they hide the new columns.
            if !matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Projection(_)) {
                return Ok(Transformed::no(node));
            }
            node.map_children(|child| match child {
                LogicalPlan::Filter(filter) if filter.predicate.contains_outer() => with_columns(filter, &mut columns),
                other => Ok(Transformed::no(other)),
            })
        });
        computed.data()
    }

    fn name(&self) -> &'static str {
        "computed_columns"
    }
}

/// Computes the expressions that a filter compares with outer columns. `columns` counts the new
/// columns of the statement.
fn with_columns(filter: Filter, columns: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let mut computed = Vec::new();
    let mut name = |expr: Expr| {
        *columns += 1;
        let name = format!("{PREFIX}{columns}");
        computed.push(expr.alias(&name));
        Box::new(ident(name))
    };
    let conditions = split_conjunction_owned(filter.predicate.clone()).into_iter().map(|condition| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let (left, right) = match (is_computed(&left), is_outer(&left), is_computed(&right), is_outer(&right)) {
                (true, _, _, true) => (name(*left), right),
                (_, true, true, _) => (left, name(*right)),
                _ => (left, right),
            };
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right })
        }
        other => other,
    });
    let predicate = conjunction(conditions);
    let (Some(predicate), false) = (predicate, computed.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let input = Arc::unwrap_or_clone(filter.input);
    let kept: Vec<Expr> = input.schema().columns().into_iter().map(col).collect();
    let plan = LogicalPlanBuilder::from(input).project(kept.into_iter().chain(computed))?.filter(predicate)?.build()?;
    Ok(Transformed::yes(plan))
}

/// Whether the expression is more than a column, and has only columns of the subquery.
fn is_computed(expr: &Expr) -> bool {
    !matches!(expr, Expr::Column(_)) && expr.any_column_refs() && !expr.contains_outer() && !expr.is_volatile()
}

/// Whether all columns of the expression are outer columns.
fn is_outer(expr: &Expr) -> bool {
    expr.contains_outer() && !expr.any_column_refs()
}
