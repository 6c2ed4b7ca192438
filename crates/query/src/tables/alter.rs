//! `ALTER TABLE`: adds, drops, renames and widens columns, renames tables, and sets retention.

use crate::answer::Answer;
use crate::statement::names::{identifier, object_name};
use crate::tables::ddl::constant_type;
use crate::tables::foreign_keys::{checked_foreign_key, columns_of};
use crate::tables::options::TableOptions;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnOption, ForeignKeyConstraint, RenameTableNameKind,
    TableConstraint,
};
use fleetdb_engine::{Code, ColumnDefinition, ColumnType, Database, Error, Result, Role};
use fleetdb_functions::errors::engine_error;

/// Runs an ALTER TABLE with a single change.
pub(crate) async fn alter_table(db: &Database, context: &SessionContext, alter: &AlterTable) -> Result<Answer> {
    let table = object_name(&alter.name)?;
    let done = || Ok(Answer::done("ALTER TABLE"));
    if alter.if_exists && db.tables().iter().all(|known| known.name != table) {
        return done();
    }
    let [change] = alter.operations.as_slice() else {
        return Err(Error::invalid("ALTER TABLE takes one change at a time, so that it is made or not made"));
    };
    let has = |column: &str| db.tables().iter().any(|known| known.name == table && known.find(column).is_some());
    match change {
        AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
            let name = identifier(&column_def.name);
            if *if_not_exists && has(&name) {
                return done();
            }
            let (mut keys, mut others) = (Vec::new(), Vec::new());
            for option in &column_def.options {
                match &option.option {
                    ColumnOption::Null => {}
                    ColumnOption::ForeignKey(key) => keys.push(key),
                    _ => others.push(option),
                }
            }
            if let Some(other) = others.first() {
                return Err(Error::new(
                    Code::NotNull,
                    format!(
                        "column '{name}' cannot be added with {other}: it is NULL in the rows there are, and has no default"
                    ),
                ));
            }
            let data_type = constant_type(context, &column_def.data_type).await.map_err(engine_error)?;
            let column_type = ColumnType::from_arrow(&data_type)?;
            let column = ColumnDefinition { name, column_type, nullable: true };
            let warning = match keys.first() {
                Some(key) => {
                    let key = ForeignKeyConstraint { columns: vec![column_def.name.clone()], ..(*key).clone() };
                    let columns = [columns_of(&*db.table(&table)?), vec![column.name.clone()]].concat();
                    Some(checked_foreign_key(&key, &table, &columns, db)?)
                }
                None => None,
            };
            db.add_column(&table, &column, Role::Field)?;
            return Ok(Answer::done("ALTER TABLE").warned(warning));
        }
        AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
            let [column] = column_names.as_slice() else {
                return Err(Error::invalid("ALTER TABLE ... DROP COLUMN takes one column at a time"));
            };
            let column = identifier(column);
            if !*if_exists || has(&column) {
                db.drop_column(&table, &column)?;
            }
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            db.rename_column(&table, &identifier(old_column_name), &identifier(new_column_name))?;
        }
        AlterTableOperation::RenameTable {
            table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
        } => {
            db.rename_table(&table, &object_name(name)?)?;
        }
        AlterTableOperation::AlterColumn {
            column_name,
            op: AlterColumnOperation::SetDataType { data_type, using: None, .. },
        } => {
            let data_type = constant_type(context, data_type).await.map_err(engine_error)?;
            db.widen_column(&table, &identifier(column_name), ColumnType::from_arrow(&data_type)?)?;
        }
        AlterTableOperation::AddConstraint { constraint: TableConstraint::ForeignKey(key), .. } => {
            let warning = checked_foreign_key(key, &table, &columns_of(&*db.table(&table)?), db)?;
            return Ok(Answer::done("ALTER TABLE").warned(Some(warning)));
        }
        AlterTableOperation::SetOptionsParens { options } => {
            let options = TableOptions::read(options)?;
            if options.partition_seconds.is_some() {
                return Err(Error::invalid("the partition's width is chosen when a table is created"));
            }
            if options.merge.is_some() {
                return Err(Error::invalid("how rows merge is chosen when a table is created"));
            }
            if let Some(seconds) = options.retention_seconds {
                db.set_retention(&table, seconds)?;
            }
        }
        other => {
            return Err(Error::new(
                Code::NotSupported,
                format!(
                    "ALTER TABLE ... {other} is not supported: there are ADD COLUMN, DROP COLUMN, RENAME COLUMN, RENAME TO, \
                 ALTER COLUMN ... TYPE and SET (retention = ...)"
                ),
            ));
        }
    }
    done()
}
