//! Reads the arms of a UNION ALL one after another. DataFusion's `CoalescePartitionsExec` starts a task
//! for each arm, and whoever waits for their rows must hand its thread over. A session computes on one
//! thread, so the tasks only cost time.

use crate::plan_nodes::{no_expressions, plan_basics};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub(crate) struct ConcatenateArms;

impl PhysicalOptimizerRule for ConcatenateArms {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() else {
                return Ok(Transformed::no(plan));
            };
            let all = Concatenate::of(Arc::clone(coalesce.input()));
            Ok(Transformed::yes(match coalesce.fetch() {
                Some(limit) => Arc::new(GlobalLimitExec::new(all, 0, Some(limit))),
                None => all,
            }))
        });
        let plan = plan.data()?;
        Ok(if plan.output_partitioning().partition_count() > 1 { Concatenate::of(plan) } else { plan })
    }

    fn name(&self) -> &'static str {
        "concatenate_arms"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Passes on the rows of each partition of its input in turn.
#[derive(Clone, Debug)]
struct Concatenate {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Concatenate {
    fn of(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let properties = Arc::clone(CoalescePartitionsExec::new(Arc::clone(&input)).properties());
        Arc::new(Self { input, properties })
    }
}

impl DisplayAs for Concatenate {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Concatenate {
    fn name(&self) -> &'static str {
        "Concatenate"
    }

    plan_basics!();

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(children.into_iter().next().map_or(self, Self::of))
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let count = self.input.output_partitioning().partition_count();
        let arms = (0..count).map(|arm| self.input.execute(arm, Arc::clone(&context)));
        let arms = futures::stream::iter(arms.collect::<Result<Vec<_>>>()?).flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), arms)))
    }
}
