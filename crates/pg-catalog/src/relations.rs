//! Resolves relations that clients name but DataFusion does not find: FleetDB's views without their
//! schema, the tables of `information_schema` that views replace, and functions in FROM.

use super::tables::{CURSORS, REPLACING};
use super::{PG_CATALOG, schema, settings};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Statement, TableAlias, TableFactor, VisitorMut,
};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::walk_mut;
use std::ops::ControlFlow;

/// SQL's standard schema of metadata.
pub(super) const INFORMATION_SCHEMA: &str = "information_schema";

/// The tables of `information_schema` that views of `pg_catalog` replace, because DataFusion's own
/// `information_schema` lacks them or their columns and cannot be extended.
const REPLACED: [&str; 7] =
    ["columns", "key_column_usage", "routines", "sequences", "table_constraints", "table_privileges", "triggers"];

/// Whether a view replaces this table.
pub(super) fn is_replaced(schema: &str, table: &str) -> bool {
    schema == INFORMATION_SCHEMA && REPLACED.contains(&table)
}

/// Rewrites the relations of a statement.
pub(super) fn resolve(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Relations);
}

struct Relations;

impl VisitorMut for Relations {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let Some(instead) = instead_of(table) {
            *table = instead;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(table)] = name.0.as_slice() {
            let table = identifier(table);
            // The crate resolves only its own tables without their schema.
            if table == CURSORS || table.starts_with("pg_") && schema::query(&table).is_some() {
                *name = in_catalog(&table);
            }
        }
        ControlFlow::Continue(())
    }

    /// A replaced table is visible by its name alone, so the schema before a column goes.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let [.., schema, table, _] = names.as_slice()
            && is_replaced(&identifier(schema), &identifier(table))
        {
            names.drain(..names.len() - 2);
        }
        ControlFlow::Continue(())
    }
}

/// The table that stands for another one; `None` if that one is found by itself.
fn instead_of(table: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Table { name, alias, args, .. } = table else { return None };
    let names: Vec<_> = name.0.iter().map(|part| part.as_ident().map(identifier)).collect::<Option<_>>()?;
    let last = names.last()?.as_str();
    let alias = alias.clone().unwrap_or_else(|| named(last));
    let view = match (names.as_slice(), last) {
        ([.., schema, _], _) if args.is_none() && is_replaced(schema, last) => format!("{REPLACING}{last}"),
        _ if args.is_none() => return None,
        (_, "pg_available_extensions") => last.to_owned(),
        (_, "pg_show_all_settings") => settings::NAME.to_owned(),
        (_, "current_database" | "current_schema") => {
            let Expr::Subquery(subquery) = expr_of(&format!("(SELECT {last}() AS {})", alias.name))? else {
                return None;
            };
            return Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None });
        }
        _ => return None,
    };
    let mut table = table.clone();
    if let TableFactor::Table { name, alias: given, args, .. } = &mut table {
        (*name, *given, *args) = (in_catalog(&view), Some(alias), None);
    }
    Some(table)
}

fn in_catalog(table: &str) -> ObjectName {
    ObjectName::from(vec![Ident::new(PG_CATALOG), Ident::new(table)])
}

fn named(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None }
}

#[cfg(test)]
#[path = "relations_tests.rs"]
mod tests;
