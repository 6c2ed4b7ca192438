//! Names in ORDER BY: a name by itself is an output column, as in PostgreSQL, but within an expression it
//! is a column of the tables: `SELECT coalesce(n, 0) AS n FROM reads ORDER BY n IS NULL, n`. DataFusion
//! takes the output column for both.
//!
//! An output column that has the name of a column that it is computed from gets another name during
//! planning. An expression in ORDER BY may still use the name of any other output column, which PostgreSQL
//! refuses.

use crate::column_names::{apart, is_column, name_of};
use datafusion::sql::sqlparser::ast::{Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr};
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::visit_expressions;
use std::ops::ControlFlow;

/// Gives other names to output columns that hide a column from an expression in ORDER BY.
pub(super) fn tell_outputs_apart(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else { return };
    let OrderByKind::Expressions(order) = &mut order.kind else { return };
    // DISTINCT ON names output columns as well.
    if matches!(select.distinct, Some(Distinct::On(_))) {
        return;
    }
    for place in 0..select.projection.len() {
        let SelectItem::ExprWithAlias { expr, alias } = &select.projection[place] else { continue };
        let name = identifier(alias);
        let is_own_name = is_column(expr) && name_of(expr) == name;
        let hides = |by: &OrderByExpr| !matches!(by.expr, Expr::Identifier(_)) && names(&by.expr, &name, false);
        if is_own_name || !names(expr, &name, true) || !order.iter().any(hides) {
            continue;
        }
        let item = apart(expr.clone(), &name, place);
        let SelectItem::ExprWithAlias { alias, .. } = &item else { continue };
        for by in order.iter_mut().filter(|by| is_name(&by.expr, &name)) {
            by.expr = Expr::Identifier(alias.clone());
        }
        select.projection[place] = item;
    }
}

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Identifier(column) if identifier(column) == name)
}

/// Whether an expression has a column of this name; with its table's name in front of it only if
/// `is_qualified`.
fn names(expr: &Expr, name: &str, is_qualified: bool) -> bool {
    let is_it = |column: &Ident| identifier(column) == name;
    visit_expressions(expr, |expr| match expr {
        Expr::Identifier(column) if is_it(column) => ControlFlow::Break(()),
        Expr::CompoundIdentifier(parts) if is_qualified && parts.last().is_some_and(is_it) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}
