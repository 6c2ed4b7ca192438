//! Rewrites subquery conditions that DataFusion cannot plan, or plans incorrectly, as comparisons
//! of counts with 0.
//!
//! 1. In the SELECT list: `SELECT EXISTS (SELECT 1 FROM reads WHERE id = 7)`, which ORMs send to
//!    test for a row, and `SELECT id IN (SELECT id FROM reads)`. DataFusion plans these only as
//!    conditions of WHERE.
//! 2. Comparisons with ANY and ALL rows of a subquery in the SELECT list.
//! 3. IN in WHERE, where false and NULL lead to different results: `id NOT IN (SELECT ...) OR ...`,
//!    `NOT (id IN (SELECT ...) AND ...)`. DataFusion treats NULL as false there (55.2,
//!    `mark_join`).

use super::latest::{has_call, looks_around};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, LimitClause, Query, Select, SelectItem, SetExpr, Statement, UnaryOperator,
    Value as Literal, VisitorMut,
};
use fleetdb_engine::{Code, Error, Result};
use fleetdb_functions::errors::too_deep;
use fleetdb_statement::clauses::is_aggregate;
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::walk::{visit_outside_subqueries_mut, walk_mut};
use std::ops::ControlFlow;

/// The maximum number of rewritten conditions per statement. Each rewritten IN repeats its subquery
/// three times, and nested ones multiply.
const MAX_SUBQUERIES: usize = 128;

const LOOKS_AROUND: &str = "IN (SELECT ...) that looks at the rows around it is supported as a condition of WHERE by itself, \
                            without NOT and not below OR, CASE or IS: write EXISTS or NOT EXISTS";

/// Rewrites the conditions of a statement.
///
/// # Errors
/// There are more than [`MAX_SUBQUERIES`], or the subquery of an IN is correlated.
pub(super) fn as_counts(statement: &mut Statement) -> Result<()> {
    let mut counts = Counts { left: MAX_SUBQUERIES };
    match walk_mut(statement, &mut counts) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Counts {
    /// How many more conditions may be rewritten.
    left: usize,
}

impl VisitorMut for Counts {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let mut done = ControlFlow::Continue(());
        super::selects(&mut query.body, &mut |select| {
            if done.is_continue() {
                done = self.in_select(select);
            }
        });
        done
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Error> {
        let condition = match statement {
            Statement::Update(update) => update.selection.as_mut(),
            Statement::Delete(delete) => delete.selection.as_mut(),
            _ => None,
        };
        condition.map_or(ControlFlow::Continue(()), |condition| self.required(condition))
    }
}

impl Counts {
    fn in_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                in_expr(expr, true, &mut self.left)?;
            }
        }
        for condition in select.selection.iter_mut().chain(&mut select.having) {
            self.required(condition)?;
        }
        ControlFlow::Continue(())
    }

    /// Handles a condition that rows must satisfy: NULL rejects a row, as false does. A correlated
    /// NOT IN is rewritten, because DataFusion does not plan its comparison of several columns.
    fn required(&mut self, condition: &mut Expr) -> ControlFlow<Error> {
        match condition {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.required(left)?;
                self.required(right)
            }
            Expr::Nested(inner) => self.required(inner),
            Expr::InSubquery { subquery, negated: true, .. } if !looks_around_anywhere(subquery) => {
                ControlFlow::Continue(())
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => match within(expr) {
                Expr::InSubquery { expr: value, subquery, negated: false } => {
                    let (expr, subquery) = (value.clone(), subquery.clone());
                    *condition = Expr::InSubquery { expr, subquery, negated: true };
                    self.required(condition)
                }
                _ => self.exact(condition),
            },
            other => self.sufficient(other),
        }
    }

    /// Handles one of several alternative conditions. NULL is equivalent to false here as well.
    fn sufficient(&mut self, condition: &mut Expr) -> ControlFlow<Error> {
        match condition {
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.sufficient(left)?;
                self.sufficient(right)
            }
            Expr::Nested(inner) => self.sufficient(inner),
            Expr::InSubquery { negated: false, .. } => ControlFlow::Continue(()),
            other => self.exact(other),
        }
    }

    /// Handles a condition whose result differs for false and NULL.
    fn exact(&mut self, condition: &mut Expr) -> ControlFlow<Error> {
        in_expr(condition, false, &mut self.left)
    }
}

/// Removes parentheses.
fn within(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => within(inner),
        other => other,
    }
}

fn looks_around_anywhere(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => looks_around(select),
        _ => false,
    }
}

