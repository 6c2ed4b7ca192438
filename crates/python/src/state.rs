//! What a connection's thread has: the session, prepared queries, and results that are being read.

use crate::errors::unreadable;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{FieldRef, SchemaRef};
use fleetdb_engine::{Acknowledged, Code, Error, Result, Value};
use fleetdb_postgres::{ColumnNames, column_names};
use fleetdb_query::{Answer, Kind, Prepared, Session, Store};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows that come from the engine itself, without SQL.
pub(crate) type Scanned = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// A text that is longer is not remembered as the last one.
const MAX_ASKED_BYTES: usize = 16 << 10;

/// A result that is being read.
enum Rows {
    Answer(Box<Answer>),
    Scanned(Scanned),
}

/// The number of a result or of a prepared query.
pub(crate) type Number = u64;

/// What a connection's thread works with.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) session: Arc<Session>,
    results: HashMap<Number, Rows>,
    prepared: HashMap<Number, (Prepared<Arc<Session>>, ColumnNames)>,
    /// The text of the last statement, if it was one, and the names of its columns.
    asked: Option<(String, ColumnNames)>,
    /// The result whose statement began last. Its limits and its cancellation are in force.
    current: Option<Number>,
    last: Number,
}

/// What a statement gave.
pub(crate) struct Done {
    /// The command tag, as in `INSERT 0 5`; `None` for a query.
    pub(crate) tag: Option<String>,
    /// What the user should know although it succeeded.
    pub(crate) warning: Option<String>,
    /// The last batch that was committed.
    pub(crate) acknowledged: Option<Acknowledged>,
    /// The result, if there are rows, and their schema.
    pub(crate) rows: Option<(Number, SchemaRef)>,
}

impl State {
    pub(crate) fn new(store: Store, session: Arc<Session>) -> Self {
        Self { store, session, results: HashMap::new(), prepared: HashMap::new(), asked: None, current: None, last: 0 }
    }

    /// Runs the statements of a text; returns what the last one gave. Values are for a text of one
    /// statement. `is_stopped` says whether to stop before the next statement.
    ///
    /// # Errors
    /// Those of the session. The statements before the one that failed have taken effect.
    pub(crate) fn run(&mut self, text: &str, values: &[Value], is_stopped: impl Fn() -> bool) -> Result<Done> {
        self.current = None;
        if !values.is_empty() {
            let statement = self.session.parse_one(text).inspect_err(|_| self.session.fail_transaction())?;
            let (count, names) = (statement.parameters(), column_names(&statement));
            if count != values.len() {
                self.session.fail_transaction();
                return Err(Error::invalid(format!("the statement has {count} parameters, not {}", values.len())));
            }
            let answer = self.session.execute(statement.with_values(values)?)?;
            return Ok(self.keep(answer, &names));
        }
        // The session keeps the plan of a text that is asked again.
        if let Some((_, names)) = self.asked.as_ref().filter(|(asked, _)| asked == text) {
            let names = names.clone();
            let answer = self.session.sql(text)?;
            return Ok(self.keep(answer, &names));
        }
        let statements = self.session.parse(text).inspect_err(|_| self.session.fail_transaction())?;
        let is_one = statements.len() == 1;
        let mut last = None;
        for statement in statements {
            if is_stopped() {
                return Err(Error::new(Code::Cancelled, "the statements were cancelled"));
            }
            // The rows of the one before are not wanted.
            drop(last.take());
            let names = column_names(&statement);
            last = Some((self.session.execute(statement)?, names));
        }
        let (answer, names) = last.ok_or_else(|| Error::invalid("there is no statement in the text"))?;
        if is_one && text.len() <= MAX_ASKED_BYTES {
            self.asked = Some((text.to_owned(), names.clone()));
        }
        Ok(self.keep(answer, &names))
    }

    /// Keeps an answer until its rows are read. Its columns have PostgreSQL's names.
    fn keep(&mut self, answer: Answer, names: &ColumnNames) -> Done {
        let (tag, warning) = (answer.tag().map(str::to_owned), answer.warning().map(str::to_owned));
        let acknowledged = answer.acknowledged();
        let schema = answer.schema().map(|schema| names.of(&schema));
        let rows = schema.map(|schema| (self.add(Rows::Answer(Box::new(answer))), schema));
        self.current = rows.as_ref().map(|(number, _)| *number);
        Done { tag, warning, acknowledged, rows }
    }

