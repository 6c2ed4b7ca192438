//! Checks of functions' arguments.

use crate::errors::query_error;
use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use fleetdb_engine::{Code, Error};

/// The error for an invalid argument of a function.
pub fn misuse(message: String) -> DataFusionError {
    query_error(Error::new(Code::InvalidParameter, message))
}

/// Whether an argument of this type may be given as text.
pub fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}
