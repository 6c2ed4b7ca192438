//! Grouped columns, aggregates and window functions that differ only in a cast: `SELECT
//! max(ts::date), max(ts::time) FROM reads`. DataFusion's names leave out casts, and it rejects
//! duplicate names within an aggregation or a window.

use super::selects;
use crate::column_names::{place_of, type_name};
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Distinct, Expr, Function, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByKind,
    Query, Select, SelectItem, Statement, Value, VisitorMut,
};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions, visit_expressions_mut, walk_mut};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Gives such expressions distinct names.
pub(super) fn tell_apart(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Queries);
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let order = match &mut query.order_by {
            Some(order) => match &mut order.kind {
                OrderByKind::Expressions(by) => by.iter_mut().map(|by| &mut by.expr).collect(),
                OrderByKind::All(_) => Vec::new(),
            },
            None => Vec::new(),
        };
        let mut order = Some(order);
        selects(&mut query.body, &mut |select| tell_casts_apart(select, order.take().unwrap_or_default()));
        ControlFlow::Continue(())
    }
}

fn tell_casts_apart(select: &mut Select, order: Vec<&mut Expr>) {
    if !are_doubled(select, &order) {
        return;
    }
    let mut casts = Casts::default();
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let grouped = match &mut select.group_by {
        GroupByExpr::Expressions(grouped, _) => grouped.iter_mut(),
        GroupByExpr::All(_) => [].iter_mut(),
    };
    let distinct = match &mut select.distinct {
        Some(Distinct::On(distinct)) => distinct.iter_mut(),
        _ => [].iter_mut(),
    };
    let conditions = select.having.iter_mut().chain(&mut select.qualify);
    for expr in items.chain(grouped).chain(distinct).chain(conditions).chain(order) {
        casts.tell_apart(expr);
    }
}

/// Whether two expressions that DataFusion names within one node differ only in casts: two function
/// calls, grouped columns, or columns of DISTINCT ON.
fn are_doubled(select: &Select, order: &[&mut Expr]) -> bool {
    let mut texts = HashMap::new();
    let mut is_doubled = |expr: &Expr| {
        let text = text_of(expr, true);
        texts.entry(text_of(expr, false)).or_insert_with(|| text.clone()) != &text
    };
    let items: Vec<(&Expr, Option<&Ident>)> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) => Some((expr, None)),
            SelectItem::ExprWithAlias { expr, alias } => Some((expr, Some(alias))),
            _ => None,
        })
        .collect();
    // The item of the SELECT list that a grouped column stands for: `GROUP BY 1`, `GROUP BY day`.
    let selected = |grouped: &Expr| match grouped {
        Expr::Identifier(name) => items.iter().find(|(_, alias)| *alias == Some(name)),
        other => place_of(other).and_then(|place| items.get(place)),
    };
    let columns: Vec<&Expr> = match (&select.group_by, &select.distinct) {
        (GroupByExpr::Expressions(grouped, _), _) if !grouped.is_empty() => {
            grouped.iter().map(|grouped| selected(grouped).map_or(grouped, |(item, _)| item)).collect()
        }
        (_, Some(Distinct::On(distinct))) => distinct.iter().collect(),
        _ => Vec::new(),
    };
    let mut parts = Vec::new();
    for column in columns {
        match column {
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => parts.extend(sets.iter().flatten()),
            other => parts.push(other),
        }
    }
    if parts.into_iter().any(&mut is_doubled) {
        return true;
    }
    let mut with_calls = items
        .iter()
        .map(|(item, _)| *item)
        .chain(&select.having)
        .chain(&select.qualify)
        .chain(order.iter().map(|by| &**by));
    with_calls.any(|expr| {
        let found = visit_expressions(expr, |part| match part {
            Expr::Function(call) if !is_marker(call) && is_doubled(part) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break()
    })
}

/// Whether a call is a `coalesce` of one value, which [`Casts::tell_apart`] makes.
fn is_marker(call: &Function) -> bool {
    let arguments = match &call.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    };
    arguments == 1 && call.name.to_string() == "coalesce"
}

/// The text of an expression without names of tables and, if so told, without casts. Expressions
/// with the same text mean the same, in whatever words they are written.
fn text_of(expr: &Expr, with_casts: bool) -> String {
    let mut bare = expr.clone();
    let _ = visit_expressions_mut(&mut bare, |part| {
        match part {
            Expr::Cast { kind, data_type, .. } if with_casts => {
                *kind = CastKind::Cast;
                *data_type = DataType::Custom(ObjectName::from(Ident::new(type_name(data_type))), Vec::new());
            }
            Expr::Nested(inner) => *part = std::mem::replace(inner.as_mut(), Expr::value(Value::Null)),
            Expr::Cast { expr: inner, .. } => *part = std::mem::replace(inner.as_mut(), Expr::value(Value::Null)),
            Expr::TypedString(typed) if !with_casts => *part = Expr::Value(typed.value.clone()),
            Expr::CompoundIdentifier(parts) => {
                *part = Expr::Identifier(Ident::new(parts.last().map(identifier).unwrap_or_default()));
            }
            Expr::Identifier(column) => *column = Ident::new(identifier(column)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    bare.to_string()
}

/// The casts of a SELECT: for each operand without casts, the texts of its casts.
#[derive(Default)]
struct Casts(HashMap<String, Vec<String>>);

impl Casts {
    /// Gives the casts of an expression distinct names.
    fn tell_apart(&mut self, expr: &mut Expr) {
        let _ = visit_expressions_mut(expr, |part| {
            if !matches!(part, Expr::Cast { .. }) {
                return ControlFlow::<()>::Continue(());
            }
            let (text, casts) = (text_of(part, true), self.0.entry(text_of(part, false)).or_default());
            let place = casts.iter().position(|cast| *cast == text).unwrap_or(casts.len());
            if place == casts.len() {
                casts.push(text);
            }
            // `coalesce` of one value is that value, with another name.
            let mut named = part.to_string();
            for _ in 0..=place {
                named = format!("coalesce({named})");
            }
            if let Some(named) = expr_of(&named) {
                *part = named;
            }
            ControlFlow::Continue(())
        });
    }
}

#[cfg(test)]
#[path = "casts_tests.rs"]
mod tests;
