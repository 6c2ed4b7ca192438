//! Parameters of a prepared statement outside of the conditions that scans take.
//!
//! DataFusion plans no parameters physically. [`with_bound_parameters`] replaces each by a call
//! that takes no arguments and returns the value of the current run. While a statement is planned,
//! no run is current, so the call fails, and DataFusion does not evaluate it
//! ahead of time.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fleetdb_functions::expressions::map_named;
use fleetdb_functions::parameters::number;
use fleetdb_plan::binding::{Binding, has_parameters};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The plan of a prepared statement with its parameters bound to `binding`; those in conditions
/// that scans take stay, because scans bind them. `None` if a parameter is in a place whose value
/// the plan depends on: a limit, a gap filling, or an argument of a function that may be planned
/// differently for a constant.
///
/// # Errors
/// Those of rewriting a plan.
pub(super) fn with_bound_parameters(plan: &LogicalPlan, binding: &Arc<Binding>) -> Result<Option<LogicalPlan>> {
    let mut can = true;
    plan.apply_with_subqueries(|node| {
        can &= match node {
            LogicalPlan::TableScan(_) => true,
            LogicalPlan::Limit(_) | LogicalPlan::Extension(_) => !node.expressions().iter().any(has_parameters),
            _ => node.expressions().iter().all(takes_any_value),
        };
        Ok(if can { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    if !can {
        return Ok(None);
    }
    let bound = plan.clone().transform_up_with_subqueries(|node| match node {
        LogicalPlan::TableScan(_) => Ok(Transformed::no(node)),
        _ if node.expressions().iter().any(has_parameters) => map_named(node, |expr| {
            expr.transform_up(|expr| match ParameterValue::of(&expr, binding) {
                Some(value) => Ok(Transformed::yes(ScalarUDF::new_from_impl(value).call(Vec::new()))),
                None => Ok(Transformed::no(expr)),
            })
        }),
        _ => Ok(Transformed::no(node)),
    });
    Ok(Some(bound?.data))
}

/// Functions, among them the checked operators, whose plan is the same for any value, constant or not.
const OF_ANY_VALUE: [&str; 21] = [
    "+",
    "-",
    "*",
    "abs",
    "btrim",
    "character_length",
    "coalesce",
    "concat",
    "concat_texts",
    "greatest",
    "least",
    "length",
    "lower",
    "ltrim",
    "nullif",
    "replace",
    "rtrim",
    "starts_with",
    "strpos",
    "trim",
    "upper",
];

/// Whether the plan of an expression does not depend on the values of its parameters: they have
/// types, and no function takes one as a constant.
fn takes_any_value(expr: &Expr) -> bool {
    let is_constant = |argument: &Expr| has_parameters(argument) && argument.column_refs().is_empty();
    let depends = expr.exists(|expr| {
        Ok(match expr {
            Expr::Placeholder(parameter) => parameter.field.is_none() || number(&parameter.id).is_none(),
            Expr::ScalarFunction(call) => !OF_ANY_VALUE.contains(&call.name()) && call.args.iter().any(is_constant),
            Expr::AggregateFunction(call) => call.params.args.iter().any(is_constant),
            Expr::WindowFunction(call) => call.params.args.iter().any(is_constant),
            _ => false,
        })
    });
    !depends.unwrap_or(true)
}

/// The call that returns a parameter's value in the current run.
#[derive(Debug)]
struct ParameterValue {
    binding: Arc<Binding>,
    /// As it is written: `$1`.
    name: String,
    index: usize,
    data_type: DataType,
    signature: Signature,
}

impl ParameterValue {
    fn of(expr: &Expr, binding: &Arc<Binding>) -> Option<Self> {
        let Expr::Placeholder(parameter) = expr else { return None };
        Some(Self {
            binding: Arc::clone(binding),
            index: number(&parameter.id)?,
            name: parameter.id.clone(),
            data_type: parameter.field.as_ref()?.data_type().clone(),
            // The same value for all rows of a run, another one for the next.
            signature: Signature::nullary(Volatility::Stable),
        })
    }
}

impl PartialEq for ParameterValue {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.binding, &other.binding) && self.index == other.index && self.data_type == other.data_type
    }
}

impl Eq for ParameterValue {}

impl Hash for ParameterValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
    }
}

impl ScalarUDFImpl for ParameterValue {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(&self.name, self.data_type.clone(), true)))
    }

    fn display_name(&self, _arguments: &[Expr]) -> Result<String> {
        Ok(self.name.clone())
    }

    fn schema_name(&self, _arguments: &[Expr]) -> Result<String> {
        Ok(self.name.clone())
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.binding.value(self.index).map(ColumnarValue::Scalar)
    }
}
