//! Schema changes of tables in use. Each is one manifest edit, durable before readers see it.
//!
//! Column ids are never reused, so renaming changes only the name. A segment keeps the type that a
//! column had when it was written; reads widen the values. A change that would alter how the log is
//! read (a dropped or widened column) first flushes all rows to segments while writers wait.

use crate::column_type::ColumnType;
use crate::db::Database;
use crate::error::{Code, Error, Result};
use crate::ids::ColumnId;
use crate::manifest::Edit;
use crate::schema::{Column, ColumnDefinition, MAX_COLUMNS, Role, TableSchema, check_name, check_retention};
use std::sync::Arc;

impl Database {
    /// Adds a column that is NULL in all existing rows; durable when this returns. With
    /// [`Role::Key`] the column joins the key behind its other columns, and is NULL in the keys of
    /// existing containers.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the table does not exist, or the name is taken or invalid.
    pub fn add_column(&self, table: &str, column: &ColumnDefinition, role: Role) -> Result<Arc<TableSchema>> {
        let _commit = self.shared.open_commit()?;
        let schema = Arc::clone(&self.shared.catalog.read().get(table)?.schema);
        check_name("column", &column.name)?;
        let refused = match role {
            _ if schema.find(&column.name).is_some() => Some((Code::DuplicateColumn, "the column already exists")),
            _ if schema.columns.len() >= MAX_COLUMNS => {
                Some((Code::LimitExceeded, "the table already has the maximum number of columns"))
            }
            _ if !column.nullable => Some((Code::NotNull, "it must be nullable, because the table may contain rows")),
            Role::Time => Some((Code::Invalid, "a time column cannot be added")),
            Role::Key if column.column_type.is_float() => Some((Code::Invalid, "a float cannot be part of a key")),
            _ => None,
        };
        if let Some((code, reason)) = refused {
            return Err(Error::new(
                code,
                format!("column '{}' cannot be added to table '{table}': {reason}", column.name),
            ));
        }
        let column = Column {
            id: ColumnId(schema.next_column),
            name: column.name.clone(),
            column_type: column.column_type,
            role,
            nullable: true,
        };
        self.change(&schema, &Edit::AddColumn { table: schema.id, column })
    }

    /// Renames a table; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist, or the name is
    /// taken or invalid.
    pub fn rename_table(&self, table: &str, name: &str) -> Result<Arc<TableSchema>> {
        let _commit = self.shared.open_commit()?;
        check_name("table", name)?;
        let catalog = self.shared.catalog.read();
        let schema = Arc::clone(&catalog.get(table)?.schema);
        if catalog.find(name).is_some() {
            return Err(Error::new(
                Code::DuplicateTable,
                format!("table '{table}' cannot be renamed: table '{name}' already exists"),
            ));
        }
        drop(catalog);
        self.change(&schema, &Edit::RenameTable { table: schema.id, name: name.to_owned() })
    }

    /// Renames a column; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table or column does not exist, or the
    /// name is taken or invalid.
    pub fn rename_column(&self, table: &str, column: &str, name: &str) -> Result<Arc<TableSchema>> {
        let _commit = self.shared.open_commit()?;
        check_name("column", name)?;
        let (schema, place) = self.find_column(table, column)?;
        if schema.find(name).is_some() {
            return Err(Error::new(
                Code::DuplicateColumn,
                format!("column '{name}' of table '{table}' already exists"),
            ));
        }
        self.change(
            &schema,
            &Edit::RenameColumn { table: schema.id, column: schema.columns[place].id, name: name.to_owned() },
        )
    }

    /// Drops a column and its values; durable when this returns. Writers wait while the memtables
    /// are flushed.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table or column does not exist, or the
    /// column is part of the key. If the flush fails, nothing changes.
    pub fn drop_column(&self, table: &str, column: &str) -> Result<Arc<TableSchema>> {
        let mut commit = self.shared.open_commit()?;
        let (schema, place) = self.find_column(table, column)?;
        if schema.columns[place].role != Role::Field {
            return Err(Error::new(
                Code::InvalidDefinition,
                format!("column '{column}' is part of the key of table '{table}' and cannot be dropped"),
            ));
        }
        self.shared.flush_within(&mut commit)?;
        self.change(&schema, &Edit::DropColumn { table: schema.id, column: schema.columns[place].id })
    }

    /// Changes a column to a wider type ([`ColumnType::widens_to`]), or adds or removes the zone of
    /// a time column, even in the key; durable when this returns. Stored values are widened on
    /// read. Writers wait while the memtables are flushed.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table or column does not exist, or the
    /// column cannot change to this type. If the flush fails, nothing changes.
    pub fn widen_column(&self, table: &str, column: &str, column_type: ColumnType) -> Result<Arc<TableSchema>> {
        let mut commit = self.shared.open_commit()?;
        let (schema, place) = self.find_column(table, column)?;
        let now = &schema.columns[place];
        if !now.may_become(column_type) {
            return Err(Error::new(
                Code::CannotCast,
                format!(
                    "column '{column}' of table '{table}' cannot be changed to {}: outside the key, integers can \
                     widen to larger integers and to floats, and real to double precision; timestamps can gain or \
                     lose a time zone",
                    column_type.sql_name()
                ),
            ));
        }
        self.shared.flush_within(&mut commit)?;
        self.change(&schema, &Edit::WidenColumn { table: schema.id, column: now.id, column_type })
    }

    /// Sets the maximum age of a table's rows, in seconds by the engine's clock; `None` keeps all.
    /// Older rows disappear from reads at once and from disk soon. A longer retention brings back
    /// rows that are still on disk.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist or is a
    /// collection, or the age is not positive.
    pub fn set_retention(&self, table: &str, seconds: Option<i64>) -> Result<Arc<TableSchema>> {
        let _commit = self.shared.open_commit()?;
        let schema = Arc::clone(&self.shared.catalog.read().get(table)?.schema);
        check_retention(&schema, seconds)?;
        let changed = self.change(&schema, &Edit::SetRetention { table: schema.id, seconds })?;
        self.shared.queue.lock().changed = true;
        self.shared.wake.notify_all();
        Ok(changed)
    }

    /// A table, and the index of one of its columns.
    fn find_column(&self, table: &str, column: &str) -> Result<(Arc<TableSchema>, usize)> {
        let schema = Arc::clone(&self.shared.catalog.read().get(table)?.schema);
        let place = schema.column_index(column)?;
        Ok((schema, place))
    }

    /// Makes an edit durable, then publishes the changed table. The caller holds the commit lock.
    fn change(&self, schema: &TableSchema, edit: &Edit) -> Result<Arc<TableSchema>> {
        let mut manifest = self.shared.manifest.lock();
        self.shared.change_schema(&mut manifest, edit)?;
        let changed = Arc::new(manifest.state().tables[&schema.id].clone());
        self.shared.catalog.write().change(&changed);
        Ok(changed)
    }
}
