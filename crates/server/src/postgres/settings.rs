//! Settings of PostgreSQL that clients ask for.

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use fleetdb_engine::Result;
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

/// The row of a SHOW; `None` if it is not one of these.
pub(super) fn show(name: &str) -> Result<Option<RecordBatch>> {
    let name = match name {
        "transaction isolation level" => "transaction_isolation",
        "time zone" => "timezone",
        other => other,
    };
    let Some((_, value)) = SETTINGS.iter().find(|(known, _)| *known == name) else { return Ok(None) };
    let column: ArrayRef = Arc::new(StringArray::from(vec![*value]));
    Ok(Some(RecordBatch::try_from_iter([(name, column)])?))
}
