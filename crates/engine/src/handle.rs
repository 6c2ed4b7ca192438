//! A handle to one container of an open database, for appending rows and reading the current ones.

use crate::commit::Acknowledged;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::scan::container::Aggregate;
use crate::scan::rows::Scan;
use crate::scan::{Projection, TableView};
use crate::schema::TableSchema;
use crate::write::batch::{Batch, Rows};
use crate::write::value::Value;
use arrow::array::RecordBatch;
use std::sync::Arc;

/// A handle to one container, the series of one device. Each call sees the database as it is at
/// that moment. For several reads at one moment, use a [`View`](crate::View) and
/// [`TableView::container`].
///
/// ```
/// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let reads = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second);
/// db.create_table(&reads.field("kwh", ColumnType::Float64)).unwrap();
/// let meter = db.container("reads", &[Value::Int(7)]).unwrap();
/// meter.append(0, &[("kwh", Value::Float(0.5))]).unwrap();
/// meter.append(3600, &[("kwh", Value::Float(1.5))]).unwrap();
/// assert_eq!(meter.aggregate("kwh", 0, 3600).unwrap().avg(), Some(1.0));
/// assert_eq!(meter.last().unwrap().unwrap().num_rows(), 1);
/// ```
pub struct ContainerHandle<'a> {
    db: &'a Database,
    schema: Arc<TableSchema>,
    key: Vec<Value>,
}

impl Database {
    /// A handle to the container of `table` with this key. The container may have no rows yet.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the table does not exist or the key does
    /// not fit it.
    pub fn container(&self, table: &str, key: &[Value]) -> Result<ContainerHandle<'_>> {
        let view = self.view();
        let table = view.table(table)?;
        table.container(key)?;
        Ok(ContainerHandle { db: self, schema: Arc::clone(table.schema()), key: key.to_vec() })
    }
}

impl ContainerHandle<'_> {
    /// Writes a row at `time` with the database's default durability. Fields that are not named are
    /// NULL. An existing row at this time is replaced.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if a field does not fit; otherwise as
    /// [`Database::commit`].
    pub fn append(&self, time: i64, fields: &[(&str, Value)]) -> Result<Acknowledged> {
        let schema = &self.schema;
        let Some(place) = schema.time else {
            return Err(Error::invalid(format!(
                "cannot append to table '{}': it is a collection and has no time column",
                schema.name
            )));
        };
        let mut row = vec![Value::Null; schema.columns.len()];
        for (&place, value) in schema.key.iter().zip(&self.key) {
            row[place] = value.clone();
        }
        row[place] = Value::Int(time);
        for (name, value) in fields {
            let column = schema.column_index(name)?;
            if column == place || schema.key.contains(&column) {
                return Err(Error::invalid(format!("column '{name}' is part of the key and cannot be set as a field")));
            }
            row[column] = value.clone();
        }
        let mut rows = Rows::new(schema);
        rows.push(&row)?;
        self.db.commit(Batch::new().with_rows(rows))
    }

    /// The table as it is now. If it was dropped and created again, finds it by name.
    fn table(&self) -> Result<TableView> {
        let view = self.db.view_of(&[self.schema.id]);
        view.table(&self.schema.name).cloned().or_else(|_| self.db.view().table(&self.schema.name).cloned())
    }

    /// As [`Container::range`](crate::Container::range), on the current rows.
    ///
    /// # Errors
    /// As that method.
    pub fn range(&self, from: i64, to: i64, projection: Projection) -> Result<Scan> {
        self.table()?.container(&self.key)?.range(from, to, projection)
    }

    /// As [`Container::last`](crate::Container::last), on the current rows.
    ///
    /// # Errors
    /// As that method.
    pub fn last(&self) -> Result<Option<RecordBatch>> {
        self.table()?.container(&self.key)?.last()
    }

    /// As [`Container::last_row`](crate::Container::last_row), on the current rows.
    ///
    /// # Errors
    /// As that method.
    pub fn last_row(&self) -> Result<Option<Vec<Value>>> {
        self.table()?.container(&self.key)?.last_row()
    }

    /// As [`Container::aggregate`](crate::Container::aggregate), on the current rows.
    ///
    /// # Errors
    /// As that method.
    pub fn aggregate(&self, column: &str, from: i64, to: i64) -> Result<Aggregate> {
        self.table()?.container(&self.key)?.aggregate(column, from, to)
    }
}
