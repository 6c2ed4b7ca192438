//! Tells JSON from other texts. A value of type `json` or `jsonb` is a UTF-8 text; the metadata of
//! its field says which.

use arrow::datatypes::{DataType, Field};

/// The metadata key under which Arrow keeps the name of an extension type.
pub const EXTENSION_KEY: &str = "ARROW:extension:name";
/// Arrow's name for texts that are JSON.
pub const EXTENSION: &str = "arrow.json";
/// The metadata key under which FleetDB keeps the SQL type of such a text.
pub const TYPE_KEY: &str = "fleetdb.type";

/// The two SQL types whose values are JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonKind {
    /// The text as it was written.
    Json,
    /// PostgreSQL's canonical text: each key once, sorted by length and then by bytes, numbers
    /// without exponents.
    Jsonb,
}

impl JsonKind {
    /// The name of the SQL type.
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Jsonb => "jsonb",
        }
    }
}

/// The field with the metadata of this kind.
pub fn with_kind(field: Field, kind: JsonKind) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(EXTENSION_KEY.to_owned(), EXTENSION.to_owned());
    metadata.insert(TYPE_KEY.to_owned(), kind.sql_name().to_owned());
    field.with_metadata(metadata)
}

/// A nullable field of this kind.
///
/// ```
/// use fleetdb_json::kind::{JsonKind, json_field, kind_of};
/// assert_eq!(kind_of(&json_field("payload", JsonKind::Jsonb)), Some(JsonKind::Jsonb));
/// ```
pub fn json_field(name: &str, kind: JsonKind) -> Field {
    with_kind(Field::new(name, DataType::Utf8, true), kind)
}

/// The kind of a field's values; `None` if they are not JSON.
pub fn kind_of(field: &Field) -> Option<JsonKind> {
    let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if is_text { kind_within(field) } else { None }
}

/// The kind of a field's values, or of the elements if it is one of arrays.
pub(super) fn kind_within(field: &Field) -> Option<JsonKind> {
    // A cast by DataFusion removes the first key, but not the second.
    field.metadata().get(EXTENSION_KEY).filter(|name| *name == EXTENSION)?;
    match field.metadata().get(TYPE_KEY).map(String::as_str) {
        Some("jsonb") => Some(JsonKind::Jsonb),
        _ => Some(JsonKind::Json),
    }
}
