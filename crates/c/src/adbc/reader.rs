//! The rows of a statement, which are computed as they are read.

use super::bound::Bound;
use super::errors::call;
use super::session::Session;
use crate::stop::Begun;
use crate::work::{PreparedStatement, Results};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use fleetdb_engine::{Code, Error, Result};
use std::sync::Arc;

/// Runs of a prepared query that have not begun.
pub(super) struct Runs {
    pub(super) prepared: Arc<PreparedStatement>,
    /// The values of their parameters.
    pub(super) bound: Bound,
    /// When the call began that they are a part of.
    pub(super) begun: Begun,
}

/// The rows of a statement. If it runs several times, those of one run follow those of another.
pub(super) struct Reader {
    schema: SchemaRef,
    results: Option<Results>,
    runs: Option<Runs>,
    // Dropped after what uses it: the last one closes the database.
    session: Arc<Session>,
}

impl Reader {
    pub(super) fn new(session: &Arc<Session>, schema: SchemaRef, results: Option<Results>, runs: Option<Runs>) -> Self {
        Self { schema, results, runs, session: Arc::clone(session) }
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
            let Some(values) = runs.bound.rows.pop_front() else { return Ok(None) };
            let done = self.session.lock().start(&runs.prepared, &values, &runs.begun)?;
            if done.results.as_ref().is_some_and(|results| !has_same_types(results.schema(), &self.schema)) {
                let message = "the columns of the statement have changed since its first run";
                return Err(Error::new(Code::PlanChanged, message));
            }
            self.results = done.results;
        }
    }
}

/// Whether rows with one schema can be read by the other.
fn has_same_types(one: &SchemaRef, other: &SchemaRef) -> bool {
    one.fields().iter().map(|field| field.data_type()).eq(other.fields().iter().map(|field| field.data_type()))
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
