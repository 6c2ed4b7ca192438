//! Subqueries as conditions among what is selected: `SELECT EXISTS (SELECT 1 FROM reads WHERE id = 7)`, as ORMs ask whether
//! there is a row, and `SELECT id IN (SELECT id FROM reads)`. DataFusion plans them as conditions of WHERE only; here they are
//! written as counts that are more than 0.

use super::latest::{has_call, looks_around};
use crate::parse::expr_of;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, Statement, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Writes them so.
pub(super) fn as_counts(statement: &mut Statement) {
    let _ = statement.visit(&mut InQueries);
}

struct InQueries;

impl VisitorMut for InQueries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        super::selects(&mut query.body, &mut |select| select.projection.iter_mut().for_each(selected));
        ControlFlow::Continue(())
    }
}

fn selected(item: &mut SelectItem) {
    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
        let _ = expr.visit(&mut InExpr { depth: 0 });
    }
}

struct InExpr {
    /// Subqueries around what is looked at, which are visited by themselves.
    depth: usize,
}

impl VisitorMut for InExpr {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let words = match expr {
            Expr::Exists { subquery, negated: false } => format!("(({}) > 0)", counted(subquery)),
            Expr::Exists { subquery, negated: true } => format!("(({}) = 0)", counted(subquery)),
            Expr::InSubquery { expr, subquery, negated } if !matches!(**expr, Expr::Tuple(_)) => {
                let is_in = is_in(expr, subquery);
                if *negated { format!("(NOT {is_in})") } else { is_in }
            }
            _ => return ControlFlow::Continue(()),
        };
        if let Some(counts) = expr_of(&words) {
            *expr = counts;
        }
        ControlFlow::Continue(())
    }
}

/// True, false, or NULL: where no row is equal but one is NULL nobody knows.
fn is_in(expr: &Expr, query: &Query) -> String {
    let is_there =
        |condition: String| format!("(SELECT count(*) FROM ({query}) AS \"in\" (\"in:0\") WHERE {condition}) > 0");
    let (any, equal, unknown) = (
        is_there("true".to_owned()),
        is_there(format!("\"in\".\"in:0\" = {expr}")),
        is_there("\"in\".\"in:0\" IS NULL".to_owned()),
    );
    format!(
        "(CASE WHEN {equal} THEN true WHEN {unknown} OR {expr} IS NULL AND {any} THEN CAST(NULL AS BOOLEAN) \
         ELSE false END)"
    )
}

/// The query that counts the rows of another one; of one that looks at nothing around it the first is enough.
fn counted(query: &Query) -> String {
    let mut query = query.clone();
    query.order_by = query.order_by.filter(|_| query.limit_clause.is_some());
    let may_be_limited = query.limit_clause.is_none() && query.fetch.is_none();
    if let SetExpr::Select(select) = query.body.as_mut()
        && is_plain(select)
        && may_be_limited
    {
        let looks_around = looks_around(select);
        let what = if looks_around { "count(*)" } else { "1" };
        select.projection = expr_of(what).map(SelectItem::UnnamedExpr).into_iter().collect();
        return match looks_around {
            true => query.to_string(),
            false => format!("SELECT count(*) FROM ({query} LIMIT 1) AS \"exists\""),
        };
    }
    format!("SELECT count(*) FROM ({query}) AS \"exists\"")
}

/// Whether each row that fits gives one, whatever is selected.
fn is_plain(select: &Select) -> bool {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let may_be_aggregate = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_call(expr),
        _ => false,
    };
    !is_grouped && select.having.is_none() && !select.projection.iter().any(may_be_aggregate)
}
