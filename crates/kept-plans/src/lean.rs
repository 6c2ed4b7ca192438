//! A plan node that runs an operator of DataFusion in another way.

use crate::few::{self, AtOnce};
use arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// Gives the rows of a partition of an operator.
type RunPartition = fn(&Arc<dyn ExecutionPlan>, usize, Arc<TaskContext>) -> Result<SendableRecordBatchStream>;

/// How an operator runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run {
    /// By partition.
    Partition(RunPartition),
    /// Makes the only partition at once if the rows of its input are [`few`].
    AtOnce(AtOnce),
}

/// The node. A run sees nothing of the previous one.
#[derive(Debug)]
pub(crate) struct Lean {
    operator: Arc<dyn ExecutionPlan>,
    run: Run,
}

impl Lean {
    /// Runs an operator in this way.
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

/// Whether each row of a batch matches a condition.
pub(crate) fn matching(condition: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    Ok(as_boolean_array(&condition.evaluate(batch)?.into_array(batch.num_rows())?)?.clone())
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
        match self.run {
            Run::Partition(run) => run(&self.operator, partition, context),
            Run::AtOnce(at_once) => few::run(&self.operator, context, at_once),
        }
    }
}
