//! Window functions over few rows, without PARTITION BY. If there are more rows, DataFusion's operators
//! compute them.

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use std::sync::Arc;

/// The functions of an operator; `None` if it is another one.
fn functions(operator: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    let bounded = operator.downcast_ref().map(BoundedWindowAggExec::window_expr);
    bounded.or_else(|| operator.downcast_ref().map(WindowAggExec::window_expr))
}

/// Whether an operator computes window functions over all rows in the order of its input.
pub(crate) fn is_plain(operator: &Arc<dyn ExecutionPlan>) -> bool {
    functions(operator).is_some_and(|functions| functions.iter().all(|function| function.partition_by().is_empty()))
}

/// All rows of a [plain](is_plain) operator.
pub(crate) fn windowed(operator: &Arc<dyn ExecutionPlan>, rows: RecordBatch) -> Result<RecordBatch> {
    // Functions must not see a window without rows.
    if rows.num_rows() == 0 {
        return Ok(RecordBatch::new_empty(operator.schema()));
    }
    let mut columns = rows.columns().to_vec();
    for function in functions(operator).unwrap_or_default() {
        columns.push(function.evaluate(&rows)?);
    }
    Ok(RecordBatch::try_new(operator.schema(), columns)?)
}
