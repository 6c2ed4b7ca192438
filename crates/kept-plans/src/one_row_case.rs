//! CASE over a single row: only the branch that is chosen is computed. DataFusion's `CaseExpr` splits the
//! rows of a batch by branch, and joins what the branches give.

use arrow::array::{Array, AsArray, RecordBatch};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::CaseExpr;
use std::sync::Arc;

/// What has the value of an expression for a batch: the chosen branch of a `CASE WHEN condition ... ELSE` if
/// the batch has one row, else the expression.
///
/// # Errors
/// A condition fails.
pub(crate) fn chosen<'a>(expr: &'a Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<&'a Arc<dyn PhysicalExpr>> {
    let is_chosen_from = |case: &&CaseExpr| batch.num_rows() == 1 && case.expr().is_none();
    let Some(case) = expr.downcast_ref::<CaseExpr>().filter(is_chosen_from) else { return Ok(expr) };
    let Some(otherwise) = case.else_expr() else { return Ok(expr) };
    for (condition, value) in case.when_then_expr() {
        if is_true(&condition.evaluate(batch)?) {
            return Ok(value);
        }
    }
    Ok(otherwise)
}

fn is_true(condition: &ColumnarValue) -> bool {
    match condition {
        ColumnarValue::Scalar(value) => *value == ScalarValue::Boolean(Some(true)),
        ColumnarValue::Array(values) => {
            values.as_boolean_opt().is_some_and(|values| values.is_valid(0) && values.value(0))
        }
    }
}
