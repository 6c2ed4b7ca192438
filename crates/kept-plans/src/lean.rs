//! A plan node that runs an operator of DataFusion in another way.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// Gives the rows of a partition of an operator.
pub(crate) type Run = fn(&Arc<dyn ExecutionPlan>, usize, Arc<TaskContext>) -> Result<SendableRecordBatchStream>;

/// The node. A run sees nothing of the previous one.
#[derive(Debug)]
pub(crate) struct Lean {
    operator: Arc<dyn ExecutionPlan>,
    run: Run,
}

impl Lean {
    /// Runs an operator by `run`.
    pub(crate) fn of(operator: Arc<dyn ExecutionPlan>, run: Run) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self { operator, run })
    }

    /// The operator.
    pub(crate) fn operator(&self) -> &Arc<dyn ExecutionPlan> {
        &self.operator
    }
}

/// The operator that a [`Run`] is for.
///
/// # Errors
/// It is another one.
pub(crate) fn typed<O: ExecutionPlan>(operator: &Arc<dyn ExecutionPlan>) -> Result<&O> {
    let other = || DataFusionError::Internal(format!("{} is run as another operator", operator.name()));
    operator.downcast_ref().ok_or_else(other)
}

/// The rows of a partition of an operator's first input.
pub(crate) fn input(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    operator.children()[0].execute(partition, Arc::clone(context))
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

    fn properties(&self) -> &Arc<PlanProperties> {
        self.operator.properties()
    }

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

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        (self.run)(&self.operator, partition, context)
    }
}
