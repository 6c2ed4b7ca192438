//! `ALTER TABLE`: adds, drops, renames and changes columns, adds and drops constraints, renames tables,
//! and sets retention. All changes of a statement are made at once, or none.

use crate::answer::Answer;
use crate::session::Session;
use crate::tables::checks::CheckScope;
use crate::tables::columns::{Extras, default_value, first_number};
use crate::tables::ddl::constant_type;
use crate::tables::foreign_keys::warning;
use crate::tables::options::TableOptions;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, DataType as SqlType, GeneratedAs,
    Ident, RenameTableNameKind, TableConstraint,
};
use fleetdb_engine::{
    Alteration, Code, ColumnDefinition, ColumnId, ColumnType, DefaultValue, Error, ForeignKeyDefinition, Result, Role,
    TableSchema,
};
use fleetdb_functions::errors::engine_error;
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::names::{identifier, object_name};

impl Session {
    /// Runs an ALTER TABLE.
    pub(crate) fn alter_table(&self, alter: AlterTable) -> Result<Answer> {
        let table = object_name(&alter.name)?;
        let db = self.store.writer()?;
        if alter.if_exists && db.tables().iter().all(|known| known.name != table) {
            return Ok(Answer::done("ALTER TABLE"));
        }
        let mut changes = Changes::of(&*db.table(&table)?, self.zone());
        for operation in alter.operations {
            self.add_change(operation, &mut changes)?;
        }
        db.alter(&table, &changes.made)?;
        Ok(Answer::done("ALTER TABLE").warned(warning(&changes.foreign_keys)))
    }

    fn add_change(&self, operation: AlterTableOperation, changes: &mut Changes) -> Result<()> {
        match operation {
            AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
                if !(if_not_exists && changes.has(&identifier(&column_def.name))) {
                    self.add_column(column_def, changes)?;
                }
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                for column in column_names.iter().map(identifier) {
                    if !if_exists || changes.has(&column) {
                        changes.scope.columns.retain(|(name, ..)| *name != column);
                        changes.made.push(Alteration::DropColumn(column));
                    }
                }
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let (from, to) = (identifier(&old_column_name), identifier(&new_column_name));
                for (name, ..) in changes.scope.columns.iter_mut().filter(|(name, ..)| *name == from) {
                    name.clone_from(&to);
                }
                changes.made.push(Alteration::RenameColumn { from, to });
            }
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            } => changes.made.push(Alteration::Rename(object_name(&name)?)),
            AlterTableOperation::AlterColumn { column_name, op } => self.alter_column(&column_name, op, changes)?,
            AlterTableOperation::AddConstraint {
                constraint: constraint @ (TableConstraint::ForeignKey(_) | TableConstraint::Check(_)),
                ..
            } => {
                let mut extras = Extras::default();
                extras.take_from_constraints(&mut vec![constraint])?;
                changes.add_constraints(extras)?;
            }
            AlterTableOperation::DropConstraint { name, if_exists, .. } => {
                let name = identifier(&name);
                if !if_exists || changes.constraints.contains(&name) {
                    changes.constraints.retain(|known| *known != name);
                    changes.made.push(Alteration::DropConstraint(name));
                }
            }
            AlterTableOperation::SetOptionsParens { options } => {
                let options = TableOptions::read(&options)?;
                if options.partition_seconds.is_some() {
                    return Err(Error::invalid("the partition's width is chosen when a table is created"));
                }
                if options.merge.is_some() {
                    return Err(Error::invalid("how rows merge is chosen when a table is created"));
                }
                if let Some(seconds) = options.retention_seconds {
                    changes.made.push(Alteration::SetRetention(seconds));
                }
            }
            other => {
                let message = format!(
                    "ALTER TABLE ... {other} is not supported: there are ADD COLUMN, DROP COLUMN, RENAME COLUMN, \
                     RENAME TO, ALTER COLUMN ... TYPE, SET DEFAULT, DROP DEFAULT, SET NOT NULL and DROP NOT NULL, \
                     ADD CHECK and FOREIGN KEY, DROP CONSTRAINT, and SET (retention = ...)"
                );
                return Err(Error::new(Code::NotSupported, message));
            }
        }
        Ok(())
    }

    fn add_column(&self, mut column: ColumnDef, changes: &mut Changes) -> Result<()> {
        let mut extras = Extras::default();
        extras.take_from_column(&mut column)?;
        let name = identifier(&column.name);
        let mut nullable = extras.not_null.is_empty();
        for option in &column.options {
            match &option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => nullable = false,
                _ => {
                    let message = format!("column '{name}' cannot be added with {option}");
                    return Err(Error::new(Code::NotSupported, message));
                }
            }
        }
        let column_type = self.column_type(&column.data_type)?;
        let default = self.checked(&name, extras.default_of(&name), Some(column_type))?;
        check_starts_at_one(extras.first_number)?;
        changes.scope.columns.push((name.clone(), column_type, changes.next_column));
        changes.next_column.0 += 1;
        let definition = ColumnDefinition { name, column_type, nullable, default };
        changes.made.push(Alteration::AddColumn(definition, Role::Field));
        changes.add_constraints(extras)
    }

    fn alter_column(&self, column: &Ident, op: AlterColumnOperation, changes: &mut Changes) -> Result<()> {
        let name = identifier(column);
        changes.made.push(match op {
            AlterColumnOperation::SetDataType { data_type, using: None, .. } => {
                let to = self.column_type(&data_type)?;
                for (known, column_type, _) in &mut changes.scope.columns {
                    if *known == name {
                        *column_type = to;
                    }
                }
                Alteration::Widen(name, to)
            }
            AlterColumnOperation::SetNotNull => Alteration::SetNotNull(name),
            AlterColumnOperation::DropNotNull => Alteration::DropNotNull(name),
            AlterColumnOperation::DropDefault => Alteration::SetDefault(name, None),
            AlterColumnOperation::SetDefault { value } => {
                let default = self.checked(&name, default_value(&value), changes.type_of(&name))?;
                Alteration::SetDefault(name, default)
            }
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                check_starts_at_one(first_number(sequence_options.as_deref().unwrap_or_default())?)?;
                let always = matches!(generated_as, Some(GeneratedAs::Always));
                Alteration::SetDefault(name, Some(DefaultValue::Number { always }))
            }
            other @ AlterColumnOperation::SetDataType { .. } => {
                let message = format!("ALTER COLUMN {name} {other} is not supported: values are converted as they are");
                return Err(Error::new(Code::NotSupported, message));
            }
        });
        Ok(())
    }

    /// A default that fits its column.
    fn checked(
        &self,
        column: &str,
        default: Option<DefaultValue>,
        to: Option<ColumnType>,
    ) -> Result<Option<DefaultValue>> {
        match (default, to) {
            (Some(DefaultValue::Expression(text)), Some(column_type)) => {
                let text = self.checked_default(column, &text, column_type)?;
                Ok(Some(DefaultValue::Expression(text)))
            }
            (default, _) => Ok(default),
        }
    }

    /// The engine's type for a type in SQL.
    fn column_type(&self, data_type: &SqlType) -> Result<ColumnType> {
        let field = self.runtime.block_on(constant_type(&self.context, data_type)).map_err(engine_error)?;
        ColumnType::of_field(&field)
    }
}

