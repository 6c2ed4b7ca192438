//! `VALUES (1, (SELECT max(v) FROM t)), (2, 0)`: DataFusion evaluates VALUES before it has run
//! their subqueries. Such rows are rewritten as `SELECT 1, (SELECT ...) UNION ALL SELECT 2, 0`.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Parens, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, Values, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_statement::grammar::Grammar;
use fleetdb_statement::walk::{visit_expressions, walk_mut};
use std::ops::ControlFlow;

/// Rewrites VALUES that contain subqueries.
pub(super) fn as_selects(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Rows);
}

struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        rewrite(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn rewrite(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) if has_subquery(values) => {
            if let Some(select) = template() {
                *body = united(&select, &mut values.rows);
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            rewrite(left);
            rewrite(right);
        }
        _ => {}
    }
}

fn has_subquery(values: &Values) -> bool {
    visit_expressions(values, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// A SELECT whose items will be replaced.
fn template() -> Option<Select> {
    let text = "SELECT 1";
    let query = Parser::new(&Grammar::of(text)).try_with_sql(text).ok()?.parse_query().ok()?;
    match *query.body {
        SetExpr::Select(select) => Some(*select),
        _ => None,
    }
}

/// Unites the rows by halves, so that many rows do not nest deeply.
fn united(select: &Select, rows: &mut [Parens<Vec<Expr>>]) -> SetExpr {
    if let [row] = rows {
        let named = |(place, expr)| SelectItem::ExprWithAlias {
            expr,
            // The column names of VALUES.
            alias: Ident::new(format!("column{}", place + 1)),
        };
        let projection = std::mem::take(&mut **row).into_iter().enumerate().map(named).collect();
        return SetExpr::Select(Box::new(Select { projection, ..select.clone() }));
    }
    let (front, back) = rows.split_at_mut(rows.len() / 2);
    SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(united(select, front)),
        right: Box::new(united(select, back)),
    }
}
