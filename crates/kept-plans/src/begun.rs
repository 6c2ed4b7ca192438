//! Runs an operator of DataFusion although the first batches of its input have been read.

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use fleetdb_plan::leaf_plan;
use futures::StreamExt;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The batches that were read of an input, and then the rest.
pub(crate) fn from_start(read: Vec<RecordBatch>, rest: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rest.schema();
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(read.into_iter().map(Ok)).chain(rest)))
}

/// Runs an operator of one partition over these partitions of its first input.
pub(crate) fn run_over(
    operator: &Arc<dyn ExecutionPlan>,
    partitions: Vec<SendableRecordBatchStream>,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let mut children: Vec<_> = operator.children().into_iter().cloned().collect();
    if let Some(first) = children.first_mut() {
        let rows = Mutex::new(partitions.into_iter().map(Some).collect());
        *first = Arc::new(Begun { rows, properties: Arc::clone(first.properties()) });
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(operator).replace_children(children, options)?.reset_state()?.execute(0, context)
}

/// An input whose partitions have begun to run.
struct Begun {
    /// Each is `None` once it is read.
    rows: Mutex<Vec<Option<SendableRecordBatchStream>>>,
    properties: Arc<PlanProperties>,
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

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let of_partition = rows.get_mut(partition).and_then(Option::take);
        of_partition.ok_or_else(|| DataFusionError::Internal("rows that were read before are read again".to_owned()))
    }
}
