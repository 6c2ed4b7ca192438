//! Bounds the batches of a cross join. DataFusion's join repeats a row of its left side for each
//! row of a batch of its right side, and counts the memory of neither: a text of a megabyte and a
//! batch of 8,192 rows would make eight gigabytes.
//!
//! A [`WideRows`] stands below each side. That of the left side, which the join reads first, notes
//! the longest texts of a row; that of the right side cuts its batches accordingly.

use crate::plan_nodes::pass_through_plan;
use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, max};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::CrossJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Approximate limit for the texts of one output batch. A single row may exceed it.
const MAX_BYTES: usize = 4 << 20;

/// The join with bounded batches.
pub(crate) fn bounded(join: &CrossJoinExec) -> Arc<dyn ExecutionPlan> {
    let widest = Arc::new(AtomicUsize::new(0));
    let side = |input: &Arc<dyn ExecutionPlan>, is_left| {
        let properties = Arc::clone(input.properties());
        Arc::new(WideRows { input: Arc::clone(input), is_left, widest: Arc::clone(&widest), properties })
    };
    Arc::new(CrossJoinExec::new(side(join.left(), true), side(join.right(), false)))
}

/// A side of a cross join. See the module documentation.
#[derive(Clone, Debug)]
struct WideRows {
    input: Arc<dyn ExecutionPlan>,
    is_left: bool,
    /// The bytes of the longest texts of a row of the left side.
    widest: Arc<AtomicUsize>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for WideRows {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for WideRows {
    fn name(&self) -> &'static str {
        "WideRows"
    }

    pass_through_plan!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (schema, widest) = (rows.schema(), Arc::clone(&self.widest));
        if self.is_left {
            widest.store(0, Ordering::Relaxed);
            let noted = rows.inspect(move |batch| {
                if let Ok(batch) = batch {
                    widest.fetch_max(text_bytes(batch), Ordering::Relaxed);
                }
            });
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, noted)));
        }
        let cut = rows.flat_map(move |batch| {
            let parts = match batch {
                Ok(batch) => parts(&batch, widest.load(Ordering::Relaxed)).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            futures::stream::iter(parts)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, cut)))
    }
}

/// The batch in parts so small that a row of the other side may be repeated for each row.
pub(crate) fn parts(batch: &RecordBatch, other_bytes: usize) -> Vec<RecordBatch> {
    let rows = (MAX_BYTES / (other_bytes + text_bytes(batch)).max(1)).max(1);
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(|start| batch.slice(start, rows.min(batch.num_rows() - start))).collect()
}

/// An upper bound for the bytes of the texts of one row.
fn text_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(longest).sum()
}

fn longest(texts: &ArrayRef) -> usize {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    if !matches!(texts.data_type(), Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView) {
        return 0;
    }
    let lengths = length(texts).and_then(|lengths| cast(&lengths, &DataType::Int64));
    let longest = lengths.ok().and_then(|lengths| max(lengths.as_primitive::<Int64Type>()));
    longest.and_then(|longest| usize::try_from(longest).ok()).unwrap_or_default()
}

#[cfg(test)]
#[path = "wide_rows_tests.rs"]
mod tests;
