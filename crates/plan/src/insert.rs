//! Writes inserted rows, in one batch if they fit, which makes the statement atomic.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use fleetdb_engine::{Batch, Database, TableSchema};
use fleetdb_functions::errors::query_error;
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// An INSERT of more rows than this is written in several batches, each of them atomic.
const MAX_ATOMIC_ROWS: usize = 1 << 19;
/// The same limit in bytes of memory.
const MAX_ATOMIC_BYTES: usize = 64 << 20;

/// Collects a statement's rows into as few batches as possible, and writes them.
pub struct BatchWriter<'a> {
    db: &'a Database,
    table: &'a str,
    gathered: Batch,
    bytes: usize,
    written: u64,
}

impl<'a> BatchWriter<'a> {
    /// Writes to this table.
    pub fn new(db: &'a Database, table: &'a str) -> Self {
        Self { db, table, gathered: Batch::new(), bytes: 0, written: 0 }
    }

    /// Adds rows, and writes the collected ones once there are enough.
    pub fn add(&mut self, rows: RecordBatch) -> fleetdb_engine::Result<()> {
        self.bytes += rows.get_array_memory_size();
        self.gathered = std::mem::take(&mut self.gathered).with(self.table, rows);
        if self.gathered.rows() >= MAX_ATOMIC_ROWS || self.bytes >= MAX_ATOMIC_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> fleetdb_engine::Result<()> {
        let batch = std::mem::take(&mut self.gathered);
        self.written += batch.rows() as u64;
        self.bytes = 0;
        self.db.commit(batch).map(|_| ())
    }

    /// Writes the remaining rows; returns the total number of rows.
    pub fn finish(mut self) -> fleetdb_engine::Result<u64> {
        self.write()?;
        Ok(self.written)
    }
}

/// Drops the columns that are NULL in all rows, such as those a statement does not name. Such
/// columns may be dropped or renamed before the rows are written.
pub fn without_nulls(schema: &TableSchema, rows: RecordBatch) -> fleetdb_engine::Result<RecordBatch> {
    let is_needed = |place: &usize| {
        // If the column is already gone, its absence does no harm.
        let must_be_there = |column: usize| !schema.columns[column].nullable;
        rows.column(*place).null_count() < rows.num_rows()
            || schema.column_index(rows.schema_ref().field(*place).name()).is_ok_and(must_be_there)
    };
    let needed: Vec<_> = (0..rows.num_columns()).filter(is_needed).collect();
    if needed.len() == rows.num_columns() { Ok(rows) } else { Ok(rows.project(&needed)?) }
}

/// Writes rows to a table.
pub(crate) struct FleetSink {
    db: Arc<Database>,
    table: String,
    schema: SchemaRef,
}

impl FleetSink {
    pub(crate) fn new(db: &Arc<Database>, table: &str, schema: &SchemaRef) -> Self {
        Self { db: Arc::clone(db), table: table.to_owned(), schema: Arc::clone(schema) }
    }
}

impl fmt::Debug for FleetSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetSink({})", self.table)
    }
}

impl DisplayAs for FleetSink {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetSink: table={}", self.table)
    }
}

#[async_trait::async_trait]
impl DataSink for FleetSink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, mut data: SendableRecordBatchStream, _context: &Arc<TaskContext>) -> Result<u64> {
        let mut writer = BatchWriter::new(&self.db, &self.table);
        let schema = self.db.table(&self.table).map_err(query_error)?;
        while let Some(batch) = data.next().await {
            writer.add(without_nulls(&schema, batch?).map_err(query_error)?).map_err(query_error)?;
        }
        writer.finish().map_err(query_error)
    }
}
