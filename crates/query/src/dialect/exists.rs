//! `SELECT EXISTS (SELECT 1 FROM reads WHERE id = 7)`, as ORMs ask whether there is a row: DataFusion plans EXISTS as a
//! condition only. Among what is selected it is written as a count that is more than 0.

use super::latest::{has_call, looks_around};
use crate::parse::expr_of;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Statement, VisitMut, VisitorMut,
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
    match item {
        SelectItem::UnnamedExpr(expr) => {
            let is_all = matches!(expr, Expr::Exists { negated: false, .. });
            let _ = expr.visit(&mut InExpr { depth: 0 });
            if is_all {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new("exists") };
            }
        }
        SelectItem::ExprWithAlias { expr, .. } => {
            let _ = expr.visit(&mut InExpr { depth: 0 });
        }
        _ => {}
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
        if self.depth == 0
            && let Expr::Exists { subquery, negated } = expr
        {
            let compared = if *negated { "= 0" } else { "> 0" };
            if let Some(count) = expr_of(&format!("(({}) {compared})", counted(subquery))) {
                *expr = count;
            }
        }
        ControlFlow::Continue(())
    }
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
