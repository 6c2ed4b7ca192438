//! What rules and functions share: rewriting the expressions of a node, evaluating a call, and the
//! units of timestamps.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs};

/// Rewrites the expressions of a node if a part of one of them concerns the rule. `rewrite` gets a
/// whole expression and the columns of the node's inputs. The node's columns keep their names.
pub(crate) fn rewritten(
    node: LogicalPlan,
    concerns: impl Fn(&Expr) -> bool,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let mut has = false;
    node.apply_expressions(|expr| {
        has |= expr.exists(|expr| Ok(concerns(expr)))?;
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has {
        return Ok(Transformed::no(node));
    }
    let schema = merge_schema(&node.inputs());
    // The sort expressions of a window appear in its column's name in another form.
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = rewrite(expr, &schema)?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })
}

/// Whether all arguments of a call are constant.
pub(crate) fn are_constant(args: &[ColumnarValue]) -> bool {
    args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
}

/// Runs a function that computes arrays. If all arguments are constant, the result is one value.
pub(crate) fn on_arrays(
    args: &ScalarFunctionArgs,
    of: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let is_constant = are_constant(&args.args);
    let rows = if is_constant { 1 } else { args.number_rows };
    let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let made = of(&columns)?;
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        false => ColumnarValue::Array(made),
    })
}

/// The number of a timestamp type's units per second; `None` for other types.
pub(crate) fn per_second(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1_000_000_000),
        _ => None,
    }
}
