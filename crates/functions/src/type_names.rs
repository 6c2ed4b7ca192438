//! `pg_typeof(v)`: the name of an expression's type.

use crate::errors::sql_name;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use fleetdb_engine::ColumnType;

/// The `pg_typeof` function.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(TypeName { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeName {
    signature: Signature,
}

impl ScalarUDFImpl for TypeName {
    fn name(&self) -> &'static str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = args.arg_fields.first().map(|field| match ColumnType::of_field(field) {
            // Texts that are JSON have a mark.
            Ok(json) if json.is_json() => json.sql_name().to_owned(),
            _ => sql_name(field.data_type()).into_owned(),
        });
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(name)))
    }
}
