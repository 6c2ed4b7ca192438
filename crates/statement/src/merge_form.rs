//! The grammar of PostgreSQL's MERGE. sqlparser's lacks `DO NOTHING` and `DEFAULT VALUES`, and has forms of
//! other databases.
//!
//! In the tree, `DO NOTHING` is an UPDATE that sets nothing ([`does_nothing`]), and `DEFAULT VALUES` an
//! INSERT without rows.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Assignment, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr,
    Statement, Values,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};

/// Whether the action of a clause is `DO NOTHING`.
pub fn does_nothing(action: &MergeAction) -> bool {
    matches!(action, MergeAction::Update(update) if update.assignments.is_empty())
}

/// Parses a MERGE behind its first word.
pub(super) fn parse(parser: &mut Parser) -> Result<Statement, ParserError> {
    let merge_token = AttachedToken(parser.get_current_token().clone());
    parser.expect_keyword_is(Keyword::INTO)?;
    let table = parser.parse_table_factor()?;
    parser.expect_keyword_is(Keyword::USING)?;
    let source = parser.parse_table_factor()?;
    parser.expect_keyword_is(Keyword::ON)?;
    let on = Box::new(parser.parse_expr()?);
    let mut clauses = Vec::new();
    while parser.parse_keyword(Keyword::WHEN) {
        clauses.push(clause(parser)?);
    }
    if clauses.is_empty() {
        return parser.expected_ref("WHEN", parser.peek_token_ref());
    }
    let optimizer_hints = Vec::new();
    Ok(Merge { merge_token, optimizer_hints, into: true, table, source, on, clauses, output: None }.into())
}

fn clause(parser: &mut Parser) -> Result<MergeClause, ParserError> {
    let when_token = AttachedToken(parser.get_current_token().clone());
    let is_negated = parser.parse_keyword(Keyword::NOT);
    parser.expect_keyword_is(Keyword::MATCHED)?;
    let clause_kind = match is_negated {
        false => MergeClauseKind::Matched,
        true if parser.parse_keywords(&[Keyword::BY, Keyword::SOURCE]) => MergeClauseKind::NotMatchedBySource,
        true if parser.parse_keywords(&[Keyword::BY, Keyword::TARGET]) => MergeClauseKind::NotMatchedByTarget,
        true => MergeClauseKind::NotMatched,
    };
    let predicate = match parser.parse_keyword(Keyword::AND) {
        true => Some(parser.parse_expr()?),
        false => None,
    };
    parser.expect_keyword_is(Keyword::THEN)?;
    let has_row = matches!(clause_kind, MergeClauseKind::Matched | MergeClauseKind::NotMatchedBySource);
    Ok(MergeClause { when_token, clause_kind, predicate, action: action(parser, has_row)? })
}

/// Parses what a clause does; one that has a row of the table updates or deletes it, others insert one.
fn action(parser: &mut Parser, has_row: bool) -> Result<MergeAction, ParserError> {
    let token = AttachedToken(parser.peek_token_ref().clone());
    if parser.parse_keyword(Keyword::DO) {
        parser.expect_keyword_is(Keyword::NOTHING)?;
        return Ok(update(token, Vec::new()));
    }
    match has_row {
        true if parser.parse_keyword(Keyword::UPDATE) => {
            parser.expect_keyword_is(Keyword::SET)?;
            Ok(update(token, parser.parse_comma_separated(Parser::parse_assignment)?))
        }
        true if parser.parse_keyword(Keyword::DELETE) => Ok(MergeAction::Delete { delete_token: token }),
        true => parser.expected_ref("UPDATE, DELETE or DO NOTHING", parser.peek_token_ref()),
        false if parser.parse_keyword(Keyword::INSERT) => insert(parser, token).map(MergeAction::Insert),
        false => parser.expected_ref("INSERT or DO NOTHING", parser.peek_token_ref()),
    }
}

fn update(update_token: AttachedToken, assignments: Vec<Assignment>) -> MergeAction {
    MergeAction::Update(MergeUpdateExpr { update_token, assignments, update_predicate: None, delete_predicate: None })
}

fn insert(parser: &mut Parser, insert_token: AttachedToken) -> Result<MergeInsertExpr, ParserError> {
    let no_rows = Values { explicit_row: false, value_keyword: false, rows: Vec::new() };
    let (columns, values) = match parser.parse_keywords(&[Keyword::DEFAULT, Keyword::VALUES]) {
        true => (Vec::new(), no_rows),
        false => {
            let columns = parser.parse_parenthesized_qualified_column_list(IsOptional::Optional, false)?;
            parser.expect_keyword_is(Keyword::VALUES)?;
            let values = parser.parse_values(false, false)?;
            if values.rows.len() > 1 {
                return parser.expected_ref("one row of VALUES", parser.get_current_token());
            }
            (columns, values)
        }
    };
    let kind_token = AttachedToken(parser.get_current_token().clone());
    let kind = MergeInsertKind::Values(values);
    Ok(MergeInsertExpr { insert_token, columns, kind_token, kind, insert_predicate: None })
}

#[cfg(test)]
#[path = "merge_form_tests.rs"]
mod tests;
