//! Adapts PostgreSQL's SQL to DataFusion.
//!
//! PostgreSQL syntax that DataFusion cannot plan, or interprets differently, is rewritten before
//! planning ([`rewrite_for_planner`]; one module for each form). Differences that depend on types
//! are resolved in the plan: [`typing`] gives types to texts and parameters, and [`operators`]
//! adapts operators and casts.

mod calls;
mod casts;
pub(crate) mod chains;
mod coalesce;
mod exists;
pub(crate) mod intervals;
mod lateral;
pub(crate) mod latest;
mod like;
mod mixed_times;
mod numeric;
mod one_row;
pub(crate) mod operators;
mod powers;
mod quantified;
mod refused;
mod row_queries;
mod series;
mod substring;
mod tuples;
pub(crate) mod typing;
mod unnest;
mod using;
mod utc_times;
mod writes;
pub(crate) mod zones;

use crate::column_names::name_derived;
use crate::functions::at_time_zone::zones_as_calls;
use crate::words::has_word;
use datafusion::sql::sqlparser::ast::{Ident, Select, SetExpr, Statement, TableAlias, TableAliasColumnDef};
use fleetdb_engine::Result;
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

/// Qualifies the USING columns in the statements of a text.
///
/// # Errors
/// A join's columns cannot be determined without the schemas of its tables.
pub(crate) fn with_columns_of_joins<'a>(
    text: &str,
    mut statements: impl Iterator<Item = &'a mut Statement>,
) -> Result<()> {
    match has_word(text, "join") {
        true => statements.try_for_each(using::columns_by_table),
        false => Ok(()),
    }
}

/// Rewrites the statements of a text into forms that DataFusion can plan.
///
/// # Errors
/// A statement contains a form that is [`refused`], an invalid ESCAPE, a SIMILAR TO with a pattern
/// that is not a literal, or a comparison of rows with too many columns.
pub(crate) fn rewrite_for_planner<'a>(text: &str, statements: impl Iterator<Item = &'a mut Statement>) -> Result<()> {
    let words = words_of(text);
    let has = |word| words.contains(&word);
    // Checks on the whole text are done once, because it may have many statements.
    let has_calls = CALLS.iter().any(|word| words.contains(word)) || text.contains(['|', '@', '~']);
    let (compares_rows, has_powers) = (compares_rows(text), text.contains('^'));
    let has_casts = has("cast") || text.contains("::");
    for statement in statements {
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
