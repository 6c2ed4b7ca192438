//! Replaces marked joins with [`AsofJoin`] nodes.

use super::marker::ASOF_MATCH;
use super::matching::Match;
use super::node::AsofJoin;
use crate::plan_nodes::union_all;
use crate::window::{Bound, Window, without_cast};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, JoinType, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Extension, Join, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr,
};
use datafusion::optimizer::AnalyzerRule;
use fleetdb_functions::arguments::misuse;
use std::sync::Arc;

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub struct PlanAsofJoins;

impl AnalyzerRule for PlanAsofJoins {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let planned = plan.transform_down_with_subqueries(|plan| {
            let (join, conditions) = match &plan {
                LogicalPlan::Join(join) => (join, Vec::new()),
                LogicalPlan::Filter(filter) => match filter.input.as_ref() {
                    LogicalPlan::Join(join) => (join, split_conjunction_owned(filter.predicate.clone())),
                    _ => return Ok(Transformed::no(plan)),
                },
                _ => return Ok(Transformed::no(plan)),
            };
            match Marked::of(join)? {
                Some(marked) => Ok(Transformed::yes(marked.plan(conditions)?)),
                None => Ok(Transformed::no(plan)),
            }
        });
        planned.data()
    }

    fn name(&self) -> &'static str {
        "ASOF JOIN"
    }
}

/// A join that contains the marker.
struct Marked<'a> {
    left: &'a LogicalPlan,
    right: &'a LogicalPlan,
    keys: Vec<(Expr, Expr)>,
    times: (Expr, Expr),
    matches: Match,
}

impl<'a> Marked<'a> {
    /// Splits the join into its parts; `None` if it has no marker.
    fn of(join: &'a Join) -> Result<Option<Self>> {
        let conditions = join.filter.iter().flat_map(split_conjunction);
        let (marks, conditions): (Vec<_>, Vec<_>) = conditions.partition(|condition| mark(condition).is_some());
        let Some(mark) = marks.first().and_then(|condition| mark(condition)) else { return Ok(None) };
        let (left, right) = (join.left.as_ref(), join.right.as_ref());
        let wrong_match =
            || misuse(format!("MATCH_CONDITION compares a time of each side with >=, >, <= or <, unlike {mark}"));
        let Expr::BinaryExpr(BinaryExpr { left: first, op, right: second }) = mark else { return Err(wrong_match()) };
        let (times, op) = match sides(left, right, first, second) {
            Some((times, true)) => (times, op.swap().ok_or_else(wrong_match)?),
            Some((times, false)) => (times, *op),
            None => return Err(wrong_match()),
        };
        let matches = match op {
            Operator::GtEq => Match::AtOrBefore,
            Operator::Gt => Match::Before,
            Operator::LtEq => Match::AtOrAfter,
            Operator::Lt => Match::After,
            _ => return Err(wrong_match()),
        };
        let key = |condition: &Expr| match condition {
            Expr::BinaryExpr(BinaryExpr { left: first, op: Operator::Eq, right: second }) => {
                sides(left, right, first, second).map(|(key, _)| key)
            }
            _ => None,
        };
        let keys = conditions.into_iter().map(|condition| {
            key(condition).ok_or_else(|| misuse(format!("ON takes what is equal on both sides, unlike {condition}")))
        });
        let keys = join.on.iter().cloned().map(Ok).chain(keys).collect::<Result<Vec<_>>>()?;
        if join.join_type != JoinType::Left {
            return Err(misuse("an ASOF JOIN keeps all rows of its left side".to_owned()));
        }
        Ok(Some(Self { left, right, keys, times, matches }))
    }

