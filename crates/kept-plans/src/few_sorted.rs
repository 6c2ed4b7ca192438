//! Sorts, and merges of sorted arms of a UNION ALL. If there are many rows, DataFusion's `SortExec` and
//! `SortPreservingMergeExec` sort all of them within the memory limit.

use crate::begun::{from_start, run_over};
use crate::few::{Few, later, one_batch};
use crate::lean::typed;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::sorts::sort::{SortExec, sort_batch};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// All rows of a sort.
pub(crate) fn sorted(operator: &Arc<dyn ExecutionPlan>, rows: RecordBatch) -> Result<RecordBatch> {
    let sort: &SortExec = typed(operator)?;
    sort_batch(&rows, sort.expr(), sort.fetch())
}

/// The rows of a merge of partitions that do not wait for each other.
pub(crate) fn merged(
    operator: &Arc<dyn ExecutionPlan>,
    _partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let of = Arc::clone(operator);
    let rows = async move {
        let merge: &SortPreservingMergeExec = typed(&of)?;
        let arms = merge.input().output_partitioning().partition_count();
        let run = |arm| merge.input().execute(arm, Arc::clone(&context));
        let (mut few, mut read) = (Few::default(), Vec::with_capacity(arms));
        for arm in 0..arms {
            let mut rows = run(arm)?;
            if !few.read(&mut rows).await? {
                let nothing = || Box::pin(EmptyRecordBatchStream::new(merge.schema()));
                let mut partitions: Vec<_> = read.into_iter().map(|arm| from_start(arm, nothing())).collect();
                partitions.push(from_start(few.take(), rows));
                for later in arm + 1..arms {
                    partitions.push(run(later)?);
                }
                return run_over(&of, partitions, Arc::clone(&context));
            }
            read.push(few.take());
        }
        let all = concat_batches(&merge.schema(), read.iter().flatten())?;
        Ok(one_batch(sort_batch(&all, merge.expr(), merge.fetch())?))
    };
    Ok(later(operator, rows))
}
