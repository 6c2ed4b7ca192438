//! The physical planner: DataFusion's, extended by FleetDB's own plan nodes. Unions of many queries
//! become trees of unions.

use crate::asof::AsofJoin;
use crate::gapfill::GapFill;
use crate::plan_nodes::planner_of;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{LogicalPlan, Union};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use std::sync::Arc;

/// The maximum number of inputs of a union. To compute the schema of a union, DataFusion merges the metadata of
/// all inputs for each input (`union_schema`, 55.2), and does so after each optimizer rule.
const MAX_INPUTS: usize = 32;

/// The query planner. See the module documentation.
#[derive(Debug)]
pub struct FleetPlanner;

#[async_trait::async_trait]
impl QueryPlanner for FleetPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let own = vec![planner_of::<GapFill>(), planner_of::<AsofJoin>()];
        let planner = DefaultPhysicalPlanner::with_extension_planners(own);
        let has_large = plan.exists(|plan| Ok(inputs_of(plan) > MAX_INPUTS))?;
        match has_large {
            true => planner.create_physical_plan(&with_small_unions(plan.clone())?, session).await,
            false => planner.create_physical_plan(plan, session).await,
        }
    }
}

fn inputs_of(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Union(union) => union.inputs.len(),
        _ => 0,
    }
}

/// Turns each union of many inputs into a tree of unions. The inputs keep their order.
fn with_small_unions(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|plan| {
        let LogicalPlan::Union(Union { mut inputs, schema }) = plan else { return Ok(Transformed::no(plan)) };
        while inputs.len() > MAX_INPUTS {
            let grouped = inputs.chunks(MAX_INPUTS).map(|group| match group {
                [one] => Arc::clone(one),
                group => {
                    let (inputs, schema) = (group.to_vec(), Arc::clone(&schema));
                    Arc::new(LogicalPlan::Union(Union { inputs, schema }))
                }
            });
            inputs = grouped.collect();
        }
        Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema })))
    })
    .data()
}

#[cfg(test)]
#[path = "planner_tests.rs"]
mod tests;
