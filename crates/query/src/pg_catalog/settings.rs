//! Settings of PostgreSQL that clients ask for, by SHOW and by `current_setting`.

use crate::functions::misuse;
use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_boolean_array, as_string_array};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Names and values; what clients set is accepted and changes nothing, since times are UTC and texts UTF-8.
const SETTINGS: [(&str, &str); 36] = [
    ("application_name", ""),
    ("block_size", "8192"),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, YMD"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("jit", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C.UTF-8"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("row_security", "on"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", "16.6"),
    ("server_version_num", "160006"),
    ("session_replication_role", "origin"),
    ("standard_conforming_strings", "on"),
    ("synchronous_commit", "on"),
    ("timezone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
];

/// The view of all of them.
pub(super) const NAME: &str = "pg_settings";

/// The query of the view.
pub(super) fn query() -> String {
    let rows: Vec<_> = SETTINGS.iter().map(|(name, setting)| format!("('{name}', '{setting}')")).collect();
    let none = ["unit", "extra_desc", "min_val", "max_val", "enumvals", "sourcefile"];
    let none = none.map(|column| format!(", CAST(NULL AS TEXT) AS {column}")).concat();
    format!(
        "SELECT s.name, s.setting, 'FleetDB' AS category, '' AS short_desc, 'user' AS context, 'string' AS vartype, \
         'default' AS source, s.setting AS boot_val, s.setting AS reset_val, CAST(NULL AS INT) AS sourceline, \
         false AS pending_restart{none} FROM (VALUES {}) s (name, setting)",
        rows.join(", ")
    )
}

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

/// `current_setting(name)`, and `current_setting(name, missing_ok)`.
pub(super) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::new_from_impl(CurrentSetting {
        signature: Signature::one_of(
            vec![
                TypeSignature::Exact(vec![DataType::Utf8]),
                TypeSignature::Exact(vec![DataType::Utf8, DataType::Boolean]),
            ],
            Volatility::Stable,
        ),
    }));
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentSetting {
    signature: Signature,
}

impl ScalarUDFImpl for CurrentSetting {
    fn name(&self) -> &str {
        "current_setting"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arguments = ColumnarValue::values_to_arrays(&args.args)?;
        let may_miss = match arguments.get(1) {
            Some(may_miss) => as_boolean_array(may_miss)?.iter().all(|may_miss| may_miss == Some(true)),
            None => false,
        };
        let values = as_string_array(&arguments[0])?.iter().map(|name| match name {
            None => Ok(None),
            Some(name) => match setting(name) {
                Some((_, value)) => Ok(Some(value)),
                None if may_miss => Ok(None),
                None => Err(misuse(format!("unrecognized parameter \"{name}\""))),
            },
        });
        let values: ArrayRef = Arc::new(values.collect::<Result<StringArray>>()?);
        Ok(ColumnarValue::Array(values))
    }
}
