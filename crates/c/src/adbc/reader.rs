//! The rows of a statement, which are computed as they are read.

use super::errors::call;
use super::session::Session;
use crate::work::{PreparedStatement, Results};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use fleetdb_engine::{Result, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs of a prepared query that have not begun, by the values of their parameters.
pub(super) struct Runs {
    pub(super) prepared: Arc<PreparedStatement>,
    pub(super) values: VecDeque<Vec<Value>>,
}

/// The rows of a statement. If it runs several times, those of one run follow those of another.
pub(super) struct Reader {
    session: Arc<Session>,
    schema: SchemaRef,
    results: Option<Results>,
    runs: Option<Runs>,
}

impl Reader {
    pub(super) fn new(session: &Arc<Session>, schema: SchemaRef, results: Option<Results>, runs: Option<Runs>) -> Self {
        Self { session: Arc::clone(session), schema, results, runs }
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// The statement failed.
    pub(super) fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(results) = &mut self.results {
                if let Some(rows) = self.session.lock().work.next(results)? {
                    return Ok(Some(rows));
                }
                self.results = None;
            }
            let Some(runs) = &mut self.runs else { return Ok(None) };
            let Some(values) = runs.values.pop_front() else { return Ok(None) };
            self.results = self.session.lock().start(&runs.prepared, &values)?.results;
        }
    }
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = call(|| self.advance());
        if next.is_err() {
            (self.results, self.runs) = (None, None);
        }
        // The text of the error is all that passes through Arrow's interface.
        next.map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
