//! Operators whose inputs turn out to have few rows.

use crate::begun::{from_start, run_over};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Future, TryStreamExt};
use std::sync::Arc;

/// This many rows are few.
const MAX_ROWS: usize = 1_024;
/// This many bytes are few.
const MAX_BYTES: usize = 256 << 10;

/// Makes the rows of an operator of all rows of its input.
pub(crate) type AtOnce = fn(&Arc<dyn ExecutionPlan>, RecordBatch) -> Result<RecordBatch>;

/// The rows of an operator of one partition: by `at_once` if its input has few rows, else as DataFusion
/// computes them.
pub(crate) fn run(
    operator: &Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    at_once: AtOnce,
) -> Result<SendableRecordBatchStream> {
    let (of, mut rows) = (Arc::clone(operator), input(operator, 0, &context)?);
    let running = async move {
        let (schema, mut few) = (rows.schema(), Few::default());
        match few.read(&mut rows).await? {
            true => Ok(one_batch(at_once(&of, few.into_one(&schema)?)?)),
            false => run_over(&of, vec![from_start(few.take(), rows)], context),
        }
    };
    Ok(later(operator, running))
}

/// The rows of a partition of an operator's first input.
pub(crate) fn input(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    operator.children()[0].execute(partition, Arc::clone(context))
}

/// Rows that a future gives.
pub(crate) fn later(
    operator: &Arc<dyn ExecutionPlan>,
    rows: impl Future<Output = Result<SendableRecordBatchStream>> + Send + 'static,
) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(operator.schema(), futures::stream::once(rows).try_flatten()))
}

/// A stream of one batch.
pub(crate) fn one_batch(rows: RecordBatch) -> SendableRecordBatchStream {
    Box::pin(RecordBatchStreamAdapter::new(rows.schema(), futures::stream::iter([Ok(rows)])))
}

/// What was read of inputs.
#[derive(Default)]
pub(crate) struct Few {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Few {
    /// Reads an input to its end; returns `false` as soon as the rows that have been read are many.
    pub(crate) async fn read(&mut self, input: &mut SendableRecordBatchStream) -> Result<bool> {
        while let Some(batch) = input.try_next().await? {
            self.rows += batch.num_rows();
            self.bytes += batch.get_array_memory_size();
            self.batches.push(batch);
            if self.rows > MAX_ROWS || self.bytes > MAX_BYTES {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The batches that were read since the last time.
    pub(crate) fn take(&mut self) -> Vec<RecordBatch> {
        std::mem::take(&mut self.batches)
    }

    /// The rows in one batch.
    pub(crate) fn into_one(self, schema: &SchemaRef) -> Result<RecordBatch> {
        match self.batches.as_slice() {
            [one] => Ok(one.clone()),
            all => Ok(concat_batches(schema, all)?),
        }
    }
}
