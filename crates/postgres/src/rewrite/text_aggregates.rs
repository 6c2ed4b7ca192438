//! `string_agg(a, ',' ORDER BY a), string_agg(b, ',' ORDER BY b)`: texts in different orders in one SELECT.
//! DataFusion sorts the rows once for all of them, and refuses several orders (55.2). Its `array_agg` sorts
//! by itself, so such texts are joined from arrays.

use super::selects;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArguments, Query, Select, SelectItem,
    Statement, VisitorMut,
};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::bare_name;
use fleetdb_statement::walk::{visit_expressions, visit_outside_subqueries_mut, walk_mut};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Rewrites the texts of a statement that are in different orders.
pub(super) fn sorted_apart(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Sorted);
}

struct Sorted;

impl VisitorMut for Sorted {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        selects(&mut query.body, &mut |select| {
            if has_several_orders(select) {
                select.projection.iter_mut().for_each(join_arrays);
            }
        });
        ControlFlow::Continue(())
    }
}

fn join_arrays(item: &mut SelectItem) {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return };
    let _ = visit_outside_subqueries_mut(expr, |expr| {
        if let Some(joined) = joined(expr).and_then(|words| expr_of(&words)) {
            *expr = joined;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn has_several_orders(select: &Select) -> bool {
    let (mut orders, mut has_text) = (HashSet::new(), false);
    let _ = visit_expressions(&select.projection, |expr| {
        if let Expr::Function(call) = expr
            && let Some(order) = order_of(call)
        {
            has_text |= is_text_aggregate(call);
            orders.insert(order);
        }
        ControlFlow::<()>::Continue(())
    });
    has_text && orders.len() > 1
}

fn is_text_aggregate(call: &Function) -> bool {
    call.over.is_none() && bare_name(&call.name).is_some_and(|name| name == "string_agg")
}

/// The order of an aggregate's rows.
fn order_of(call: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &call.args else { return None };
    list.clauses.iter().find_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(order) => {
            Some(order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        _ => None,
    })
}

/// The text joined from an array; `None` for any other expression.
fn joined(expr: &Expr) -> Option<String> {
    let Expr::Function(call) = expr else { return None };
    let (FunctionArguments::List(list), Some(order)) = (&call.args, order_of(call)) else { return None };
    let [text, between] = list.args.as_slice() else { return None };
    if !is_text_aggregate(call) {
        return None;
    }
    let distinct = if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) { "DISTINCT " } else { "" };
    let also = call.filter.as_ref().map(|filter| format!(" AND ({filter})")).unwrap_or_default();
    let array = format!("array_agg({distinct}{text} ORDER BY {order}) FILTER (WHERE ({text}) IS NOT NULL{also})");
    Some(format!("array_to_string({array}, {between})"))
}
