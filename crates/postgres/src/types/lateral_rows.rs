//! `FROM t, unnest(t.list)` and `FROM t, LATERAL (SELECT unnest(f(t.text)) AS value) AS e`: rows made
//! of the columns of an earlier table. DataFusion plans them as a join with a subquery that it cannot
//! take apart. Here the earlier table becomes the input of the `unnest` itself.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, NullHandling, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{EmptyRelation, Filter, Join, JoinType, Projection, Subquery, Unnest};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::sync::Arc;

/// Begins the name of a column of the earlier table below the `unnest`. No column is called so.
const CARRIED: &str = "\u{1f}carried";

/// Rewrites such joins of a plan.
///
/// # Errors
/// DataFusion rejects the new plan.
pub(crate) fn joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has = false;
    plan.apply_with_subqueries(|node| {
        has = matches!(node, LogicalPlan::Join(join) if subquery_of(&join.right).is_some());
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has {
        return Ok(plan);
    }
    let joined = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
        Ok(match rows_of(join)? {
            Some(rows) => Transformed::yes(rows),
            None => Transformed::no(node),
        })
    });
    joined.data()
}

/// The subquery on the right side of a join.
fn subquery_of(plan: &LogicalPlan) -> Option<&Subquery> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}

/// The rows of such a join; `None` if it has another form.
fn rows_of(join: &Join) -> Result<Option<LogicalPlan>> {
    let Some(subquery) = subquery_of(&join.right) else { return Ok(None) };
    let is_true = |filter: &Expr| matches!(filter, Expr::Literal(ScalarValue::Boolean(Some(true)), _));
    let is_left = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left if join.filter.as_ref().is_none_or(is_true) => true,
        _ => return Ok(None),
    };
    if !join.on.is_empty() {
        return Ok(None);
    }
    let below = Below { schema: join.left.schema(), is_left };
    let columns = join.left.schema().iter().enumerate();
    let columns = columns.map(|(place, (table, field))| Expr::Column((table, field).into()).alias(name_of(place)));
    let carried = LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::clone(&join.left))?);
    let Some(rows) = below.with_columns(&subquery.subquery, carried)? else { return Ok(None) };
    let names: Vec<Column> = rows.schema().columns();
    if names.len() != join.schema.fields().len() {
        return Ok(None);
    }
    let columns = join
        .schema
        .iter()
        .zip(names)
        .map(|((table, field), column)| Expr::Column(column).alias_qualified(table.cloned(), field.name()));
    let rows = LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(rows))?);
    Ok(Some(match &join.filter {
        Some(filter) if !is_left => LogicalPlan::Filter(Filter::try_new(filter.clone(), Arc::new(rows))?),
        _ => rows,
    }))
}

fn name_of(place: usize) -> String {
    format!("{CARRIED}{place}")
}

/// What the nodes of the subquery need to know of the earlier table.
struct Below<'a> {
    schema: &'a DFSchema,
    /// Whether a row without rows of its own remains.
    is_left: bool,
}

impl Below<'_> {
    /// The subquery over the columns of the earlier table instead of over one empty row; `None` if it
    /// has another form.
    fn with_columns(&self, plan: &LogicalPlan, carried: LogicalPlan) -> Result<Option<LogicalPlan>> {
        Ok(match plan {
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) => Some(carried),
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.with_columns(&projection.input, carried)? else { return Ok(None) };
                let count = self.schema.fields().len();
                let mut exprs: Vec<Expr> =
                    (0..count).map(|place| Expr::Column(Column::new_unqualified(name_of(place)))).collect();
                for (expr, field) in projection.expr.iter().zip(projection.schema.fields()) {
                    match self.of_columns(expr)? {
                        Some(expr) => exprs.push(expr.alias_if_changed(field.name().clone())?),
                        None => return Ok(None),
                    }
                }
                Some(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
            }
            LogicalPlan::Unnest(unnest) => {
                let Some(input) = self.with_columns(&unnest.input, carried)? else { return Ok(None) };
                let mut options = unnest.options.clone();
                if self.is_left {
                    options.null_handling = NullHandling::PreserveAndExpandEmpty;
                }
                Some(LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), unnest.exec_columns.clone(), options)?))
            }
            _ => None,
        })
    }

    /// An expression that names the columns of the earlier table; `None` if it names others.
    fn of_columns(&self, expr: &Expr) -> Result<Option<Expr>> {
        let mut is_ours = true;
        let own = expr.clone().transform_up(|expr| {
            let Expr::OuterReferenceColumn(_, column) = &expr else { return Ok(Transformed::no(expr)) };
            match self.schema.maybe_index_of_column(column) {
                Some(place) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name_of(place))))),
                None => {
                    is_ours = false;
                    Ok(Transformed::no(expr))
                }
            }
        })?;
        Ok(is_ours.then_some(own.data))
    }
}
