//! Where inserted rows go: one batch if they fit, which makes the statement atomic.

use crate::errors::query_error;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::datasource::sink::DataSink;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use fleetdb_engine::{Batch, Database};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// An INSERT of more rows than this is written in several batches, each atomic.
const MAX_ATOMIC_ROWS: usize = 1 << 19;
/// The same for bytes in memory.
const MAX_ATOMIC_BYTES: usize = 64 << 20;

/// Gathers a statement's rows into as few batches as may be, and writes them.
pub(crate) struct Gather<'a> {
    db: &'a Database,
    table: &'a str,
    gathered: Batch,
    bytes: usize,
    written: u64,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(db: &'a Database, table: &'a str) -> Self {
        Self { db, table, gathered: Batch::new(), bytes: 0, written: 0 }
    }

    /// Adds rows; writes what is gathered when it is enough.
    pub(crate) fn add(&mut self, rows: RecordBatch) -> fleetdb_engine::Result<()> {
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

    /// Writes the rest. Gives the number of all rows.
    pub(crate) fn finish(mut self) -> fleetdb_engine::Result<u64> {
        self.write()?;
        Ok(self.written)
    }
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
        let mut gather = Gather::new(&self.db, &self.table);
        while let Some(batch) = data.next().await {
            gather.add(batch?).map_err(query_error)?;
        }
        gather.finish().map_err(query_error)
    }
}
