//! `LIKE ... ESCAPE '/'`, where DataFusion supports only the backslash; `LIKE ANY`, which it lacks; and
//! `SIMILAR TO`, whose pattern DataFusion takes for a regular expression.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, Value as Literal};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_statement::built;
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// Rewrites patterns that use another escape character to use backslashes.
///
/// # Errors
/// The text of ESCAPE is longer than one character, or is not a literal.
pub(super) fn escape_with_backslashes(statement: &mut Statement) -> Result<()> {
    let wrong = || Error::new(Code::InvalidEscape, "ESCAPE takes a text of one character");
    let rewritten = visit_expressions_mut(statement, |expr| {
        let (Expr::Like { pattern, escape_char, .. }
        | Expr::ILike { pattern, escape_char, .. }
        | Expr::SimilarTo { pattern, escape_char, .. }) = expr
        else {
            return ControlFlow::Continue(());
        };
        let Some(escape) = escape_char.take() else { return ControlFlow::Continue(()) };
        let Literal::SingleQuotedString(escape) = escape.value else { return ControlFlow::Break(wrong()) };
        let mut chars = escape.chars();
        let escape = match (chars.next(), chars.next()) {
            (Some('\\'), None) => return ControlFlow::Continue(()),
            (escape, None) => escape,
            _ => return ControlFlow::Break(wrong()),
        };
        match with_backslashes(pattern, escape) {
            Some(with_backslashes) => **pattern = with_backslashes,
            None => return ControlFlow::Break(wrong()),
        }
        ControlFlow::Continue(())
    });
    match rewritten {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The maximum number of patterns behind `LIKE ANY`. Each repeats the text that is compared.
const MAX_PATTERNS: usize = 100;

/// Rewrites `LIKE ANY (ARRAY[...])` and `ILIKE ANY` as alternatives: `s LIKE 'a%' OR s LIKE 'b%'`.
///
/// # Errors
/// The patterns are not elements of an array that is written in the statement, or are too many.
pub(super) fn any_as_alternatives(statement: &mut Statement) -> Result<()> {
    let wrong = || {
        let message = format!("LIKE ANY takes an array of up to {MAX_PATTERNS} patterns, written as ARRAY['a%', 'b%']");
        Error::new(Code::NotSupported, message)
    };
    let rewritten = visit_expressions_mut(statement, |expr| {
        let (Expr::Like { any: true, pattern, .. } | Expr::ILike { any: true, pattern, .. }) = &*expr else {
            return ControlFlow::Continue(());
        };
        let Expr::Array(patterns) = unnested(pattern) else { return ControlFlow::Break(wrong()) };
        if patterns.elem.len() > MAX_PATTERNS {
            return ControlFlow::Break(wrong());
        }
        let compared = patterns.elem.iter().map(|of| {
            let mut one = expr.clone();
            if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut one {
                (*any, **pattern) = (false, of.clone());
            }
            one
        });
        let any = compared.reduce(|one, other| built::binary(one, BinaryOperator::Or, other));
        *expr = Expr::Nested(Box::new(any.unwrap_or_else(|| Expr::value(Literal::Boolean(false)))));
        ControlFlow::Continue(())
    });
    match rewritten {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

/// Translates patterns of `SIMILAR TO` to regular expressions: the pattern must match the whole
/// text, `%` matches any text and `_` any character. Escapes have been replaced by backslashes
/// already.
///
/// # Errors
/// A pattern is not a literal.
pub(super) fn similar_as_regex(statement: &mut Statement) -> Result<()> {
    let wrong = || {
        Error::invalid("SIMILAR TO takes a pattern that is written in the statement: use ~ with a regular expression")
    };
    let rewritten = visit_expressions_mut(statement, |expr| {
        let Expr::SimilarTo { negated, expr: text, pattern, .. } = expr else { return ControlFlow::Continue(()) };
        let Expr::Value(literal) = pattern.as_ref() else { return ControlFlow::Break(wrong()) };
        let Literal::SingleQuotedString(pattern) = &literal.value else { return ControlFlow::Break(wrong()) };
        let words = Expr::BinaryOp {
            left: std::mem::replace(text, Box::new(Expr::value(Literal::Null))),
            op: if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch },
            right: Box::new(Expr::value(Literal::SingleQuotedString(regex_of(pattern)))),
        };
        *expr = words;
        ControlFlow::Continue(())
    });
    match rewritten {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn regex_of(pattern: &str) -> String {
    let mut regex = "^(?s:".to_owned();
    let mut is_in_brackets = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => regex.extend(['\\', chars.next().unwrap_or('\\')]),
            ']' if is_in_brackets => {
                is_in_brackets = false;
                regex.push(c);
            }
            c if is_in_brackets => regex.push(c),
            '[' => {
                is_in_brackets = true;
                regex.push(c);
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '.' | '^' | '$' => regex.extend(['\\', c]),
            c => regex.push(c),
        }
    }
    regex + ")$"
}

fn with_backslashes(pattern: &Expr, escape: Option<char>) -> Option<Expr> {
    if let Expr::Value(literal) = pattern
        && let Literal::SingleQuotedString(text) = &literal.value
    {
        return Some(Expr::value(Literal::SingleQuotedString(text_with_backslashes(text, escape))));
    }
    let backslashes = format!(r"replace({pattern}, '\', '\\')");
    let all = match escape {
        None => backslashes,
        // A doubled escape character stands for itself. Texts do not contain the character 1.
        Some(escape) => {
            let escape = if escape == '\'' { "''".to_owned() } else { escape.to_string() };
            format!(
                r"replace(replace(replace({backslashes}, '{escape}{escape}', chr(1)), '{escape}', '\'), chr(1), '{escape}')"
            )
        }
    };
    expr_of(&all)
}

fn text_with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push_str(r"\\"),
            c if Some(c) == escape => match chars.next() {
                Some(escaped) if Some(escaped) == escape => text.push(escaped),
                Some(escaped) => text.extend(['\\', escaped]),
                None => text.push_str(r"\\"),
            },
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
#[path = "like_tests.rs"]
mod tests;
