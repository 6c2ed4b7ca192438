//! Schema changes of tables in use. Each is one manifest edit, durable before readers see it.
//!
//! Column ids are never reused, so renaming changes only the name. A segment keeps the type that a
//! column had when it was written; reads widen the values. A change that would alter how the log is
//! read (a dropped or widened column) first flushes all rows to segments while writers wait. A new
//! condition on the rows is checked against those that the table has.

use crate::check::Check;
use crate::column_type::ColumnType;
use crate::constraints::{CheckDefinition, DefaultValue, ForeignKeyDefinition, no_table};
use crate::db::Database;
use crate::error::{Code, Error, Result};
use crate::ids::ColumnId;
use crate::manifest::{Edit, State};
use crate::scan::{Projection, ScanRequest, TableView, View};
use crate::schema::{
    Column, ColumnDefinition, MAX_COLUMNS, Role, TableSchema, check_name, check_numbered, check_retention,
};
use crate::write::admit::violated;
use arrow::array::Array;
use std::sync::Arc;

/// A change of a table; see [`Database::alter`].
#[derive(Clone, Debug)]
pub enum Alteration {
    /// Adds a column; see [`Database::add_column`].
    AddColumn(ColumnDefinition, Role),
    /// Drops a column; see [`Database::drop_column`].
    DropColumn(String),
    /// Renames a column.
    RenameColumn {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// Renames the table.
    Rename(String),
    /// Widens a column; see [`Database::widen_column`].
    Widen(String, ColumnType),
    /// Sets the maximum age of rows; see [`Database::set_retention`].
    SetRetention(Option<i64>),
    /// Sets the value of a column in later rows that do not give one; `None` for NULL.
    SetDefault(String, Option<DefaultValue>),
    /// Refuses NULL in a column. It must have none.
    SetNotNull(String),
    /// Allows NULL in a column outside of the primary key.
    DropNotNull(String),
    /// Adds a condition, which all rows must meet.
    AddCheck(CheckDefinition),
    /// Adds a reference to another table.
    AddForeignKey(ForeignKeyDefinition),
    /// Drops a check or a foreign key by name.
    DropConstraint(String),
}

impl Database {
    /// Changes a table. Either all changes are made, durable when this returns, or none. Writers wait
    /// meanwhile: for a new condition all rows of the table are read.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{Alteration, ColumnType, Database, Settings, TableDefinition};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let meters = TableDefinition::new("meters").key("id", ColumnType::Int64).field("site", ColumnType::Utf8);
    /// db.create_table(&meters).unwrap();
    /// let changes = [
    ///     Alteration::RenameColumn { from: "site".into(), to: "place".into() },
    ///     Alteration::SetNotNull("place".into()),
    /// ];
    /// assert!(!db.alter("meters", &changes).unwrap().columns[1].nullable);
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist or a change is not
    /// possible.
    pub fn alter(&self, table: &str, changes: &[Alteration]) -> Result<Arc<TableSchema>> {
        let mut commit = self.shared.open_commit()?;
        let before = Arc::clone(&self.shared.catalog.read().get(table)?.schema);
        let mut planned = Planned::new(self.shared.manifest.lock().state(), &before, self.shared.view());
        for change in changes {
            planned.add(change)?;
        }
        if planned.changes_rows {
            self.shared.flush_within(&mut commit)?;
        }
        let changes_retention = changes.iter().any(|change| matches!(change, Alteration::SetRetention(_)));
        let edit = match planned.edits.len() {
            0 => {
                drop(commit);
                // It may be there, but not shared yet.
                self.shared.wait_until_defined()?;
                return Ok(before);
            }
            1 => planned.edits.remove(0),
            _ => Edit::Several { edits: planned.edits },
        };
        let changed = self.change(&before, &edit, planned.changes_rows)?;
        if changes_retention {
            self.shared.queue.lock().changed = true;
            self.shared.wake.notify_all();
        }
        drop(commit);
        self.shared.wait_until_defined()?;
        Ok(changed)
    }

