//! Settings of PostgreSQL that clients ask for, by SHOW and by `current_setting`.

use crate::functions::misuse;
use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::cast::as_string_array;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Names and values; what clients set is accepted and changes nothing, since times are UTC and texts UTF-8.
const SETTINGS: [(&str, &str); 14] = [
    ("application_name", ""),
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, YMD"),
    ("default_transaction_read_only", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("max_identifier_length", "63"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", "16.6"),
    ("server_version_num", "160006"),
    ("standard_conforming_strings", "on"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
];

/// The name and the value of a setting of PostgreSQL; `None` if it is not one that clients ask for.
///
/// ```
/// assert_eq!(fleetdb_query::setting("TIME ZONE"), Some(("timezone", "UTC")));
/// assert_eq!(fleetdb_query::setting("work_mem"), None);
/// ```
pub fn setting(name: &str) -> Option<(&'static str, &'static str)> {
    let name = match name.to_ascii_lowercase().as_str() {
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "time zone" => "timezone".to_owned(),
        other => other.to_owned(),
    };
    SETTINGS.iter().find(|(known, _)| *known == name).copied()
}

/// `current_setting(name)`.
pub(super) fn register(context: &SessionContext) {
    let value = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let names = ColumnarValue::values_to_arrays(arguments)?;
        let values = as_string_array(&names[0])?.iter().map(|name| match name {
            None => Ok(None),
            Some(name) => match setting(name) {
                Some((_, value)) => Ok(Some(value)),
                None => Err(misuse(format!("unrecognized parameter \"{name}\""))),
            },
        });
        let values: ArrayRef = Arc::new(values.collect::<Result<StringArray>>()?);
        Ok(ColumnarValue::Array(values))
    };
    let function =
        create_udf("current_setting", vec![DataType::Utf8], DataType::Utf8, Volatility::Stable, Arc::new(value));
    context.register_udf(function);
}
