//! Replaces fragments of clients' statements with equivalents that are planned. Each client has a
//! file.
//!
//! A fragment is the last resort: it is bound to one version of one client. What several clients
//! write is decided by names in [`super::relations`] and [`super::rewrite`]. A test fails as soon as
//! a fragment is no longer needed.

mod django;
mod grafana;
mod pgadmin;
mod psql;
mod ruby;

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use std::sync::LazyLock;

/// A fragment of the statements of a client. "The crate" is `datafusion-pg-catalog` 0.19.
#[cfg_attr(not(test), expect(dead_code, reason = "the documentation of a fragment, which tests check"))]
struct Fragment {
    /// Found token by token, ignoring case and spacing; a string literal that contains it is not one.
    text: &'static str,
    replacement: &'static str,
    /// What DataFusion 55 or the crate lacks.
    blocked_by: &'static str,
    /// What has to happen for the fragment to go.
    remove_when: &'static str,
}

/// The fragments of all clients.
const CLIENTS: [&[Fragment]; 5] =
    [django::FRAGMENTS, grafana::FRAGMENTS, pgadmin::FRAGMENTS, psql::FRAGMENTS, ruby::FRAGMENTS];

/// What is looked for in a text.
struct Pattern {
    /// A text without this word, in lower case, does not contain the fragment.
    word: String,
    tokens: Vec<String>,
    fragment: &'static Fragment,
}

static PATTERNS: LazyLock<Vec<Pattern>> =
    LazyLock::new(|| CLIENTS.into_iter().flatten().filter_map(Pattern::new).collect());

impl Pattern {
    fn new(fragment: &'static Fragment) -> Option<Self> {
        let tokens = tokens(fragment.text)?;
        let is_rare = |word: &&String| !["pg_catalog", "information_schema"].contains(&word.as_str());
        let word = tokens.iter().filter(is_rare).max_by_key(|word| word.len())?.to_ascii_lowercase();
        Some(Self { word, tokens, fragment })
    }
}

/// Replaces the fragments in a text; returns the text unchanged if there are none.
pub(super) fn replaced(text: &str) -> String {
    replaced_by(text, PATTERNS.iter())
}

fn replaced_by<'a>(text: &str, patterns: impl Iterator<Item = &'a Pattern>) -> String {
    let lower = text.to_ascii_lowercase();
    let patterns: Vec<_> = patterns.filter(|pattern| lower.contains(&pattern.word)).collect();
    let (false, Some(mut found)) = (patterns.is_empty(), tokens(text)) else { return text.to_owned() };
    let mut any = false;
    for Pattern { tokens, fragment, .. } in patterns {
        let mut from = 0;
        while let Some(at) = found[from..].windows(tokens.len()).position(|found| is_same(found, tokens)) {
            found.splice(from + at..from + at + tokens.len(), [fragment.replacement.to_owned()]);
            (from, any) = (from + at + 1, true);
        }
    }
    if any { found.join(" ") } else { text.to_owned() }
}

fn is_same(tokens: &[String], others: &[String]) -> bool {
    tokens.iter().zip(others).all(|(token, other)| token.eq_ignore_ascii_case(other))
}

/// The text's tokens; `None` if it cannot be tokenized.
fn tokens(text: &str) -> Option<Vec<String>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    Some(tokens.map(|token| token.to_string()).collect())
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
