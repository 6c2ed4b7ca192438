//! Rewrites PostgreSQL's syntax that DataFusion cannot plan, or interprets differently, before
//! planning: one module for each form. [`passes`] lists them in order.

mod at_time_zone;
mod calls;
mod casts;
mod coalesce;
mod exists;
pub(crate) mod intervals;
mod json;
mod lateral;
pub(crate) mod latest;
mod like;
mod numeric;
pub(crate) mod one_row;
mod order;
mod passes;
mod powers;
pub(crate) mod quantified;
mod refused;
mod row_queries;
mod series;
mod substring;
mod text_aggregates;
mod tuples;
mod unnest;
mod using;
mod writes;

use crate::column_names::{keep_names, name_ordered, names_of, tell_apart};
use datafusion::sql::sqlparser::ast::{Ident, Select, SetExpr, Statement, TableAlias, TableAliasColumnDef};
use fleetdb_engine::Result;
use passes::{COLUMNS_OF_JOINS, Marks, PASSES, Pass};

/// Rewrites the statements of a text into forms that DataFusion can plan. Statements without a text
/// go through all passes.
///
/// # Errors
/// A statement contains a form that is [`refused`], an invalid ESCAPE, a SIMILAR TO with a pattern
/// that is not a literal, or a comparison of rows with too many columns.
pub(crate) fn rewrite_for_planner(text: Option<&str>, statements: &mut [&mut Statement]) -> Result<()> {
    let marks = text.map(Marks::of);
    let is_needed = |pass: &Pass| marks.as_ref().is_none_or(|marks| marks.call_for(pass));
    if is_needed(&COLUMNS_OF_JOINS) {
        statements.iter_mut().try_for_each(|statement| (COLUMNS_OF_JOINS.run)(statement))?;
    }
    let passes: Vec<&Pass> = PASSES.iter().filter(|pass| is_needed(pass)).collect();
    for statement in statements {
        // Passes change expressions, and with them the names of columns without an alias.
        let names = names_of(statement);
        passes.iter().try_for_each(|pass| (pass.run)(statement))?;
        if let Statement::Query(query) = &mut **statement {
            keep_names(query, &names);
            order::tell_outputs_apart(query);
            name_ordered(query);
            tell_apart(&mut query.body);
        }
    }
    Ok(())
}

/// Visits the SELECTs that make up a query: one, or those of a UNION.
fn selects(body: &mut SetExpr, each: &mut impl FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => each(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, each);
            selects(right, each);
        }
        // Parenthesized queries are visited separately.
        _ => {}
    }
}

/// Names the single column of a function in FROM after the function's alias, as in
/// `generate_series(1, 3) AS n`, or else after the function.
fn name_column(alias: &mut Option<TableAlias>, function: &str) {
    let own = || TableAlias { explicit: true, name: Ident::new(function), columns: Vec::new(), at: None };
    let alias = alias.get_or_insert_with(own);
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
}
