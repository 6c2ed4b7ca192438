//! Inner joins whose left side turns out to have at most one row, such as a device that is named by its
//! key. Its readings need no hash table. If the left side has more rows, DataFusion's `HashJoinExec`
//! joins them.

use crate::begun::{from_start, run_over};
use crate::few::{input, later};
use crate::lean::typed;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, Scalar, UInt32Array};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{and, filter_record_batch, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionRef;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// The row is repeated for each row of the right side, so it must not have long texts.
const MAX_ROW_BYTES: usize = 4 << 10;

/// Whether a join is an inner one that compares [plain](has_plain_values) values, and does no more.
pub(crate) fn is_plain(join: &HashJoinExec) -> bool {
    let has_plain_type = |(left, right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
        let of_left = left.data_type(&join.left.schema()).ok();
        let of_right = right.data_type(&join.right.schema()).ok();
        of_left == of_right && of_left.is_some_and(|of_left| has_plain_values(&of_left))
    };
    join.join_type == JoinType::Inner
        && join.filter.is_none()
        && join.null_equality == NullEquality::NullEqualsNothing
        && join.fetch().is_none()
        && join.on.iter().all(has_plain_type)
}

/// Bytes of the values of a batch. Its arrays may have room for more.
fn values_bytes(batch: &RecordBatch) -> Result<usize> {
    let bytes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    Ok(bytes.sum::<std::result::Result<usize, _>>()?)
}

/// Whether values of a type are equal for a hash table if a comparison says so.
fn has_plain_values(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Utf8 | DataType::Timestamp(..) | DataType::Date32)
}

/// The rows of a [plain](is_plain) join whose sides have one partition each.
pub(crate) fn joined(
    operator: &Arc<dyn ExecutionPlan>,
    _partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let (of, mut left) = (Arc::clone(operator), input(operator, 0, &context)?);
    let rows = async move {
        let (mut read, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while let Some(batch) = left.try_next().await? {
            rows += batch.num_rows();
            bytes += values_bytes(&batch)?;
            read.push(batch);
            if rows > 1 || bytes > MAX_ROW_BYTES {
                return run_over(&of, vec![from_start(read, left)], context);
            }
        }
        let join: &HashJoinExec = typed(&of)?;
        let Some(row) = read.into_iter().find(|batch| batch.num_rows() > 0) else {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(join.schema(), futures::stream::empty())) as _);
        };
        let row = Row::of(row, join)?;
        let right = join.right.execute(0, context)?;
        let joined = right.map(move |batch| row.joined(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(join.schema(), joined)) as _)
    };
    Ok(later(operator, rows))
}

/// The row of the left side.
struct Row {
    row: RecordBatch,
    /// What is compared: its value, and an expression over rows of the right side.
    on: Vec<(Scalar<ArrayRef>, Arc<dyn PhysicalExpr>)>,
    projection: Option<ProjectionRef>,
    schema: SchemaRef,
}

impl Row {
    fn of(row: RecordBatch, join: &HashJoinExec) -> Result<Self> {
        let on = join.on.iter().map(|(left, right)| {
            let value = left.evaluate(&row)?.into_array(1)?;
            Ok((Scalar::new(value), Arc::clone(right)))
        });
        let on = on.collect::<Result<_>>()?;
        Ok(Self { row, on, projection: join.projection.clone(), schema: join.schema() })
    }

    /// The row, with each row of the right side that matches it.
    fn joined(&self, right: &RecordBatch) -> Result<RecordBatch> {
        let mut matching: Option<BooleanArray> = None;
        for (value, of_right) in &self.on {
            let same = eq(&of_right.evaluate(right)?.into_array(right.num_rows())?, value)?;
            matching = Some(matching.map_or(Ok(same.clone()), |others| and(&others, &same))?);
        }
        // Columns that are not output are not filtered.
        let of_left = self.row.num_columns();
        let output: Vec<usize> = match &self.projection {
            Some(projection) => projection.to_vec(),
            None => (0..of_left + right.num_columns()).collect(),
        };
        let of_right: Vec<usize> = output.iter().filter_map(|number| number.checked_sub(of_left)).collect();
        let right = right.project(&of_right)?;
        let right = match &matching {
            Some(matching) => filter_record_batch(&right, matching)?,
            None => right,
        };
        let first = UInt32Array::from(vec![0; right.num_rows()]);
        let mut of_right = right.columns().iter().map(Arc::clone);
        let columns = output.iter().map(|number| match *number < of_left {
            true => Ok(take(self.row.column(*number), &first, None)?),
            false => of_right.next().ok_or_else(|| DataFusionError::Internal("a column is missing".to_owned())),
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(right.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
