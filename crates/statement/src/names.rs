//! Names of tables and columns in statements.

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Insert, ObjectName, TableObject};
use fleetdb_engine::{Code, Error, Result};

/// A table's name without its schema; all tables are in the same one.
pub fn table_name(reference: &TableReference) -> Result<&str> {
    match reference.schema() {
        None | Some("public") => Ok(reference.table()),
        Some(other) => Err(undefined(other, reference.table())),
    }
}

/// The same for a parsed name.
pub fn object_name(name: &ObjectName) -> Result<String> {
    match name.0.iter().map(|part| part.as_ident().map(identifier)).collect::<Option<Vec<_>>>().as_deref() {
        Some([name]) => Ok(name.clone()),
        Some([schema, name]) if schema == "public" => Ok(name.clone()),
        Some([schema, table]) => Err(undefined(schema, table)),
        _ => Err(Error::invalid(format!("{name} is no table's name: tables are in schema public"))),
    }
}

fn undefined(schema: &str, table: &str) -> Error {
    if schema == TEMPORARY_TABLES {
        let message = format!("relation \"{schema}.{table}\" does not exist");
        return Error::new(Code::UndefinedTable, message);
    }
    let error = Error::new(Code::UndefinedSchema, format!("schema \"{schema}\" does not exist"));
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
        (None, TableObject::TableName(name)) => temporary_name(name).map_or_else(|| object_name(name), Ok),
        (None, other) => Err(Error::invalid(format!("{other} is no table"))),
    }
}

/// The schema of a session's temporary tables.
pub const TEMPORARY_TABLES: &str = "pg_temp";

/// The name of a table, if the statement says that it is a temporary one: `pg_temp.name`.
pub fn temporary_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [schema, table] => {
            let is_temporary = schema.as_ident().map(identifier).as_deref() == Some(TEMPORARY_TABLES);
            table.as_ident().filter(|_| is_temporary).map(identifier)
        }
        _ => None,
    }
}

/// The name of a table without its schema.
pub fn bare_name(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(identifier)
}

/// The name of the catalog that holds all schemas.
pub const CATALOG: &str = "fleetdb";

/// Whether an expression is the word DEFAULT.
pub fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}
