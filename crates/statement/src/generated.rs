//! Parses generated SQL.

use crate::grammar::Grammar;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_engine::Result;
use fleetdb_functions::errors::too_deep;
use std::cell::Cell;

/// Parses generated text as an expression; `None` if it is not one, or if a statement generates
/// [too much](Written).
pub fn expr_of(text: &str) -> Option<Expr> {
    const LEVELS: usize = 2_000;
    let is_left = LEFT.with(|left| {
        let now = left.get().checked_sub(text.len());
        left.set(now.unwrap_or_default());
        now.is_some()
    });
    let grammar = Grammar::of(text);
    let mut parser = Parser::new(&grammar).with_recursion_limit(LEVELS).try_with_sql(text).ok()?;
    is_left.then(|| parser.parse_expr().ok())?
}

thread_local! {
    /// The number of bytes that [`expr_of`] may still parse for the text this thread is parsing.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Limits the expressions generated for the statements of one text: nested forms that repeat an
/// operand would grow exponentially. Nested calls, whose texts do not come from a user, count
/// towards the same limit.
pub struct Written {
    around: usize,
}

impl Written {
    const MAX_BYTES: usize = 1 << 20;
    const MAX_FOR_EACH: usize = 64;

    /// Begins to count what is generated for a text.
    pub fn begin(text: &str) -> Self {
        let most = Self::MAX_BYTES + Self::MAX_FOR_EACH * text.len();
        Self { around: LEFT.replace(most) }
    }

    /// Refuses a text that generated too much.
    ///
    /// # Errors
    /// It did.
    pub fn check(&self) -> Result<()> {
        match LEFT.get() {
            0 => Err(too_deep(format_args!("subqueries and calls within others"))),
            _ => Ok(()),
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        LEFT.set(self.around);
    }
}
