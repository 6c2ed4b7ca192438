//! Parses SQL text and rewrites syntax that DataFusion cannot plan into forms that it can.

use crate::session::asof_joins::mark_asof_joins;
use crate::session::{Session, file_names};
use datafusion::sql::parser::{CopyToSource, CopyToStatement, DFParserBuilder, Statement as ParsedStatement};
use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Statement as SqlStatement, Value as Literal};
use datafusion::sql::sqlparser::parser::Parser;
use fleetdb_engine::{Error, Result, TextPosition};
use fleetdb_functions::errors::{engine_error, syntax_error, unsupported};
use fleetdb_statement::Statement;
use fleetdb_statement::chains::balance;
use fleetdb_statement::depth::{Links, MIN_LEVELS, UNCHECKED_LEVELS, levels};
use fleetdb_statement::generated::Written;
use fleetdb_statement::grammar::Grammar;
use fleetdb_statement::long_lists::shortened;
use fleetdb_statement::memory::StatementMemory;
use fleetdb_statement::named_queries;
use fleetdb_statement::stack::{Deep, with_stack, with_stack_to_parse};
use fleetdb_statement::words::has_word;

impl Session {
    /// Parses the statements of a text.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) with line and column.
    pub fn parse(&self, text: &str) -> Result<Vec<Statement>> {
        let has_parser = self.dialect.has_parser_for(text);
        let short = if has_parser { None } else { shortened(text) };
        let text = short.as_deref().unwrap_or(text);
        let held = StatementMemory::new(&self.store.query_memory(), text)?;
        let links = Links::of(text)?;
        with_stack_to_parse(links.in_row, || self.parse_shallow(text, has_parser, links, held))
    }

    /// Does the work of [`parse`](Self::parse), with enough stack for the text.
    fn parse_shallow(
        &self,
        text: &str,
        has_parser: bool,
        links: Links,
        held: StatementMemory,
    ) -> Result<Vec<Statement>> {
        let written = Written::begin(text);
        let mut statements = if has_parser { self.dialect.parse(text, links) } else { parsed(text) }?;
        let are_deep = links.are_many(|| has_word(text, "select"));
        // Rewriting may add a few levels.
        let mut deepest = MIN_LEVELS + 2 * links.in_row;
        if are_deep {
            deepest = UNCHECKED_LEVELS;
            // Before anything else walks the trees.
            for statement in &mut statements {
                deepest = deepest.max(UNCHECKED_LEVELS + balanced(statement)?);
            }
        }
        let statements = with_stack(deepest, || self.rewritten(text, statements))?;
        written.check()?;
        statements.into_iter().map(|statement| deep(statement, are_deep, deepest, &held)).collect()
    }

    /// Rewrites the statements of a text into forms that DataFusion can plan.
    fn rewritten(&self, text: &str, mut statements: Vec<ParsedStatement>) -> Result<Vec<ParsedStatement>> {
        if has_word(text, "with") {
            statements.iter_mut().filter_map(sql_of).try_for_each(|sql| named_queries::check(sql))?;
        }
        if text.contains(".parquet'") || text.contains(".csv'") {
            statements.iter_mut().filter_map(sql_of).try_for_each(file_names::as_calls)?;
        }
        if has_word(text, "asof") {
            statements.iter_mut().filter_map(sql_of).try_for_each(mark_asof_joins)?;
        }
        self.dialect.rewrite(Some(text), &mut statements.iter_mut().filter_map(sql_of).collect::<Vec<_>>())?;
        for statement in statements.iter_mut().filter_map(sql_of) {
            if let SqlStatement::Query(query) = statement {
                fetch_as_limit(query)?;
            }
        }
        Ok(statements)
    }

    /// Parses a text that consists of exactly one statement.
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse), or the text does not consist of exactly one statement.
    pub fn parse_one(&self, text: &str) -> Result<Statement> {
        let mut statements = self.parse(text)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => Ok(statement),
            (None, _) => Err(Error::invalid("there is no statement in the text")),
            (Some(_), false) => Err(Error::invalid("there is more than one statement in the text")),
        }
    }
}

/// Wraps a statement with its depth, which is measured if it was deep before it was rewritten.
fn deep(mut statement: ParsedStatement, was_deep: bool, levels: usize, held: &StatementMemory) -> Result<Statement> {
    let levels = if was_deep { UNCHECKED_LEVELS + balanced(&mut statement)? } else { levels };
    Ok(Statement::new(Deep::new(statement, levels), held.clone()))
}

/// The statement itself, or the one it explains. The query of a view is rewritten when it is used.
fn sql_of(statement: &mut ParsedStatement) -> Option<&mut SqlStatement> {
    match statement {
        ParsedStatement::Explain(explain) => sql_of(&mut explain.statement),
        ParsedStatement::Statement(statement) if matches!(statement.as_ref(), SqlStatement::CreateView(_)) => None,
        ParsedStatement::Statement(statement) => Some(statement),
        _ => None,
    }
}

/// Balances the chains of a statement; returns the number of levels left.
fn balanced(statement: &mut ParsedStatement) -> Result<usize> {
    let query = match statement {
        ParsedStatement::CopyTo(CopyToStatement { source: CopyToSource::Query(query), .. }) => query,
        ParsedStatement::Explain(explain) => return balanced(&mut explain.statement),
        ParsedStatement::Statement(sql) => {
            balance(sql.as_mut());
            return levels(sql.as_ref());
        }
        _ => return Ok(0),
    };
    balance(query.as_mut());
    levels(query.as_ref())
}

/// Parses the statements of a text without rewriting them.
fn parsed(text: &str) -> Result<Vec<ParsedStatement>> {
    let dialect = Grammar::of(text);
    let error =
        match DFParserBuilder::new(text).with_dialect(&dialect).build().and_then(|mut all| all.parse_statements()) {
            Ok(statements) => return Ok(statements.into()),
            Err(error) => error,
        };
    // DataFusion's parser supports only COPY ... TO.
    match Parser::parse_sql(&Grammar::of(text), text) {
        Ok(statements) if statements.iter().any(|statement| matches!(statement, SqlStatement::Copy { .. })) => {
            Ok(statements.into_iter().map(|statement| ParsedStatement::Statement(Box::new(statement))).collect())
        }
        // The parser that got further has the better error.
        Err(other) => {
            let (first, second) = (engine_error(error), syntax_error(other));
            Err(if is_behind(second.position(), first.position()) { second } else { first })
        }
        Ok(_) => Err(engine_error(error)),
    }
}

fn is_behind(place: Option<TextPosition>, other: Option<TextPosition>) -> bool {
    match (place, other) {
        (Some(TextPosition::At { line, column }), Some(TextPosition::At { line: before, column: at })) => {
            (line, column) > (before, at)
        }
        (Some(TextPosition::End), Some(TextPosition::At { .. })) => true,
        _ => false,
    }
}

/// Rewrites `FETCH FIRST n ROWS ONLY`, which DataFusion does not plan, as LIMIT.
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
        Some(_) => return Err(Error::invalid("LIMIT and FETCH FIRST say the same: give one of them")),
    }
    Ok(())
}