    /// Plans the join and puts the conditions it cannot push down above it.
    ///
    /// A condition on the left side alone filters that side. If it restricts a key, it restricts
    /// the matching right rows as well. If it bounds the time, it also bounds the right side: a
    /// search for the last row before a time need not read later rows.
    fn plan(self, conditions: Vec<Expr>) -> Result<LogicalPlan> {
        let of_left = |condition: &Expr| is_of(condition, self.left) && !has_subquery(condition);
        let (taken, left_over): (Vec<_>, Vec<_>) = conditions.into_iter().partition(of_left);
        let (mut window, mut of_right) = (Window::default(), Vec::new());
        for condition in &taken {
            if !window.take(condition, &self.times.0, self.left.schema()) {
                of_right.extend(self.of_keys(condition)?);
            }
        }
        let backwards = matches!(self.matches, Match::AtOrBefore | Match::Before);
        let (far, near) = if backwards { (&window.to, &window.from) } else { (&window.from, &window.to) };
        for bound in far {
            let op = match (backwards, bound.inclusive) {
                (true, true) => Operator::LtEq,
                (true, false) => Operator::Lt,
                (false, true) => Operator::GtEq,
                (false, false) => Operator::Gt,
            };
            of_right.push(self.right_time(op, bound)?);
        }
        let right = filtered(self.right.clone(), of_right)?;
        let right = match near.first().filter(|_| backwards && is_table(self.right) && !self.keys.is_empty()) {
            Some(bound) => self.newest_and_later(right, bound)?,
            None => right,
        };
        let left = filtered(self.left.clone(), taken)?;
        let on = self.keys.into_iter().chain([self.times]).collect();
        let join = AsofJoin::new(left, right, on, self.matches)?;
        filtered(LogicalPlan::Extension(Extension { node: Arc::new(join) }), left_over)
    }

    /// Translates a condition on the left side's keys to the right side; `None` if it uses other
    /// columns.
    fn of_keys(&self, condition: &Expr) -> Result<Option<Expr>> {
        let key = |expr: &Expr| self.keys.iter().find(|(left, _)| left == expr).map(|(_, right)| right.clone());
        let columns = condition.column_refs().into_iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        if columns.is_empty() || columns.iter().any(|column| key(column).is_none()) {
            return Ok(None);
        }
        let changed = condition.clone().transform(|expr| match key(&expr) {
            Some(right) => Ok(Transformed::yes(right)),
            None => Ok(Transformed::no(expr)),
        });
        changed.data().map(Some)
    }

    fn right_time(&self, op: Operator, bound: &Bound) -> Result<Expr> {
        let at_type = bound.at.get_type(&DFSchema::empty())?;
        Ok(binary_expr(self.times.1.clone().cast_to(&at_type, self.right.schema())?, op, bound.at.clone()))
    }

    /// Right rows after the bound, and each key's newest row before it: every left row is later
    /// than the bound, so no older row can match.
    fn newest_and_later(&self, right: LogicalPlan, bound: &Bound) -> Result<LogicalPlan> {
        let (early, late) = match self.matches {
            Match::Before => (Operator::Lt, Operator::GtEq),
            _ => (Operator::LtEq, Operator::Gt),
        };
        let keys: Vec<Expr> = self.keys.iter().map(|(_, right)| right.clone()).collect();
        let columns = right.schema().columns().into_iter().map(Expr::Column).collect();
        let order = keys.iter().map(|key| key.clone().sort(true, false));
        let order = order.chain([without_cast(&self.times.1, right.schema()).clone().sort(false, false)]).collect();
        let newest = LogicalPlanBuilder::from(right.clone())
            .filter(self.right_time(early, bound)?)?
            .distinct_on(keys, columns, Some(order))?
            .build()?;
        let later = LogicalPlanBuilder::from(right).filter(self.right_time(late, bound)?)?.build()?;
        union_all(newest, later)
    }
}

/// The match condition, if this is the marker.
fn mark(condition: &Expr) -> Option<&Expr> {
    match condition {
        Expr::ScalarFunction(call) if call.func.name() == ASOF_MATCH => call.args.first(),
        _ => None,
    }
}

/// Orders two expressions as (left side, right side); the flag says whether they were swapped.
fn sides(left: &LogicalPlan, right: &LogicalPlan, first: &Expr, second: &Expr) -> Option<((Expr, Expr), bool)> {
    if is_of(first, left) && is_of(second, right) {
        Some(((first.clone(), second.clone()), false))
    } else if is_of(first, right) && is_of(second, left) {
        Some(((second.clone(), first.clone()), true))
    } else {
        None
    }
}

/// Whether the expression uses at least one column, and only columns of this plan.
fn is_of(expr: &Expr, plan: &LogicalPlan) -> bool {
    let columns = expr.column_refs();
    !columns.is_empty() && !expr.is_volatile() && columns.into_iter().all(|column| plan.schema().has_column(column))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)))
    };
    expr.exists(is_one).unwrap_or(true)
}

/// Whether the plan is a table scan, so that reading two parts costs no more than reading the
/// whole.
fn is_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        _ => false,
    }
}

fn filtered(plan: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
        None => Ok(plan),
    }
}
