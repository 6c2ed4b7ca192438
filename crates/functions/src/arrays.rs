//! Functions of arrays whose results differ between PostgreSQL and DataFusion: `array_remove` removes all
//! equal elements, an empty array has no length, and `array_dims` is a text such as `[1:3]`.

use super::wrapped::like_inner;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SimpleScalarUDF, Volatility,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Registers the functions with a session.
///
/// # Errors
/// DataFusion no longer has one of them.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    // With all names of the functions that they replace: a session that is built from another one would
    // bring those back.
    let removes_all = context.udf("array_remove_all")?;
    context.register_udf(removes_all.as_ref().clone().with_aliases(["array_remove", "list_remove"]));
    context.register_udf(ScalarUDF::new_from_impl(Length { inner: context.udf("array_length")? }));
    let body = Arc::new(make_scalar_function(dimensions, Vec::new()));
    let signature = Signature::array(Volatility::Immutable);
    let dimensions = SimpleScalarUDF::new_with_signature("array_dims", signature, DataType::Utf8, body);
    context.register_udf(ScalarUDF::from(dimensions).with_aliases(["list_dims"]));
    Ok(())
}

/// `array_length`, NULL for an empty array.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Length {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Length {
    like_inner!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let lengths = self.inner.invoke_with_args(args)?.into_array(rows)?;
        let counts = cast(&lengths, &DataType::Int64)?;
        let is_empty: BooleanArray =
            counts.as_primitive::<Int64Type>().iter().map(|count| Some(count == Some(0))).collect();
        Ok(ColumnarValue::Array(nullif(&lengths, &is_empty)?))
    }
}

fn dimensions(args: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = args.iter().flat_map(|arrays| (0..arrays.len()).map(move |row| bounds(arrays, row)));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// The bounds of an array in a row, and those of the arrays in it: `[1:2][1:3]`.
fn bounds(arrays: &ArrayRef, row: usize) -> Option<String> {
    let arrays = arrays.as_list_opt::<i32>().filter(|arrays| arrays.is_valid(row))?;
    let elements = arrays.value(row);
    if elements.is_empty() {
        return None;
    }
    Some(format!("[1:{}]{}", elements.len(), bounds(&elements, 0).unwrap_or_default()))
}
