//! `FROM meters m, LATERAL (SELECT v FROM reads r WHERE r.id = m.id ORDER BY ts DESC LIMIT 3) x`,
//! the usual query for each device's newest rows. DataFusion does not plan correlated subqueries
//! with a LIMIT. The subquery is rewritten to number each device's rows in that order and keep the
//! first ones.

use super::latest::{has_call, name, names_others};
use crate::column_names::name_of;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_statement::clauses::{is_place, tables_of};
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions, walk_mut};
use std::ops::ControlFlow;

/// Rewrites the LATERAL subqueries of a statement.
pub(super) fn limits_as_numbers(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Laterals);
}

struct Laterals;

impl VisitorMut for Laterals {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Derived { lateral: true, subquery, .. } = table
            && let Some(text) = numbered(subquery)
            && let Ok(query) = Parser::new(&GenericDialect {}).try_with_sql(&text).and_then(|mut p| p.parse_query())
        {
            *subquery = query;
        }
        ControlFlow::Continue(())
    }
}

/// A column of the subquery, or an expression over its columns, and the outer expression it must
/// equal.
struct Pair<'a> {
    own: &'a Expr,
    around: &'a Expr,
}

/// The rewritten query; `None` if the query does not have this form.
fn numbered(query: &Query) -> Option<String> {
    let LimitClause::LimitOffset { limit: Some(limit), offset: None, .. } = query.limit_clause.as_ref()? else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let order = match &query.order_by {
        None => &[],
        Some(by) => match &by.kind {
            OrderByKind::Expressions(order) => order.as_slice(),
            OrderByKind::All(_) => return None,
        },
    };
    if query.with.is_some() || query.fetch.is_some() || !is_plain(select) || order.iter().any(is_place) {
        return None;
    }
    let tables: Vec<String> = tables_of(select).map(name).collect::<Option<_>>()?;
    let (mut pairs, mut conditions) = (Vec::new(), Vec::new());
    sort(select.selection.as_ref()?, &tables, &mut pairs, &mut conditions)?;
    if pairs.is_empty() {
        return None;
    }
    let (inner, outer) = items(select, pairs.len())?;
    let order: Vec<String> = order.iter().map(|by| of_items(by, &select.projection)).collect();
    let order = if order.is_empty() { String::new() } else { format!("ORDER BY {}", order.join(", ")) };
    let keys: Vec<String> = pairs.iter().map(|pair| pair.own.to_string()).collect();
    let named_keys: String =
        keys.iter().enumerate().map(|(place, key)| format!(", {key} AS \"key:{place}\"")).collect();
    let equal: String =
        pairs.iter().enumerate().map(|(place, pair)| format!("\"key:{place}\" = {} AND ", pair.around)).collect();
    let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
    let conditions = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
    Some(format!(
        "SELECT {outer} FROM (SELECT {inner}{named_keys}, row_number() OVER (PARTITION BY {} {order}) AS \"number:\" \
         FROM {} WHERE {conditions}) AS \"numbered:\" WHERE {equal}\"number:\" <= {limit}",
        keys.join(", "),
        from.join(", "),
    ))
}

/// Whether the query neither groups nor aggregates. Any function call may be an aggregate.
fn is_plain(select: &Select) -> bool {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let calls = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_call(expr),
        _ => false,
    };
    !is_grouped && select.having.is_none() && select.distinct.is_none() && !select.projection.iter().any(calls)
}

/// The SELECT lists of the inner query, which numbers the rows, and of the outer one.
fn items(select: &Select, keys: usize) -> Option<(String, String)> {
    if let [item @ (SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))] = select.projection.as_slice() {
        let ours: String = (0..keys).map(|place| format!("\"key:{place}\", ")).collect();
        return Some((item.to_string(), format!("* EXCLUDE ({ours}\"number:\")")));
    }
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    for (place, item) in select.projection.iter().enumerate() {
        let (expr, called) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, name_of(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, identifier(alias)),
            _ => return None,
        };
        inner.push(format!("{expr} AS \"item:{place}\""));
        outer.push(format!("\"item:{place}\" AS \"{}\"", called.replace('"', "\"\"")));
    }
    Some((inner.join(", "), outer.join(", ")))
}

/// Replaces an output name in ORDER BY by the expression it stands for.
fn of_items(by: &OrderByExpr, items: &[SelectItem]) -> String {
    let mut by = by.clone();
    if let Expr::Identifier(called) = &by.expr
        && let Some(expr) = items.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if identifier(alias) == identifier(called) => Some(expr),
            _ => None,
        })
    {
        by.expr = expr.clone();
    }
    by.to_string()
}

/// Sorts the conditions joined by AND into pairs and conditions on the subquery's own tables;
/// `None` if one is neither.
fn sort<'a>(
    condition: &'a Expr,
    tables: &[String],
    pairs: &mut Vec<Pair<'a>>,
    conditions: &mut Vec<String>,
) -> Option<()> {
    if let Expr::BinaryOp { left, op: BinaryOperator::And, right } = condition {
        sort(left, tables, pairs, conditions)?;
        return sort(right, tables, pairs, conditions);
    }
    if !names_others(condition, tables) {
        conditions.push(format!("({condition})"));
        return Some(());
    }
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return None };
    let (own, around) = match (names_others(left, tables), names_others(right, tables)) {
        (false, true) => (left, right),
        (true, false) => (right, left),
        _ => return None,
    };
    // An unqualified name may be a column of the subquery, and would resolve differently outside
    // the numbering query.
    if names_without_table(around) {
        return None;
    }
    pairs.push(Pair { own, around });
    Some(())
}

fn names_without_table(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Identifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_one).is_break()
}

#[cfg(test)]
#[path = "lateral_tests.rs"]
mod tests;