    /// Adds a column; durable when this returns. It is NULL in all existing rows. With [`Role::Key`] it
    /// joins the key behind its other columns, and is NULL in the keys of existing containers.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist, or the name is taken or
    /// invalid. A table with rows gets no column that must not be NULL or that has a default, because its
    /// rows would lack the value.
    pub fn add_column(&self, table: &str, column: &ColumnDefinition, role: Role) -> Result<Arc<TableSchema>> {
        self.alter(table, &[Alteration::AddColumn(column.clone(), role)])
    }

    /// Renames a table; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist, or the name is
    /// taken or invalid.
    pub fn rename_table(&self, table: &str, name: &str) -> Result<Arc<TableSchema>> {
        self.alter(table, &[Alteration::Rename(name.to_owned())])
    }

    /// Renames a column; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table or column does not exist, or the
    /// name is taken or invalid.
    pub fn rename_column(&self, table: &str, column: &str, name: &str) -> Result<Arc<TableSchema>> {
        self.alter(table, &[Alteration::RenameColumn { from: column.to_owned(), to: name.to_owned() }])
    }

    /// Drops a column and its values; durable when this returns. Writers wait while the memtables
    /// are flushed. Checks and foreign keys that name it are dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table or column does not exist, or the
    /// column is part of the key. If the flush fails, nothing changes.
    pub fn drop_column(&self, table: &str, column: &str) -> Result<Arc<TableSchema>> {
        self.alter(table, &[Alteration::DropColumn(column.to_owned())])
    }

    /// Changes a column to a wider type ([`ColumnType::widens_to`]), or adds or removes the zone of
    /// a time column, even in the key; durable when this returns. Stored values are widened on
    /// read. Writers wait while the memtables are flushed.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table or column does not exist, or the
    /// column cannot change to this type. If the flush fails, nothing changes.
    pub fn widen_column(&self, table: &str, column: &str, column_type: ColumnType) -> Result<Arc<TableSchema>> {
        self.alter(table, &[Alteration::Widen(column.to_owned(), column_type)])
    }

    /// Sets the maximum age of a table's rows, in seconds by the engine's clock; `None` keeps all.
    /// Older rows disappear from reads at once and from disk soon. A longer retention brings back
    /// rows that are still on disk.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist or is a
    /// collection, or the age is not positive.
    pub fn set_retention(&self, table: &str, seconds: Option<i64>) -> Result<Arc<TableSchema>> {
        self.alter(table, &[Alteration::SetRetention(seconds)])
    }

    /// Makes an edit durable, then publishes the changed table. The caller holds the commit lock.
    fn change(&self, schema: &TableSchema, edit: &Edit, changes_rows: bool) -> Result<Arc<TableSchema>> {
        let mut manifest = self.shared.manifest.lock();
        self.shared.change_schema(&mut manifest, edit)?;
        if changes_rows {
            manifest.note_rewrite();
            self.shared.ask_definitions(&manifest);
        }
        let changed = Arc::new(manifest.state().tables[&schema.id].clone());
        self.shared.catalog.write().change(&changed);
        Ok(changed)
    }
}

/// The edits of an ALTER, and the tables as they leave them.
struct Planned {
    before: Arc<TableSchema>,
    state: State,
    view: View,
    edits: Vec<Edit>,
    /// Whether the log would be read differently afterwards.
    changes_rows: bool,
}

impl Planned {
    fn new(state: &State, before: &Arc<TableSchema>, view: View) -> Self {
        let (tables, stored_queries) = (state.tables.clone(), state.stored_queries.clone());
        let state = State { tables, stored_queries, next_table: state.next_table, ..State::default() };
        Self { before: Arc::clone(before), state, view, edits: Vec::new(), changes_rows: false }
    }

    /// The table as it is after the changes so far.
    fn schema(&self) -> &TableSchema {
        &self.state.tables[&self.before.id]
    }

