//! PostgreSQL settings that clients query with SHOW, `current_setting` and `pg_settings`; and
//! `set_config`.

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_boolean_array, as_string_array};
use datafusion::error::Result;
use datafusion::logical_expr::expr_fn::SimpleScalarUDF;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Signature, TypeSignature, Volatility};
use datafusion::prelude::SessionContext;
use fleetdb_engine::{Code, Error};
use fleetdb_functions::arguments::misuse;
use fleetdb_functions::errors::query_error;
use fleetdb_query::SharedSettings;
use fleetdb_statement::setting_names::setting_name;
use std::sync::Arc;

/// Names and default values. A session may change some of them, and then has other values
/// ([`SharedSettings::get`]); SET of the others succeeds without effect.
const SETTINGS: [(&str, &str); 39] = [
    ("application_name", ""),
    ("block_size", "8192"),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("DateStyle", "ISO, YMD"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("durability", "sync"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
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
    ("statement_timeout", "0"),
    ("synchronous_commit", "on"),
    ("TimeZone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
];

/// The view over all settings, and the table behind it.
pub(super) const NAME: &str = "pg_settings";
pub(super) const ROWS: &str = "fleetdb_settings";

/// The query of the view.
pub(super) fn query() -> String {
    let none = ["unit", "extra_desc", "min_val", "max_val", "enumvals", "sourcefile"];
    let none = none.map(|column| format!(", CAST(NULL AS TEXT) AS {column}")).concat();
    format!(
        "SELECT s.name, s.setting, 'FleetDB' AS category, '' AS short_desc, 'user' AS context, 'string' AS vartype, \
         'default' AS source, s.setting AS boot_val, s.setting AS reset_val, CAST(NULL AS INT) AS sourceline, \
         false AS pending_restart{none} FROM pg_catalog.{ROWS} s"
    )
}

/// The names and current values.
pub(super) fn rows(session: &SharedSettings) -> Result<RecordBatch> {
    let value = |(name, always): &(&str, &str)| session.get(name).unwrap_or_else(|| (*always).to_owned());
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(SETTINGS.iter().map(|(name, _)| name)));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(SETTINGS.iter().map(value)));
    Ok(RecordBatch::try_from_iter([("name", names), ("setting", values)])?)
}

/// The name, as PostgreSQL spells it, and the default value of a PostgreSQL setting; `None` if the
/// setting is unknown.
///
/// ```
/// assert_eq!(fleetdb_pg_catalog::setting("TIME ZONE"), Some(("TimeZone", "UTC")));
/// assert_eq!(fleetdb_pg_catalog::setting("work_mem"), None);
///
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// use fleetdb_query::Session;
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let session = Session::new(db.into(), fleetdb_postgres::Postgres::new()).unwrap();
/// session.sql("SET statement_timeout = 5000").unwrap();
/// assert_eq!(session.setting("statement_timeout"), Some(("statement_timeout", "5s".to_owned())));
/// ```
pub fn setting(name: &str) -> Option<(&'static str, &'static str)> {
    let name = setting_name(name);
    SETTINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name)).copied()
}

/// Registers `current_setting(name)`, `current_setting(name, missing_ok)`, and `set_config(name,
/// value, is_local)`.
pub(super) fn register(context: &SessionContext, session: &SharedSettings) {
    let one = TypeSignature::Exact(vec![DataType::Utf8]);
    let two = TypeSignature::Exact(vec![DataType::Utf8, DataType::Boolean]);
    let (shared, signature) = (session.clone(), Signature::one_of(vec![one, two], Volatility::Stable));
    let current = Arc::new(move |arguments: &[ColumnarValue]| current(&shared, arguments));
    let current = SimpleScalarUDF::new_with_signature("current_setting", signature, DataType::Utf8, current);
    context.register_udf(ScalarUDF::new_from_impl(current));
    let (shared, types) = (session.clone(), vec![DataType::Utf8, DataType::Utf8, DataType::Boolean]);
    let set = Arc::new(move |arguments: &[ColumnarValue]| set(&shared, arguments));
    let set = SimpleScalarUDF::new("set_config", types, DataType::Utf8, Volatility::Volatile, set);
    context.register_udf(ScalarUDF::new_from_impl(set));
}

fn current(session: &SharedSettings, arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let arguments = ColumnarValue::values_to_arrays(arguments)?;
    let may_miss = match arguments.get(1) {
        Some(may_miss) => as_boolean_array(may_miss)?.iter().all(|may_miss| may_miss == Some(true)),
        None => false,
    };
    let values = as_string_array(&arguments[0])?.iter().map(|name| match name {
        None => Ok(None),
        Some(name) => match setting(name) {
            Some((name, always)) => Ok(Some(session.get(name).unwrap_or_else(|| always.to_owned()))),
            None if may_miss => Ok(None),
            None => Err(query_error(Error::new(
                Code::UndefinedObject,
                format!("unrecognized configuration parameter \"{name}\""),
            ))),
        },
    });
    let values: ArrayRef = Arc::new(values.collect::<Result<StringArray>>()?);
    Ok(ColumnarValue::Array(values))
}

/// Changes a setting as SET or SET LOCAL does.
fn set(session: &SharedSettings, arguments: &[ColumnarValue]) -> Result<ColumnarValue> {
    let columns = ColumnarValue::values_to_arrays(arguments)?;
    let [names, values, are_local] = columns.as_slice() else {
        return Err(misuse("set_config takes a name, a value and whether it is for the transaction".to_owned()));
    };
    let rows = as_string_array(names)?.iter().zip(as_string_array(values)?).zip(as_boolean_array(are_local)?);
    for ((name, value), is_local) in rows {
        let Some(name) = name else { return Err(misuse("set_config: give a setting's name".to_owned())) };
        session.change(name, value, is_local == Some(true)).map_err(query_error)?;
    }
    Ok(ColumnarValue::Array(Arc::clone(values)))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
