//! What a caller submits: a [`Batch`] of record batches and of [`Rows`] gathered one by one.

use crate::column::ColumnBuilder;
use crate::column_type::ColumnType;
use crate::decimal::Decimal;
use crate::error::{Code, Error, Result};
use crate::key::{KeyPart, KeyValue};
use crate::schema::{Column, TableSchema};
use crate::settings::Durability;
use arrow::array::RecordBatch;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use uuid::Uuid;

/// Maximum size of a batch in memory. Encoded as a log frame, it stays below the maximum frame
/// size.
pub const MAX_BATCH_BYTES: usize = 256 << 20;

/// Maximum number of rows of one table in a batch.
pub const MAX_BATCH_ROWS: usize = 1 << 20;

/// Up to this many rows are copied to other rows of their table instead of kept as a separate part.
const FEW_ROWS: usize = 1024;

/// How many parts, from the last one backwards, are searched for rows of the same table.
const NEAR_PARTS: usize = 16;

/// Rows for one or more tables, written atomically.
///
/// Record batch columns are matched to table columns by name; a missing column is NULL. A row
/// replaces an existing row with the same primary key. If a batch has several rows with one key,
/// the last one wins. In a table that [merges fields](crate::Merge::Fields), a field that is NULL
/// in the newer row keeps the older row's value.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) parts: Vec<Part>,
    pub(crate) deletes: Vec<DeleteRequest>,
    /// Memory of the rows and deletes.
    bytes: usize,
    /// The requested durability; `None` for the database's default.
    pub(crate) durability: Option<Durability>,
}

/// Rows for one table.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Arrow(String, RecordBatch),
    Rows(Rows),
}

impl Part {
    pub(crate) fn table(&self) -> &str {
        match self {
            Self::Arrow(table, _) => table,
            Self::Rows(rows) => &rows.schema.name,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Self::Arrow(_, rows) => rows.num_rows(),
            Self::Rows(rows) => rows.rows,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Arrow(_, rows) => rows.get_array_memory_size(),
            Self::Rows(rows) => rows.bytes(),
        }
    }
}

