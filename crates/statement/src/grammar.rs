//! PostgreSQL's grammar from sqlparser, with parsing time linear in the length of the text.
//!
//! sqlparser tries some alternatives one after the other, and parses everything nested again each
//! time, so the time doubles with each level. In this grammar, a named argument must have a plain
//! name (as in PostgreSQL), so that arguments are parsed once. The number of parser steps per text
//! is also limited. Statements that sqlparser lacks are added ([`postgres_forms`]).

use crate::long_lists::in_long_list;
use crate::postgres_forms;
use datafusion::sql::sqlparser::ast::{Expr, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use std::any::{Any, TypeId};
use std::cell::Cell;

/// The maximum number of expressions the parser may start in a text: a constant plus this many per
/// byte.
const STEPS_PER_BYTE: usize = 16;
const STEPS: usize = 10_000;

/// The dialect for one text. See the module documentation.
#[derive(Debug)]
pub struct Grammar {
    of: PostgreSqlDialect,
    steps: Cell<usize>,
}

impl Grammar {
    /// Creates the dialect for a text.
    pub fn of(text: &str) -> Self {
        Self { of: PostgreSqlDialect {}, steps: Cell::new(STEPS + STEPS_PER_BYTE * text.len()) }
    }
}

/// Delegates methods to PostgreSQL's dialect.
macro_rules! as_postgresql {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $gives:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> $gives {
            self.of.$name($($argument),*)
        })*
    };
}

impl Dialect for Grammar {
    fn dialect(&self) -> TypeId {
        self.of.type_id()
    }

    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        postgres_forms::parse(parser, self)
    }

    fn parse_prefix(&self, _parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let left = self.steps.get().checked_sub(1);
        self.steps.set(left.unwrap_or_default());
        // On any other error, the parser would try the next alternative.
        left.is_none().then_some(Err(ParserError::RecursionLimitExceeded))
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        in_long_list(parser, expr).map(Ok)
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    as_postgresql! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        supports_unicode_string_literal() -> bool;
        is_reserved_for_identifier(keyword: Keyword) -> bool;
        is_custom_operator_part(ch: char) -> bool;
        get_next_precedence(parser: &Parser) -> Option<Result<u8, ParserError>>;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
        prec_value(precedence: Precedence) -> u8;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_comment_optimizer_hint() -> bool;
    }
}
