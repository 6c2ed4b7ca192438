//! Rows of VALUES as queries: `VALUES (1, (SELECT max(v) FROM t)), (2, 0)` becomes
//! `SELECT 1, (SELECT ...) UNION ALL SELECT 2, 0`.
//!
//! - DataFusion evaluates VALUES before it has run their subqueries.
//! - DataFusion gives the columns of every VALUES in an INSERT the types of the table's columns, also
//!   those in FROM: `INSERT INTO t (id, v) SELECT b, a FROM (VALUES (2.5, 3)) AS x (a, b)` (55.2).

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, Parens, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, Values,
    VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_statement::grammar::Grammar;
use fleetdb_statement::walk::{visit_expressions, walk_mut};
use std::ops::ControlFlow;

/// Rewrites VALUES that contain subqueries.
pub(super) fn as_selects(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Rows { is_to_be_one: has_subquery });
}

/// Rewrites the VALUES within the query of an INSERT, but not those that are its rows.
pub(super) fn within_inserts(statement: &mut Statement) {
    let Statement::Insert(Insert { source: Some(source), .. }) = statement else { return };
    let rows = &mut Rows { is_to_be_one: |_| true };
    let _ = match source.body.as_mut() {
        SetExpr::Values(values) => walk_mut(values, rows),
        _ => walk_mut(source, rows),
    };
}

struct Rows {
    /// Whether VALUES are to become a query.
    is_to_be_one: fn(&Values) -> bool,
}

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.rewrite(&mut query.body);
        ControlFlow::Continue(())
    }
}

impl Rows {
    fn rewrite(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Values(values) if (self.is_to_be_one)(values) => {
                if let Some(select) = template() {
                    *body = united(&select, &mut values.rows);
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.rewrite(left);
                self.rewrite(right);
            }
            _ => {}
        }
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
