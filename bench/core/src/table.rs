//! Tables as experiments describe them; each target makes its own of them.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// 64 bits, with a sign.
    Int,
    /// 64 bits, IEEE 754.
    Float,
    /// UTF-8.
    Text,
    /// A document as UTF-8, the names in it in alphabetical order; in no key, and longer than texts are.
    Json,
    /// Nanoseconds since 1970, UTC. Targets that keep fewer digits round; the experiments' times are whole seconds
    /// wherever that would matter.
    Time,
}

impl ColumnType {
    /// As Arrow says it.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Text | Self::Json => DataType::Utf8,
            Self::Time => DataType::Timestamp(TimeUnit::Nanosecond, None),
        }
    }
}

/// A column.
pub type Column = (&'static str, ColumnType);

/// A table: its columns, and which of them are its primary key. A row with a known key replaces the one that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// In the order of the rows' columns.
    pub columns: Vec<Column>,
    /// The key's columns; a time comes last.
    pub key: &'static [&'static str],
}

impl Table {
    /// The schema of its rows.
    pub fn schema(&self) -> SchemaRef {
        schema(&self.columns)
    }

    /// Columns that are not in the key.
    pub fn fields(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|(name, _)| !self.key.contains(name))
    }
}

/// Columns as an Arrow schema.
pub fn schema(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(
        columns.iter().map(|(name, kind)| Field::new(*name, kind.data_type(), true)).collect::<Vec<_>>(),
    ))
}
