//! Bounds the batches in which a long constant stands. DataFusion repeats a constant for each row of a
//! batch: a text of a megabyte in a batch of 8,192 rows would make eight gigabytes, more than an Arrow
//! array of texts can hold.
//!
//! The rule [`CutForWideValues`] puts a [`CutRows`] below each node whose expressions may have long
//! constants: literals, results of scalar subqueries, and parameters. Texts that are only compared are not
//! repeated. The node knows their sizes once it runs, and cuts its batches accordingly.

use crate::plan_nodes::pass_through_plan;
use crate::wide_rows::parts;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Shorter literals are left alone: 8,192 of them fit into memory.
const MIN_LITERAL_BYTES: usize = 16 << 10;

/// A batch is cut if the constants would take more than this in it.
const MAX_BATCH_BYTES: usize = 128 << 20;

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub(crate) struct CutForWideValues;

impl PhysicalOptimizerRule for CutForWideValues {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            if plan.children().is_empty() {
                return Ok(Transformed::no(plan));
            }
            let values = wide_values(&plan)?;
            if values.is_empty() {
                return Ok(Transformed::no(plan));
            }
            let cut = |input: &Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
                let properties = Arc::clone(input.properties());
                Arc::new(CutRows { input: Arc::clone(input), values: values.clone(), properties })
            };
            let children = plan.children().into_iter().map(cut).collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(children, options).map(Transformed::yes)
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "cut_for_wide_values"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The constants in a node's expressions that may be long and are repeated for each row.
fn wide_values(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let mut values = Vec::new();
    plan.apply_expressions(&mut |expr| {
        values.extend(may_be_wide(expr).then(|| Arc::clone(expr)));
        expr.apply(|part| {
            let operands = part.children().into_iter().filter(|operand| may_be_wide(operand));
            values.extend(operands.filter(|operand| !is_compared(part, operand)).cloned());
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(values)
}

/// Whether an expression compares its operand with other values. Then a text is not repeated.
fn is_compared(expr: &Arc<dyn PhysicalExpr>, operand: &Arc<dyn PhysicalExpr>) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let compares = |expr: &BinaryExpr| matches!(expr.op(), Eq | NotEq | Lt | LtEq | Gt | GtEq);
    let data_type = operand.data_type(&Schema::empty());
    expr.downcast_ref().is_some_and(compares) && !matches!(data_type, Ok(DataType::List(_)) | Err(_))
}

fn may_be_wide(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return literal.value().size() > MIN_LITERAL_BYTES;
    }
    // A parameter is a call without arguments.
    let is_call = expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.args().is_empty());
    let has_length = |data_type: DataType| {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, List, Utf8, Utf8View};
        matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | List(_))
    };
    (is_call || expr.is::<ScalarSubqueryExpr>()) && expr.data_type(&Schema::empty()).is_ok_and(has_length)
}

/// Passes rows on in batches that are small where the constants of the node above are long.
#[derive(Clone, Debug)]
pub(crate) struct CutRows {
    input: Arc<dyn ExecutionPlan>,
    values: Vec<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for CutRows {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for CutRows {
    fn name(&self) -> &'static str {
        "CutRows"
    }

    // The expressions of the node above are no expressions of this one.
    pass_through_plan!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (schema, values) = (rows.schema(), self.values.clone());
        let cut = rows.flat_map(move |batch| {
            futures::stream::iter(match batch {
                Ok(batch) => cut(batch, &values).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, cut)))
    }
}

/// The batch, in parts if the constants would be too long for it.
fn cut(batch: RecordBatch, values: &[Arc<dyn PhysicalExpr>]) -> Vec<RecordBatch> {
    // The node above reports what fails.
    let size = |value: &Arc<dyn PhysicalExpr>| match value.evaluate(&batch) {
        Ok(ColumnarValue::Scalar(value)) => value.size(),
        _ => 0,
    };
    let bytes = values.iter().map(size).fold(0, usize::saturating_add);
    if bytes.saturating_mul(batch.num_rows()) <= MAX_BATCH_BYTES { vec![batch] } else { parts(&batch, bytes) }
}

#[cfg(test)]
#[path = "wide_values_tests.rs"]
mod tests;