/// The rows of a table that a batch deletes.
#[derive(Clone, Debug)]
pub(crate) struct DeleteRequest {
    pub(crate) table: String,
    pub(crate) key: Option<Vec<Value>>,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl DeleteRequest {
    /// Bytes of memory.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.table.len() + self.key.iter().flatten().map(Value::bytes).sum::<usize>()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds rows for a table.
    #[must_use]
    pub fn with(mut self, table: &str, rows: RecordBatch) -> Self {
        self.push_part(Part::Arrow(table.to_owned(), rows));
        self
    }

    /// Requests a durability other than the database's default
    /// ([`Settings::durability`](crate::Settings)).
    ///
    /// ```
    /// use fleetdb_engine::{Batch, Database, Durability, Settings, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let acknowledged = db.commit(Batch::new().with_durability(Durability::Os)).unwrap();
    /// assert_eq!(acknowledged.durability, Durability::Os);
    /// ```
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Adds rows gathered one by one.
    #[must_use]
    pub fn with_rows(mut self, rows: Rows) -> Self {
        self.push_part(Part::Rows(rows));
        self
    }

    /// Deletes rows of a table with a time in `times`: of the container with this key (its key
    /// columns' values, in key order), or of all containers. A batch deletes only rows written
    /// before it; its own rows stay.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{Batch, ColumnType, Database, Settings, TableDefinition, Unit, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
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
            let delete = DeleteRequest { table: table.to_owned(), key: key.map(<[Value]>::to_vec), from, to };
            self.bytes += delete.bytes();
            self.deletes.push(delete);
        }
        self
    }

    /// Appends another batch's rows and deletes.
    #[must_use]
    pub fn append(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self.deletes.extend(other.deletes);
        self.bytes += other.bytes;
        self
    }

    /// As [`append`](Self::append), but appends small sets of rows to earlier rows of the same
    /// table, and errors use their row numbers there. For many small batches, whose overhead would
    /// otherwise exceed their values.
    pub fn coalesce(&mut self, other: Self) {
        if self.parts.is_empty() && self.deletes.is_empty() {
            *self = other;
            return;
        }
        self.bytes += other.deletes.iter().map(DeleteRequest::bytes).sum::<usize>();
        self.deletes.extend(other.deletes);
        for part in other.parts {
            match part {
                Part::Rows(rows) => self.add_rows(rows),
                part => self.push_part(part),
            }
        }
    }

    /// Appends a row to other rows of its table. For many rows, [`Rows`] is faster.
    ///
    /// # Errors
    /// As [`Rows::push`], or an error that names a column that is NULL but must not be.
    pub fn push<'v>(
        &mut self,
        schema: &Arc<TableSchema>,
        row: impl IntoIterator<Item = &'v Value, IntoIter: Clone + ExactSizeIterator>,
    ) -> Result<()> {
        let row = row.into_iter();
        let is_missing = |(column, value): &(&Column, &Value)| !column.nullable && **value == Value::Null;
        if let Some((column, _)) = schema.columns.iter().zip(row.clone()).find(is_missing) {
            return Err(schema.null_in(column));
        }
        if self.near(schema, 1).is_none() {
            self.push_part(Part::Rows(Rows::new(schema)));
        }
        let Some(near) = self.near(schema, 1) else {
            return Err(Error::bug("rows that were just added are missing"));
        };
        let before = near.bytes();
        near.push(row)?;
        let now = near.bytes();
        self.bytes = self.bytes - before + now;
        Ok(())
    }

    /// Adds rows. Few rows are appended to other rows of their table.
    fn add_rows(&mut self, rows: Rows) {
        let near = if rows.rows <= FEW_ROWS { self.near(&rows.schema, rows.rows) } else { None };
        let Some(near) = near else { return self.push_part(Part::Rows(rows)) };
        let before = near.bytes();
        near.append(&rows);
        let now = near.bytes();
        self.bytes = self.bytes - before + now;
    }

    pub(crate) fn push_part(&mut self, part: Part) {
        self.bytes += part.bytes();
        self.parts.push(part);
    }

    /// The last rows of a table, if they are near the end, have the same schema, and have room for
    /// `rows` more.
    fn near(&mut self, schema: &Arc<TableSchema>, rows: usize) -> Option<&mut Rows> {
        let near = self.parts.iter_mut().rev().take(NEAR_PARTS).find(|near| near.table() == schema.name)?;
        match near {
            Part::Rows(near) if Arc::ptr_eq(&near.schema, schema) && near.rows + rows <= MAX_BATCH_ROWS => Some(near),
            _ => None,
        }
    }

    /// Bytes of memory. A commit refuses more than [`MAX_BATCH_BYTES`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of rows, over all tables.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(Part::rows).sum()
    }

    /// The tables with rows in this batch, each at least once.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(Part::table)
    }

    /// Whether it contains deletes.
    pub fn has_deletes(&self) -> bool {
        !self.deletes.is_empty()
    }

    /// Whether it has neither rows nor deletes.
    pub fn is_empty(&self) -> bool {
        self.rows() == 0 && self.deletes.is_empty()
    }
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// For a boolean column.
    Boolean(bool),
    /// For an integer, date (days), time (microseconds) or timestamp (in the column's unit) column.
    Int(i64),
    /// For an unsigned integer column.
    UInt(u64),
    /// For a float column.
    Float(f64),
    /// For a decimal column.
    Decimal(Decimal),
    /// For a text or JSON column.
    Text(String),
    /// For a binary column.
    Binary(Vec<u8>),
    /// For a UUID column.
    Uuid(Uuid),
}