    /// A column's index, by name.
    fn find(&self, column: &str) -> Result<&Column> {
        let schema = self.schema();
        Ok(&schema.columns[schema.column_index(column)?])
    }

    fn add(&mut self, change: &Alteration) -> Result<()> {
        let edit = self.edit_of(change)?;
        self.state = self.state.apply(&edit)?;
        self.edits.push(edit);
        check_numbered(&self.schema().name, &self.schema().columns)
    }

    fn edit_of(&mut self, change: &Alteration) -> Result<Edit> {
        let table = self.before.id;
        Ok(match change {
            Alteration::AddColumn(column, role) => Edit::AddColumn { table, column: self.new_column(column, *role)? },
            Alteration::DropColumn(name) => {
                let column = self.find(name)?;
                if column.role != Role::Field {
                    let reason = format!("column '{name}' is part of the key of table '{}'", self.schema().name);
                    return Err(Error::new(Code::InvalidDefinition, format!("{reason} and cannot be dropped")));
                }
                let column = column.id;
                self.changes_rows = true;
                Edit::DropColumn { table, column }
            }
            Alteration::RenameColumn { from, to } => {
                check_name("column", to)?;
                let column = self.find(from)?.id;
                if self.schema().find(to).is_some() {
                    let message = format!("column '{to}' of table '{}' already exists", self.schema().name);
                    return Err(Error::new(Code::DuplicateColumn, message));
                }
                Edit::RenameColumn { table, column, name: to.clone() }
            }
            Alteration::Rename(name) => {
                check_name("table", name)?;
                if let Some(what) = self.state.named(name) {
                    let message =
                        format!("table '{}' cannot be renamed: {what} '{name}' already exists", self.schema().name);
                    return Err(Error::new(Code::DuplicateTable, message));
                }
                Edit::RenameTable { table, name: name.clone() }
            }
            Alteration::Widen(name, column_type) => {
                let column = self.find(name)?;
                if !column.may_become(*column_type) {
                    return Err(Error::new(
                        Code::CannotCast,
                        format!(
                            "column '{name}' of table '{}' cannot be changed to {}: outside the key, integers can \
                             widen to larger integers and to floats, and real to double precision; timestamps can \
                             gain or lose a time zone",
                            self.schema().name,
                            column_type.sql_name()
                        ),
                    ));
                }
                let column = column.id;
                self.changes_rows = true;
                Edit::WidenColumn { table, column, column_type: *column_type }
            }
            Alteration::SetRetention(seconds) => {
                check_retention(self.schema(), *seconds)?;
                Edit::SetRetention { table, seconds: *seconds }
            }
            Alteration::SetDefault(name, default) => {
                Edit::SetDefault { table, column: self.find(name)?.id, default: default.clone() }
            }
            Alteration::SetNotNull(name) => {
                let column = self.find(name)?.clone();
                self.check_has_no_null(&column)?;
                Edit::SetNullable { table, column: column.id, nullable: false }
            }
            Alteration::DropNotNull(name) => {
                let column = self.find(name)?;
                if column.role != Role::Field {
                    let message = format!("column \"{name}\" is in a primary key");
                    return Err(Error::new(Code::InvalidDefinition, message));
                }
                Edit::SetNullable { table, column: column.id, nullable: true }
            }
            Alteration::AddCheck(definition) => {
                let check = self.schema().check_of(definition)?;
                self.check_rows(&check)?;
                self.constraints(|schema| schema.checks.push(check))
            }
            Alteration::AddForeignKey(definition) => {
                let (tables, name) = (&self.state.tables, &definition.table);
                let other = tables.values().find(|other| other.name == *name);
                let names = || tables.values().map(|table| &table.name);
                let other = other.ok_or_else(|| no_table(name, &self.state.stored_queries, names()))?;
                let key = self.schema().foreign_key_of(definition, other)?;
                self.constraints(|schema| schema.foreign_keys.push(key))
            }
            Alteration::DropConstraint(name) => {
                if !self.schema().has_constraint(name) {
                    let message =
                        format!("constraint \"{name}\" of relation \"{}\" does not exist", self.schema().name);
                    return Err(Error::new(Code::UndefinedObject, message));
                }
                self.constraints(|schema| {
                    schema.checks.retain(|check| check.name != *name);
                    schema.foreign_keys.retain(|key| key.name != *name);
                })
            }
        })
    }

