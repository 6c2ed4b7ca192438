//! Optimizes logical plans. DataFusion applies all of its rules until a pass changes nothing, but
//! many of them are about joins, unions and subqueries. A simple query of one table goes through the
//! others, once.

use crate::limits::Limits;
use crate::rules::logical_rules;
use chrono::{DateTime, Utc};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{Distinct, Expr, FetchType, LogicalPlan};
use datafusion::optimizer::push_down_limit::PushDownLimit;
use datafusion::optimizer::{Optimizer, OptimizerConfig};
use datafusion::scalar::ScalarValue;
use std::sync::{Arc, Mutex, PoisonError};

/// The rules of DataFusion (55.2) that change no query of one table.
const OF_SEVERAL_TABLES: [&str; 11] = [
    "rewrite_set_comparison",
    "optimize_unions",
    "unions_to_filter",
    "eliminate_join",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
    "filter_null_join_keys",
    "eliminate_outer_join",
];

/// Optimizes the logical plans of a session. See the module documentation.
#[derive(Debug)]
pub struct LogicalOptimizer {
    /// For simple queries of one table.
    one_pass: Optimizer,
    /// A session's options, and a copy of them with one pass.
    options: Mutex<Option<(Arc<ConfigOptions>, Arc<ConfigOptions>)>>,
}

impl LogicalOptimizer {
    /// Creates the optimizer. It stops if the statement was cancelled or has exceeded its timeout.
    pub fn new(limits: &Arc<Limits>) -> Self {
        let mut rules = Optimizer::new().rules;
        rules.retain(|rule| !OF_SEVERAL_TABLES.contains(&rule.name()));
        // Once more: for limits that sorts have taken over, or above the projection of a distinct count.
        let after = rules.iter().position(|rule| rule.name() == "single_distinct_aggregation_to_group_by");
        rules.insert(after.map_or(rules.len(), |place| place + 1), Arc::new(PushDownLimit::new()));
        Self { one_pass: Optimizer::with_rules(logical_rules(rules, limits)), options: Mutex::default() }
    }

    /// Analyzes and optimizes a plan as [`SessionState::optimize`] does.
    ///
    /// # Errors
    /// Those of the rules, or the statement must stop.
    pub fn optimize(&self, plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Explain(mut explain) if !explain.verbose => {
                explain.plan = Arc::new(self.optimize(Arc::unwrap_or_clone(explain.plan), state)?);
                explain.logical_optimization_succeeded = true;
                Ok(LogicalPlan::Explain(explain))
            }
            LogicalPlan::Analyze(mut analyze) => {
                analyze.input = Arc::new(self.optimize(Arc::unwrap_or_clone(analyze.input), state)?);
                Ok(LogicalPlan::Analyze(analyze))
            }
            // It shows what each of all rules makes, which may differ from what runs.
            LogicalPlan::Explain(_) => state.optimize(&plan),
            plan => self.optimize_query(plan, state),
        }
    }

    fn optimize_query(&self, plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
        let options = state.config_options();
        let mut plan = state.analyzer().execute_and_check(plan, options, |_, _| {})?;
        if is_simple(&plan)? {
            let config = OnePass { state, options: self.with_one_pass(options) };
            plan = self.one_pass.optimize(plan, &config, |_, _| {})?;
            if !may_be_empty(&plan)? {
                return Ok(plan);
            }
        }
        state.optimizer().optimize(plan, state, |_, _| {})
    }

    fn with_one_pass(&self, options: &Arc<ConfigOptions>) -> Arc<ConfigOptions> {
        let mut kept = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((copied, with_one_pass)) = &*kept
            && Arc::ptr_eq(copied, options)
        {
            return Arc::clone(with_one_pass);
        }
        let mut with_one_pass = ConfigOptions::clone(options);
        with_one_pass.optimizer.max_passes = options.optimizer.max_passes.min(1);
        let with_one_pass = Arc::new(with_one_pass);
        *kept = Some((Arc::clone(options), Arc::clone(&with_one_pass)));
        with_one_pass
    }
}

/// The configuration of a session, but with one pass.
struct OnePass<'a> {
    state: &'a SessionState,
    options: Arc<ConfigOptions>,
}

impl OptimizerConfig for OnePass<'_> {
    fn query_execution_start_time(&self) -> Option<DateTime<Utc>> {
        self.state.query_execution_start_time()
    }

    fn alias_generator(&self) -> &Arc<AliasGenerator> {
        self.state.alias_generator()
    }

    fn options(&self) -> Arc<ConfigOptions> {
        Arc::clone(&self.options)
    }

    fn function_registry(&self) -> Option<&dyn FunctionRegistry> {
        OptimizerConfig::function_registry(self.state)
    }
}

/// Whether a plan reads one source and filters its rows first, if at all. A filter that is moved
/// down, past expressions, may be simplified again.
fn is_simple(plan: &LogicalPlan) -> Result<bool> {
    let mut of_one_table = true;
    plan.apply(|node| {
        let is_simple = match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Distinct(Distinct::All(_))
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::TableScan(_)
            | LogicalPlan::EmptyRelation(_) => true,
            LogicalPlan::Filter(filter) => is_table(&filter.input),
            _ => false,
        };
        of_one_table = is_simple && !has(node, is_subquery)?;
        Ok(if of_one_table { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(of_one_table)
}

fn is_table(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        _ => false,
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::ScalarSubquery(_)
            | Expr::OuterReferenceColumn(..)
    )
}

/// Whether an expression is true, false or NULL for all rows.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null() || matches!(value, ScalarValue::Boolean(_)),
        _ => false,
    }
}

/// Whether another pass may make an empty relation of a part of the plan: of a condition that no row
/// meets, or of limits that add up to no row.
fn may_be_empty(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| match node {
        // The expressions of a scan are the conditions that it takes.
        LogicalPlan::Filter(_) | LogicalPlan::TableScan(_) => has(node, is_constant),
        LogicalPlan::Limit(limit) => Ok(matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0)))),
        _ => Ok(false),
    })
}

/// Whether an expression of a node is, or contains, such a one.
fn has(node: &LogicalPlan, is_such: fn(&Expr) -> bool) -> Result<bool> {
    let mut has = false;
    node.apply_expressions(|expr| {
        has |= expr.exists(|expr| Ok(is_such(expr)))?;
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

#[cfg(test)]
#[path = "logical_optimizer_tests.rs"]
mod tests;
