//! Creates and drops tables.

use crate::answer::Answer;
use crate::tables::checks::CheckScope;
use crate::tables::columns::Extras;
use crate::tables::options::TableOptions;
use arrow::datatypes::FieldRef;
use datafusion::common::Constraint;
use datafusion::logical_expr::WriteOp;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, DropTable};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Expr as SqlExpr, TableConstraint};
use fleetdb_engine::{Code, ColumnDefinition, ColumnId, ColumnType, Database, Error, Result, TableDefinition};
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::names::{identifier, table_name};
use std::sync::Arc;

/// Runs `CREATE TABLE name (columns, PRIMARY KEY (...)) [WITH (...)]`. For a `CREATE TABLE ... AS`,
/// creates a table for the query's rows with the key taken from the statement. Returns whether the
/// table was created.
pub(crate) fn create_table(
    db: &Database,
    create: &CreateMemoryTable,
    key: Option<Vec<String>>,
    options: &TableOptions,
    extras: &Extras,
    zone: Zone,
) -> Result<bool> {
    let name = table_name(&create.name)?;
    if create.if_not_exists && db.tables().iter().any(|table| table.name == name) {
        db.make_definitions_durable()?;
        return Ok(false);
    }
    db.create_table(&definition(create, key, options, extras, zone)?)?;
    Ok(true)
}

/// The definition that a CREATE TABLE gives, with the key of its columns if the statement does not name it
/// elsewhere.
pub(crate) fn definition(
    create: &CreateMemoryTable,
    key: Option<Vec<String>>,
    options: &TableOptions,
    extras: &Extras,
    zone: Zone,
) -> Result<TableDefinition> {
    if create.or_replace {
        return Err(Error::new(Code::NotSupported, "CREATE OR REPLACE TABLE is not supported: drop the table first"));
    }
    let mut definition = TableDefinition::new(table_name(&create.name)?);
    definition.retention_seconds = options.retention_seconds.flatten();
    definition.partition_seconds = options.partition_seconds;
    definition.merge = options.merge.unwrap_or_default();
    definition.primary_key = key.unwrap_or_default();
    let schema = create.input.schema();
    for field in schema.fields() {
        let column_type =
            ColumnType::of_field(field).map_err(|e| e.context(format_args!("column '{}'", field.name())))?;
        definition.columns.push(ColumnDefinition {
            name: field.name().clone(),
            column_type,
            nullable: field.is_nullable() && !extras.not_null.contains(field.name()),
            default: extras.default_of(field.name()),
        });
    }
    let numbered = (0..).zip(&definition.columns);
    let columns = numbered.map(|(id, column)| (column.name.clone(), column.column_type, ColumnId(id))).collect();
    definition.checks = extras.checks_in(&CheckScope { table: definition.name.clone(), columns, zone })?;
    definition.foreign_keys.clone_from(&extras.foreign_keys);
    definition.first_number = extras.first_number;
    let keys = create.constraints.iter().filter(|constraint| matches!(constraint, Constraint::PrimaryKey(_)));
    if keys.count() > 1 {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", create.name.table());
        return Err(Error::new(Code::InvalidDefinition, message));
    }
    for constraint in create.constraints.iter() {
        match constraint {
            Constraint::PrimaryKey(places) => {
                definition.primary_key = places.iter().map(|&place| schema.field(place).name().clone()).collect();
            }
            Constraint::Unique(_) => {
                return Err(Error::new(
                    Code::NotSupported,
                    "UNIQUE is not supported: only the primary key is unique; rows that arrive late and twice could \
                     not be kept otherwise",
                ));
            }
        }
    }
    // As in PostgreSQL, key columns are NOT NULL. A table created by line protocol accepts points
    // without one of its tags.
    for column in &mut definition.columns {
        column.nullable &= !definition.primary_key.contains(&column.name);
    }
    Ok(definition)
}

/// The keywords at the beginning of a definition.
pub(crate) fn words_of(definition: &DdlStatement) -> &'static str {
    match definition {
        DdlStatement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE",
        DdlStatement::CreateMemoryTable(_) => "SELECT INTO",
        DdlStatement::CreateView(_) => "CREATE VIEW",
        DdlStatement::CreateCatalogSchema(_) => "CREATE SCHEMA",
        DdlStatement::CreateCatalog(_) => "CREATE DATABASE",
        DdlStatement::CreateIndex(_) => "CREATE INDEX",
        DdlStatement::DropTable(_) => "DROP TABLE",
        DdlStatement::DropView(_) => "DROP VIEW",
        DdlStatement::DropCatalogSchema(_) => "DROP SCHEMA",
        DdlStatement::CreateFunction(_) => "CREATE FUNCTION",
        DdlStatement::DropFunction(_) => "DROP FUNCTION",
    }
}

/// `DROP TABLE [IF EXISTS] name`.
pub(crate) fn drop_table(db: &Database, drop: &DropTable) -> Result<Answer> {
    let name = table_name(&drop.name)?;
    match drop.if_exists && db.table(name).is_err() {
        true => db.make_definitions_durable()?,
        false => db.drop_table(name)?,
    }
    Ok(Answer::done("DROP TABLE"))
}

/// Takes the primary key out of the constraints of a CREATE TABLE AS.
pub(crate) fn take_primary_key(constraints: &mut Vec<TableConstraint>) -> Result<Vec<String>> {
    let mut key = Vec::new();
    for constraint in constraints.drain(..) {
        let TableConstraint::PrimaryKey(constraint) = constraint else {
            return Err(Error::new(
                Code::NotSupported,
                format!("{constraint} is not supported here: CREATE TABLE ... AS takes a primary key"),
            ));
        };
        for column in &constraint.columns {
            let SqlExpr::Identifier(name) = &column.column.expr else {
                return Err(Error::invalid(format!("{column} is no column of a primary key")));
            };
            key.push(identifier(name));
        }
    }
    if key.is_empty() {
        return Err(Error::new(
            Code::InvalidDefinition,
            "a table needs a primary key: write CREATE TABLE name (PRIMARY KEY (device, ts)) AS SELECT ...",
        ));
    }
    Ok(key)
}

/// The field of a value of a SQL type, as DataFusion plans it.
pub(crate) async fn constant_type(context: &SessionContext, sql_type: &SqlType) -> datafusion::error::Result<FieldRef> {
    let plan = context.state().create_logical_plan(&format!("SELECT CAST(NULL AS {sql_type})")).await?;
    Ok(Arc::clone(&plan.schema().fields()[0]))
}

/// The keywords at the beginning of a statement that writes.
pub(crate) fn write_words(op: &WriteOp) -> &'static str {
    match op {
        WriteOp::Insert(_) => "INSERT",
        WriteOp::Delete => "DELETE",
        WriteOp::Update => "UPDATE",
        WriteOp::Ctas => "CREATE TABLE AS",
        WriteOp::Truncate => "TRUNCATE",
        WriteOp::MergeInto(_) => "MERGE",
        _ => "this statement",
    }
}
