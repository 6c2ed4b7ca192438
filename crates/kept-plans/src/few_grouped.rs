//! Aggregates of few rows. If there are more, DataFusion's `AggregateExec` computes them within the
//! memory limit.

use crate::lean::{matching, typed};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::group_values::new_group_values;
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use std::sync::Arc;

/// Whether an aggregate has one list of groups, or none, and sorts no rows for its functions. Groups are given
/// in the order in which they are found, so those of sorted rows stay sorted.
pub(crate) fn is_plain(aggregate: &AggregateExec) -> bool {
    let groups = aggregate.group_expr();
    let is_supported = |function: &Arc<AggregateFunctionExpr>| {
        function.order_bys().is_empty() && (groups.is_true_no_grouping() || function.groups_accumulator_supported())
    };
    *aggregate.mode() == AggregateMode::Single
        && aggregate.limit_options().is_none()
        && (groups.is_true_no_grouping() || groups.is_single())
        && aggregate.aggr_expr().iter().all(is_supported)
}

/// All groups of a [plain](is_plain) aggregate.
pub(crate) fn grouped(operator: &Arc<dyn ExecutionPlan>, rows: RecordBatch) -> Result<RecordBatch> {
    let aggregate: &AggregateExec = typed(operator)?;
    let has_groups = !aggregate.group_expr().is_true_no_grouping();
    let columns = if has_groups { groups(aggregate, &rows) } else { whole(aggregate, &rows) };
    Ok(RecordBatch::try_new(aggregate.schema(), columns?)?)
}

type Filter = Option<Arc<dyn PhysicalExpr>>;

/// The functions of an aggregate, with their FILTER.
fn functions(aggregate: &AggregateExec) -> impl Iterator<Item = (&Arc<AggregateFunctionExpr>, &Filter)> {
    aggregate.aggr_expr().iter().zip(aggregate.filter_expr())
}

/// The columns of the row of an aggregate without groups.
fn whole(aggregate: &AggregateExec, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let column = |(function, filter): (&Arc<AggregateFunctionExpr>, &Filter)| {
        let mut accumulator = function.create_accumulator()?;
        let rows = match filter {
            Some(filter) => &filter_record_batch(rows, &matching(filter, rows)?)?,
            None => rows,
        };
        accumulator.update_batch(&evaluate_expressions_to_arrays(&function.expressions(), rows)?)?;
        accumulator.evaluate()?.to_array()
    };
    functions(aggregate).map(column).collect()
}

/// The columns of the groups of an aggregate.
fn groups(aggregate: &AggregateExec, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let keys = evaluate_expressions_to_arrays(aggregate.group_expr().input_exprs().iter(), rows)?;
    let schema = aggregate.group_expr().group_schema(&aggregate.input_schema())?;
    let (mut groups, mut group_of_row) = (new_group_values(schema, &GroupOrdering::None)?, Vec::new());
    groups.intern(&keys, &mut group_of_row)?;
    let count = groups.len();
    let mut columns = groups.emit(EmitTo::All)?;
    for (function, filter) in functions(aggregate) {
        let mut accumulator = function.create_groups_accumulator()?;
        let values = evaluate_expressions_to_arrays(&function.expressions(), rows)?;
        let chosen = filter.as_ref().map(|filter| matching(filter, rows)).transpose()?;
        accumulator.update_batch(&values, &group_of_row, chosen.as_ref(), count)?;
        columns.push(accumulator.evaluate(EmitTo::All)?);
    }
    Ok(columns)
}
