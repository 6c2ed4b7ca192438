//! PostgreSQL's SQL in DataFusion's words.
//!
//! What PostgreSQL says and DataFusion does not plan, or takes for something else, is written in other words before it is
//! planned ([`in_planned_words`]; a module for each form). What has another meaning, depending on types, is changed in the
//! plan: [`typing`] gives texts and parameters types, [`operators`] operators and casts what they mean.

mod exists;
pub(crate) mod intervals;
mod lateral;
pub(crate) mod latest;
mod like;
mod numeric;
pub(crate) mod operators;
mod powers;
mod refused;
mod series;
mod substring;
mod tuples;
pub(crate) mod typing;
mod unnest;

use crate::functions::at_time_zone::zones_as_calls;
use datafusion::sql::sqlparser::ast::{Ident, Select, SetExpr, Statement, TableAliasColumnDef};
use fleetdb_engine::Result;
use std::collections::HashSet;

/// Words without which a statement is not looked through for what they are part of: a long INSERT is not worth it.
const WORDS: [&str; 13] = [
    "decimal",
    "escape",
    "exists",
    "generate_series",
    "in",
    "interval",
    "lateral",
    "limit",
    "numeric",
    "select",
    "substring",
    "unnest",
    "zone",
];

/// Which of [`WORDS`] are in a text, in whatever case.
fn words_of(text: &str) -> HashSet<&'static str> {
    let mut found = HashSet::new();
    for (at, first) in text.bytes().enumerate() {
        // Most of a long text are digits.
        if first.is_ascii_alphabetic() {
            let rest = &text.as_bytes()[at..];
            let is_here = |word: &&str| {
                rest.get(..word.len()).is_some_and(|word_here| word_here.eq_ignore_ascii_case(word.as_bytes()))
            };
            found.extend(WORDS.into_iter().filter(is_here));
        }
    }
    found
}

/// Statements of a text in words that DataFusion plans.
///
/// # Errors
/// A statement has what is [`refused`], or an ESCAPE that is none.
pub(crate) fn in_planned_words<'a>(text: &str, statements: impl Iterator<Item = &'a mut Statement>) -> Result<()> {
    let words = words_of(text);
    let has = |word| words.contains(&word);
    for statement in statements {
        if has("select") {
            refused::refuse(statement)?;
        }
        if has("escape") {
            like::escape_with_backslashes(statement)?;
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
        if has("zone") {
            zones_as_calls(statement);
        }
        if has("lateral") {
            lateral::limits_as_numbers(statement);
        }
        if has("limit") {
            latest::first_as_aggregate(statement);
        }
        if has("in") && has("select") {
            tuples::in_as_exists(statement);
        }
        if has("exists") {
            exists::as_counts(statement);
        }
        if has("numeric") || has("decimal") {
            numeric::limit_digits(statement);
        }
        if text.contains('^') {
            powers::of_negatives(statement);
        }
    }
    Ok(())
}

/// The SELECTs that a query's rows come from: one, or those of a UNION.
fn selects(body: &mut SetExpr, each: &mut impl FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => each(select),
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, each);
            selects(right, each);
        }
        // A query in parentheses is visited by itself.
        _ => {}
    }
}

/// The one column of a function in FROM, which is called as the function is there: `generate_series(1, 3) AS n`.
fn column_of(name: &Ident) -> TableAliasColumnDef {
    TableAliasColumnDef { name: name.clone(), data_type: None }
}
