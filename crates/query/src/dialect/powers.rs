//! `-2 ^ 2`, which is 4 in PostgreSQL: there the minus comes first, in sqlparser the power.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Statement, UnaryOperator, Value as Literal, visit_expressions_mut,
};
use std::ops::ControlFlow;

/// Has minuses in front of powers be of what stands behind them.
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

/// Of `a ^ b ^ c`, which is `(a ^ b) ^ c`, the `a`.
fn negate_base(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, .. } => negate_base(left),
        base => {
            let of = Box::new(std::mem::replace(base, Expr::value(Literal::Null)));
            *base = Expr::UnaryOp { op: UnaryOperator::Minus, expr: of };
        }
    }
}
