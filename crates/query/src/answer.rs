//! What a statement gives back.

use crate::column_names::{written_names, written_text};
use crate::depth::UNCHECKED_LEVELS;
use crate::errors::engine_error;
use crate::functions::function_memory::ConstantMemory;
use crate::json::with_names;
use crate::limits::Watch;
use crate::runtime::QueryRuntime;
use crate::stack::{Deep, with_stack};
use crate::statement_memory::StatementMemory;
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use fleetdb_engine::{Error, Result};
use futures::StreamExt;
use std::any::Any;
use std::future::poll_fn;
use std::sync::Arc;

/// What rows come from, which is as deep as the statement.
type Rows = (SendableRecordBatchStream, Arc<QueryRuntime>, Watch);

/// The answer to one statement: rows batch by batch, word of what was done, or both.
pub struct Answer {
    tag: Option<String>,
    rows: Option<Deep<Rows>>,
    /// The rows' schema, in which no name has what tells columns apart while they are planned.
    schema: Option<SchemaRef>,
    /// The rows are the lines of a plan, which has names in it.
    is_plan: bool,
    /// Kept until the answer is gone; nobody looks at it.
    _held: Option<Box<dyn Any + Send + Sync>>,
    /// The memory that is taken for it.
    _charged: Option<Charged>,
}

/// What is taken for a statement's tree, and for what its functions have made.
type Charged = (StatementMemory, ConstantMemory);

impl Answer {
    /// The statement gives no rows; `tag` says what it did, as psql shows it.
    pub(crate) fn done(tag: impl Into<String>) -> Self {
        Self { tag: Some(tag.into()), rows: None, schema: None, is_plan: false, _held: None, _charged: None }
    }

    pub(crate) fn rows(stream: SendableRecordBatchStream, runtime: Arc<QueryRuntime>, watch: Watch) -> Self {
        let schema = Some(written_names(&stream.schema()));
        let rows = Some(Deep::new((stream, runtime, watch), UNCHECKED_LEVELS));
        Self { tag: None, rows, schema, is_plan: false, _held: None, _charged: None }
    }

    /// The same answer, of a statement that has done this.
    pub(crate) fn tagged(self, tag: String) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// The same answer, whose rows are the lines of a plan.
    pub(crate) fn of_plan(self) -> Self {
        Self { is_plan: true, ..self }
    }

    /// The same answer with the depth of its statement's tree.
    pub(crate) fn of_levels(mut self, levels: usize) -> Self {
        if let Some(rows) = &mut self.rows {
            rows.set_levels(levels);
        }
        self
    }

    /// The same answer, which keeps something as long as it lives.
    pub(crate) fn holding(self, held: impl Any + Send + Sync) -> Self {
        Self { _held: Some(Box::new(held)), ..self }
    }

    /// The same answer, with the memory that is taken for it.
    pub(crate) fn charged_to(self, charged: Charged) -> Self {
        Self { _charged: Some(charged), ..self }
    }

    /// Other limits from now on.
    pub(crate) fn watch_by(&mut self, limits: Watch) {
        if let Some((.., watch)) = self.rows.as_deref_mut() {
            *watch = limits;
        }
    }

    /// What the statement did: `CREATE TABLE`, `INSERT 0 5`; none of a query.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The schema of the rows, if the statement gives rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// The next rows, as [`Iterator::next`] gives them, in a future: it takes its thread as long as operators compute, and
    /// no row is lost if it is dropped.
    pub async fn next_rows(&mut self) -> Option<Result<RecordBatch>> {
        let rows = self.rows.as_mut()?;
        let levels = rows.levels();
        let (stream, _, watch) = &mut **rows;
        loop {
            let next = poll_fn(|context| with_stack(levels, || stream.poll_next_unpin(context)));
            match watch.until_stopped(next).await {
                // A step of the plan that has looked at rows and wants none of them.
                Ok(Some(Ok(batch))) if batch.num_rows() == 0 => {}
                Ok(next) => {
                    let rows = next?.map_err(engine_error);
                    return Some(match &self.schema {
                        Some(_) if self.is_plan => rows.and_then(written_lines),
                        Some(schema) => rows.and_then(|rows| with_names(rows, schema)),
                        None => rows,
                    });
                }
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
        let rows = self.rows.as_ref()?;
        let (levels, runtime) = (rows.levels(), Arc::clone(&rows.1));
        // Tasks that the plan has spawned run on this stack as well.
        with_stack(levels, || runtime.block_on(self.next_rows()))
    }
}

/// The lines of a plan with names as they were written.
fn written_lines(rows: RecordBatch) -> Result<RecordBatch> {
    let lines = |column: &ArrayRef| match column.as_string_opt::<i32>() {
        Some(texts) => {
            let written = texts.iter().map(|text| text.map(written_text));
            Arc::new(written.collect::<StringArray>()) as ArrayRef
        }
        None => Arc::clone(column),
    };
    let columns = rows.columns().iter().map(lines).collect();
    RecordBatch::try_new(rows.schema(), columns).map_err(|e| Error::bug(format!("the lines of a plan: {e}")))
}
