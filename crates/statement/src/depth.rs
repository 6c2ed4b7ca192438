//! Limits the depth of statements. A chain such as `a OR b OR c` is parsed to a tree as deep as the
//! chain is long, and every step that walks or drops a tree uses stack for each level. Therefore
//! the text is measured before it is parsed ([`Links`]), and the tree before it is planned
//! ([`levels`]). Exceeding a limit is an error.

use crate::plain_text::is_plain;
use crate::walk::walk;
use crate::words::has_word;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SetExpr, TableWithJoins, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};
use fleetdb_engine::{Error, Result};
use fleetdb_functions::errors::{query_error, too_deep};
use std::ops::ControlFlow;

/// Maximum number of consecutive operators in a text. A chain of 10,000 terms `id = 1 AND at = 2 OR
/// ...` has 30,000.
const MAX_LINKS: usize = 50_000;

/// Maximum nesting of parentheses, brackets and CASEs. The parser itself accepts about 50, and
/// takes seconds to reject thousands.
const MAX_PARENTHESES: usize = 100;

/// Maximum number of repeated prefix words, as in `EXPLAIN EXPLAIN ...` and `INTERVAL INTERVAL
/// ...`. The parser recurses into each without checking its depth.
const MAX_PREFIXES: usize = 32;

/// Maximum number of levels of a tree after its chains of AND, OR and UNION are balanced.
/// DataFusion recomputes types and names at each level for everything below, so planning time grows
/// with the square of the depth, or with its cube for calls.
const MAX_LEVELS: usize = 400;

/// The number of levels that a call counts for, or an operator planned as a call.
const CALL_LEVELS: usize = 3;

/// The number of levels that a join counts for, or an INTERSECT or EXCEPT, which are planned as
/// joins. No row gets through 128 nested joins: each uses part of the work a task may do at a time
/// (tokio's budget), and none would be left for the last one.
const JOIN_LEVELS: usize = 4;

/// Maximum number of nodes of a plan. A UNION of 10,000 SELECTs has 50,000.
const MAX_STEPS: usize = 100_000;

/// Maximum number of links in a light text, one that is parsed and planned quickly whatever it
/// contains.
const LIGHT_LINKS: usize = 16;
/// Maximum number of bytes of a light text.
const LIGHT_BYTES: usize = 8 << 10;
/// Maximum number of levels of the statements of a light text.
pub(crate) const LIGHT_LEVELS: usize = MIN_LEVELS + 2 * LIGHT_LINKS;

/// The number of levels of the smallest statement.
pub const MIN_LEVELS: usize = 16;
/// The number of levels every statement may have without its tree being checked.
pub const UNCHECKED_LEVELS: usize = 64;

/// Words that join two expressions or follow one.
const INFIX: [&str; 18] = [
    "and",
    "at",
    "between",
    "collate",
    "div",
    "except",
    "ilike",
    "in",
    "intersect",
    "is",
    "isnull",
    "like",
    "notnull",
    "or",
    "overlaps",
    "similar",
    "union",
    "xor",
];
/// Rarer words of this kind, which [`INFIX`] leaves out.
const RARE_INFIX: [&str; 9] = ["glob", "join", "match", "member", "minus", "operator", "regexp", "rlike", "mod"];

/// Measurements of a text: the largest numbers of consecutive and nested elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Operators between two commas, including those of the deepest parentheses in between.
    pub in_row: usize,
    /// Nested parentheses.
    pub nested: usize,
    /// Commas.
    pub(crate) commas: usize,
    /// Consecutive EXPLAIN and INTERVAL words, without a text, a number or a comma between them.
    pub(crate) prefixes: usize,
    /// Brackets and dots. Each may add a level, as in `a[1].b[2]`.
    pub(crate) accesses: usize,
}

/// An open parenthesis, bracket or CASE.
#[derive(Default)]
struct Open {
    is_case: bool,
    /// Operators since the last comma, and the maximum within anything opened since then.
    links: usize,
    within: usize,
    /// The maximum between two commas.
    most: usize,
}

impl Open {
    fn end_item(&mut self) {
        self.most = self.most.max(self.links + self.within);
        (self.links, self.within) = (0, 0);
    }
}