    /// Keeps rows of the engine until they are read.
    pub(crate) fn keep_scanned(&mut self, rows: Scanned) -> Number {
        self.add(Rows::Scanned(rows))
    }

    fn add(&mut self, rows: Rows) -> Number {
        self.last += 1;
        self.results.insert(self.last, rows);
        self.last
    }

    /// The next rows of a result; `None` at its end. Batches are not empty.
    ///
    /// # Errors
    /// The statement failed. The result is then at its end.
    pub(crate) fn next(&mut self, number: Number) -> Result<Option<RecordBatch>> {
        let Some(rows) = self.results.get_mut(&number) else { return Ok(None) };
        if let Rows::Answer(answer) = rows
            && self.current != Some(number)
        {
            self.session.resume(answer);
            self.current = Some(number);
        }
        let next = match rows {
            Rows::Answer(answer) => answer.find(is_not_empty),
            Rows::Scanned(scanned) => scanned.find(is_not_empty),
        };
        if !matches!(next, Some(Ok(_))) {
            self.results.remove(&number);
        }
        next.transpose()
    }

    /// Forgets a result.
    pub(crate) fn forget(&mut self, number: Number) {
        self.results.remove(&number);
    }

    /// Adds rows to a temporary table.
    ///
    /// # Errors
    /// The table does not exist, or does not take the rows.
    pub(crate) fn add_to_temporary(&self, table: &str, rows: &RecordBatch) -> Result<()> {
        let schema = self.session.temporary_schema(table);
        let schema = schema.ok_or_else(|| Error::bug("the temporary table is missing"))?.to_nullable_arrow();
        let in_type = |(array, field): (&ArrayRef, &FieldRef)| cast(array, field.data_type());
        let arrays = rows.columns().iter().zip(schema.fields()).map(in_type).collect::<std::result::Result<_, _>>();
        let rows = RecordBatch::try_new(Arc::clone(&schema), arrays.map_err(unreadable)?).map_err(unreadable)?;
        self.session.insert_into_temporary(table, rows)
    }

    /// After a cancellation, which may have come too late for its statement: it must not reach
    /// another.
    pub(crate) fn end_limits(&mut self) {
        self.current = None;
    }

    /// Prepares a query; `None` if the text is another statement, which is planned for each run.
    ///
    /// # Errors
    /// The query is wrong.
    pub(crate) fn prepare(&mut self, text: &str) -> Result<Option<Number>> {
        self.current = None;
        let statement = self.session.parse_one(text).inspect_err(|_| self.session.fail_transaction())?;
        if statement.command().kind.is_ok_and(|kind| kind != Kind::Query) {
            return Ok(None);
        }
        let names = column_names(&statement);
        let prepared = Prepared::new(Arc::clone(&self.session), statement)?;
        self.last += 1;
        self.prepared.insert(self.last, (prepared, names));
        Ok(Some(self.last))
    }

    /// Runs a prepared query.
    ///
    /// # Errors
    /// The values do not match, or the query fails.
    pub(crate) fn run_prepared(&mut self, number: Number, values: &[Value]) -> Result<Done> {
        self.current = None;
        let prepared = self.prepared.get(&number).ok_or_else(|| Error::bug("a prepared query is missing"))?;
        let names = prepared.1.clone();
        let answer = self.session.check_transaction().and_then(|()| prepared.0.start(values));
        // As an error of any other statement: only ROLLBACK helps.
        let answer = answer.inspect_err(|_| self.session.fail_transaction())?;
        Ok(self.keep(answer, &names))
    }

    /// Forgets a prepared query.
    pub(crate) fn forget_prepared(&mut self, number: Number) {
        self.prepared.remove(&number);
    }
}

fn is_not_empty(next: &Result<RecordBatch>) -> bool {
    next.as_ref().map_or(true, |rows| rows.num_rows() > 0)
}
