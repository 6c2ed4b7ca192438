//! `-2 ^ 2`, which is 4 in PostgreSQL: its unary minus binds tighter than the power, but
//! sqlparser's does not.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator, Value as Literal};
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// Moves unary minuses from powers to their bases.
pub(super) fn of_negatives(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: power } = expr
            && is_power(power)
        {
            let mut power = std::mem::replace(power.as_mut(), Expr::value(Literal::Null));
            negate_base(&mut power);
            *expr = power;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn is_power(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::PGExp, .. })
}

/// Negates the base: in `a ^ b ^ c`, which is `(a ^ b) ^ c`, that is `a`.
fn negate_base(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } => negate_base(left),
        base => {
            let of = Box::new(std::mem::replace(base, Expr::value(Literal::Null)));
            *base = Expr::UnaryOp { op: UnaryOperator::Minus, expr: of };
        }
    }
}
