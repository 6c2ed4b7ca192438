//! Texts that differ only in comments and in the literals that they compare columns with. Programs and
//! dashboards send one query again and again with others; a server keeps the plan of the text without
//! them.

use crate::words::first_word;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use fleetdb_engine::Value;
use std::fmt::Write;

/// A longer text is not looked at.
const MAX_TEXT_BYTES: usize = 8 << 10;
/// The literals of a list with more tokens on one side of a literal stay.
const MAX_LISTED_TOKENS: usize = 64;

/// Words that end a term of a condition.
const BEHIND_CONDITIONS: [Keyword; 17] = [
    Keyword::AND,
    Keyword::OR,
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::UNION,
    Keyword::EXCEPT,
    Keyword::INTERSECT,
    Keyword::JOIN,
    Keyword::LEFT,
    Keyword::RIGHT,
    Keyword::INNER,
    Keyword::FULL,
    Keyword::CROSS,
];

/// A query whose compared literals are parameters.
///
/// ```
/// use fleetdb_engine::Value;
/// use fleetdb_query::ComparedLiterals;
/// let query = ComparedLiterals::of("SELECT v + 1 FROM t WHERE id = 7 AND ts >= '2026-01-01' LIMIT 5").unwrap();
/// assert_eq!(query.text, "SELECT v + 1 FROM t WHERE id = $1 AND ts >= $2 LIMIT 5");
/// assert_eq!(query.values, [Value::Int(7), Value::Text("2026-01-01".into())]);
/// ```
#[derive(Debug, PartialEq)]
pub struct ComparedLiterals {
    /// The query's text.
    pub text: String,
    /// The values of its parameters: integers and texts.
    pub values: Vec<Value>,
}

impl ComparedLiterals {
    /// Takes the literals and comments out of a text; `None` if it is no single SELECT or has parameters of its own. A
    /// text that neither compares a column with a literal nor reads a table must be a constant, as the
    /// `SELECT 1` of connection pools: the value of a function may change.
    pub fn of(text: &str) -> Option<Self> {
        let start = &text[first_word(text)..];
        if text.len() > MAX_TEXT_BYTES || !start.get(..6)?.eq_ignore_ascii_case("select") {
            return None;
        }
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, start).with_unescape(false).tokenize().ok()?;
        let code: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
        if !code.first().is_some_and(|token| is_keyword(token, Keyword::SELECT)) {
            return None;
        }
        let mut found = Self { text: String::with_capacity(start.len()), values: Vec::new() };
        // The number of the next token without spaces, and whether a condition may have begun.
        let (mut number, mut is_in_condition, mut reads) = (0, false, false);
        for token in &tokens {
            match token {
                // Programs write into comments where a statement comes from: each may be another one.
                Token::Whitespace(_) => found.text.push(' '),
                Token::Placeholder(_) => return None,
                // A text may have other statements behind a semicolon.
                Token::SemiColon if number + 1 < code.len() => return None,
                Token::SemiColon => {}
                token => {
                    is_in_condition |= is_keyword(token, Keyword::WHERE) || is_keyword(token, Keyword::ON);
                    reads |= is_keyword(token, Keyword::FROM);
                    match literal(token).filter(|_| is_in_condition && is_compared(&code, number)) {
                        Some(value) => {
                            found.values.push(value);
                            write!(found.text, "${}", found.values.len()).ok()?;
                        }
                        None if is_written_as_read(token) => write!(found.text, "{token}").ok()?,
                        None => return None,
                    }
                }
            }
            number += usize::from(!matches!(token, Token::Whitespace(_)));
        }
        (reads || !found.values.is_empty() || is_constant(&code)).then_some(found)
    }
}

/// Whether a SELECT that reads no table has the same value each time. A text that is cast may have another,
/// as `'now'` has.
fn is_constant(code: &[&Token]) -> bool {
    let is_text = |token: &&Token| matches!(token, Token::SingleQuotedString(_));
    let names = (1..code.len()).filter(|place| matches!(code[*place], Token::Word(_)));
    let names: Vec<usize> = names.collect();
    names.is_empty() || (!code.iter().any(is_text) && names.iter().all(|place| is_no_value(code, *place)))
}

