//! Chooses how each operator of DataFusion runs, and runs the simple ones without counters.

use crate::few::input;
use crate::lean::{Lean, Run, matching, typed};
use crate::subqueries::after_subqueries;
use crate::{few_grouped, few_sorted, few_windowed, one_row_case, one_row_join};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};
use fleetdb_plan::kept::{counts_rows, cuts_rows};
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// The node that runs an operator in another way, if there is one. `may_stop` says that an operator of the plan
/// may stop reading after some rows.
pub(crate) fn lean(operator: &Arc<dyn ExecutionPlan>, may_stop: bool) -> Option<Arc<dyn ExecutionPlan>> {
    let run = if operator.is::<ProjectionExec>() {
        Run::Partition(projected)
    } else if operator.is::<FilterExec>() {
        Run::Partition(filtered)
    } else if has_one_partition(operator) && operator.children().into_iter().all(has_one_partition) {
        of_one_partition(operator, may_stop)?
    } else if operator.is::<UnionExec>() {
        Run::Partition(arm)
    } else if operator.is::<SortPreservingMergeExec>() && has_own_arms(operator.children()[0]) {
        Run::Partition(few_sorted::merged)
    } else {
        return None;
    };
    Some(Lean::of(Arc::clone(operator), run))
}

/// The run of an operator of one partition whose inputs have one.
fn of_one_partition(operator: &Arc<dyn ExecutionPlan>, may_stop: bool) -> Option<Run> {
    // Rows that were cut must not be put together again.
    let may_read_all = !operator.children().into_iter().any(cuts_rows);
    if let Some(aggregate) = operator.downcast_ref() {
        return Some(if only_counts_rows(aggregate) {
            Run::Partition(counted)
        } else if may_read_all && few_grouped::is_plain(aggregate) && !(may_stop && gives_groups_early(aggregate)) {
            Run::AtOnce(few_grouped::grouped)
        } else {
            Run::Partition(reset)
        });
    }
    if operator.is::<SortExec>() {
        Some(Run::AtOnce(few_sorted::sorted))
    } else if operator.downcast_ref().is_some_and(one_row_join::is_plain) {
        Some(Run::Partition(one_row_join::joined))
    } else if operator.is::<ScalarSubqueryExec>() {
        Some(Run::Partition(after_subqueries))
    } else if may_read_all && few_windowed::is_plain(operator) && !may_stop {
        Some(Run::AtOnce(few_windowed::windowed))
    } else {
        (operator.is::<HashJoinExec>() || operator.is::<GlobalLimitExec>()).then_some(Run::Partition(reset))
    }
}

/// Whether an operator may stop reading before its input ends.
pub(crate) fn stops_early(operator: &Arc<dyn ExecutionPlan>) -> bool {
    operator.fetch().is_some() && !operator.is::<SortExec>() && !operator.children().is_empty()
}

/// Whether an aggregate gives groups before its input ends, because its rows are sorted by them.
fn gives_groups_early(aggregate: &AggregateExec) -> bool {
    *aggregate.input_order_mode() != InputOrderMode::Linear
}

fn has_one_partition(of: &Arc<dyn ExecutionPlan>) -> bool {
    of.output_partitioning().partition_count() == 1
}

/// Whether the partitions of a plan are inputs of their own, which do not wait for each other.
fn has_own_arms(plan: &Arc<dyn ExecutionPlan>) -> bool {
    operator_of::<UnionExec>(plan).is_some() && plan.children().into_iter().all(has_one_partition)
}

/// Whether all that an aggregate does is to count the rows of its input.
fn only_counts_rows(aggregate: &AggregateExec) -> bool {
    aggregate.group_expr().is_true_no_grouping()
        && *aggregate.mode() == AggregateMode::Single
        && aggregate.limit_options().is_none()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.aggr_expr().iter().all(|function| counts_rows(function))
}

/// The rows of an operator that keeps state, which is reset first.
fn reset(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    Arc::clone(operator).reset_state()?.execute(partition, context)
}

/// The rows of a partition of a UNION ALL.
fn arm(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let mut left = partition;
    for arm in operator.children() {
        let count = arm.output_partitioning().partition_count();
        match left.checked_sub(count) {
            None => return arm.execute(left, context),
            Some(others) => left = others,
        }
    }
    Err(DataFusionError::Internal(format!("a union has no partition {partition}")))
}

fn projected(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let input = input(operator, partition, &context)?;
    let projection: &ProjectionExec = typed(operator)?;
    let exprs: Vec<_> = projection.expr().iter().map(|of_column| Arc::clone(&of_column.expr)).collect();
    let schema = operator.schema();
    let rows = input.map(move |batch| {
        let batch = batch?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let chosen = exprs.iter().map(|expr| one_row_case::chosen(expr, &batch));
        let columns = evaluate_expressions_to_arrays(chosen.collect::<Result<Vec<_>>>()?, &batch)?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(operator.schema(), rows)))
}

fn filtered(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let input = input(operator, partition, &context)?;
    let filter: &FilterExec = typed(operator)?;
    let (predicate, projection) = (Arc::clone(filter.predicate()), filter.projection().clone());
    let most = filter.fetch().unwrap_or(usize::MAX);
    let rows = futures::stream::try_unfold((input, most), move |(mut input, most)| {
        let (predicate, projection) = (Arc::clone(&predicate), projection.clone());
        async move {
            while most > 0
                && let Some(batch) = input.try_next().await?
            {
                let wanted = matching(&predicate, &batch)?;
                let batch = match &projection {
                    Some(columns) => batch.project(columns)?,
                    None => batch,
                };
                let kept = filter_record_batch(&batch, &wanted)?;
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

/// The operator that a node runs.
fn operator_of<O: ExecutionPlan>(node: &Arc<dyn ExecutionPlan>) -> Option<&O> {
    node.downcast_ref::<Lean>()?.operator().downcast_ref()
}

/// The row of an aggregate that [`only_counts_rows`]. The rows of a filter are counted without making them.
fn counted(
    operator: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let rows = operator.children()[0];
    // An empty projection has the rows of its input.
    let empty = operator_of(rows).filter(|projection: &&ProjectionExec| projection.expr().is_empty());
    let rows = empty.map_or(rows, ProjectionExec::input);
    let filter: Option<&FilterExec> = operator_of(rows);
    let (predicate, most) = (filter.map(FilterExec::predicate).cloned(), filter.and_then(FilterExec::fetch));
    let mut input = filter.map_or(rows, FilterExec::input).execute(partition, context)?;
    let schema = operator.schema();
    let count = async move {
        let mut count = 0;
        while most.is_none_or(|most| count < most)
            && let Some(batch) = input.try_next().await?
        {
            count += match &predicate {
                Some(predicate) => matching(predicate, &batch)?.true_count(),
                None => batch.num_rows(),
            };
        }
        let count = most.map_or(count, |most| count.min(most)) as i64;
        let columns = schema.fields().iter().map(|_| Arc::new(Int64Array::from(vec![count])) as ArrayRef);
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns.collect(), &options)?)
    };
    Ok(Box::pin(RecordBatchStreamAdapter::new(operator.schema(), futures::stream::once(count))))
}
