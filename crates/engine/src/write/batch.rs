//! What a caller submits: a [`Batch`] of record batches and of [`Rows`] gathered one by one.

use super::value::{Value, misfit};
use crate::column::ColumnBuilder;
use crate::error::{Error, Result};
use crate::key::KeyPart;
use crate::memory::MemoryReservation;
use crate::schema::{Column, TableSchema};
use crate::settings::Durability;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

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
    /// Memory that is charged until the batch is dropped.
    held: Vec<Arc<MemoryReservation>>,
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
            Self::Arrow(_, rows) => rows.columns().iter().map(bytes_of).sum(),
            Self::Rows(rows) => rows.bytes(),
        }
    }
}

/// Bytes of an array's values. For a slice, those of its own rows: the memory is its owner's.
fn bytes_of(array: &ArrayRef) -> usize {
    let views = array.len() * size_of::<u128>();
    match array.data_type() {
        DataType::Utf8View => views + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => views + array.as_binary_view().total_buffer_bytes_used(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
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

    /// Keeps memory charged as long as the batch.
    pub(crate) fn holding(mut self, memory: MemoryReservation) -> Self {
        self.held.push(Arc::new(memory));
        self
    }

    /// Requests a durability other than the database's default
    /// ([`Settings::durability`](crate::Settings)). `None` changes nothing.
    ///
    /// ```
    /// use fleetdb_engine::{Batch, Database, Durability, Settings, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let acknowledged = db.commit(Batch::new().with_durability(Durability::Os)).unwrap();
    /// assert_eq!(acknowledged.durability, Durability::Os);
    /// ```
    #[must_use]
    pub fn with_durability(mut self, durability: impl Into<Option<Durability>>) -> Self {
        self.durability = durability.into().or(self.durability);
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
        self.held.extend(other.held);
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
        self.held.extend(other.held);
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
        self.columns.iter_mut().zip(&other.columns).for_each(|(column, other)| column.extend(other, 0, other.len()));
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

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
