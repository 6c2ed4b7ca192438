//! Rewrites PostgreSQL's syntax that DataFusion cannot plan, or interprets differently, before
//! planning: one module for each form.

mod at_time_zone;
mod calls;
mod casts;
mod coalesce;
mod exists;
pub(crate) mod intervals;
mod lateral;
pub(crate) mod latest;
mod like;
mod numeric;
pub(crate) mod one_row;
mod powers;
pub(crate) mod quantified;
mod refused;
mod row_queries;
mod series;
mod substring;
mod tuples;
mod unnest;
mod using;
mod writes;

use crate::column_names::{ColumnNames, keep_names, name_derived, name_ordered, names_of, tell_apart};
use at_time_zone::zones_as_calls;
use datafusion::sql::sqlparser::ast::{Ident, Select, SetExpr, Statement, TableAlias, TableAliasColumnDef};
use fleetdb_engine::Result;
use fleetdb_query::statement::words::has_word;
use std::collections::HashSet;

/// The words that [`calls`] handles.
const CALLS: [&str; 11] = [
    "age",
    "collate",
    "date_trunc",
    "div",
    "localtime",
    "localtimestamp",
    "make_interval",
    "mod",
    "percentile_disc",
    "to_date",
    "to_timestamp",
];

/// The words of the forms that are rewritten. A text without a word is not searched for its forms,
/// because searching a long INSERT is expensive.
const WORDS: [&str; 22] = [
    "all",
    "any",
    "cast",
    "coalesce",
    "decimal",
    "default",
    "escape",
    "exists",
    "generate_series",
    "in",
    "interval",
    "lateral",
    "limit",
    "numeric",
    "select",
    "similar",
    "some",
    "substring",
    "unnest",
    "update",
    "values",
    "zone",
];

/// The words of [`WORDS`] and [`CALLS`] that begin a word of the text, ignoring case.
fn words_of(text: &str) -> HashSet<&'static str> {
    let text = text.as_bytes();
    let mut found = HashSet::new();
    let mut is_within = false;
    for (at, byte) in text.iter().enumerate() {
        let is_first = !is_within && byte.is_ascii_alphabetic();
        is_within = byte.is_ascii_alphanumeric() || *byte == b'_';
        if is_first {
            let is_here = |word: &&str| {
                text.get(at..at + word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word.as_bytes()))
            };
            found.extend(WORDS.into_iter().chain(CALLS).filter(is_here));
        }
    }
    found
}

/// Whether the text may compare something in parentheses.
fn compares_rows(text: &str) -> bool {
    text.split(')').skip(1).any(|behind| behind.trim_start().starts_with(['<', '>', '=', '!']))
}

/// Rewrites the statements of a text into forms that DataFusion can plan.
///
/// # Errors
/// A statement contains a form that is [`refused`], an invalid ESCAPE, a SIMILAR TO with a pattern
/// that is not a literal, or a comparison of rows with too many columns.
pub(crate) fn rewrite_for_planner(text: &str, statements: &mut [&mut Statement]) -> Result<()> {
    if has_word(text, "join") {
        statements.iter_mut().try_for_each(|statement| using::columns_by_table(statement))?;
    }
    let names: Vec<ColumnNames> = statements.iter().map(|statement| names_of(statement)).collect();
    in_planned_forms(text, statements)?;
    for (statement, names) in statements.iter_mut().zip(&names) {
        if let Statement::Query(query) = &mut **statement {
            keep_names(query, names);
            name_ordered(query);
            tell_apart(&mut query.body);
        }
    }
    Ok(())
}

/// Applies the passes whose words are in the text.
fn in_planned_forms(text: &str, statements: &mut [&mut Statement]) -> Result<()> {
    let words = words_of(text);
    let has = |word| words.contains(&word);
    // Checks on the whole text are done once, because it may have many statements.
    let has_calls = CALLS.iter().any(|word| words.contains(word)) || text.contains(['|', '@', '~']);
    let (compares_rows, has_powers) = (compares_rows(text), text.contains('^'));
    let has_casts = has("cast") || text.contains("::");
    for statement in statements.iter_mut() {
        let statement = &mut **statement;
        if has("select") {
            refused::refuse(statement)?;
            name_derived(statement);
        }
        if has("update") || has("default") {
            writes::in_planned_form(statement);
        }
        if has("values") && has("select") {
            row_queries::as_selects(statement);
        }
        if has("escape") {
            like::escape_with_backslashes(statement)?;
        }
        if has("similar") {
            like::similar_as_regex(statement)?;
        }
        if has("interval") {
            intervals::in_known_units(statement);
        }
        if has("generate_series") {
            series::as_rows(statement);
        }
        if has("unnest") {
            unnest::tell_arrays_apart(statement);
        }
        if has("substring") {
            substring::patterns_as_matches(statement);
        }
        if has_calls {
            calls::in_known_calls(statement);
        }
        if has("coalesce") {
            coalesce::within_each_other(statement);
        }
        if has("zone") || has("date_trunc") {
            zones_as_calls(statement);
        }
        if has("lateral") {
            lateral::limits_as_numbers(statement);
        }
        if has("limit") {
            latest::first_as_aggregate(statement);
        }
        let is_quantified = has("any") || has("some") || has("all");
        if is_quantified && has("select") {
            quantified::as_in(statement);
        }
        let may_be_in = (has("in") || is_quantified) && has("select");
        if may_be_in {
            tuples::in_as_exists(statement);
        }
        if has("exists") || may_be_in {
            exists::as_counts(statement)?;
        }
        if has("numeric") || has("decimal") {
            numeric::limit_digits(statement);
        }
        if compares_rows {
            tuples::by_columns(statement)?;
        }
        if has_powers {
            powers::of_negatives(statement);
        }
        if has_casts && has("select") {
            casts::tell_apart(statement);
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
