//! Foreign keys. They are checked when they are defined, then ignored: rows of devices that are not
//! in the other table yet must not be lost.

use crate::statement::names::{identifier, object_name};
use datafusion::sql::sqlparser::ast::{
    ColumnOption, ColumnOptionDef, CreateTable, ForeignKeyConstraint, Ident, TableConstraint,
};
use fleetdb_engine::{Code, Database, Error, Result, TableSchema};

/// Takes the foreign keys out of a CREATE TABLE; returns a warning if there are some.
///
/// # Errors
/// A foreign key names a table or column that does not exist.
pub(crate) fn take_foreign_keys(create: &mut CreateTable, db: &Database) -> Result<Option<String>> {
    let name = object_name(&create.name)?;
    let columns: Vec<String> = create.columns.iter().map(|column| identifier(&column.name)).collect();
    let table = Referencing { name: &name, columns: &columns };
    let mut found = Vec::new();
    for column in &mut create.columns {
        let of_column = identifier(&column.name);
        for ColumnOptionDef { option, .. } in
            column.options.extract_if(.., |option| matches!(option.option, ColumnOption::ForeignKey(_)))
        {
            let ColumnOption::ForeignKey(key) = option else { continue };
            found.push(table.checked(&key, vec![of_column.clone()], db)?);
        }
    }
    for constraint in
        create.constraints.extract_if(.., |constraint| matches!(constraint, TableConstraint::ForeignKey(_)))
    {
        let TableConstraint::ForeignKey(key) = constraint else { continue };
        found.push(table.checked(&key, key.columns.iter().map(identifier).collect(), db)?);
    }
    Ok((!found.is_empty()).then(|| warning(&found)))
}

/// Checks a foreign key that a table with these columns gets; returns the warning.
///
/// # Errors
/// It names a table or column that does not exist.
pub(crate) fn checked_foreign_key(
    key: &ForeignKeyConstraint,
    table: &str,
    columns: &[String],
    db: &Database,
) -> Result<String> {
    let table = Referencing { name: table, columns };
    Ok(warning(&[table.checked(key, key.columns.iter().map(identifier).collect(), db)?]))
}

/// The names of a table's columns.
pub(crate) fn columns_of(schema: &TableSchema) -> Vec<String> {
    schema.columns.iter().map(|column| column.name.clone()).collect()
}

fn warning(referenced: &[String]) -> String {
    format!("foreign keys are not enforced: rows may name rows of {} that do not exist", referenced.join(", "))
}

/// Refuses the first of these columns that the table does not have.
fn all_exist(columns: &[String], of_table: &[String]) -> Result<()> {
    match columns.iter().find(|column| !of_table.contains(column)) {
        Some(missing) => Err(Error::new(
            Code::UndefinedColumn,
            format!("column \"{missing}\" referenced in foreign key constraint does not exist"),
        )),
        None => Ok(()),
    }
}

/// A table that refers to another.
struct Referencing<'a> {
    name: &'a str,
    columns: &'a [String],
}

impl Referencing<'_> {
    /// Checks the names in a foreign key; returns the name of the other table.
    fn checked(&self, key: &ForeignKeyConstraint, of: Vec<String>, db: &Database) -> Result<String> {
        all_exist(&of, self.columns)?;
        let other = object_name(&key.foreign_table)?;
        let names = |idents: &[Ident]| idents.iter().map(identifier).collect::<Vec<String>>();
        // A table may refer to itself before it exists.
        let (known, own_key) = match other == self.name {
            true => (self.columns.to_vec(), None),
            false => {
                let schema = db.table(&other)?;
                let own_key = schema.key.iter().chain(&schema.time).map(|place| schema.columns[*place].name.clone());
                (columns_of(&schema), Some(own_key.collect()))
            }
        };
        let referred: Vec<String> = match key.referred_columns.as_slice() {
            [] => own_key.unwrap_or_else(|| of.clone()),
            given => names(given),
        };
        all_exist(&referred, &known)?;
        if referred.len() != of.len() {
            let message = "number of referencing and referenced columns for foreign key disagree";
            return Err(Error::new(Code::InvalidDefinition, message));
        }
        Ok(other)
    }
}
