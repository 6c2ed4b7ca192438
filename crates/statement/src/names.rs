//! Names of tables and columns in statements.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Ident, Insert, ObjectName, TableObject};
use fleetdb_engine::{Code, Error, Result};

/// A table's name without its schema; all tables are in the same one.
pub fn table_name(reference: &TableReference) -> Result<&str> {
    match reference.schema() {
        None | Some("public") => Ok(reference.table()),
        Some(other) => Err(undefined_schema(other)),
    }
}

/// The same for a parsed name.
pub fn object_name(name: &ObjectName) -> Result<String> {
    match name.0.iter().map(|part| part.as_ident().map(identifier)).collect::<Option<Vec<_>>>().as_deref() {
        Some([name]) => Ok(name.clone()),
        Some([schema, name]) if schema == "public" => Ok(name.clone()),
        Some([schema, _]) => Err(undefined_schema(schema)),
        _ => Err(Error::invalid(format!("{name} is no table's name: tables are in schema public"))),
    }
}

fn undefined_schema(name: &str) -> Error {
    let error = Error::new(Code::UndefinedSchema, format!("schema \"{name}\" does not exist"));
    error.with_hint("Tables are in the schema public.")
}

/// Unquoted names are folded to lower case, as in PostgreSQL.
pub fn identifier(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// The name by which an INSERT refers to its table.
pub fn called(insert: &Insert) -> Result<String> {
    match (&insert.table_alias, &insert.table) {
        (Some(alias), _) => Ok(identifier(&alias.alias)),
        (None, TableObject::TableName(name)) => object_name(name),
        (None, other) => Err(Error::invalid(format!("{other} is no table"))),
    }
}

/// The name of the catalog that holds all schemas.
pub const CATALOG: &str = "fleetdb";
