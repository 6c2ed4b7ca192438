//! Checked integer arithmetic: overflow is an error (22003), as in PostgreSQL.
//!
//! DataFusion's addition, subtraction, multiplication and negation of integers wrap around, and no
//! setting changes that. After types are resolved, the rule [`CheckWholeNumbers`] replaces these
//! operators and `abs` by checked functions, so constant folding and execution use the same code.
//! Column names and types stay the same.

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray};
use arrow::compute::kernels::numeric::{add, mul, neg, sub};
use arrow::datatypes::{DataType, Field, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::errors::{query_error, sql_name};
use fleetdb_functions::expressions::rewritten;
use std::sync::{Arc, LazyLock};

/// The optimizer rule. See the module documentation.
#[derive(Debug)]
pub struct CheckWholeNumbers;

impl AnalyzerRule for CheckWholeNumbers {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let checked = plan.transform_up_with_subqueries(|node| {
            rewritten(
                node,
                |expr| operation(expr).is_some(),
                |expr, schema| expr.transform_up(|expr| Ok(checked(expr, schema))),
            )
        });
        checked.data()
    }

    fn name(&self) -> &'static str {
        "check_whole_numbers"
    }
}

/// The operation to check, judged only by the form of the expression.
fn operation(expr: &Expr) -> Option<Operation> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Plus, .. }) => Some(Operation::Plus),
        Expr::BinaryExpr(BinaryExpr { op: Operator::Minus, .. }) => Some(Operation::Minus),
        Expr::BinaryExpr(BinaryExpr { op: Operator::Multiply, .. }) => Some(Operation::Times),
        Expr::Negative(_) => Some(Operation::Negative),
        Expr::ScalarFunction(call) if call.name() == "abs" && call.args.len() == 1 => {
            let is_ours = call.func.inner().is::<Checked>();
            (!is_ours).then_some(Operation::Absolute)
        }
        _ => None,
    }
}

fn checked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let is_whole = |expr: &Expr| expr.get_type(schema).ok().filter(DataType::is_integer);
    let of = operation(&expr).filter(|_| match &expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            is_whole(left).is_some_and(|left| is_whole(right).is_some_and(|right| left == right))
        }
        Expr::Negative(of) => is_whole(of).is_some_and(|of| of.is_signed_integer()),
        Expr::ScalarFunction(call) => call.args.iter().all(|of| is_whole(of).is_some_and(|of| of.is_signed_integer())),
        _ => false,
    });
    let Some(operation) = of else { return Transformed::no(expr) };
    let args = match expr {
        Expr::BinaryExpr(binary) => vec![*binary.left, *binary.right],
        Expr::Negative(of) => vec![*of],
        Expr::ScalarFunction(call) => call.args,
        other => return Transformed::no(other),
    };
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(operation.function(), args)))
}

/// A checked integer operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Plus,
    Minus,
    Times,
    Negative,
    Absolute,
}

impl Operation {
    fn function(self) -> Arc<ScalarUDF> {
        static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
            [Operation::Plus, Operation::Minus, Operation::Times, Operation::Negative, Operation::Absolute].map(
                |operation| {
                    let signature = Signature::any(operation.arguments(), Volatility::Immutable);
                    Arc::new(ScalarUDF::new_from_impl(Checked { operation, signature }))
                },
            )
        });
        Arc::clone(&FUNCTIONS[self as usize])
    }

    fn arguments(self) -> usize {
        match self {
            Self::Plus | Self::Minus | Self::Times => 2,
            Self::Negative | Self::Absolute => 1,
        }
    }

    fn operator(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus | Self::Negative => "-",
            Self::Times => "*",
            Self::Absolute => "abs",
        }
    }
}

/// An operation as a scalar function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

fn misused() -> DataFusionError {
    DataFusionError::Internal("arithmetic has other arguments than whole numbers".to_owned())
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.operation.operator()
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        // Formatted like DataFusion's operators, with more parentheses.
        let side = |expr: &Expr| match expr {
            Expr::BinaryExpr(_) => format!("({expr})"),
            Expr::ScalarFunction(call) if call.func.inner().is::<Checked>() && call.args.len() == 2 => {
                format!("({expr})")
            }
            other => other.to_string(),
        };
        Ok(match (self.operation, args) {
            (operation, [left, right]) => format!("{} {} {}", side(left), operation.operator(), side(right)),
            (Operation::Negative, [of]) => format!("(- {of})"),
            (_, args) => format!("abs({})", args.iter().map(ToString::to_string).collect::<String>()),
        })
    }

    /// The column name that the operator would have.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match (self.operation, args) {
            (operation, [left, right]) => {
                format!("{} {} {}", left.schema_name(), operation.operator(), right.schema_name())
            }
            (Operation::Negative, [of]) => format!("(- {})", of.schema_name()),
            (_, args) => format!("abs({})", args.iter().map(|arg| arg.schema_name().to_string()).collect::<String>()),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(misused)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = args.arg_fields.first().ok_or_else(misused)?.data_type().clone();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), data_type, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.operation, inputs) {
            (Operation::Plus, [left, right]) => left.sort_properties.add(&right.sort_properties),
            (Operation::Minus, [left, right]) => left.sort_properties.sub(&right.sort_properties),
            (Operation::Negative, [of]) => -of.sort_properties,
            _ => SortProperties::Unordered,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.args.first().ok_or_else(misused)?.data_type();
        let done = match (self.operation, args.args.as_slice()) {
            (Operation::Plus, [left, right]) => apply(left, right, add),
            (Operation::Minus, [left, right]) => apply(left, right, sub),
            (Operation::Times, [left, right]) => apply(left, right, mul),
            (Operation::Negative, [of]) => of_each(of, |values| neg(values)),
            (Operation::Absolute, [of]) => of_each(of, absolute),
            _ => Err(misused()),
        };
        done.map_err(|error| match error.find_root() {
            DataFusionError::ArrowError(arrow, _) if matches!(**arrow, ArrowError::ArithmeticOverflow(_)) => {
                out_of_range(&data_type)
            }
            _ => error,
        })
    }
}

/// Applies a function to an array or to a single value.
fn of_each(
    of: &ColumnarValue,
    each: impl Fn(&dyn Array) -> std::result::Result<ArrayRef, ArrowError>,
) -> Result<ColumnarValue> {
    Ok(match of {
        ColumnarValue::Array(values) => ColumnarValue::Array(each(values)?),
        ColumnarValue::Scalar(value) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&each(&value.to_array()?)?, 0)?)
        }
    })
}

fn absolute(values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
    fn of<T: ArrowPrimitiveType>(values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
        let is_negative = |value: T::Native| value.is_lt(T::Native::ZERO);
        let absolute = |value: T::Native| if is_negative(value) { value.neg_checked() } else { Ok(value) };
        Ok(Arc::new(values.as_primitive::<T>().try_unary::<_, T, ArrowError>(absolute)?))
    }
    match values.data_type() {
        DataType::Int8 => of::<Int8Type>(values),
        DataType::Int16 => of::<Int16Type>(values),
        DataType::Int32 => of::<Int32Type>(values),
        DataType::Int64 => of::<Int64Type>(values),
        other => Err(ArrowError::NotYetImplemented(format!("abs of {other}"))),
    }
}

fn out_of_range(data_type: &DataType) -> DataFusionError {
    query_error(Error::new(Code::OutOfRange, format!("{} out of range", sql_name(data_type))))
}

#[cfg(test)]
#[path = "whole_numbers_tests.rs"]
mod tests;