impl Links {
    /// Measures a text.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn of(text: &str) -> Result<Self> {
        let links = match is_plain(text.as_bytes()) {
            true => Self::count(text.as_bytes()),
            // A text that cannot be tokenized has no tree.
            false => plain(text).map_or(Self::default(), |text| Self::count(text.as_bytes())),
        };
        if links.in_row > MAX_LINKS {
            return Err(too_deep(format_args!("a chain of more than {MAX_LINKS} operators")));
        }
        if links.nested > MAX_PARENTHESES || links.prefixes > MAX_PREFIXES {
            return Err(too_deep(format_args!(
                "more than {MAX_PARENTHESES} parentheses, or {MAX_PREFIXES} words, within others"
            )));
        }
        Ok(links)
    }

    /// Measures a [plain](is_plain) text.
    fn count(text: &[u8]) -> Self {
        let (mut open, mut commas, mut nested, mut accesses) = (vec![Open::default()], 0, 0, 0);
        let (mut prefixes, mut most_prefixes) = (0, 0);
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let begin = at;
            at += 1;
            let last = open.len() - 1;
            if matches!(byte, b'\'' | b',' | b';' | b'0'..=b'9') {
                prefixes = 0;
            }
            match byte {
                b'\'' | b'"' => {
                    at += text[at..].iter().position(|end| *end == byte).map_or(text.len() - at, |end| end + 1);
                }
                b'.' => accesses += 1,
                b'(' | b'[' => {
                    accesses += usize::from(byte == b'[');
                    if open.len() > MAX_LINKS {
                        return Self { in_row: open.len(), ..Self::default() };
                    }
                    open.push(Open::default());
                    nested = nested.max(open.len() - 1);
                }
                b')' | b']' => close(&mut open, false),
                b',' | b';' => {
                    open[last].end_item();
                    commas += 1;
                }
                _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
                    at += text[at..].iter().position(|byte| !is_word(byte)).unwrap_or(text.len() - at);
                    let word = &text[begin..at];
                    if word.len() <= 9 && is_infix(word) {
                        open[last].links += 1;
                    } else if word.eq_ignore_ascii_case(b"case") && open.len() <= MAX_LINKS {
                        open.push(Open { is_case: true, ..Open::default() });
                    } else if word.eq_ignore_ascii_case(b"end") {
                        close(&mut open, true);
                    } else if word.eq_ignore_ascii_case(b"explain") || word.eq_ignore_ascii_case(b"interval") {
                        prefixes += 1;
                        most_prefixes = most_prefixes.max(prefixes);
                    }
                }
                b'0'..=b'9' => {
                    // Digits only, no letters: `1or 2` is a number and a word.
                    let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'_' | b'.');
                    at += text[at..].iter().position(|byte| !is_number(byte)).unwrap_or(text.len() - at);
                }
                _ if is_operator(byte) => {
                    at += text[at..].iter().position(|byte| !is_operator(*byte)).unwrap_or(text.len() - at);
                    open[last].links += 1;
                }
                _ => {}
            }
        }
        while open.len() > 1 {
            let is_case = open[open.len() - 1].is_case;
            close(&mut open, is_case);
        }
        open[0].end_item();
        Self { in_row: open[0].most, nested, prefixes: most_prefixes, commas, accesses }
    }

    /// Whether a statement of the text may have a tree that must be checked. Commas count only if
    /// the text has a query.
    pub fn are_many(&self, has_query: impl Fn() -> bool) -> bool {
        self.in_row + self.accesses > UNCHECKED_LEVELS
            || self.in_row + self.accesses + self.commas > UNCHECKED_LEVELS && has_query()
    }
}

/// Whether the statements of a text are parsed and planned quickly: the text is so short, and has
/// so few consecutive operators, that no form of it takes long. A server need not move such work to
/// another thread.
///
/// ```
/// use fleetdb_query::is_light;
/// assert!(is_light("SELECT avg(v) FROM t WHERE id = 1 AND ts > now() - INTERVAL '1 hour'"));
/// assert!(!is_light(&format!("SELECT now(){}", " AT TIME ZONE 'UTC'".repeat(40))));
/// ```
pub fn is_light(text: &str) -> bool {
    text.len() < LIGHT_BYTES
        && Links::of(text).is_ok_and(|links| {
            links.in_row <= LIGHT_LINKS
                && links.accesses <= UNCHECKED_LEVELS
                && !links.are_many(|| has_word(text, "select"))
        })
}

