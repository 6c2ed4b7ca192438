//! Evaluates `a || b || c` over texts in one call. The call reserves memory for its output first
//! ([`FunctionMemory`]), and fails if a text would exceed the maximum length.

use super::function_memory::{FunctionMemory, check_text_bytes};
use crate::expressions::{are_constant, rewritten};
use arrow::array::{Array, AsArray, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The rule that replaces the operators by the call. It runs after type coercion and before
/// constant folding.
#[derive(Debug)]
pub struct BoundTexts(Arc<ScalarUDF>);

impl BoundTexts {
    /// Creates the rule for a session.
    pub fn new(made: &Arc<FunctionMemory>) -> Self {
        let signature = Signature::variadic(vec![DataType::Utf8], Volatility::Immutable);
        Self(Arc::new(ScalarUDF::new_from_impl(ConcatTexts { made: Arc::clone(made), signature })))
    }

    /// The call that replaces a chain of operators; `None` if not all operands are texts.
    fn call(&self, expr: &Expr, schema: &DFSchema) -> Option<Expr> {
        let mut texts = Vec::new();
        let mut left = vec![expr];
        while let Some(expr) = left.pop() {
            match expr {
                Expr::BinaryExpr(BinaryExpr { left: one, op: Operator::StringConcat, right }) => {
                    left.extend([right.as_ref(), one.as_ref()]);
                }
                text if matches!(text.get_type(schema), Ok(DataType::Utf8)) => texts.push(text.clone()),
                _ => return None,
            }
        }
        Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.0), texts)))
    }

    fn bound(&self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        rewritten(node, is_concat, |expr, schema| {
            expr.transform_down(|expr| {
                let call = if is_concat(&expr) { self.call(&expr, schema) } else { None };
                Ok(call.map_or_else(|| Transformed::no(expr), Transformed::yes))
            })
        })
    }
}

fn is_concat(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }))
}

impl AnalyzerRule for BoundTexts {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| self.bound(node)).data()
    }

    fn name(&self) -> &'static str {
        "bound_texts"
    }
}

/// The concatenation function. See the module documentation.
#[derive(Debug)]
struct ConcatTexts {
    made: Arc<FunctionMemory>,
    signature: Signature,
}

impl PartialEq for ConcatTexts {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

impl Eq for ConcatTexts {}

impl Hash for ConcatTexts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

impl ScalarUDFImpl for ConcatTexts {
    fn name(&self) -> &'static str {
        "concat_texts"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), DataType::Utf8, is_nullable)))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let texts: Vec<String> = args.iter().map(|text| text.schema_name().to_string()).collect();
        Ok(texts.join(" || "))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let texts = args.args.iter().map(|text| Texts::of(text, rows)).collect::<Result<Vec<_>>>()?;
        let is_constant = are_constant(&args.args);
        let rows = if is_constant { 1 } else { rows };
        let bytes: f64 = texts.iter().map(|text| text.bytes(rows)).sum();
        check_text_bytes("||", bytes)?;
        self.made.call("||", args, bytes, |_| {
            let mut all = StringBuilder::with_capacity(rows, bytes as usize);
            for row in 0..rows {
                concat(&texts, row, &mut all);
            }
            let all = all.finish();
            Ok(match is_constant {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&all, 0)?),
                false => ColumnarValue::Array(Arc::new(all)),
            })
        })
    }
}

/// Appends the concatenation of a row's texts: NULL if any of them is NULL.
fn concat(texts: &[Texts], row: usize, all: &mut StringBuilder) {
    if texts.iter().any(|text| text.at(row).is_none()) {
        return all.append_null();
    }
    for text in texts.iter().filter_map(|text| text.at(row)) {
        // Text written to the builder becomes part of the next appended value.
        std::fmt::Write::write_str(all, text).ok();
    }
    all.append_value("");
}

/// The texts of all rows.
enum Texts {
    Same(Option<String>),
    Each(StringArray),
}

impl Texts {
    fn of(text: &ColumnarValue, rows: usize) -> Result<Self> {
        Ok(match text {
            ColumnarValue::Scalar(value) => Self::Same(value.try_as_str().flatten().map(str::to_owned)),
            ColumnarValue::Array(_) => Self::Each(text.to_array(rows)?.as_string::<i32>().clone()),
        })
    }

    fn at(&self, row: usize) -> Option<&str> {
        match self {
            Self::Same(text) => text.as_deref(),
            Self::Each(texts) => texts.is_valid(row).then(|| texts.value(row)),
        }
    }

    /// The total size over `rows` rows.
    fn bytes(&self, rows: usize) -> f64 {
        match self {
            Self::Same(text) => text.as_ref().map_or(0, String::len) as f64 * rows as f64,
            Self::Each(texts) => {
                let offsets = texts.value_offsets();
                f64::from(offsets.last().zip(offsets.first()).map_or(0, |(end, begin)| end - begin))
            }
        }
    }
}

#[cfg(test)]
#[path = "concat_texts_tests.rs"]
mod tests;
