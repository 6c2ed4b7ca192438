//! Operators of DataFusion that run without counters.

use super::lean::{Lean, Run, typed};
use super::{few_sorted, one_row_join};
use crate::metadata::counts_rows;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// The node that runs an operator in another way, if there is one.
pub(super) fn lean(operator: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let has_one_partition = |of: &&Arc<dyn ExecutionPlan>| of.output_partitioning().partition_count() == 1;
    let run: Run = if operator.is::<ProjectionExec>() {
        projected
    } else if operator.is::<FilterExec>() {
        filtered
    } else if !operator.children().iter().all(has_one_partition) {
        return None;
    } else if operator.downcast_ref().is_some_and(only_counts_rows) {
        counted
    } else if operator.is::<SortExec>() {
        few_sorted::sorted
    } else if operator.downcast_ref::<HashJoinExec>().is_some_and(one_row_join::is_plain) {
        one_row_join::joined
    } else {
        return None;
    };
    Some(Lean::of(Arc::clone(operator), run))
}

/// Whether all that an aggregate does is to count the rows of its input.
fn only_counts_rows(aggregate: &AggregateExec) -> bool {
    aggregate.group_expr().is_empty()
        && *aggregate.mode() == AggregateMode::Single
        && aggregate.limit_options().is_none()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.aggr_expr().iter().all(|function| counts_rows(function))
}

fn projected(
    operator: &Arc<dyn ExecutionPlan>,
    input: SendableRecordBatchStream,
    _: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let projection: &ProjectionExec = typed(operator)?;
    let exprs: Vec<_> = projection.expr().iter().map(|of_column| Arc::clone(&of_column.expr)).collect();
    let schema = operator.schema();
    let rows = input.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = evaluate_expressions_to_arrays(&exprs, &batch)?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(operator.schema(), rows)))
}

fn filtered(
    operator: &Arc<dyn ExecutionPlan>,
    input: SendableRecordBatchStream,
    _: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let filter: &FilterExec = typed(operator)?;
    let (predicate, projection) = (Arc::clone(filter.predicate()), filter.projection().clone());
    let most = filter.fetch().unwrap_or(usize::MAX);
    let rows = futures::stream::try_unfold((input, most), move |(mut input, most)| {
        let (predicate, projection) = (Arc::clone(&predicate), projection.clone());
        async move {
            while most > 0
                && let Some(batch) = input.try_next().await?
            {
                let wanted = predicate.evaluate(&batch)?.into_array(batch.num_rows())?;
                let batch = match &projection {
                    Some(columns) => batch.project(columns)?,
                    None => batch,
                };
                let kept = filter_record_batch(&batch, as_boolean_array(&wanted)?)?;
                if kept.num_rows() > 0 {
                    let kept = kept.slice(0, kept.num_rows().min(most));
                    let rest = most - kept.num_rows();
                    return Ok(Some((kept, (input, rest))));
                }
            }
            Ok(None)
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(operator.schema(), rows)))
}

/// The row of an aggregate that [`only_counts_rows`].
fn counted(
    operator: &Arc<dyn ExecutionPlan>,
    mut input: SendableRecordBatchStream,
    _: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = operator.schema();
    let count = async move {
        let mut rows = 0;
        while let Some(batch) = input.try_next().await? {
            rows += batch.num_rows() as i64;
        }
        let columns = schema.fields().iter().map(|_| Arc::new(Int64Array::from(vec![rows])) as ArrayRef);
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns.collect(), &options)?)
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(operator.schema(), futures::stream::once(count))))
}