impl Value {
    /// Whether a column of this type can hold the value.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Value};
    /// assert!(Value::Int(127).fits(ColumnType::Int8) && !Value::Int(128).fits(ColumnType::Int8));
    /// ```
    pub fn fits(&self, column_type: ColumnType) -> bool {
        self.part(column_type).is_some()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let outside = match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        size_of::<Self>() + outside
    }

    /// The decimal number that a decimal number or an integer is; `None` for other values and for
    /// integers that have too many digits.
    ///
    /// ```
    /// use fleetdb_engine::{Decimal, Value};
    /// assert_eq!(Value::Int(7).decimal(), Some(Decimal { unscaled: 7, scale: 0 }));
    /// ```
    pub fn decimal(&self) -> Option<Decimal> {
        match self {
            Self::Int(unscaled) => Some(Decimal { unscaled: *unscaled, scale: 0 }),
            Self::UInt(value) => Some(Decimal { unscaled: i64::try_from(*value).ok()?, scale: 0 }),
            Self::Decimal(number) => Some(*number),
            _ => None,
        }
    }

    /// The value in the column type's internal form; `None` if it does not fit.
    pub(crate) fn part(&self, column_type: ColumnType) -> Option<KeyPart<'_>> {
        let integer = |value: i128| {
            let (least, most) = column_type.integer_range()?;
            (least..=most).contains(&value).then_some(KeyPart::Raw(value as u64))
        };
        let float = |value: f64| match column_type {
            ColumnType::Float32 => KeyPart::Raw(u64::from((value as f32).to_bits())),
            _ => KeyPart::Raw(value.to_bits()),
        };
        if let ColumnType::Decimal { precision, scale } = column_type
            && *self != Self::Null
        {
            return Some(KeyPart::Raw(self.decimal()?.with_scale(precision, scale)?.unscaled as u64));
        }
        match self {
            Self::Null => Some(KeyPart::Null),
            Self::Boolean(value) if column_type == ColumnType::Boolean => Some(KeyPart::Raw(u64::from(*value))),
            Self::Int(value) if column_type.is_float() => Some(float(*value as f64)),
            Self::Int(value) => integer(i128::from(*value)),
            Self::UInt(value) if column_type.is_float() => Some(float(*value as f64)),
            Self::UInt(value) => integer(i128::from(*value)),
            Self::Float(value) if column_type.is_float() => Some(float(*value)),
            Self::Decimal(value) if column_type.is_float() => Some(float(value.to_f64())),
            Self::Text(text) if column_type.is_bytes() && column_type != ColumnType::Uuid => {
                Some(KeyPart::Bytes(text.as_bytes()))
            }
            Self::Binary(bytes) if column_type == ColumnType::Binary => Some(KeyPart::Bytes(bytes)),
            Self::Uuid(uuid) if column_type == ColumnType::Uuid => Some(KeyPart::Bytes(uuid.as_bytes())),
            _ => None,
        }
    }

    /// Converts a raw value of a column whose values are not bytes.
    pub(crate) fn of_raw(raw: u64, column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean => Self::Boolean(raw != 0),
            ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => Self::UInt(raw),
            ColumnType::Float32 => Self::Float(f64::from(f32::from_bits(raw as u32))),
            ColumnType::Float64 => Self::Float(f64::from_bits(raw)),
            ColumnType::Decimal { scale, .. } => Self::Decimal(Decimal { unscaled: raw as i64, scale }),
            _ => Self::Int(raw as i64),
        }
    }

    /// Converts a key column's value.
    pub(crate) fn of_key(value: &KeyValue, column_type: ColumnType) -> Self {
        match value {
            KeyValue::Null => Self::Null,
            KeyValue::Bytes(bytes) => Self::of_bytes(bytes, column_type),
            KeyValue::Raw(raw) => Self::of_raw(*raw, column_type),
        }
    }

    /// Converts a value of a column whose values are bytes.
    pub(crate) fn of_bytes(bytes: &[u8], column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Binary => Self::Binary(bytes.to_vec()),
            ColumnType::Uuid => Uuid::from_slice(bytes).map_or(Self::Null, Self::Uuid),
            _ => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }
}

