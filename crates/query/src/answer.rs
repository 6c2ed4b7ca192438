//! What a statement gives back, and DataFusion's errors as the engine's.

use crate::limits::Watch;
use crate::runtime::QueryRuntime;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Location;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::parser::ParserError;
use fleetdb_engine::{Error, ErrorKind, Result};
use futures::StreamExt;
use std::any::Any;
use std::sync::Arc;

/// The answer to one statement: rows batch by batch, word of what was done, or both.
pub struct Answer {
    tag: Option<String>,
    rows: Option<(SendableRecordBatchStream, Arc<QueryRuntime>, Watch)>,
    /// Kept until the answer is gone; nobody looks at it.
    _held: Option<Box<dyn Any + Send + Sync>>,
}

impl Answer {
    /// The statement gives no rows; `tag` says what it did, as psql shows it.
    pub(crate) fn done(tag: impl Into<String>) -> Self {
        Self { tag: Some(tag.into()), rows: None, _held: None }
    }

    pub(crate) fn rows(stream: SendableRecordBatchStream, runtime: Arc<QueryRuntime>, watch: Watch) -> Self {
        Self { tag: None, rows: Some((stream, runtime, watch)), _held: None }
    }

    /// The same answer, of a statement that has done this.
    pub(crate) fn tagged(self, tag: String) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// The same answer, which keeps something as long as it lives.
    pub(crate) fn holding(self, held: impl Any + Send + Sync) -> Self {
        Self { _held: Some(Box::new(held)), ..self }
    }

    /// Other limits from now on.
    pub(crate) fn watch_by(&mut self, limits: Watch) {
        if let Some((.., watch)) = &mut self.rows {
            *watch = limits;
        }
    }

    /// What the statement did: `CREATE TABLE`, `INSERT 0 5`; none of a query.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The schema of the rows, if the statement gives rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.rows.as_ref().map(|(stream, ..)| stream.schema())
    }

    /// The next rows, as [`Iterator::next`] gives them, in a future: it takes its thread as long as operators compute, and
    /// no row is lost if it is dropped.
    pub async fn next_rows(&mut self) -> Option<Result<RecordBatch>> {
        let (stream, _, watch) = self.rows.as_mut()?;
        loop {
            match watch.until_stopped(stream.next()).await {
                // A step of the plan that has looked at rows and wants none of them.
                Ok(Some(Ok(batch))) if batch.num_rows() == 0 => {}
                Ok(next) => return Some(next?.map_err(engine_error)),
                Err(stopped) => {
                    self.rows = None;
                    return Some(Err(stopped));
                }
            }
        }
    }

    /// All rows at once.
    ///
    /// # Errors
    /// The query failed on the way.
    pub fn collect(self) -> Result<Vec<RecordBatch>> {
        Iterator::collect(self)
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let (_, runtime, _) = self.rows.as_ref()?;
        let runtime = Arc::clone(runtime);
        runtime.block_on(self.next_rows())
    }
}

/// How DataFusion says that it has found no way to do without a subquery.
const NO_SUBQUERY: &str = "Physical plan does not support logical expression";

/// DataFusion's error as the engine's: an error that came from the engine is given back as it was.
pub(crate) fn engine_error(error: DataFusionError) -> Error {
    match error {
        DataFusionError::Context(context, inner) => engine_error(*inner).context(context),
        DataFusionError::Diagnostic(_, inner) => engine_error(*inner),
        DataFusionError::Internal(message) => Error::bug(format!("the query engine: {message}")),
        DataFusionError::SchemaError(inner, _) => Error::input(inner.to_string()),
        DataFusionError::SQL(inner, _) => match *inner {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => Error::input(message),
            ParserError::RecursionLimitExceeded => Error::input("the statement is nested too deeply"),
        },
        DataFusionError::NotImplemented(message) if message.starts_with(NO_SUBQUERY) => Error::input(
            "a subquery in this place, or of this form, is not supported: one that looks at the rows around it compares them \
             by =; IN stands in WHERE",
        ),
        DataFusionError::Plan(message)
        | DataFusionError::Configuration(message)
        | DataFusionError::NotImplemented(message) => Error::input(message),
        other => own(&other).unwrap_or_else(|| match other.find_root() {
            DataFusionError::External(root) => Error::input(root.to_string()),
            DataFusionError::ResourcesExhausted(message) => {
                Error::retry(format!("the query needs more memory than it may have: {message}"))
            }
            root => Error::input(root.strip_backtrace()),
        }),
    }
}

/// The engine's error that is behind another one, however deep, or that of a temporary file: operators share errors, and
/// Arrow's hold some.
fn own(error: &DataFusionError) -> Option<Error> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut of_file = None;
    while let Some(error) = next {
        if let Some(own) = error.downcast_ref::<Error>() {
            return Some(own.clone());
        }
        of_file = error.downcast_ref::<std::io::Error>().or(of_file);
        next = error.source();
    }
    match of_file? {
        limit if limit.to_string().contains("exceeded the allowable limit") => Some(Error::retry(
            "the query needs more room for temporary files than it may have: ask for less, or raise the setting memory_limit",
        )),
        other => Some(Error::io("a temporary file of the query", other)),
    }
}

/// As [`engine_error`], with the place in the statement's text, as sqlparser says it of a syntax error.
pub(crate) fn placed_error(error: DataFusionError) -> Error {
    let start = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| span.start);
    let error = engine_error(error);
    match start {
        Some(Location { line, column }) if error.kind() == ErrorKind::Input => {
            let message = error.to_string();
            Error::input(format!("{} at Line: {line}, Column: {column}", message.trim_end_matches('.')))
        }
        _ => error,
    }
}

/// The engine's error as DataFusion's.
pub(crate) fn query_error(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
