//! Reads the arms of a UNION ALL one after another. DataFusion's `CoalescePartitionsExec` starts a task
//! for each arm, and whoever waits for their rows must hand its thread over. A session computes on one
//! thread, so the tasks only cost time.

use crate::plan_nodes::{no_expressions, plan_basics};
use arrow::array::RecordBatch;
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
use futures::stream::poll_fn;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

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
#[derive(Debug)]
pub(crate) struct Concatenate {
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
        let arms = (0..count).map(|arm| Ok(Arm { rows: self.input.execute(arm, Arc::clone(&context))?, ahead: None }));
        let mut arms = arms.collect::<Result<VecDeque<_>>>()?;
        let next = poll_fn(move |waker| next_of(&mut arms, waker));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), next)))
    }
}

struct Arm {
    rows: SendableRecordBatchStream,
    /// What was read before it was this arm's turn.
    ahead: Option<Option<Result<RecordBatch>>>,
}

impl Arm {
    fn poll(&mut self, waker: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match self.ahead.take() {
            Some(ahead) => Poll::Ready(ahead),
            None => self.rows.poll_next_unpin(waker),
        }
    }
}

/// The next rows of the first arm. While it waits, the others are read as far as their next rows: the
/// partitions of a join wait for each other until each has its table.
fn next_of(arms: &mut VecDeque<Arm>, waker: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
    while let Some(first) = arms.front_mut() {
        match first.poll(waker) {
            Poll::Ready(None) => drop(arms.pop_front()),
            Poll::Ready(rows) => return Poll::Ready(rows),
            Poll::Pending => {
                for arm in arms.iter_mut().skip(1).filter(|arm| arm.ahead.is_none()) {
                    if let Poll::Ready(rows) = arm.rows.poll_next_unpin(waker) {
                        arm.ahead = Some(rows);
                    }
                }
                return Poll::Pending;
            }
        }
    }
    Poll::Ready(None)
}

#[cfg(test)]
#[path = "concatenate_tests.rs"]
mod tests;