/// Formats the value for people; binary values are hexadecimal.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Decimal(value) => value.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Uuid(uuid) => uuid.fmt(f),
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

impl From<Decimal> for Value {
    fn from(value: Decimal) -> Self {
        Self::Decimal(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// Rows of one table, gathered one by one.
///
/// ```
/// use fleetdb_engine::{ColumnType, Database, Rows, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
/// let schema = db.create_table(&table).unwrap();
/// let mut rows = Rows::new(&schema);
/// rows.push(&[Value::Int(1), Value::Int(1_700_000_000)]).unwrap();
/// db.commit(fleetdb_engine::Batch::new().with_rows(rows)).unwrap();
/// assert_eq!(db.view().table("t").unwrap().count().unwrap(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) columns: Vec<ColumnBuilder>,
    pub(crate) rows: usize,
}

impl Rows {
    /// An empty set of rows for a table with this schema.
    pub fn new(schema: &Arc<TableSchema>) -> Self {
        let columns = schema.columns.iter().map(|column| ColumnBuilder::new(column.column_type)).collect();
        Self { schema: Arc::clone(schema), columns, rows: 0 }
    }

    /// The table's schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a row: one value per column, in the table's order.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the number of values differs from the
    /// number of columns, or a value does not fit (the error names its column and row). The row is
    /// then not added.
    pub fn push<'v>(
        &mut self,
        row: impl IntoIterator<Item = &'v Value, IntoIter: Clone + ExactSizeIterator>,
    ) -> Result<()> {
        let row = row.into_iter();
        if row.len() != self.columns.len() {
            return Err(Error::invalid(format!(
                "the row has {} values, but table '{}' has {} columns",
                row.len(),
                self.schema.name,
                self.columns.len()
            )));
        }
        for (column, value) in self.schema.columns.iter().zip(row.clone()) {
            if value.part(column.column_type).is_none() {
                return Err(
                    misfit(self.rows, value, column.column_type).context(format_args!("column '{}'", column.name))
                );
            }
        }
        for ((builder, column), value) in self.columns.iter_mut().zip(&self.schema.columns).zip(row) {
            // Checked above.
            builder.push(value.part(column.column_type).unwrap_or(KeyPart::Null));
        }
        self.rows += 1;
        Ok(())
    }

    /// Bytes of memory.
    fn bytes(&self) -> usize {
        self.columns.iter().map(ColumnBuilder::bytes).sum()
    }

    fn append(&mut self, other: &Self) {
        self.columns.iter_mut().zip(&other.columns).for_each(|(column, other)| column.append(other));
        self.rows += other.rows;
    }

    /// The rows as a record batch.
    ///
    /// # Errors
    /// A text column is longer than Arrow allows.
    pub fn finish(self) -> Result<RecordBatch> {
        let columns = self.columns.into_iter().zip(&self.schema.columns);
        let arrays = columns.map(|(builder, column)| builder.finish(column.column_type)).collect::<Result<_>>()?;
        // Admission checks nullability, with a better message than Arrow's.
        Ok(RecordBatch::try_new(self.schema.to_nullable_arrow(), arrays)?)
    }
}

/// The error code of a value that does not fit: invalid text, or otherwise out of range.
pub(crate) fn misfit_code(value: &Value, column_type: ColumnType) -> Code {
    match value {
        Value::Text(_) if column_type.time_unit().is_some() || column_type == ColumnType::Date32 => Code::InvalidTime,
        Value::Text(_) => Code::InvalidText,
        _ => Code::OutOfRange,
    }
}

/// The error for a value that does not fit its column.
pub(crate) fn misfit(row: usize, value: &Value, column_type: ColumnType) -> Error {
    Error::new(
        misfit_code(value, column_type),
        format!("row {}: '{value}' does not fit a column of type {}", row + 1, column_type.sql_name()),
    )
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
