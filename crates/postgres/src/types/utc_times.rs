//! Which times without a zone are UTC in every session: those that come from a column of a table.
//! A date, an instant's local time and a literal follow the session's clocks.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use fleetdb_functions::expressions::leaf;

/// Whether an expression is a time without a zone, or an array of such times, that comes from a
/// column of a table. Columns that `inputs` compute are followed to where they come from; other
/// columns count as columns of tables.
pub(super) fn holds_utc(expr: &Expr, schema: &DFSchema, inputs: &[&LogicalPlan]) -> bool {
    if !expr.get_type(schema).is_ok_and(|of| matches!(leaf(&of), DataType::Timestamp(_, None))) {
        return false;
    }
    match expr {
        Expr::Column(column) => return inputs.iter().find_map(|input| column_holds(column, input)).unwrap_or(true),
        Expr::OuterReferenceColumn(..) => return true,
        Expr::ScalarSubquery(of) => return place_holds(0, &of.subquery),
        _ => {}
    }
    let mut holds = false;
    let looked = expr.apply_children(|part| {
        holds |= holds_utc(part, schema, inputs);
        Ok(if holds { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    holds || looked.is_err()
}

/// As [`holds_utc`], for a column of a plan; `None` if the plan has no such column.
fn column_holds(column: &Column, plan: &LogicalPlan) -> Option<bool> {
    Some(place_holds(plan.schema().maybe_index_of_column(column)?, plan))
}

/// As [`holds_utc`], for the column of a plan at this place.
fn place_holds(place: usize, plan: &LogicalPlan) -> bool {
    let computed =
        |expr: Option<&Expr>, input: &LogicalPlan| expr.is_none_or(|expr| holds_utc(expr, input.schema(), &[input]));
    match plan {
        LogicalPlan::Projection(of) => computed(of.expr.get(place), &of.input),
        LogicalPlan::Aggregate(of) if !matches!(of.group_expr.as_slice(), [Expr::GroupingSet(_)]) => {
            computed(of.group_expr.iter().chain(&of.aggr_expr).nth(place), &of.input)
        }
        LogicalPlan::Window(of) => match place.checked_sub(of.input.schema().fields().len()) {
            Some(place) => computed(of.window_expr.get(place), &of.input),
            None => place_holds(place, &of.input),
        },
        LogicalPlan::Join(of) => {
            let column = Column::from(of.schema.qualified_field(place));
            [&of.left, &of.right].into_iter().find_map(|side| column_holds(&column, side)).unwrap_or(true)
        }
        LogicalPlan::Union(of) => of.inputs.iter().any(|input| place_holds(place, input)),
        LogicalPlan::SubqueryAlias(of) => place_holds(place, &of.input),
        LogicalPlan::Subquery(of) => place_holds(place, &of.subquery),
        LogicalPlan::Filter(of) => place_holds(place, &of.input),
        LogicalPlan::Sort(of) => place_holds(place, &of.input),
        LogicalPlan::Limit(of) => place_holds(place, &of.input),
        LogicalPlan::Distinct(Distinct::All(input)) => place_holds(place, input),
        LogicalPlan::Values(_) => false,
        _ => true,
    }
}
