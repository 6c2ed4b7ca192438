//! Where inserted rows go: one batch if they fit, which makes the statement atomic.

use crate::answer::query_error;
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

    fn commit(&self, rows: Vec<RecordBatch>) -> Result<()> {
        let batch = rows.into_iter().fold(Batch::new(), |batch, rows| batch.with(&self.table, rows));
        self.db.commit(batch).map(|_| ()).map_err(query_error)
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
        let (mut gathered, mut rows, mut bytes, mut total) = (Vec::new(), 0, 0, 0);
        while let Some(batch) = data.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            total += batch.num_rows() as u64;
            bytes += batch.get_array_memory_size();
            gathered.push(batch);
            if rows >= MAX_ATOMIC_ROWS || bytes >= MAX_ATOMIC_BYTES {
                self.commit(std::mem::take(&mut gathered))?;
                (rows, bytes) = (0, 0);
            }
        }
        self.commit(gathered)?;
        Ok(total)
    }
}
