//! Comparisons of rows, column by column.
//!
//! `WHERE (id, ts) > (7, '2026-01-01')`, which programs send to page through rows: DataFusion
//! compares structs, which sort NULLs and do not coerce texts to other types. The comparison is
//! rewritten column by column.
//!
//! `WHERE (id, ts) IN (SELECT id, max(ts) FROM reads GROUP BY id)`: DataFusion compares only a
//! single column with a subquery. The condition is rewritten as an EXISTS, which is equivalent
//! where false and NULL count the same: as a condition of WHERE, or as one of several joined by
//! AND, without NOT.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Statement, VisitorMut,
};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions_mut, walk_mut};
use std::ops::ControlFlow;

/// The maximum number of columns in a compared row; each adds a level to the expression.
const MAX_COLUMNS: usize = 8;

/// Rewrites comparisons of rows as comparisons of their columns.
///
/// # Errors
/// A row has more than [`MAX_COLUMNS`] columns.
pub(super) fn by_columns(statement: &mut Statement) -> Result<()> {
    let done = visit_expressions_mut(statement, |expr| {
        let Expr::BinaryOp { left, op, right } = expr else { return ControlFlow::Continue(()) };
        let (Some(left), Some(right)) = (parts(left), parts(right)) else { return ControlFlow::Continue(()) };
        if left.len() != right.len() {
            return ControlFlow::Continue(());
        }
        if left.len() > MAX_COLUMNS {
            return ControlFlow::Break(left.len());
        }
        if let Some(columns) = compared(&left, op, &right).and_then(|compared| expr_of(&compared)) {
            *expr = columns;
        }
        ControlFlow::Continue(())
    });
    match done {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(count) => Err(Error::new(
            Code::LimitExceeded,
            format!(
                "rows of {count} columns are compared, the most is {MAX_COLUMNS}: compare columns by themselves, with AND and OR"
            ),
        )),
    }
}

/// The elements of `(a, b)` or `ROW(a, b)`.
pub(super) fn parts(row: &Expr) -> Option<Vec<&Expr>> {
    match row {
        Expr::Tuple(parts) => Some(parts.iter().collect()),
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) => {
            let is_row =
                matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| identifier(name) == "row"));
            let part = |arg| match arg {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref part)) => Some(part),
                _ => None,
            };
            is_row.then(|| list.args.iter().map(part).collect())?
        }
        _ => None,
    }
}

fn compared(left: &[&Expr], op: &BinaryOperator, right: &[&Expr]) -> Option<String> {
    let each = |op: &str, and: &str| {
        let all: Vec<String> = left.iter().zip(right).map(|(left, right)| format!("({left}) {op} ({right})")).collect();
        format!("({})", all.join(and))
    };
    let is_strict = match op {
        BinaryOperator::Eq => return Some(each("=", " AND ")),
        BinaryOperator::NotEq => return Some(each("<>", " OR ")),
        BinaryOperator::Lt | BinaryOperator::Gt => true,
        BinaryOperator::LtEq | BinaryOperator::GtEq => false,
        _ => return None,
    };
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => "<",
        _ => ">",
    };
    let mut columns = left.iter().zip(right).rev();
    let (last_left, last_right) = columns.next()?;
    let last = format!("({last_left}) {strict}{} ({last_right})", if is_strict { "" } else { "=" });
    // The range condition on the first column is separate so that it can bound a scan.
    Some(columns.fold(last, |rest, (left, right)| {
        format!("(({left}) {strict}= ({right}) AND (({left}) {strict} ({right}) OR {rest}))")
    }))
}

/// Rewrites IN over a subquery's rows as EXISTS.
pub(super) fn in_as_exists(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Tuples);
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

#[cfg(test)]
#[path = "tuples_tests.rs"]
mod tests;
