//! The marker in a join's condition that makes it an ASOF JOIN.

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use fleetdb_functions::arguments::misuse;

/// The marker's name, a function that takes the match condition.
pub const ASOF_MATCH: &str = "asof_match";

/// The marker function. It is never evaluated.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AsofMatch(Signature);

impl Default for AsofMatch {
    fn default() -> Self {
        Self(Signature::exact(vec![DataType::Boolean], Volatility::Immutable))
    }
}

impl ScalarUDFImpl for AsofMatch {
    fn name(&self) -> &str {
        ASOF_MATCH
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misuse("write a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.id = b.id".to_owned()))
    }
}
