//! The result of a statement.

use crate::runtime::QueryRuntime;
use crate::transfer::json::with_names;
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use fleetdb_engine::{Acknowledged, Error, Result};
use fleetdb_functions::errors::engine_error;
use fleetdb_functions::function_memory::ConstantMemory;
use fleetdb_functions::planned_names::{written_names, written_text};
use fleetdb_plan::limits::Watch;
use fleetdb_statement::depth::UNCHECKED_LEVELS;
use fleetdb_statement::memory::StatementMemory;
use fleetdb_statement::stack::{Deep, with_stack};
use futures::StreamExt;
use std::any::Any;
use std::future::poll_fn;
use std::sync::Arc;

/// The stream of rows, and what is needed to run it. It is as deep as the statement.
type Rows = (SendableRecordBatchStream, Arc<QueryRuntime>, Watch);

/// The result of one statement: rows in batches, a command tag, or both.
#[derive(Default)]
pub struct Answer {
    tag: Option<String>,
    warning: Option<String>,
    acknowledged: Option<Acknowledged>,
    rows: Option<Deep<Rows>>,
    /// The schema with the column names that the user wrote, if the plan's names differ from them.
    renamed: Option<SchemaRef>,
    /// Whether the rows are the lines of a plan, in which names must be restored.
    is_plan: bool,
    /// Kept alive as long as the answer; never read.
    _held: Option<Box<dyn Any + Send + Sync>>,
    /// The memory charged to the answer.
    _charged: Option<Charged>,
}

/// The memory reserved for a statement's tree and for the output of its functions.
type Charged = (StatementMemory, ConstantMemory);

impl Answer {
    /// A result without rows; `tag` is the command tag that psql shows.
    pub(crate) fn done(tag: impl Into<String>) -> Self {
        Self { tag: Some(tag.into()), ..Self::default() }
    }

    pub(crate) fn rows(stream: SendableRecordBatchStream, runtime: Arc<QueryRuntime>, watch: Watch) -> Self {
        let renamed = written_names(&stream.schema());
        Self::renamed_to(renamed, stream, runtime, watch)
    }

    /// Like [`rows`](Self::rows), with the result of [`written_names`] for the stream's schema.
    pub(crate) fn renamed_to(
        renamed: Option<SchemaRef>,
        stream: SendableRecordBatchStream,
        runtime: Arc<QueryRuntime>,
        watch: Watch,
    ) -> Self {
        let rows = Some(Deep::new((stream, runtime, watch), UNCHECKED_LEVELS));
        Self { rows, renamed, ..Self::default() }
    }

    /// Adds a command tag.
    pub(crate) fn tagged(self, tag: String) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Adds a warning.
    pub(crate) fn warned(self, warning: Option<String>) -> Self {
        Self { warning, ..self }
    }

    /// Sets the last batch that the statement committed.
    pub(crate) fn acknowledged_by(self, acknowledged: Option<Acknowledged>) -> Self {
        Self { acknowledged, ..self }
    }

    /// Marks the rows as the lines of a plan.
    pub(crate) fn of_plan(self) -> Self {
        Self { is_plan: true, ..self }
    }

    /// Sets the depth of the statement's tree.
    pub(crate) fn of_levels(mut self, levels: usize) -> Self {
        if let Some(rows) = &mut self.rows {
            rows.set_levels(levels);
        }
        self
    }

    /// Keeps `held` alive as long as the answer.
    pub(crate) fn holding(self, held: impl Any + Send + Sync) -> Self {
        Self { _held: Some(Box::new(held)), ..self }
    }

    /// Attaches the memory charged to the answer.
    pub(crate) fn charged_to(self, charged: Charged) -> Self {
        Self { _charged: Some(charged), ..self }
    }

    /// Replaces the limits from now on.
    pub(crate) fn watch_by(&mut self, limits: Watch) {
        if let Some((.., watch)) = self.rows.as_deref_mut() {
            *watch = limits;
        }
    }

    /// The command tag, such as `CREATE TABLE` or `INSERT 0 5`; `None` for a query.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// What the user should know although the statement succeeded.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The last batch that the statement committed; `None` if it committed none. If it wrote several
    /// batches, the sequence is that of the last one or of a later batch.
    ///
    /// ```
    /// use fleetdb_engine::{Database, Durability, Settings, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = fleetdb_query::Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    /// session.sql("CREATE TABLE t (id BIGINT, v DOUBLE, PRIMARY KEY (id))").unwrap();
    /// let acknowledged = session.sql("INSERT INTO t VALUES (1, 0.5)").unwrap().acknowledged();
    /// assert_eq!(acknowledged.unwrap().durability, Durability::Sync);
    /// assert_eq!(session.sql("UPDATE t SET v = 1 WHERE id = 2").unwrap().acknowledged(), None);
    /// ```
    pub fn acknowledged(&self) -> Option<Acknowledged> {
        self.acknowledged
    }

    /// The schema of the rows, if the statement returns rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        let (stream, ..) = &**self.rows.as_ref()?;
        Some(self.renamed.clone().unwrap_or_else(|| stream.schema()))
    }

    /// The next batch, as [`Iterator::next`] returns it, in a future. The future occupies its
    /// thread while operators compute. Dropping it loses no rows.
    pub async fn next_rows(&mut self) -> Option<Result<RecordBatch>> {
        let rows = self.rows.as_mut()?;
        let levels = rows.levels();
        let (stream, runtime, watch) = &mut **rows;
        loop {
            let next = poll_fn(|context| {
                // On this runtime, which has one thread, DataFusion starts no tasks to read ahead.
                let _entered = runtime.enter();
                with_stack(levels, || stream.poll_next_unpin(context))
            });
            match watch.until_stopped(next).await {
                // An operator that read rows and discarded all of them.
                Ok(Some(Ok(batch))) if batch.num_rows() == 0 => {}
                Ok(next) => {
                    let rows = next?.map_err(engine_error);
                    return Some(match &self.renamed {
                        _ if self.is_plan => rows.and_then(written_lines),
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

    /// Collects all rows.
    ///
    /// # Errors
    /// The query fails while it runs.
    pub fn collect(self) -> Result<Vec<RecordBatch>> {
        Iterator::collect(self)
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows.as_ref()?;
        let (levels, runtime) = (rows.levels(), Arc::clone(&rows.1));
        // Tasks spawned by the plan run on this stack as well.
        with_stack(levels, || runtime.block_on(self.next_rows()))
    }
}

/// Restores the names in the lines of a plan to those the user wrote.
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
