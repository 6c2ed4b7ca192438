//! Decides whether a text is about the catalog: whether its statements name tables, functions or
//! types that resolve there. The catalog's crate parses and rewrites such statements.

use super::relations::{INFORMATION_SCHEMA, is_replaced};
use super::tables::CURSORS;
use super::{PG_CATALOG, keys, schema};
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, ObjectName, TableFactor, Visitor};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use datafusion_pg_catalog::pg_catalog::PG_CATALOG_TABLES;
use fleetdb_statement::depth::Links;
use fleetdb_statement::grammar::Grammar;
use fleetdb_statement::names::identifier;
use fleetdb_statement::sequences::without_casts;
use fleetdb_statement::stack::with_stack_to_parse;
use fleetdb_statement::walk::walk;
use fleetdb_statement::words::first_word;
use std::ops::ControlFlow;

/// What a text about the catalog begins with. Its later statements may be about the catalog when the
/// first one is not.
const BEGINNINGS: [&str; 8] = ["select", "table", "with", "(", "show", "begin", "start transaction", "set"];

/// Parts of words, in lower case. A text without them and without [`INFORMATION_SCHEMA`] is not about
/// the catalog, and is not parsed to find out.
const WORDS: &str = "\
    pg_ ::reg current_schema current_database current_catalog current_setting session_user current_user quote_ident \
    parse_ident set_config version( obj_description col_description to_regclass inet_ _privilege( to_regtype _upper(";

/// Functions of the catalog, other than those whose names begin with `pg_`.
const FUNCTIONS: &str = "\
    array_upper col_description current_catalog current_database current_schema current_schemas current_setting \
    current_user inet_client_addr inet_server_addr obj_description parse_ident quote_ident session_user set_config \
    to_regclass to_regtype version";

/// Functions that are called without parentheses.
const VALUES: [&str; 4] = ["current_catalog", "current_schema", "current_user", "session_user"];

/// A longer text is not parsed to find out, because its memory is not reserved yet.
const MAX_PARSED_BYTES: usize = 64 << 10;

/// Whether a text is about the catalog.
pub fn is_about(text: &str) -> bool {
    let start = &text[first_word(text)..];
    let begins_with = |word: &&str| start.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    BEGINNINGS.iter().any(begins_with) && may_name_catalog(text) && names_catalog(text)
}

fn may_name_catalog(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    WORDS.split(' ').chain([INFORMATION_SCHEMA]).any(|word| lower.contains(word))
}

fn names_catalog(text: &str) -> bool {
    // The session reports a text that is too deep.
    let Ok(links) = Links::of(text) else { return false };
    if text.len() > MAX_PARSED_BYTES {
        return may_name_catalog(&without_texts(text));
    }
    with_stack_to_parse(links.in_row, || match Parser::parse_sql(&Grammar::of(text), text) {
        Ok(mut statements) => {
            without_casts(&mut statements);
            walk(&statements, &mut Names).is_break()
        }
        // A syntax error, or a form that only the catalog's crate parses.
        Err(_) => {
            let lower = without_texts(text).to_ascii_lowercase();
            WORDS.split(' ').any(|word| lower.contains(word))
        }
    })
}

/// The statement's tokens joined, without string literals, which may contain anything; returns the
/// text unchanged if it cannot be tokenized.
fn without_texts(text: &str) -> String {
    let Ok(tokens) = Tokenizer::new(&Grammar::of(text), text).tokenize() else { return text.to_owned() };
    let is_code = |token: &&Token| !matches!(token, Token::SingleQuotedString(_) | Token::Whitespace(_));
    tokens.iter().filter(is_code).map(ToString::to_string).collect()
}

/// Stops at a name that resolves in the catalog.
struct Names;

impl Visitor for Names {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        stop_if(is_table(&parts(name)))
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        stop_if(matches!(table, TableFactor::Table { name, args: Some(_), .. } if is_function(&parts(name))))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        stop_if(match expr {
            Expr::Function(call) => is_function(&parts(&call.name)),
            Expr::Identifier(word) => word.quote_style.is_none() && VALUES.contains(&identifier(word).as_str()),
            Expr::Cast { data_type, .. } => is_type(data_type),
            Expr::TypedString(typed) => is_type(&typed.data_type),
            Expr::Collate { collation, .. } => is_qualified(&parts(collation)),
            Expr::BinaryOp { op: BinaryOperator::PGCustomBinaryOperator(name), .. }
            | Expr::AnyOp { compare_op: BinaryOperator::PGCustomBinaryOperator(name), .. }
            | Expr::AllOp { compare_op: BinaryOperator::PGCustomBinaryOperator(name), .. } => is_qualified(name),
            _ => false,
        })
    }
}

fn stop_if(is_found: bool) -> ControlFlow<()> {
    if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(|part| part.as_ident()).map(identifier).collect()
}

/// Whether a name is one of the schema `pg_catalog`.
fn is_qualified(name: &[String]) -> bool {
    name.iter().rev().skip(1).any(|schema| schema.eq_ignore_ascii_case(PG_CATALOG))
}

fn is_table(name: &[String]) -> bool {
    match name {
        [table] => {
            PG_CATALOG_TABLES.contains(&table.as_str())
                || table == CURSORS
                || keys::has_view(table)
                || schema::query(table).is_some()
        }
        [.., schema, table] if schema == INFORMATION_SCHEMA => is_replaced(schema, table),
        _ => is_qualified(name),
    }
}

fn is_function(name: &[String]) -> bool {
    let Some(function) = name.last() else { return false };
    is_qualified(name)
        || FUNCTIONS.split(' ').any(|name| name == function)
        || ["pg_", "_pg_"].iter().any(|prefix| function.starts_with(prefix))
        || function.ends_with("_privilege")
}

/// Whether a type names things of the catalog: `regclass` and its like.
fn is_type(data_type: &DataType) -> bool {
    let name = data_type.to_string().to_ascii_lowercase();
    name.starts_with("reg") || name.starts_with("pg_catalog.")
}

#[cfg(test)]
#[path = "about_tests.rs"]
mod tests;
