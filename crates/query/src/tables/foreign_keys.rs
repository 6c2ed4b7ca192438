//! Foreign keys. They are checked when they are defined and shown in the catalog, but not enforced: rows
//! of devices that are not in the other table yet must not be lost.

use datafusion::sql::sqlparser::ast::{ForeignKeyConstraint, Ident};
use fleetdb_engine::{ForeignKeyDefinition, Result};
use fleetdb_statement::names::{identifier, object_name};

/// The definition of a foreign key of these columns. A column's own REFERENCES has its name before it.
///
/// # Errors
/// The name of the other table has too many parts.
pub(crate) fn definition_of(
    key: &ForeignKeyConstraint,
    name: Option<&Ident>,
    columns: Vec<String>,
) -> Result<ForeignKeyDefinition> {
    Ok(ForeignKeyDefinition {
        name: key.name.as_ref().or(name).map(identifier),
        columns,
        table: object_name(&key.foreign_table)?,
        referred: key.referred_columns.iter().map(identifier).collect(),
    })
}

/// The warning for a statement that defines these foreign keys; `None` if there are none.
pub(crate) fn warning(keys: &[ForeignKeyDefinition]) -> Option<String> {
    let tables: Vec<&str> = keys.iter().map(|key| key.table.as_str()).collect();
    let warning =
        || format!("foreign keys are not enforced: rows may name rows of {} that do not exist", tables.join(", "));
    (!keys.is_empty()).then(warning)
}
