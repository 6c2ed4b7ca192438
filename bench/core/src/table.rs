//! Tables as experiments describe them; each target derives its own from them.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// A signed 64-bit integer.
    Int,
    /// A 64-bit IEEE 754 float.
    Float,
    /// UTF-8 text.
    Text,
    /// A UTF-8 JSON document with its names in alphabetical order. It is never in a key and longer
    /// than a text.
    Json,
    /// Nanoseconds since 1970, UTC. Targets with less precision round; where that would matter, the
    /// experiments use whole seconds.
    Time,
}

impl ColumnType {
    /// The Arrow type.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Text | Self::Json => DataType::Utf8,
            Self::Time => DataType::Timestamp(TimeUnit::Nanosecond, None),
        }
    }
}

/// A column: its name and type.
pub type Column = (&'static str, ColumnType);

/// A table: its columns and its primary key. A row with an existing key replaces the old row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// The table's name.
    pub name: &'static str,
    /// The columns, in the order of the rows.
    pub columns: Vec<Column>,
    /// The key's columns; a time comes last.
    pub key: &'static [&'static str],
}

impl Table {
    /// The schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        schema(&self.columns)
    }

    /// The columns outside the key.
    pub fn fields(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|(name, _)| !self.key.contains(name))
    }
}

/// Converts columns to an Arrow schema.
pub fn schema(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(
        columns.iter().map(|(name, kind)| Field::new(*name, kind.data_type(), true)).collect::<Vec<_>>(),
    ))
}