/// Rewrites the conditions of an expression. Those of its subqueries are visited separately.
fn in_expr(expr: &mut Expr, is_selected: bool, left: &mut usize) -> ControlFlow<Error> {
    visit_outside_subqueries_mut(expr, |expr| {
        let words = match expr {
            Expr::Exists { .. } if !is_selected => return ControlFlow::Continue(()),
            // The subquery always returns exactly one row, unless it fails.
            Expr::Exists { subquery, negated } if gives_one_row(subquery) => {
                format!("(({subquery}) IS NULL {} true)", if *negated { "AND NOT" } else { "OR" })
            }
            Expr::InSubquery { expr, subquery, negated } if gives_one_row(subquery) => {
                format!("({expr} {} ({subquery}))", if *negated { "<>" } else { "=" })
            }
            Expr::Exists { subquery, negated: false } => format!("(({}) > 0)", counted(subquery)),
            Expr::Exists { subquery, negated: true } => format!("(({}) = 0)", counted(subquery)),
            // DataFusion cannot resolve outer columns in a subquery below an alias.
            Expr::InSubquery { subquery, .. } if looks_around_anywhere(subquery) => {
                return ControlFlow::Break(Error::new(Code::NotSupported, LOOKS_AROUND));
            }
            Expr::AnyOp { left, compare_op, right, .. } if is_selected => match right.as_ref() {
                Expr::Subquery(query) if !looks_around_anywhere(query) => {
                    compared_with_rows(&format!("{left} {compare_op} {COMPARED}"), query, true)
                }
                _ => return ControlFlow::Continue(()),
            },
            Expr::AllOp { left, compare_op, right } if is_selected => match right.as_ref() {
                Expr::Subquery(query) if !looks_around_anywhere(query) => {
                    compared_with_rows(&format!("{left} {compare_op} {COMPARED}"), query, false)
                }
                _ => return ControlFlow::Continue(()),
            },
            Expr::InSubquery { expr, subquery, negated } if !matches!(**expr, Expr::Tuple(_)) => {
                let is_in = is_in(expr, subquery);
                if *negated { format!("(NOT {is_in})") } else { is_in }
            }
            _ => return ControlFlow::Continue(()),
        };
        let Some(now_left) = left.checked_sub(1) else {
            return ControlFlow::Break(too_deep(format_args!("IN (SELECT ...) within others")));
        };
        *left = now_left;
        if let Some(counts) = expr_of(&words) {
            *expr = counts;
        }
        ControlFlow::Continue(())
    })
}

/// Whether the query is an aggregate without GROUP BY, which returns a row even for empty input.
fn gives_one_row(query: &Query) -> bool {
    let is_whole = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    match query.body.as_ref() {
        SetExpr::Select(select) => {
            let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
            is_whole
                && !is_grouped
                && select.having.is_none()
                && select.distinct.is_none()
                && is_aggregate(&select.projection)
        }
        _ => false,
    }
}

/// The column of the subquery in [`compared_with_rows`].
const COMPARED: &str = "\"any\".\"any:0\"";

/// Computes a comparison with any or all rows of a subquery: a row that decides wins over one for which it is
/// NULL.
fn compared_with_rows(comparison: &str, query: &Query, is_any: bool) -> String {
    let is_there = |test: &str| {
        format!("(SELECT count(*) FROM ({query}) AS \"any\" (\"any:0\") WHERE ({comparison}) IS {test}) > 0")
    };
    let (decides, unknown) = (is_there(if is_any { "TRUE" } else { "FALSE" }), is_there("NULL"));
    format!("(CASE WHEN {decides} THEN {is_any} WHEN {unknown} THEN CAST(NULL AS BOOLEAN) ELSE {} END)", !is_any)
}

/// Computes IN with three-valued logic: NULL if no row is equal and some value is NULL.
fn is_in(expr: &Expr, query: &Query) -> String {
    let is_there =
        |condition: String| format!("(SELECT count(*) FROM ({query}) AS \"in\" (\"in:0\") WHERE {condition}) > 0");
    let (any, equal, unknown) = (
        is_there("true".to_owned()),
        is_there(format!("\"in\".\"in:0\" = {expr}")),
        is_there("\"in\".\"in:0\" IS NULL".to_owned()),
    );
    format!(
        "(CASE WHEN {equal} THEN true WHEN {unknown} OR {expr} IS NULL AND {any} THEN CAST(NULL AS BOOLEAN) \
         ELSE false END)"
    )
}

/// A query that counts the rows of another one. If that one is uncorrelated, it stops at the first
/// row.
fn counted(query: &Query) -> String {
    let mut query = query.clone();
    if query.limit_clause.as_ref().is_some_and(takes_a_row) {
        query.limit_clause = None;
    }
    query.order_by = query.order_by.filter(|_| query.limit_clause.is_some());
    let may_be_limited = query.limit_clause.is_none() && query.fetch.is_none();
    if let SetExpr::Select(select) = query.body.as_mut()
        && is_plain(select)
        && may_be_limited
    {
        let looks_around = looks_around(select);
        let what = if looks_around { "count(*)" } else { "1" };
        select.projection = expr_of(what).map(SelectItem::UnnamedExpr).into_iter().collect();
        return match looks_around {
            true => query.to_string(),
            false => format!("SELECT count(*) FROM ({query} LIMIT 1) AS \"exists\""),
        };
    }
    format!("SELECT count(*) FROM ({query}) AS \"exists\"")
}

/// Whether a limit takes a row if there is one.
fn takes_a_row(limit: &LimitClause) -> bool {
    let LimitClause::LimitOffset { limit: Some(Expr::Value(limit)), offset: None, .. } = limit else { return false };
    matches!(&limit.value, Literal::Number(count, _) if count.parse().is_ok_and(|count: u64| count > 0))
}

/// Whether each matching row yields one output row, whatever is selected.
fn is_plain(select: &Select) -> bool {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let may_be_aggregate = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_call(expr),
        _ => false,
    };
    !is_grouped && select.having.is_none() && !select.projection.iter().any(may_be_aggregate)
}
