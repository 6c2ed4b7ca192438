//! Protects subqueries in the SELECT list from the crate, which replaces correlated ones with NULL.
//! That is enough for most catalog queries, but not for these subqueries.

use super::rewrite::is_empty;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, Query, SelectItem, SetExpr, TableFactor, VisitorMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_statement::clauses::{is_aggregate, tables_of};
use fleetdb_statement::walk::walk_mut;
use std::ops::ControlFlow;

/// Puts parentheses around subqueries on tables outside the catalog, and around those that count or
/// have an empty array: the crate only recognizes subqueries without them.
pub(super) fn shielded(text: String) -> String {
    let Ok(mut statements) = Parser::parse_sql(&PostgreSqlDialect {}, &text) else { return text };
    let mut shield = Shield { found: false };
    let _ = walk_mut(&mut statements, &mut shield);
    if !shield.found {
        return text;
    }
    statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

struct Shield {
    found: bool,
}

impl VisitorMut for Shield {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
            if let Expr::Subquery(query) = expr
                && is_to_be_kept(query)
            {
                *expr = Expr::Nested(Box::new(expr.clone()));
                self.found = true;
            }
        }
        ControlFlow::Continue(())
    }
}

fn is_to_be_kept(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    if let [SelectItem::UnnamedExpr(Expr::Function(array))] = select.projection.as_slice()
        && let FunctionArguments::Subquery(query) = &array.args
        && let SetExpr::Select(select) = query.body.as_ref()
    {
        return is_empty(select);
    }
    !select.from.is_empty() && (is_aggregate(&select.projection) || !tables_of(select).any(is_of_catalog))
}

fn is_of_catalog(table: &TableFactor) -> bool {
    match table {
        TableFactor::Table { name, .. } => {
            let name = name.to_string().to_ascii_lowercase().replace('"', "");
            name.starts_with("pg_") || name.starts_with("information_schema.")
        }
        // Other subqueries on the catalog are left to the crate.
        _ => true,
    }
}

#[cfg(test)]
#[path = "subqueries_tests.rs"]
mod tests;