/// The text without comments and quoted parts; `None` if a quote or comment is not closed.
fn plain(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    for token in Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()? {
        match token {
            Token::Whitespace(_) => {}
            Token::Word(Word { value, quote_style: None, .. }) => plain.push_str(&value),
            Token::LParen
            | Token::RParen
            | Token::LBracket
            | Token::RBracket
            | Token::Comma
            | Token::SemiColon
            | Token::Period => plain.push_str(&token.to_string()),
            other => {
                let text = other.to_string();
                plain.push_str(if text.bytes().all(is_operator) { &text } else { "0" });
            }
        }
        plain.push(' ');
    }
    Some(plain)
}

fn close(open: &mut Vec<Open>, of_case: bool) {
    // `end` may be a word that does not close a CASE, and a parenthesis may be unmatched.
    if open.len() > 1
        && open[open.len() - 1].is_case == of_case
        && let Some(mut closed) = open.pop()
    {
        closed.end_item();
        if let Some(around) = open.last_mut() {
            around.within = around.within.max(closed.most + 1);
        }
    }
}

fn is_infix(word: &[u8]) -> bool {
    INFIX.iter().chain(&RARE_INFIX).any(|infix| word.eq_ignore_ascii_case(infix.as_bytes()))
}

fn is_operator(byte: u8) -> bool {
    matches!(
        byte,
        b'+' | b'-'
            | b'*'
            | b'/'
            | b'%'
            | b'^'
            | b'|'
            | b'&'
            | b'#'
            | b'<'
            | b'>'
            | b'='
            | b'!'
            | b'~'
            | b':'
            | b'@'
            | b'?'
    )
}

/// Counts the levels of a statement's tree.
///
/// # Errors
/// There are too many levels, or too many tables in a FROM or WITH.
pub fn levels(statement: &impl Visit) -> Result<usize> {
    let mut levels = Levels::default();
    match walk(statement, &mut levels) {
        ControlFlow::Continue(()) => Ok(levels.most),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Levels {
    now: usize,
    most: usize,
    /// The levels added by each enclosing query.
    added: Vec<usize>,
}

impl Levels {
    fn add(&mut self, levels: usize) -> ControlFlow<Error> {
        self.now += levels;
        self.most = self.most.max(self.now);
        match self.now > MAX_LEVELS {
            true => ControlFlow::Break(too_deep(format_args!("more than {MAX_LEVELS} levels"))),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Levels {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        self.add(levels_of(expr))
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        self.now -= levels_of(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let named = query.with.iter().flat_map(|with| &with.cte_tables);
        // Each named query may read the previous one.
        let named: usize = named.map(|named| of_body(&named.query.body)).sum();
        let added = of_body(&query.body) + named;
        self.added.push(added);
        self.add(added)
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Error> {
        self.now -= self.added.pop().unwrap_or_default();
        ControlFlow::Continue(())
    }
}

fn levels_of(expr: &Expr) -> usize {
    match expr {
        Expr::Function(_) | Expr::AtTimeZone { .. } => CALL_LEVELS,
        Expr::CompoundFieldAccess { access_chain, .. } => CALL_LEVELS * access_chain.len(),
        Expr::CompoundIdentifier(parts) => parts.len(),
        Expr::BinaryOp { op: BinaryOperator::PGExp | BinaryOperator::BitwiseXor, .. } => CALL_LEVELS,
        _ => 1,
    }
}

/// The levels of a query's set operations, or of a SELECT's joins.
fn of_body(body: &SetExpr) -> usize {
    let (mut most, mut left) = (1, vec![(body, 0)]);
    while let Some((body, around)) = left.pop() {
        most = most.max(1 + around);
        match body {
            SetExpr::SetOperation { left: one, right, .. } => {
                left.extend([&**one, &**right].map(|side| (side, around + JOIN_LEVELS)));
            }
            SetExpr::Select(select) => {
                let joins = tables(&select.from).saturating_sub(1);
                most = most.max(1 + around + JOIN_LEVELS * joins);
            }
            _ => {}
        }
    }
    most
}

fn tables(from: &[TableWithJoins]) -> usize {
    from.iter().map(|table| 1 + table.joins.len()).sum()
}

/// Returns the plan, unless it has too many nodes. A WITH query that is read twice is in the plan
/// twice, with everything that it reads itself.
///
/// # Errors
/// The plan has too many nodes.
pub fn checked_size(plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let mut steps = 0;
    plan.apply_with_subqueries(|_| {
        steps += 1;
        Ok(if steps > MAX_STEPS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match steps > MAX_STEPS {
        true => Err(query_error(too_deep(format_args!("a plan of more than {MAX_STEPS} steps")))),
        false => Ok(plan),
    }
}

#[cfg(test)]
#[path = "depth_tests.rs"]
mod tests;
