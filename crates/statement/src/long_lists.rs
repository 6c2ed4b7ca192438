//! Long lists of literals, `IN (1, 2, ...)`, are read here and not by the parser, whose tree for
//! such a list is a hundred times larger than its text.
//!
//! 1. Before the text is parsed, the parentheses of each long list become double quotes
//!    ([`shortened`]). The list is then one token, and all other tokens keep their places.
//! 2. The grammar makes the token the argument of a call, `IN (long_list('1, 2, ...'))`
//!    ([`in_long_list`]).
//! 3. Once types are known, [`one_of`](fleetdb_functions::one_of) reads the literals ([`literals`](fleetdb_functions::list_literals::literals))
//!    into one array.
//!
//! A list is taken if it is long and all its literals are integers, or all are texts.

use crate::built::call;
use crate::plain_text::{is_of_word, is_plain};
use datafusion::sql::sqlparser::ast::{Expr, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Word};
use fleetdb_functions::list_literals::{LONG_LIST, list_in_parentheses, literals};

/// Shorter lists are parsed as usual.
pub(crate) const MIN_LITERALS: usize = 1_000;

/// The text with its long lists in double quotes; `None` if it has none.
pub fn shortened(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    if bytes.len() < 2 * MIN_LITERALS || !is_plain(bytes) {
        return None;
    }
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let begin = at;
        at += 1;
        if matches!(byte, b'\'' | b'"') {
            at += bytes[at..].iter().position(|end| *end == byte).map_or(bytes.len() - at, |end| end + 1);
        } else if is_of_word(byte) {
            at += bytes[at..].iter().position(|byte| !is_of_word(*byte)).unwrap_or(bytes.len() - at);
            if bytes[begin..at].eq_ignore_ascii_case(b"in")
                && let Some((open, close)) = long_list(text, at)
            {
                ends.extend([open, close]);
                at = close + 1;
            }
        }
    }
    if ends.is_empty() {
        return None;
    }
    let mut short = bytes.to_vec();
    ends.into_iter().for_each(|end| short[end] = b'"');
    String::from_utf8(short).ok()
}

/// The places of the parentheses of a long list that begins here, after spaces.
fn long_list(text: &str, at: usize) -> Option<(usize, usize)> {
    let list = text[at..].trim_ascii_start();
    let open = text.len() - list.len();
    let (count, length) = list_in_parentheses(list)?;
    let close = open + length;
    let is_taken = count >= MIN_LITERALS && !list[..length].contains('"');
    is_taken.then_some((open, close))
}

/// Parses `IN` or `NOT IN` before a list in double quotes; `None` if the next tokens are others.
pub(crate) fn in_long_list(parser: &mut Parser, expr: &Expr) -> Option<Expr> {
    let is_word = |place: usize, wanted: Keyword| {
        let token = &parser.peek_nth_token_ref(place).token;
        matches!(token, Token::Word(word) if word.keyword == wanted)
    };
    let negated = is_word(0, Keyword::NOT);
    let place = usize::from(negated);
    if !is_word(place, Keyword::IN) {
        return None;
    }
    let list = match &parser.peek_nth_token_ref(place + 1).token {
        Token::Word(Word { quote_style: Some('"'), value, .. }) if is_long(value) => value.clone(),
        _ => return None,
    };
    (0..place + 2).for_each(|_| parser.advance_token());
    let list = call(LONG_LIST, vec![Expr::value(Value::SingleQuotedString(list))]);
    Some(Expr::InList { expr: Box::new(expr.clone()), list: vec![list], negated })
}

/// Whether a quoted token is a long list. A user's own name never is: it would be a syntax error.
fn is_long(list: &str) -> bool {
    literals(list).take(MIN_LITERALS).filter(Option::is_some).count() == MIN_LITERALS
}

#[cfg(test)]
#[path = "long_lists_tests.rs"]
mod tests;
