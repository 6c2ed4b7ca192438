//! Sorts that begin with few rows in memory. If there are more, DataFusion's `SortExec` sorts all of
//! them within the memory limit.

use super::begun::Begun;
use arrow::compute::concat_batches;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::{SortExec, sort_batch};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use std::sync::Arc;

/// Up to this many rows are sorted here.
const FEW_ROWS: usize = 1_024;
/// Up to this many bytes are sorted here.
const FEW_BYTES: usize = 256 << 10;

/// The rows of a sort, given those of its input.
pub(super) fn rows(
    sort: &SortExec,
    mut input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> SendableRecordBatchStream {
    let (sort, schema) = (sort.clone(), sort.schema());
    let rows = async move {
        let (mut few, mut few_rows, mut few_bytes) = (Vec::new(), 0, 0);
        while let Some(batch) = input.try_next().await? {
            few_rows += batch.num_rows();
            few_bytes += batch.get_array_memory_size();
            few.push(batch);
            if few_rows > FEW_ROWS || few_bytes > FEW_BYTES {
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
                let all = Begun::of(sort.input(), few, input);
                let sort = Arc::new(sort).replace_children(vec![all], options)?;
                return sort.reset_state()?.execute(0, context);
            }
        }
        let schema = sort.schema();
        let few = match few.as_slice() {
            [one] => one.clone(),
            few => concat_batches(&schema, few)?,
        };
        let sorted = sort_batch(&few, sort.expr(), sort.fetch())?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(sorted)]))) as _)
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(rows).try_flatten()))
}
