//! `(SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts DESC LIMIT 1)`, as people and ORMs ask for each device's newest row.
//! DataFusion plans a subquery that looks at the rows around it only if it gives one row by an aggregate, which says the same:
//! `first_value(v ORDER BY ts DESC)`. Of one that has an aggregate and a LIMIT all the same it makes NULL where there are
//! no rows, even of `count(*)`: the LIMIT, of the one row that there is, is left out.

use crate::column_names::name_of;
use crate::ddl::identifier;
use crate::parse::expr_of;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    TableFactor, Value as Literal, visit_expressions, visit_expressions_mut,
};
use std::ops::ControlFlow;

/// Writes subqueries of this form as those of an aggregate.
pub(crate) fn first_as_aggregate(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Subquery(query) = expr {
            rewrite(query);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Rewrites a subquery if it is of this form.
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
    let OrderByKind::Expressions(order) = &query.order_by.as_ref()?.kind else { return None };
    let is_plain =
        query.with.is_none() && query.fetch.is_none() && select.distinct.is_none() && select.having.is_none();
    if limit.to_string() != "1" || !is_plain || is_grouped || !looks_around(select) || order.iter().any(is_place) {
        return None;
    }
    let order = order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let [item] = select.projection.as_mut_slice() else { return None };
    let (expr, alias) = match &*item {
        SelectItem::UnnamedExpr(expr) => (expr, Ident::with_quote('"', name_of(expr))),
        SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
        _ => return None,
    };
    if has_call(expr) {
        return None;
    }
    let first = format!("first_value({expr} ORDER BY {order})");
    *item = SelectItem::ExprWithAlias { expr: expr_of(&first)?, alias };
    (query.order_by, query.limit_clause) = (None, None);
    Some(())
}

/// Whether a single aggregate is selected.
pub(crate) fn is_aggregate(items: &[SelectItem]) -> bool {
    let [SelectItem::UnnamedExpr(Expr::Function(call)) | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. }] =
        items
    else {
        return false;
    };
    let name = call.name.to_string().to_ascii_lowercase();
    call.over.is_none() && ["avg", "count", "max", "min", "sum"].contains(&name.as_str())
}

/// `ORDER BY 1`.
pub(crate) fn is_place(order: &OrderByExpr) -> bool {
    matches!(&order.expr, Expr::Value(literal) if matches!(literal.value, Literal::Number(..)))
}

/// A function may be an aggregate, or one over a window.
pub(super) fn has_call(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Function(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_one).is_break()
}

/// Whether the conditions name a column of a table that is not the subquery's own.
pub(super) fn looks_around(select: &Select) -> bool {
    let Some(conditions) = &select.selection else { return false };
    let own: Option<Vec<String>> = tables_of(select).map(name).collect();
    // Where it is not known what a table is called nothing is done.
    let Some(own) = own else { return false };
    names_others(conditions, &own)
}

/// Whether an expression names a column of a table that is not among these.
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

/// The tables that a SELECT is from.
pub(crate) fn tables_of(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        [&from.relation].into_iter().chain(joined)
    })
}

/// What a table is called.
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
