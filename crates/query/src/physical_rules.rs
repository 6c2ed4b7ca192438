//! The physical optimizer rules of a session, in the order in which they run.

use crate::joins::StopInJoins;
use crate::limits::Limits;
use crate::metadata::AnswerFromContainers;
use crate::runs::AggregateRuns;
use crate::scan::FilterInScan;
use crate::sorts::SortForCheck;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use std::sync::Arc;

/// The physical optimizer rules of DataFusion and FleetDB.
pub(crate) fn physical_rules(limits: &Arc<Limits>) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
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
    rules.push(Arc::new(AnswerFromContainers));
    rules.push(Arc::new(AggregateRuns));
    // This rule runs late because other rules assume that a scan returns all of its rows.
    rules.push(Arc::new(FilterInScan));
    rules.push(Arc::new(StopInJoins(Arc::clone(limits))));
    rules
}