    /// The table's rows, with those that its retention hides: a longer one would show them again.
    fn rows(&self) -> Result<TableView> {
        Ok(TableView { expired: None, ..self.view.table(&self.before.name)?.clone() })
    }

    /// The edit for changed constraints.
    fn constraints(&self, change: impl FnOnce(&mut TableSchema)) -> Edit {
        let mut schema = self.schema().clone();
        change(&mut schema);
        Edit::SetConstraints { table: schema.id, checks: schema.checks, foreign_keys: schema.foreign_keys }
    }

    fn new_column(&self, column: &ColumnDefinition, role: Role) -> Result<Column> {
        let schema = self.schema();
        check_name("column", &column.name)?;
        let has_rows = || Ok::<_, Error>(self.rows()?.count()? > 0);
        let refused = match role {
            _ if schema.find(&column.name).is_some() => Some((Code::DuplicateColumn, "the column already exists")),
            _ if schema.columns.len() >= MAX_COLUMNS => {
                Some((Code::LimitExceeded, "the table already has the maximum number of columns"))
            }
            Role::Time => Some((Code::Invalid, "a time column cannot be added")),
            Role::Key if column.column_type.is_float() => Some((Code::Invalid, "a float cannot be part of a key")),
            Role::Key if !column.nullable => {
                Some((Code::NotNull, "it must be nullable, because the table may contain rows"))
            }
            _ if !column.nullable && has_rows()? => {
                Some((Code::NotNull, "it must be nullable, because the table contains rows"))
            }
            _ if column.default.is_some() && has_rows()? => Some((
                Code::NotSupported,
                "the rows that the table contains would need the default; add the column without it, set the \
                 default for later rows, and UPDATE the others",
            )),
            _ => None,
        };
        if let Some((code, reason)) = refused {
            let message = format!("column '{}' cannot be added to table '{}': {reason}", column.name, schema.name);
            return Err(Error::new(code, message));
        }
        Ok(Column {
            id: ColumnId(schema.next_column),
            name: column.name.clone(),
            column_type: column.column_type,
            role,
            nullable: column.nullable,
            default: column.default.clone(),
        })
    }

    /// Refuses NULL that a column has already.
    fn check_has_no_null(&self, column: &Column) -> Result<()> {
        let rows = self.rows()?;
        let place = self.before.columns.iter().position(|before| before.id == column.id);
        let has_null = match place {
            // Added by the same ALTER.
            None => rows.count()? > 0,
            Some(place) => {
                let request = ScanRequest { projection: Projection::Places(vec![place]), ..ScanRequest::all() };
                let mut has_null = false;
                for batch in rows.scan(&request)? {
                    has_null |= batch?.column(0).logical_null_count() > 0;
                    if has_null {
                        break;
                    }
                }
                has_null
            }
        };
        match has_null {
            true => {
                let message =
                    format!("column \"{}\" of relation \"{}\" contains null values", column.name, self.schema().name);
                Err(Error::new(Code::NotNull, message))
            }
            false => Ok(()),
        }
    }

    /// Refuses a condition that a row does not meet.
    fn check_rows(&self, check: &Check) -> Result<()> {
        for batch in self.rows()?.scan(&ScanRequest::all())? {
            if violated(&self.before, check, &batch?)?.is_some() {
                let message = format!(
                    "check constraint \"{}\" of relation \"{}\" is violated by some row",
                    check.name,
                    self.schema().name
                );
                return Err(Error::new(Code::Check, message));
            }
        }
        Ok(())
    }
}
