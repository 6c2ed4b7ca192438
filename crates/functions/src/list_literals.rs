//! The literals of a long list, `1, 2, ...` or `'a', 'b', ...`, which is one token of its statement.

use std::borrow::Cow;

/// The name of the function that stands for a list until types are known.
pub const LONG_LIST: &str = "long_list";

/// Bytes reserved per token until its statement is planned: the token, its part of the tree, and
/// its part of DataFusion's plan. Measured on 64-bit Linux as growth of the resident set per token:
/// 380 in a FROM with VALUES, 360 to 380 in an INSERT of rows of three values. A long list
/// is one token.
pub const TOKEN_BYTES: usize = 400;

/// The maximum number of digits of an integer in such a list. Every integer of 18 digits fits into
/// 64 bits.
const MAX_DIGITS: usize = 18;

/// A literal of a list.
#[derive(Debug, PartialEq, Eq)]
pub enum Literal<'a> {
    /// A number without a fraction.
    Integer(i64),
    /// A quoted text, without its quotes.
    Text(Cow<'a, str>),
}

impl Literal<'_> {
    /// Whether both are integers, or both texts.
    fn is_like(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Integer(_), Self::Integer(_)) | (Self::Text(_), Self::Text(_)))
    }
}

/// The literals of a list, separated by commas, up to its end or to a closing parenthesis. An item
/// is `None` if it is not a literal.
pub fn literals(text: &str) -> impl Iterator<Item = Option<Literal<'_>>> {
    Literals { text, at: 0, is_closed: false }
}

/// The number of literals of a list in parentheses that a text begins with, and the place of the
/// closing parenthesis. `None` if the list holds something else, or both integers and texts.
pub fn list_in_parentheses(text: &str) -> Option<(usize, usize)> {
    let mut list = Literals { text: text.strip_prefix('(')?, at: 0, is_closed: false };
    let first = list.next()??;
    let mut count = 1;
    for literal in list.by_ref() {
        literal.filter(|literal| literal.is_like(&first))?;
        count += 1;
    }
    // `at` counts from behind the opening parenthesis, and is behind the closing one.
    list.is_closed.then_some((count, list.at))
}

/// See [`literals`].
struct Literals<'a> {
    text: &'a str,
    /// The place behind the last separator.
    at: usize,
    /// Whether a parenthesis ended the list.
    is_closed: bool,
}

impl<'a> Iterator for Literals<'a> {
    type Item = Option<Literal<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_closed || self.at > self.text.len() {
            return None;
        }
        let begin = self.at + spaces(&self.text[self.at..]);
        let Some((literal, length)) = literal(&self.text[begin..]) else {
            self.at = self.text.len() + 1;
            return Some(None);
        };
        let end = begin + length;
        let end = end + spaces(&self.text[end..]);
        self.at = end + 1;
        match self.text.as_bytes().get(end) {
            Some(b')') => self.is_closed = true,
            Some(b',') | None => {}
            Some(_) => {
                self.at = self.text.len() + 1;
                return Some(None);
            }
        }
        Some(Some(literal))
    }
}

/// The literal at the beginning of a text, and its length.
fn literal(text: &str) -> Option<(Literal<'_>, usize)> {
    let Some(quoted) = text.strip_prefix('\'') else {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let count = digits.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let length = text.len() - digits.len() + count;
        let number = if (1..=MAX_DIGITS).contains(&count) { text[..length].parse().ok()? } else { return None };
        return Some((Literal::Integer(number), length));
    };
    let mut end = quoted.find('\'')?;
    let mut is_doubled = false;
    while quoted[end + 1..].starts_with('\'') {
        is_doubled = true;
        end += 2;
        end += quoted[end..].find('\'')?;
    }
    let value = &quoted[..end];
    let value = if is_doubled { Cow::Owned(value.replace("''", "'")) } else { Cow::Borrowed(value) };
    Some((Literal::Text(value), end + 2))
}

/// The number of bytes of white space that a text begins with.
fn spaces(text: &str) -> usize {
    text.bytes().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len())
}
