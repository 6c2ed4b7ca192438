//! What a caller hands over: a [`Batch`] of record batches, or [`Rows`] that become one.

use crate::error::{Error, Result};
use crate::schema::{ColumnType, TableSchema};
use arrow::array::{ArrayRef, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, RecordBatch, StringBuilder};
use arrow::datatypes::{self as types, ArrowPrimitiveType, DataType};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Rows for one or more tables that are written together or not at all.
///
/// The columns of a record batch are matched to the table's by name; a missing column is NULL. A
/// row whose primary key exists already replaces the older row; of two rows with one key in the
/// same batch the later one wins.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) parts: Vec<(String, RecordBatch)>,
    pub(crate) deletes: Vec<DeleteRequest>,
}

/// Which rows of a table a batch deletes.
#[derive(Clone, Debug)]
pub(crate) struct DeleteRequest {
    pub(crate) table: String,
    pub(crate) key: Option<Vec<Value>>,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Batch {
    /// A batch without rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds rows for a table.
    #[must_use]
    pub fn with(mut self, table: &str, rows: RecordBatch) -> Self {
        self.parts.push((table.to_owned(), rows));
        self
    }

    /// Deletes rows of a table: those of the container with this key (its key columns' values, in key order), or of all;
    /// with a time from `from` to `to`, both included. What a batch deletes are rows from before it: the rows it
    /// writes itself stay.
    ///
    /// ```
    /// use fleetdb_engine::{Batch, ColumnType, Database, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
    /// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// let seven = db.container("t", &[Value::Int(7)]).unwrap();
    /// seven.append(100, &[]).unwrap();
    /// seven.append(200, &[]).unwrap();
    /// db.commit(Batch::new().delete("t", Some(&[Value::Int(7)]), ..150)).unwrap();
    /// assert_eq!(db.view().table("t").unwrap().count().unwrap(), 1);
    /// ```
    #[must_use]
    pub fn delete(mut self, table: &str, key: Option<&[Value]>, times: impl RangeBounds<i64>) -> Self {
        let from = match times.start_bound() {
            Bound::Included(from) => Some(*from),
            Bound::Excluded(from) => from.checked_add(1),
            Bound::Unbounded => Some(i64::MIN),
        };
        let to = match times.end_bound() {
            Bound::Included(to) => Some(*to),
            Bound::Excluded(to) => to.checked_sub(1),
            Bound::Unbounded => Some(i64::MAX),
        };
        if let (Some(from), Some(to)) = (from, to)
            && from <= to
        {
            self.deletes.push(DeleteRequest { table: table.to_owned(), key: key.map(<[Value]>::to_vec), from, to });
        }
        self
    }

    /// Adds another batch's rows and deletes behind this one's.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.deletes.extend(other.deletes);
        self
    }

    /// How many rows the batch has, over all its tables.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(|(_, rows)| rows.num_rows()).sum()
    }

    /// Whether it neither writes nor deletes anything.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0 && self.deletes.is_empty()
    }
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// For a boolean column.
    Boolean(bool),
    /// For an integer, date (days) or timestamp (count of the column's unit) column.
    Int(i64),
    /// For an unsigned integer column.
    UInt(u64),
    /// For a float column.
    Float(f64),
    /// For a text column.
    Text(String),
    /// For a binary column.
    Binary(Vec<u8>),
}

impl Value {
    /// A raw value of a column that holds no bytes.
    pub(crate) fn of_raw(raw: u64, column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean => Self::Boolean(raw != 0),
            ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => Self::UInt(raw),
            ColumnType::Float32 => Self::Float(f64::from(f32::from_bits(raw as u32))),
            ColumnType::Float64 => Self::Float(f64::from_bits(raw)),
            _ => Self::Int(raw as i64),
        }
    }

    /// A value of a column that holds text or bytes.
    pub(crate) fn of_bytes(bytes: &[u8], column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Binary => Self::Binary(bytes.to_vec()),
            _ => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// Rows of one table, gathered value by value.
///
/// ```
/// use fleetdb_engine::{ColumnType, Database, Rows, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
/// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
/// let schema = db.create_table(&table).unwrap();
/// let mut rows = Rows::new(&schema);
/// rows.push(&[Value::Int(1), Value::Int(1_700_000_000)]).unwrap();
/// assert_eq!(rows.finish().unwrap().num_rows(), 1);
/// ```
pub struct Rows {
    schema: Arc<TableSchema>,
    columns: Vec<Vec<Value>>,
}

impl Rows {
    /// No rows yet, for a table of this schema.
    pub fn new(schema: &Arc<TableSchema>) -> Self {
        Self { schema: Arc::clone(schema), columns: vec![Vec::new(); schema.columns.len()] }
    }

    /// Adds a row: one value for each column, in the table's order.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the number of values is not the number of columns.
    pub fn push(&mut self, row: &[Value]) -> Result<()> {
        if row.len() != self.columns.len() {
            return Err(Error::input(format!(
                "a row of {} values for table '{}' of {} columns",
                row.len(),
                self.schema.name,
                self.columns.len()
            )));
        }
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(value.clone());
        }
        Ok(())
    }

    /// The rows as a record batch.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) that names the column and row of a value that does not fit.
    pub fn finish(self) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (column, values) in self.schema.columns.iter().zip(&self.columns) {
            let array = array_of(column.column_type, values)
                .map_err(|e| e.context(format_args!("column '{}'", column.name)))?;
            arrays.push(array);
        }
        // Nullability is checked at admission, with a better message than Arrow's.
        let fields =
            self.schema.to_arrow().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
        Ok(RecordBatch::try_new(Arc::new(types::Schema::new(fields)), arrays)?)
    }
}

