//! DataFusion's physical optimizer rules run on every plan, and most of them rebuild its nodes even
//! if they change nothing. Here a rule runs only on plans with a node that it is about.

use datafusion::common::tree_node::TreeNode;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;
type IsAbout = fn(&dyn ExecutionPlan) -> bool;

/// Restricts a rule of DataFusion to the plans that it can change.
pub(crate) fn where_needed(rule: Rule) -> Rule {
    match is_about(rule.name()) {
        Some(is_about) => Arc::new(WhereNeeded { rule, is_about }),
        None => rule,
    }
}

/// The nodes that a rule of DataFusion (55.2) is about; `None` for a rule that runs on all plans. A
/// session plans for one partition, so a rule may be left out that would divide rows among several.
fn is_about(rule: &str) -> Option<IsAbout> {
    Some(match rule {
        "join_selection" | "HashJoinBuffering" => has_several_inputs,
        "aggregate_statistics"
        | "LimitedDistinctAggregation"
        | "CombinePartialFinalAggregate"
        | "OptimizeAggregateOrder"
        | "LimitAggregation" => |node| node.is::<AggregateExec>(),
        "WindowTopN" | "LimitPushPastWindows" => |node| node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>(),
        "PushdownSort" | "TopKRepartition" => |node| node.is::<SortExec>(),
        "FilterPushdown" => |node| node.is::<FilterExec>(),
        // Filters that operators make while they run.
        "FilterPushdown(Post)" => {
            |node| node.is::<SortExec>() || node.is::<AggregateExec>() || has_several_inputs(node)
        }
        "LimitPushdown" => |node| node.fetch().is_some() || node.is::<GlobalLimitExec>() || node.is::<LocalLimitExec>(),
        "ProjectionPushdown" => |node| node.is::<ProjectionExec>() || has_several_inputs(node),
        "EnsureRequirements" => may_require,
        _ => return None,
    })
}

fn has_several_inputs(node: &dyn ExecutionPlan) -> bool {
    node.children().len() > 1
}

/// Whether a node may require an order of its input's rows, or that they are in one partition.
fn may_require(node: &dyn ExecutionPlan) -> bool {
    let takes_rows_as_they_come = node.children().is_empty()
        || node.is::<ProjectionExec>()
        || node.is::<FilterExec>()
        || node.is::<GlobalLimitExec>()
        || node.is::<LocalLimitExec>()
        || node.is::<OutputRequirementExec>();
    !takes_rows_as_they_come || node.output_partitioning().partition_count() > 1
}

/// A rule and the nodes that it is about.
#[derive(Debug)]
struct WhereNeeded {
    rule: Rule,
    is_about: IsAbout,
}

impl WhereNeeded {
    fn is_needed(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
        plan.exists(|node| Ok((self.is_about)(node.as_ref())))
    }
}

impl PhysicalOptimizerRule for WhereNeeded {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if self.is_needed(&plan)? { self.rule.optimize(plan, config) } else { Ok(plan) }
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.is_needed(&plan)? { self.rule.optimize_with_context(plan, context) } else { Ok(plan) }
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

#[cfg(test)]
#[path = "where_needed_tests.rs"]
mod tests;