/// Whether a word stands for no value: it is a word of CAST, a type, the name of a column, or a constant.
fn is_no_value(code: &[&Token], place: usize) -> bool {
    let follows = place.checked_sub(1).map(|before| code[before]);
    let names_what_is_before =
        follows.is_some_and(|token| matches!(token, Token::DoubleColon) || is_keyword(token, Keyword::AS));
    let words = [Keyword::CAST, Keyword::AS, Keyword::NULL, Keyword::TRUE, Keyword::FALSE];
    names_what_is_before || words.iter().any(|word| is_keyword(code[place], *word))
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// An integer or a text.
fn literal(token: &Token) -> Option<Value> {
    match token {
        Token::Number(digits, false) => digits.parse().ok().map(Value::Int),
        Token::SingleQuotedString(text) if !text.contains('\'') => Some(Value::Text(text.clone())),
        _ => None,
    }
}

/// Whether the token has one meaning and its text is the one that was read.
fn is_written_as_read(token: &Token) -> bool {
    !matches!(
        token,
        Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
    )
}

/// Whether the token at a place is the whole right side of a comparison, a bound of BETWEEN, or an item of
/// a list of literals behind IN, with a name on the left.
fn is_compared(code: &[&Token], place: usize) -> bool {
    let at = |offset: usize| place.checked_sub(offset).and_then(|place| code.get(place).copied());
    let next = code.get(place + 1).copied();
    let ends = next.is_none_or(|next| {
        matches!(next, Token::RParen | Token::SemiColon)
            || BEHIND_CONDITIONS.iter().any(|keyword| is_keyword(next, *keyword))
    });
    let is_between = |token: Option<&Token>| token.is_some_and(|token| is_keyword(token, Keyword::BETWEEN));
    match at(1) {
        Some(Token::Eq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq) => ends && is_name(at(2)),
        Some(token) if is_keyword(token, Keyword::BETWEEN) => {
            next.is_some_and(|next| is_keyword(next, Keyword::AND)) && is_name(at(2))
        }
        Some(token) if is_keyword(token, Keyword::AND) => {
            ends && at(2).is_some_and(|first| literal(first).is_some()) && is_between(at(3)) && is_name(at(4))
        }
        Some(Token::LParen | Token::Comma) => is_listed(code, place),
        _ => false,
    }
}

/// Whether a literal is in a list like `name IN (1, 2, 3)`.
fn is_listed(code: &[&Token], place: usize) -> bool {
    let is_item = |token: &&&Token| matches!(token, Token::Comma) || literal(token).is_some();
    let before = code[..place].iter().rev().take(MAX_LISTED_TOKENS).take_while(is_item).count();
    let after = code[place..].iter().take(MAX_LISTED_TOKENS).take_while(is_item).count();
    let Some(open) = place.checked_sub(before + 1) else { return false };
    let end = code.get(place + after);
    let at = |offset: usize| open.checked_sub(offset).and_then(|place| code.get(place).copied());
    let is_in = at(1).is_some_and(|token| is_keyword(token, Keyword::IN));
    let negated = usize::from(at(2).is_some_and(|token| is_keyword(token, Keyword::NOT)));
    matches!(code[open], Token::LParen) && matches!(end, Some(Token::RParen)) && is_in && is_name(at(2 + negated))
}

/// Whether a token is the name of a column.
fn is_name(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(word)) if word.quote_style.is_some() || !is_operand(word.keyword))
}

/// Whether a keyword before an operator is no column's name.
fn is_operand(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::NULL | Keyword::TRUE | Keyword::FALSE | Keyword::END | Keyword::NOT | Keyword::AND | Keyword::OR
    )
}

#[cfg(test)]
#[path = "compared_tests.rs"]
mod tests;
