//! Inserts sorts that DataFusion omits but its own plan check requires.
//!
//! When a UNION is sorted, DataFusion 55 requires each arm to be sorted. An arm whose leading
//! column is unique satisfies this without a sort
//! (`EquivalenceProperties::satisfied_by_constraints`), but the properties derived for the union do
//! not reflect it (`calculate_union`), and the plan is rejected. [`SortForCheck`] adds a sort below
//! such a node.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// The rule. It runs before DataFusion's check of the plan.
#[derive(Debug)]
pub(crate) struct SortForCheck;

impl PhysicalOptimizerRule for SortForCheck {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(with_sorted_inputs).data()
    }

    fn name(&self) -> &str {
        "sort_for_check"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Sorts the inputs of a node that lack the order it requires.
fn with_sorted_inputs(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut is_changed = false;
    let mut inputs = Vec::new();
    for (input, asked) in plan.children().into_iter().zip(plan.required_input_ordering()) {
        let mut input = Arc::clone(input);
        if let Some(asked) = asked.map(|asked| asked.into_single())
            && !input.equivalence_properties().ordering_satisfy_requirement(asked.clone())?
        {
            is_changed = true;
            let order = LexOrdering::from(asked);
            input = Arc::new(SortExec::new(order, input).with_preserve_partitioning(true));
        }
        inputs.push(input);
    }
    if !is_changed {
        return Ok(Transformed::no(plan));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(inputs, options).map(Transformed::yes)
}
