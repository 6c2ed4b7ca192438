//! Runs an operator of DataFusion although the first batches of its input have been read.

use crate::plan_nodes::leaf_plan;
use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs an operator of one partition. `read` are the first batches of its first input, and `rest` gives
/// the others.
pub(super) fn run_from_start(
    operator: &Arc<dyn ExecutionPlan>,
    read: Vec<RecordBatch>,
    rest: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let mut children: Vec<_> = operator.children().into_iter().cloned().collect();
    if let Some(first) = children.first_mut() {
        *first = Arc::new(Begun::new(first, read, rest));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(operator).replace_children(children, options)?.reset_state()?.execute(0, context)
}

/// An input whose first batches have been read.
struct Begun {
    /// `None` once it runs.
    rows: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl Begun {
    /// In place of `input`: the batches that were read from it, and then the rest.
    fn new(input: &Arc<dyn ExecutionPlan>, read: Vec<RecordBatch>, rest: SendableRecordBatchStream) -> Self {
        let schema = rest.schema();
        let all = futures::stream::iter(read.into_iter().map(Ok)).chain(rest);
        let all = RecordBatchStreamAdapter::new(schema, all);
        Self { rows: Mutex::new(Some(Box::pin(all))), properties: Arc::clone(input.properties()) }
    }
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl DisplayAs for Begun {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Begun {
    fn name(&self) -> &'static str {
        "Begun"
    }

    leaf_plan!();

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        rows.ok_or_else(|| DataFusionError::Internal("rows that were read before are read again".to_owned()))
    }
}
