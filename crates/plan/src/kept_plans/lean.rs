//! A plan node that runs an operator of DataFusion in another way.

use crate::plan_nodes::plan_basics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// Gives the rows of an operator, given those of its first input.
pub(super) type Run =
    fn(&Arc<dyn ExecutionPlan>, SendableRecordBatchStream, Arc<TaskContext>) -> Result<SendableRecordBatchStream>;

/// The node. It keeps no state.
#[derive(Debug)]
pub(super) struct Lean {
    operator: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    run: Run,
}

impl Lean {
    /// Runs an operator with one input or more by `run`.
    pub(super) fn of(operator: Arc<dyn ExecutionPlan>, run: Run) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { properties: Arc::clone(operator.properties()), operator, run })
    }
}

/// The operator that a [`Run`] is for.
///
/// # Errors
/// It is another one.
pub(super) fn typed<O: ExecutionPlan>(operator: &Arc<dyn ExecutionPlan>) -> Result<&O> {
    let other = || DataFusionError::Internal(format!("{} is run as another operator", operator.name()));
    operator.downcast_ref().ok_or_else(other)
}

impl DisplayAs for Lean {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operator.fmt_as(format, f)
    }
}

impl ExecutionPlan for Lean {
    fn name(&self) -> &'static str {
        "Lean"
    }

    plan_basics!();

    fn maintains_input_order(&self) -> Vec<bool> {
        self.operator.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.operator.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.operator.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Self::of(Arc::clone(&self.operator).replace_children(children, options)?, self.run))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.operator.children()[0].execute(partition, Arc::clone(&context))?;
        (self.run)(&self.operator, input, context)
    }
}
