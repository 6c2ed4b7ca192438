//! `substring(text FROM 'pattern')`: the part of a text that matches a regular expression, or its
//! first group. DataFusion's `substring` takes only positions.

use datafusion::sql::sqlparser::ast::{Expr, Statement, Value as Literal};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// Rewrites these calls as `regexp_match`.
pub(super) fn patterns_as_matches(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Substring { expr: text, substring_from: Some(pattern), substring_for: None, .. } = &*expr
            && let Expr::Value(literal) = pattern.as_ref()
            && let Literal::SingleQuotedString(_) = &literal.value
            && let Some(first) = expr_of(&format!("(regexp_match({text}, {pattern}))[1]"))
        {
            *expr = first;
        }
        ControlFlow::<()>::Continue(())
    });
}