/// Refuses START WITH, which only a new table takes.
fn check_starts_at_one(first: Option<i64>) -> Result<()> {
    match first {
        None | Some(1) => Ok(()),
        Some(_) => Err(Error::new(Code::NotSupported, "START WITH is for CREATE TABLE")),
    }
}

/// The changes of an ALTER TABLE so far.
struct Changes {
    made: Vec<Alteration>,
    foreign_keys: Vec<ForeignKeyDefinition>,
    /// The columns as they are after the changes.
    scope: CheckScope,
    /// The number of the next column to be added.
    next_column: ColumnId,
    /// The names of the constraints.
    constraints: Vec<String>,
}

impl Changes {
    fn of(schema: &TableSchema, zone: Zone) -> Self {
        let columns = schema.columns.iter().map(|column| (column.name.clone(), column.column_type, column.id));
        let checks = schema.checks.iter().map(|check| &check.name);
        Self {
            made: Vec::new(),
            foreign_keys: Vec::new(),
            scope: CheckScope { table: schema.name.clone(), columns: columns.collect(), zone },
            next_column: ColumnId(schema.next_column),
            constraints: checks.chain(schema.foreign_keys.iter().map(|key| &key.name)).cloned().collect(),
        }
    }

    fn has(&self, column: &str) -> bool {
        self.type_of(column).is_some()
    }

    fn type_of(&self, column: &str) -> Option<ColumnType> {
        self.scope.columns.iter().find(|(name, ..)| name == column).map(|(_, column_type, _)| *column_type)
    }

    fn add_constraints(&mut self, extras: Extras) -> Result<()> {
        self.made.extend(extras.checks_in(&self.scope)?.into_iter().map(Alteration::AddCheck));
        self.made.extend(extras.foreign_keys.iter().cloned().map(Alteration::AddForeignKey));
        self.foreign_keys.extend(extras.foreign_keys);
        Ok(())
    }
}
