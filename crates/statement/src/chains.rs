//! Balances long chains of AND, OR and UNION. `a OR b OR c OR d` parses to a tree of three levels;
//! `(a OR b) OR (c OR d)` means the same in two. Programs send chains of thousands of terms.

use crate::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, Value, Values, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Chains up to this length are left alone.
const SHORT: usize = 32;

/// Balances every long chain of a statement.
pub fn balance(statement: &mut impl VisitMut) {
    let _ = walk_mut(statement, &mut Balance);
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = expr {
            let op = op.clone();
            balanced(
                expr,
                |expr| matches!(expr, Expr::BinaryOp { op: of, .. } if *of == op),
                |expr| match expr {
                    Expr::BinaryOp { left, right, .. } => Some((left, right)),
                    _ => None,
                },
                || Expr::value(Value::Null),
                |left, right| Expr::BinaryOp { left, op: op.clone(), right },
            );
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. } = query.body.as_ref()
            && is_any_order(set_quantifier)
        {
            let quantifier = *set_quantifier;
            balanced(
                query.body.as_mut(),
                |body| {
                    matches!(body, SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. }
                        if *set_quantifier == quantifier)
                },
                |body| match body {
                    SetExpr::SetOperation { left, right, .. } => Some((left, right)),
                    _ => None,
                },
                || SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() }),
                |left, right| SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: quantifier, left, right },
            );
        }
        ControlFlow::Continue(())
    }
}

fn is_any_order(quantifier: &SetQuantifier) -> bool {
    matches!(quantifier, SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None)
}

/// Balances a left-deep chain without recursing over its depth.
fn balanced<T>(
    tree: &mut T,
    is_link: impl Fn(&T) -> bool,
    sides: impl Fn(&mut T) -> Option<(&mut Box<T>, &mut Box<T>)>,
    nothing: impl Fn() -> T,
    joined: impl Fn(Box<T>, Box<T>) -> T,
) {
    let mut length = 0;
    let mut link = &mut *tree;
    while is_link(link) && length <= SHORT {
        let Some((left, _)) = sides(link) else { break };
        link = left.as_mut();
        length += 1;
    }
    if length <= SHORT {
        return;
    }
    let mut terms = Vec::new();
    let mut rest = std::mem::replace(tree, nothing());
    while is_link(&rest) {
        let Some((left, right)) = sides(&mut rest) else { break };
        let (left, right) = (std::mem::replace(left.as_mut(), nothing()), std::mem::replace(right.as_mut(), nothing()));
        terms.push(Box::new(right));
        rest = left;
    }
    terms.push(Box::new(rest));
    terms.reverse();
    while terms.len() > 1 {
        let mut halved = Vec::with_capacity(terms.len().div_ceil(2));
        let mut terms_left = terms.into_iter();
        while let Some(left) = terms_left.next() {
            halved.push(match terms_left.next() {
                Some(right) => Box::new(joined(left, right)),
                None => left,
            });
        }
        terms = halved;
    }
    if let Some(whole) = terms.pop() {
        *tree = *whole;
    }
}

#[cfg(test)]
#[path = "chains_tests.rs"]
mod tests;
