//! From a text to statements that DataFusion plans: what it does not know is written in words that it does.

use crate::asof::mark_asof_joins;
use crate::column_names::{ColumnNames, keep_names, name_ordered, names_of, tell_apart};
use crate::dialect::{has_word, in_planned_words, with_columns_of_joins};
use crate::errors::engine_error;
use crate::session::{Session, unsupported};
use crate::statement::Statement;
use datafusion::sql::parser::{DFParserBuilder, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Statement as SqlStatement, Value as Literal};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_engine::{Error, Result};

impl Session {
    /// Splits a text into its statements.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) with line and column.
    pub fn parse(&self, text: &str) -> Result<Vec<Statement>> {
        if let Some(text) = in_other_words(text) {
            return self.parse(&text);
        }
        if let Some(text) = as_fetch(text) {
            return self.parse(&text)?.into_iter().map(Statement::moved).collect();
        }
        #[cfg(feature = "pg-catalog")]
        let of_catalog = self.pg_catalog.parse(self, text)?;
        #[cfg(not(feature = "pg-catalog"))]
        let of_catalog = None;
        let mut statements = of_catalog.map_or_else(|| parsed(text), Ok)?;
        if has_word(text, "asof") {
            statements.iter_mut().filter_map(sql_of).try_for_each(mark_asof_joins)?;
        }
        with_columns_of_joins(text, statements.iter_mut().filter_map(sql_of))?;
        let names: Vec<ColumnNames> = statements.iter_mut().filter_map(sql_of).map(|sql| names_of(sql)).collect();
        in_planned_words(text, statements.iter_mut().filter_map(sql_of))?;
        for (statement, names) in statements.iter_mut().filter_map(sql_of).zip(&names) {
            if let SqlStatement::Query(query) = statement {
                keep_names(query, names);
                name_ordered(query);
                tell_apart(&mut query.body);
                fetch_as_limit(query)?;
            }
        }
        Ok(statements.into_iter().map(Statement).collect())
    }

    /// The one statement of a text.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or there is not exactly one.
    pub fn parse_one(&self, text: &str) -> Result<Statement> {
        let mut statements = self.parse(text)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => Ok(statement),
            (None, _) => Err(Error::input("there is no statement in the text")),
            (Some(_), false) => Err(Error::input("there is more than one statement in the text")),
        }
    }
}

/// The statement, or the one that is explained.
fn sql_of(statement: &mut ParsedStatement) -> Option<&mut SqlStatement> {
    match statement {
        ParsedStatement::Explain(explain) => sql_of(&mut explain.statement),
        ParsedStatement::Statement(statement) => Some(statement),
        _ => None,
    }
}

/// A text's statements as they are in it.
fn parsed(text: &str) -> Result<Vec<ParsedStatement>> {
    let dialect = PostgreSqlDialect {};
    let error =
        match DFParserBuilder::new(text).with_dialect(&dialect).build().and_then(|mut all| all.parse_statements()) {
            Ok(statements) => return Ok(statements.into()),
            Err(error) => error,
        };
    // DataFusion's parser knows COPY ... TO only.
    match Parser::parse_sql(&dialect, text) {
        Ok(statements) if statements.iter().any(|statement| matches!(statement, SqlStatement::Copy { .. })) => {
            Ok(statements.into_iter().map(|statement| ParsedStatement::Statement(Box::new(statement))).collect())
        }
        _ => Err(engine_error(error)),
    }
}

/// An expression that was put together as a text; `None` if it is none.
pub(crate) fn expr_of(text: &str) -> Option<Expr> {
    Parser::new(&PostgreSqlDialect {}).try_with_sql(text).ok()?.parse_expr().ok()
}

/// Where a text's first word begins: behind spaces and comments, which some programs put in front of what they send.
pub(crate) fn first_word(text: &str) -> usize {
    let mut rest = text.trim_start();
    loop {
        let comment = match rest.get(..2) {
            Some("--") => rest.find('\n').unwrap_or(rest.len()),
            Some("/*") => block_comment(rest),
            _ => return text.len() - rest.len(),
        };
        rest = rest[comment..].trim_start();
    }
}

/// How long the comment is that a text begins with; there may be others in it.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        match text[at..].get(..2) {
            Some("/*") => depth += 1,
            Some("*/") if depth == 1 => return at + 2,
            Some("*/") => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    text.len()
}

/// A statement of PostgreSQL's own in the words of the standard, which sqlparser knows: `ABORT`, `TABLE name`; and modes of a
/// transaction without `DEFERRABLE`, for nothing that only reads waits here.
fn in_other_words(text: &str) -> Option<String> {
    let (before, text) = text.split_at(first_word(text));
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    match word.to_ascii_uppercase().as_str() {
        "ABORT" => Some(format!("{before}ROLLBACK{rest}")),
        "TABLE" => Some(format!("{before}SELECT * FROM{rest}")),
        "BEGIN" | "START" | "SET" => {
            let rest = without_end(rest.trim_end_matches(|c: char| c == ';' || c.is_whitespace()), "DEFERRABLE")?;
            let rest = without_end(rest, "NOT").unwrap_or(rest);
            Some(format!("{before}{word}{}", rest.trim_end().trim_end_matches(',')))
        }
        _ => None,
    }
}

/// A text without the word that it ends with; `None` if it ends with another.
fn without_end<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let text = text.trim_end();
    let (rest, end) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
    (end.eq_ignore_ascii_case(word) && rest.ends_with([' ', ','])).then_some(rest)
}

/// A MOVE, which sqlparser does not know, as the FETCH into nowhere that it is.
fn as_fetch(text: &str) -> Option<String> {
    let (before, text) = text.split_at(first_word(text));
    let (word, rest) = text.split_at_checked("MOVE".len())?;
    let is_move = word.eq_ignore_ascii_case("MOVE") && rest.starts_with(char::is_whitespace);
    is_move.then(|| format!("{before}FETCH{rest}"))
}

/// `FETCH FIRST n ROWS ONLY`, which DataFusion does not plan, as LIMIT.
fn fetch_as_limit(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.with_ties || fetch.percent {
        return Err(unsupported("FETCH with PERCENT or WITH TIES"));
    }
    let one = || Expr::value(Literal::Number("1".to_owned(), false));
    let count = Some(fetch.quantity.unwrap_or_else(one));
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = count,
        clause @ None => *clause = Some(LimitClause::LimitOffset { limit: count, offset: None, limit_by: Vec::new() }),
        Some(_) => return Err(Error::input("LIMIT and FETCH FIRST say the same: give one of them")),
    }
    Ok(())
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
