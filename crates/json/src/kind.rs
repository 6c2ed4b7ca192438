//! Tells JSON from other texts. A value of type `json` or `jsonb` is a UTF-8 text; the metadata of
//! its field says which.

use arrow::datatypes::{DataType, Field};
use fleetdb_engine::ColumnType;

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
    /// The type of a column of this kind.
    fn column_type(self) -> ColumnType {
        match self {
            Self::Json => ColumnType::Json,
            Self::Jsonb => ColumnType::Jsonb,
        }
    }

    /// The name of the SQL type.
    pub fn sql_name(self) -> &'static str {
        self.column_type().sql_name()
    }
}

/// The field with the metadata of this kind.
pub fn with_kind(field: Field, kind: JsonKind) -> Field {
    kind.column_type().mark(field)
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
    match ColumnType::json_marked(field)? {
        ColumnType::Jsonb => Some(JsonKind::Jsonb),
        _ => Some(JsonKind::Json),
    }
}
