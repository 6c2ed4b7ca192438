//! PostgreSQL functions that clients call along with the catalog and that the crate lacks.

use arrow::array::StringArray;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_int64_array;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility, create_udf,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Privileges that every logged-in user has as far as the catalog is concerned; roles are checked
/// when statements run.
const TRUE: &str = "\
    has_any_column_privilege has_column_privilege has_foreign_data_wrapper_privilege has_function_privilege \
    has_language_privilege has_sequence_privilege has_server_privilege has_tablespace_privilege has_type_privilege \
    pg_collation_is_visible pg_conversion_is_visible pg_function_is_visible pg_has_role pg_opclass_is_visible \
    pg_operator_is_visible pg_opfamily_is_visible pg_statistics_obj_is_visible pg_ts_config_is_visible \
    pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible";

/// Descriptions and definitions of things that do not exist in FleetDB; these functions return
/// NULL.
const NONE: &str = "\
    col_description inet_client_addr inet_server_addr obj_description pg_blocking_pids pg_describe_object \
    pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result pg_get_function_sqlbody \
    pg_get_functiondef pg_get_ruledef pg_get_statisticsobjdef pg_get_triggerdef \
    pg_get_viewdef pg_tablespace_location shobj_description";

/// The result of `version()`. Clients expect PostgreSQL's name and number at its beginning.
fn version() -> String {
    let (_, postgres) = super::setting("server_version").unwrap_or_default();
    let (os, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("PostgreSQL {postgres} (FleetDB {}) on {machine}-{os}", env!("CARGO_PKG_VERSION"))
}

/// Registers the functions with a session.
pub(super) fn register(context: &SessionContext) {
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
    let all = TRUE.split_whitespace().map(|name| (name, ScalarValue::Boolean(Some(true))));
    let none = NONE.split_whitespace().map(|name| (name, ScalarValue::Utf8(None)));
    let other = [
        ("version", text(&version())),
        ("getdatabaseencoding", text("UTF8")),
        ("pg_is_in_recovery", ScalarValue::Boolean(Some(false))),
        ("pg_is_wal_replay_paused", ScalarValue::Boolean(Some(false))),
        ("pg_is_other_temp_schema", ScalarValue::Boolean(Some(false))),
        ("pg_my_temp_schema", ScalarValue::Int32(Some(0))),
        ("pg_char_to_encoding", ScalarValue::Int32(Some(6))),
    ];
    for (name, value) in all.chain(none).chain(other) {
        context.register_udf(ScalarUDF::new_from_impl(Always::new(name, value)));
    }
    let pretty = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
        let sizes = ColumnarValue::values_to_arrays(arguments)?;
        let texts: StringArray = as_int64_array(&sizes[0])?.iter().map(|bytes| bytes.map(pretty)).collect();
        Ok(ColumnarValue::Array(Arc::new(texts)))
    };
    let types = (vec![DataType::Int64], DataType::Utf8);
    context.register_udf(create_udf("pg_size_pretty", types.0, types.1, Volatility::Immutable, Arc::new(pretty)));
}

/// A size in human-readable form, as in PostgreSQL: up to ten thousand of a unit.
fn pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (bytes as f64, 0);
    while size.abs() >= 10_240.0 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1_024.0, unit + 1);
    }
    format!("{size:.0} {}", UNITS[unit])
}

/// A function that returns the same value for all arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Always {
    name: &'static str,
    value: ScalarValue,
    signature: Signature,
}

impl Always {
    fn new(name: &'static str, value: ScalarValue) -> Self {
        let signature = Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable);
        Self { name, value, signature }
    }
}

impl ScalarUDFImpl for Always {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.value.data_type())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(self.value.clone()))
    }
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
