//! Tables whose rows are computed when they are read.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use std::fmt;
use std::sync::Arc;

/// Creates a table from a function that returns its rows, always with the same schema.
pub(super) fn table(rows: impl Fn() -> Result<RecordBatch> + Send + Sync + 'static) -> Result<Arc<dyn TableProvider>> {
    let schema = rows()?.schema();
    let live = Live { schema: Arc::clone(&schema), rows: Box::new(rows) };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(live)])?))
}

struct Live {
    schema: SchemaRef,
    rows: Box<dyn Fn() -> Result<RecordBatch> + Send + Sync>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.schema).finish()
    }
}

impl PartitionStream for Live {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = futures::stream::iter([(self.rows)()]);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
