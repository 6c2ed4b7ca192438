//! What rules and functions share: rewriting the expressions of a node, evaluating a call, the stack
//! that an expression needs, and the units of timestamps.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs};

/// Bytes of stack that a step over a tree, such as an expression, needs for each level. Debug builds need
/// more. Steps that need still more grow the stack themselves (DataFusion's `recursive_protection`).
pub const LEVEL_BYTES: usize = if cfg!(debug_assertions) { 24 << 10 } else { 12 << 10 };

/// Rewrites the expressions of a node if a part of one of them concerns the rule. `rewrite` gets a
/// whole expression and the columns of the node's inputs. The node's columns keep their names.
pub fn rewritten(
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
    map_named(node, |expr| rewrite(expr, &schema))
}

/// Rewrites the expressions of a node. The node's columns keep their names.
pub fn map_named(
    node: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    // The sort expressions of a window appear in its column's name in another form.
    let names = NamePreserver::new(&node);
    let mut named = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    node.map_expressions(|expr| match has_columns(&expr) {
        true => expr.map_children(&mut named),
        false => named(expr),
    })
}

/// Whether the parts of an expression are columns of their own: those of ROLLUP, CUBE and GROUPING
/// SETS, and the arguments of `grouping`, which are compared with them.
fn has_columns(expr: &Expr) -> bool {
    match expr {
        Expr::GroupingSet(_) => true,
        Expr::AggregateFunction(of) => of.func.name() == "grouping",
        _ => false,
    }
}

/// The type of an array's elements, or else the type itself.
pub fn leaf(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(element) => leaf(element.data_type()),
        other => other,
    }
}

/// What a cast between these types does to the elements of arrays.
pub fn leaves<'a>(from: &'a DataType, to: &'a DataType) -> (&'a DataType, &'a DataType) {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) => leaves(from.data_type(), to.data_type()),
        other => other,
    }
}

/// Whether all arguments of a call are constant.
pub fn are_constant(args: &[ColumnarValue]) -> bool {
    args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
}

/// Runs a function that computes arrays. If all arguments are constant, the result is one value.
pub fn on_arrays(args: &ScalarFunctionArgs, of: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>) -> Result<ColumnarValue> {
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
pub fn per_second(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1_000_000_000),
        _ => None,
    }
}
