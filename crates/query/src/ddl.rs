//! Making and dropping tables.

use crate::answer::Answer;
use datafusion::common::{Constraint, TableReference};
use datafusion::logical_expr::{CreateMemoryTable, DropTable, LogicalPlan};
use fleetdb_engine::{ColumnDefinition, ColumnType, Database, Error, Result, TableDefinition};

/// `CREATE TABLE name (columns, PRIMARY KEY (...))`.
pub(crate) fn create_table(db: &Database, create: &CreateMemoryTable) -> Result<Answer> {
    let name = table_name(&create.name)?;
    if create.or_replace || create.temporary {
        return Err(Error::input(
            "CREATE OR REPLACE TABLE and temporary tables are not supported: drop the table first",
        ));
    }
    if !matches!(create.input.as_ref(), LogicalPlan::EmptyRelation(_)) {
        return Err(Error::input(
            "CREATE TABLE AS is not supported: create the table with its primary key, then INSERT INTO ... SELECT",
        ));
    }
    if create.if_not_exists && db.tables().iter().any(|table| table.name == name) {
        return Ok(Answer::done("CREATE TABLE"));
    }
    let mut definition = TableDefinition::new(name);
    let schema = create.input.schema();
    for field in schema.fields() {
        let column_type = ColumnType::from_arrow(field.data_type())
            .map_err(|e| e.context(format_args!("column '{}'", field.name())))?;
        definition.columns.push(ColumnDefinition {
            name: field.name().clone(),
            column_type,
            nullable: field.is_nullable(),
        });
    }
    for constraint in create.constraints.iter() {
        match constraint {
            Constraint::PrimaryKey(places) => {
                definition.primary_key = places.iter().map(|&place| schema.field(place).name().clone()).collect();
            }
            Constraint::Unique(_) => {
                return Err(Error::input("UNIQUE is not supported: the primary key is the one constraint"));
            }
        }
    }
    if !create.column_defaults.is_empty() {
        return Err(Error::input("DEFAULT is not supported: a column that is not given is NULL"));
    }
    db.create_table(&definition)?;
    Ok(Answer::done("CREATE TABLE"))
}

/// `DROP TABLE [IF EXISTS] name`.
pub(crate) fn drop_table(db: &Database, drop: &DropTable) -> Result<Answer> {
    let name = table_name(&drop.name)?;
    if !(drop.if_exists && db.tables().iter().all(|table| table.name != name)) {
        db.drop_table(name)?;
    }
    Ok(Answer::done("DROP TABLE"))
}

fn table_name(reference: &TableReference) -> Result<&str> {
    match reference.schema() {
        None | Some("public") => Ok(reference.table()),
        Some(other) => Err(Error::input(format!("there is no schema '{other}': tables are in schema public"))),
    }
}
