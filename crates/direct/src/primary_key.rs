//! The columns of a table's primary key.

use fleetdb_engine::TableSchema;

/// The indexes of the primary key's columns.
pub fn primary_key(schema: &TableSchema) -> Vec<usize> {
    schema.key.iter().chain(&schema.time).copied().collect()
}

/// The names of the primary key's columns.
pub fn primary_key_names(schema: &TableSchema) -> Vec<&str> {
    primary_key(schema).into_iter().map(|place| schema.columns[place].name.as_str()).collect()
}
