//! The optimizer rules of a session. Before each of DataFusion's logical rules, planning stops if
//! the statement was cancelled or has exceeded its timeout.

use crate::collection_joins::{BuildFromCollection, KeysFromJoin};
use crate::concatenate::ConcatenateArms;
use crate::joins::StopInJoins;
use crate::limits::Limits;
use crate::metadata::AnswerFromContainers;
use crate::newest_buckets::NewestBucketsFirst;
use crate::runs::AggregateRuns;
use crate::scan::FilterInScan;
use crate::sorts::SortForCheck;
use crate::where_needed::where_needed;
use crate::wide_values::CutForWideValues;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use fleetdb_functions::errors::query_error;
use std::sync::Arc;

/// Logical optimizer rules, with a check before each.
pub fn logical_rules(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    limits: &Arc<Limits>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let check: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(CancelCheck(Arc::clone(limits)));
    rules.into_iter().flat_map(|rule| [Arc::clone(&check), rule]).collect()
}

/// The physical optimizer rules of DataFusion, each for the plans that it can change, and of FleetDB.
pub fn physical_rules(limits: &Arc<Limits>) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    // DataFusion's second run of this rule swaps a projection with a filter to which the first run
    // added a projection of its own, and mixes up the columns (DataFusion 55.2,
    // `FilterExec::try_swapping_with_projection`; found by comparison with DuckDB).
    if let Some(second) = rules.iter().rposition(|rule| rule.name() == "ProjectionPushdown") {
        rules.remove(second);
    }
    if let Some(check) = rules.iter().rposition(|rule| rule.name() == "SanityCheckPlan") {
        rules.insert(check, Arc::new(SortForCheck));
    }
    let mut rules: Vec<_> = rules.into_iter().map(where_needed).collect();
    // Before the rules that rely on the order of rows.
    if let Some(selection) = rules.iter().position(|rule| rule.name() == "join_selection") {
        rules.insert(selection, Arc::new(BuildFromCollection));
    }
    // Before the rules that take the expressions of a node into another one.
    rules.push(Arc::new(CutForWideValues));
    rules.push(Arc::new(AnswerFromContainers));
    rules.push(Arc::new(AggregateRuns));
    // This rule runs late because other rules assume that a scan returns all of its rows.
    rules.push(Arc::new(FilterInScan));
    // After the rules that replace scans and aggregates.
    rules.push(Arc::new(NewestBucketsFirst));
    rules.push(Arc::new(KeysFromJoin));
    rules.push(Arc::new(StopInJoins(Arc::clone(limits))));
    rules.push(Arc::new(ConcatenateArms));
    rules
}

/// A rule that changes nothing but fails if the statement must stop.
#[derive(Debug)]
struct CancelCheck(Arc<Limits>);

impl OptimizerRule for CancelCheck {
    fn name(&self) -> &str {
        "check_cancelled"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match self.0.watch().stopped() {
            Some(stopped) => Err(query_error(stopped)),
            None => Ok(Transformed::no(plan)),
        }
    }
}
