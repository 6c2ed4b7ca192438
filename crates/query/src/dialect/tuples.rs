//! `WHERE (id, ts) IN (SELECT id, max(ts) FROM reads GROUP BY id)`: DataFusion compares one column with a subquery only. It is
//! written as an EXISTS, which says the same where what is not true does not count: as a condition of WHERE, or one of several
//! that AND holds together, and without NOT.

use crate::parse::expr_of;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, Statement, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Writes them so.
pub(super) fn in_as_exists(statement: &mut Statement) {
    let _ = statement.visit(&mut Tuples);
}

struct Tuples;

impl VisitorMut for Tuples {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        super::selects(&mut query.body, &mut |select| select.selection.iter_mut().for_each(rewrite));
        ControlFlow::Continue(())
    }
}

fn rewrite(condition: &mut Expr) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            rewrite(left);
            rewrite(right);
        }
        Expr::Nested(inner) => rewrite(inner),
        Expr::InSubquery { expr, subquery, negated: false } => {
            let Expr::Tuple(parts) = expr.as_ref() else { return };
            let columns: Vec<String> = (0..parts.len()).map(|place| format!("\"in:{place}\"")).collect();
            let equal: Vec<String> =
                columns.iter().zip(parts).map(|(column, part)| format!("\"in\".{column} = {part}")).collect();
            let exists = format!(
                "EXISTS (SELECT 1 FROM ({subquery}) AS \"in\" ({}) WHERE {})",
                columns.join(", "),
                equal.join(" AND ")
            );
            if let Some(exists) = expr_of(&exists) {
                *condition = exists;
            }
        }
        _ => {}
    }
}
