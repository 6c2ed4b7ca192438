//! Statements that PostgreSQL has and sqlparser lacks. Each is parsed from other tokens, which keep
//! their positions in the text.
//!
//! | in the text | parsed as |
//! |---|---|
//! | `ABORT` | `ROLLBACK` |
//! | `TABLE name` | `SELECT * FROM name` |
//! | `MOVE n IN cursor` | `FETCH n IN cursor INTO nowhere` |
//! | `MERGE` with `DO NOTHING` or `DEFAULT VALUES` | what [`merge_form`] says |
//! | `BEGIN ... [NOT] DEFERRABLE`, and so in START TRANSACTION and SET | without these words, because a transaction that only reads never waits |

use crate::merge_form;
use datafusion::sql::sqlparser::ast::{Ident, Statement};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The maximum number of tokens of a statement that sets the modes of a transaction.
const MAX_MODE_TOKENS: usize = 32;

/// Parses the statement at the parser's place if it has one of these forms.
pub(super) fn parse(parser: &mut Parser, dialect: &dyn Dialect) -> Option<Result<Statement, ParserError>> {
    let Token::Word(word) = &parser.peek_token_ref().token else { return None };
    match word.keyword {
        _ if word.quote_style.is_some() => None,
        Keyword::ABORT => {
            parser.next_token();
            Some(parser.parse_rollback())
        }
        Keyword::MERGE => {
            parser.next_token();
            Some(merge_form::parse(parser))
        }
        Keyword::TABLE => {
            parser.next_token();
            Some(table(parser, dialect))
        }
        Keyword::BEGIN | Keyword::START | Keyword::SET => deferrable(parser, dialect),
        _ if word.value.eq_ignore_ascii_case("move") => {
            parser.next_token();
            Some(parser.parse_fetch_statement().map(moved))
        }
        _ => None,
    }
}

/// Marks a FETCH as the MOVE it was written as.
fn moved(mut statement: Statement) -> Statement {
    if let Statement::Fetch { into, .. } = &mut statement {
        *into = Some(vec![Ident::new("nowhere")].into());
    }
    statement
}

fn table(parser: &mut Parser, dialect: &dyn Dialect) -> Result<Statement, ParserError> {
    let select = [keyword("SELECT", Keyword::SELECT), Token::Mul, keyword("FROM", Keyword::FROM)];
    let mut tokens: Vec<_> = select.into_iter().map(TokenWithSpan::wrap).collect();
    while !is_end(parser.peek_token_ref()) {
        tokens.push(parser.next_token());
    }
    whole(tokens, dialect)
}

/// A statement that sets modes of a transaction, the last of them DEFERRABLE.
fn deferrable(parser: &mut Parser, dialect: &dyn Dialect) -> Option<Result<Statement, ParserError>> {
    let tokens = (0..=MAX_MODE_TOKENS).map(|place| parser.peek_nth_token(place));
    let mut tokens: Vec<_> = tokens.take_while(|token| !is_end(token)).collect();
    let count = tokens.len();
    if count > MAX_MODE_TOKENS || !ends_with(&tokens, Keyword::DEFERRABLE) {
        return None;
    }
    tokens.pop();
    if ends_with(&tokens, Keyword::NOT) {
        tokens.pop();
    }
    if tokens.last().is_some_and(|last| last.token == Token::Comma) {
        tokens.pop();
    }
    (0..count).for_each(|_| parser.advance_token());
    Some(whole(tokens, dialect))
}

/// Parses tokens that make up one statement.
fn whole(tokens: Vec<TokenWithSpan>, dialect: &dyn Dialect) -> Result<Statement, ParserError> {
    let mut parser = Parser::new(dialect).with_tokens_with_locations(tokens);
    let statement = parser.parse_statement()?;
    match parser.peek_token_ref().token {
        Token::EOF => Ok(statement),
        _ => parser.expected_ref("end of statement", parser.peek_token_ref()),
    }
}

fn is_end(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::EOF | Token::SemiColon)
}

fn ends_with(tokens: &[TokenWithSpan], keyword: Keyword) -> bool {
    tokens.last().is_some_and(|last| matches!(&last.token, Token::Word(word) if word.keyword == keyword))
}

fn keyword(text: &str, keyword: Keyword) -> Token {
    Token::Word(Word { value: text.to_owned(), quote_style: None, keyword })
}

#[cfg(test)]
#[path = "postgres_forms_tests.rs"]
mod tests;
