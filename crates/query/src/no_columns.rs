//! `SELECT FROM t`, a query without columns, as PostgreSQL has it: DataFusion takes the first column of a subquery for granted,
//! so that one without any would be a panic (55.2, `SchemaDisplay` of a scalar subquery; found by changed requests).

use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, Statement, Visit, Visitor};
use fleetdb_engine::{Error, Result};
use std::ops::ControlFlow;

/// Refuses subqueries without columns, but in EXISTS, which needs none.
///
/// # Errors
/// There is one.
pub(crate) fn check_subqueries(statement: &Statement) -> Result<()> {
    let mut look = Look { depth: 0, is_of_exists: false };
    match statement.visit(&mut look) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::input("a subquery without columns is not supported, but in EXISTS (...)")),
    }
}

struct Look {
    /// Queries around the one that is looked at.
    depth: usize,
    /// Whether the next query is that of an EXISTS.
    is_of_exists: bool,
}

impl Visitor for Look {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.is_of_exists = matches!(expr, Expr::Exists { .. });
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let may_be = std::mem::take(&mut self.is_of_exists) || self.depth == 0;
        if !may_be && selects_nothing(&query.body) {
            return ControlFlow::Break(());
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

fn selects_nothing(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.projection.is_empty(),
        SetExpr::Query(query) => selects_nothing(&query.body),
        SetExpr::SetOperation { left, .. } => selects_nothing(left),
        _ => false,
    }
}
