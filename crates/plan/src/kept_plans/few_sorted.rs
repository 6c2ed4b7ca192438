//! Sorts that begin with few rows in memory. If there are more, DataFusion's `SortExec` sorts all of
//! them within the memory limit.

use super::begun::run_from_start;
use super::lean::typed;
use arrow::compute::concat_batches;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::{SortExec, sort_batch};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use std::sync::Arc;

/// Up to this many rows are sorted here.
const FEW_ROWS: usize = 1_024;
/// Up to this many bytes are sorted here.
const FEW_BYTES: usize = 256 << 10;

/// The rows of a sort of one partition.
pub(super) fn sorted(
    operator: &Arc<dyn ExecutionPlan>,
    mut input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let (operator, schema) = (Arc::clone(operator), operator.schema());
    let rows = async move {
        let (mut few, mut few_rows, mut few_bytes) = (Vec::new(), 0, 0);
        while let Some(batch) = input.try_next().await? {
            few_rows += batch.num_rows();
            few_bytes += batch.get_array_memory_size();
            few.push(batch);
            if few_rows > FEW_ROWS || few_bytes > FEW_BYTES {
                return run_from_start(&operator, few, input, context);
            }
        }
        let sort: &SortExec = typed(&operator)?;
        let few = match few.as_slice() {
            [one] => one.clone(),
            few => concat_batches(&sort.schema(), few)?,
        };
        let sorted = sort_batch(&few, sort.expr(), sort.fetch())?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(sort.schema(), futures::stream::iter([Ok(sorted)]))) as _)
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(rows).try_flatten())))
}