/// Values as an Arrow array of a column's type.
pub(crate) fn array_of(column_type: ColumnType, values: &[Value]) -> Result<ArrayRef> {
    Ok(match column_type.to_arrow() {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(values.len());
            for (row, value) in values.iter().enumerate() {
                builder.append_option(match value {
                    Value::Null => None,
                    Value::Boolean(value) => Some(*value),
                    other => return Err(misfit(row, other, column_type)),
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            for (row, value) in values.iter().enumerate() {
                builder.append_option(match value {
                    Value::Null => None,
                    Value::Text(value) => Some(value),
                    other => return Err(misfit(row, other, column_type)),
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Binary => {
            let mut builder = BinaryBuilder::new();
            for (row, value) in values.iter().enumerate() {
                builder.append_option(match value {
                    Value::Null => None,
                    Value::Binary(value) => Some(value),
                    other => return Err(misfit(row, other, column_type)),
                });
            }
            Arc::new(builder.finish())
        }
        DataType::Int8 => integers::<types::Int8Type>(column_type, values)?,
        DataType::Int16 => integers::<types::Int16Type>(column_type, values)?,
        DataType::Int32 => integers::<types::Int32Type>(column_type, values)?,
        DataType::Int64 => integers::<types::Int64Type>(column_type, values)?,
        DataType::UInt8 => integers::<types::UInt8Type>(column_type, values)?,
        DataType::UInt16 => integers::<types::UInt16Type>(column_type, values)?,
        DataType::UInt32 => integers::<types::UInt32Type>(column_type, values)?,
        DataType::UInt64 => integers::<types::UInt64Type>(column_type, values)?,
        DataType::Date32 => integers::<types::Date32Type>(column_type, values)?,
        DataType::Timestamp(types::TimeUnit::Second, _) => integers::<types::TimestampSecondType>(column_type, values)?,
        DataType::Timestamp(types::TimeUnit::Millisecond, _) => {
            integers::<types::TimestampMillisecondType>(column_type, values)?
        }
        DataType::Timestamp(types::TimeUnit::Microsecond, _) => {
            integers::<types::TimestampMicrosecondType>(column_type, values)?
        }
        DataType::Timestamp(types::TimeUnit::Nanosecond, _) => {
            integers::<types::TimestampNanosecondType>(column_type, values)?
        }
        DataType::Float32 => floats::<types::Float32Type>(column_type, values, |v| v as f32)?,
        DataType::Float64 => floats::<types::Float64Type>(column_type, values, |v| v)?,
        other => return Err(Error::bug(format!("no rows of Arrow type {other}"))),
    })
}

fn integers<T: ArrowPrimitiveType>(column_type: ColumnType, values: &[Value]) -> Result<ArrayRef>
where
    T::Native: TryFrom<i64> + TryFrom<u64>,
{
    let mut builder = PrimitiveBuilder::<T>::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        let native = match value {
            Value::Null => {
                builder.append_null();
                continue;
            }
            Value::Int(value) => T::Native::try_from(*value).ok(),
            Value::UInt(value) => T::Native::try_from(*value).ok(),
            _ => None,
        };
        builder.append_value(native.ok_or_else(|| misfit(row, value, column_type))?);
    }
    Ok(Arc::new(builder.finish()))
}

fn floats<T: ArrowPrimitiveType>(
    column_type: ColumnType,
    values: &[Value],
    convert: impl Fn(f64) -> T::Native,
) -> Result<ArrayRef> {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        match value {
            Value::Null => builder.append_null(),
            Value::Float(value) => builder.append_value(convert(*value)),
            Value::Int(value) => builder.append_value(convert(*value as f64)),
            Value::UInt(value) => builder.append_value(convert(*value as f64)),
            other => return Err(misfit(row, other, column_type)),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn misfit(row: usize, value: &Value, column_type: ColumnType) -> Error {
    Error::input(format!("row {row}: {value:?} does not fit a column of type {column_type}"))
}
