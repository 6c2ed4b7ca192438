//! Inner joins whose left side turns out to have at most one row, such as a device that is named by its
//! key. Its readings need no hash table. If the left side has more rows, DataFusion's `HashJoinExec`
//! joins them.

use super::begun::Begun;
use crate::plan_nodes::{no_expressions, plan_basics};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, Scalar, UInt32Array};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{and, filter_record_batch, take};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionRef;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// The row is repeated for each row of the right side, so it must not have long texts.
const MAX_ROW_BYTES: usize = 4 << 10;

/// The join. See the module documentation.
#[derive(Debug)]
pub(super) struct OneRowJoin {
    /// The `HashJoinExec`, which never runs itself.
    join: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OneRowJoin {
    /// Converts a join; `None` if it is another operator or not such a join.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let join = plan.downcast_ref::<HashJoinExec>()?;
        let has_one_partition = |side: &Arc<dyn ExecutionPlan>| side.output_partitioning().partition_count() == 1;
        let has_plain_type = |(left, right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
            let of_left = left.data_type(&join.left.schema()).ok();
            let of_right = right.data_type(&join.right.schema()).ok();
            of_left == of_right && of_left.is_some_and(|of_left| is_plain(&of_left))
        };
        let is_one = join.join_type == JoinType::Inner
            && join.filter.is_none()
            && join.null_equality == NullEquality::NullEqualsNothing
            && plan.fetch().is_none()
            && has_one_partition(&join.left)
            && has_one_partition(&join.right)
            && join.on.iter().all(has_plain_type);
        is_one.then(|| Arc::new(Self { join: Arc::clone(plan), properties: Arc::clone(plan.properties()) }) as _)
    }
}

/// Bytes of the values of a batch. Its arrays may have room for more.
fn values_bytes(batch: &RecordBatch) -> Result<usize> {
    let bytes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    Ok(bytes.sum::<std::result::Result<usize, _>>()?)
}

/// Whether values of a type are equal for a hash table if a comparison says so.
fn is_plain(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Utf8 | DataType::Timestamp(..) | DataType::Date32)
}

impl DisplayAs for OneRowJoin {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.join.fmt_as(format, f)
    }
}

impl ExecutionPlan for OneRowJoin {
    fn name(&self) -> &'static str {
        "OneRowJoin"
    }

    plan_basics!();

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = Arc::clone(&self.join).replace_children(children, options)?;
        Ok(Self::of(&join).unwrap_or(join))
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let join = Arc::clone(&self.join);
        let mut left = join.children()[0].execute(0, Arc::clone(&context))?;
        let rows = async move {
            let (mut read, mut rows, mut bytes) = (Vec::new(), 0, 0);
            while let Some(batch) = left.try_next().await? {
                rows += batch.num_rows();
                bytes += values_bytes(&batch)?;
                read.push(batch);
                if rows > 1 || bytes > MAX_ROW_BYTES {
                    let sides = join.children();
                    let children = vec![Begun::of(sides[0], read, left), Arc::clone(sides[1])];
                    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
                    return join.replace_children(children, options)?.reset_state()?.execute(0, context);
                }
            }
            let schema = join.schema();
            let Some(row) = read.into_iter().find(|batch| batch.num_rows() > 0) else {
                return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::empty())) as _);
            };
            let row = Row::of(row, &join)?;
            let right = join.children()[1].execute(0, context)?;
            let joined = right.map(move |batch| row.joined(&batch?));
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, joined)) as _)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), futures::stream::once(rows).try_flatten())))
    }
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
    fn of(row: RecordBatch, join: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let schema = join.schema();
        let join = join.downcast_ref::<HashJoinExec>();
        let join = join.ok_or_else(|| DataFusionError::Internal("a join of one row is a hash join".to_owned()))?;
        let on = join.on.iter().map(|(left, right)| {
            let value = left.evaluate(&row)?.into_array(1)?;
            Ok((Scalar::new(value), Arc::clone(right)))
        });
        let on = on.collect::<Result<_>>()?;
        Ok(Self { row, on, projection: join.projection.clone(), schema })
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
