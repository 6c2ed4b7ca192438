//! `(SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts DESC LIMIT 1)`, the usual query for each
//! device's newest row, as people and ORMs write it. DataFusion plans a correlated scalar subquery
//! only if it is an aggregate, so the query becomes the equivalent `first_value(v ORDER BY ts
//! DESC)`. If a subquery has both an aggregate and a LIMIT, DataFusion returns NULL for no rows,
//! even for `count(*)`. An aggregate returns a single row, so that LIMIT is removed.

use crate::column_names::name_of;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor,
};
use fleetdb_statement::clauses::{is_aggregate, is_place, tables_of};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions, visit_expressions_mut};
use std::ops::ControlFlow;

/// Rewrites subqueries of this form as aggregates.
pub(crate) fn first_as_aggregate(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Subquery(query) = expr {
            rewrite(query);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Rewrites a subquery if it has this form.
fn rewrite(query: &mut Query) -> Option<()> {
    let LimitClause::LimitOffset { limit: Some(limit), offset: None, .. } = query.limit_clause.as_ref()? else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if !is_grouped && is_aggregate(&select.projection) && limit.to_string() != "0" {
        query.limit_clause = None;
        return Some(());
    }
    let order: &[OrderByExpr] = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(order)) => order,
        Some(_) => return None,
        None => &[],
    };
    let is_plain =
        query.with.is_none() && query.fetch.is_none() && select.distinct.is_none() && select.having.is_none();
    if limit.to_string() != "1" || !is_plain || is_grouped || !looks_around(select) || order.iter().any(is_place) {
        return None;
    }
    let order = order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let order = if order.is_empty() { order } else { format!(" ORDER BY {order}") };
    let [item] = select.projection.as_mut_slice() else { return None };
    let (expr, alias) = match &*item {
        SelectItem::UnnamedExpr(expr) => (expr, Ident::with_quote('"', name_of(expr))),
        SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
        _ => return None,
    };
    if has_call(expr) {
        return None;
    }
    let first = format!("first_value({expr}{order})");
    *item = SelectItem::ExprWithAlias { expr: expr_of(&first)?, alias };
    (query.order_by, query.limit_clause) = (None, None);
    Some(())
}

/// Whether the expression calls a function, which may be an aggregate or a window function.
pub(super) fn has_call(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_one).is_break()
}

/// Whether the conditions refer to a table other than the subquery's own.
pub(super) fn looks_around(select: &Select) -> bool {
    let Some(conditions) = &select.selection else { return false };
    let own: Option<Vec<String>> = tables_of(select).map(name).collect();
    // If a table's name is unknown, leave the query alone.
    let Some(own) = own else { return false };
    names_others(conditions, &own)
}

/// Whether an expression refers to a table that is not among `tables`.
pub(super) fn names_others(expr: &Expr, tables: &[String]) -> bool {
    let of_others = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [.., table, _] if !tables.contains(&identifier(table)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, of_others).is_break()
}

/// The name by which a table's columns are qualified.
pub(super) fn name(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(identifier(&alias.name))
        }
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.last().and_then(|part| part.as_ident()).map(identifier)
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "latest_tests.rs"]
mod tests;
