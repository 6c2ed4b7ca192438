//! A session on an open database, and results that are read one after another or in turns.
//!
//! 1. [`Work::run`] runs the statements of a text, [`Work::prepare`] and [`Work::start`] a statement with
//!    parameters, and [`Work::next`] reads a result.
//! 2. A session has one set of limits, which are those of the statement that began last. Whoever reads
//!    another result takes them over ([`Session::resume`]).
//! 3. [`Stop`] ends what runs from another thread.
//!
//! Both faces use it, one thread at a time.

use crate::open::{Opened, Options};
use crate::stop::{Begun, Stop};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use fleetdb_engine::{Batch, Durability, Error, Result, Value, View};
use fleetdb_postgres::{ColumnNames, Postgres, column_names};
use fleetdb_query::{Access, Answer, Kind, Prepared, Session, SessionSettings, Statement, Store, with_names};
use std::sync::Arc;

/// Rows that come from the engine itself, without SQL.
pub(crate) type Scanned = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Nobody has the session's limits.
const NOBODY: u64 = 0;

/// A result that is being read.
pub(crate) struct Results {
    number: u64,
    begun: Begun,
    schema: SchemaRef,
    source: Source,
}

enum Source {
    Answer(Box<Answer>),
    Scanned(Scanned),
    Ended,
}

impl Results {
    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of the engine.
    pub(crate) fn scanned(begun: Begun, schema: SchemaRef, rows: Scanned) -> Self {
        Self { number: NOBODY, begun, schema, source: Source::Scanned(rows) }
    }
}

/// What a statement gave.
pub(crate) struct Done {
    /// The rows that it wrote; `None` if it does not say.
    pub(crate) changed: Option<i64>,
    /// Its result, if it has one.
    pub(crate) results: Option<Results>,
}

/// A statement that is run with values.
pub(crate) struct PreparedStatement {
    plan: Plan,
    names: ColumnNames,
    parameters: usize,
    writes_rows: bool,
}

enum Plan {
    /// Planned once.
    Query(Box<Prepared<Arc<Session>>>),
    /// Planned for each run.
    Other(Box<Statement>),
}

impl PreparedStatement {
    /// The number of its parameters.
    pub(crate) fn parameters(&self) -> usize {
        self.parameters
    }

    /// Whether it writes rows, so that a transaction can hold it.
    pub(crate) fn writes_rows(&self) -> bool {
        self.writes_rows
    }

    /// The columns of its result, if they are known before it runs.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        match &self.plan {
            Plan::Query(prepared) => Some(self.names.of(&prepared.schema())),
            Plan::Other(_) => None,
        }
    }
}

/// Whether a statement writes rows, so that a transaction can hold it.
pub(crate) fn writes_rows(statement: &Statement) -> bool {
    let command = statement.command();
    command.writes.is_some() && command.access <= Access::Write
}

/// A session on an open database.
pub(crate) struct Work {
    // Dropped before the database.
    session: Arc<Session>,
    opened: Opened,
    stop: Arc<Stop>,
    /// The result whose limits are in force.
    current: u64,
    /// The number of the last result.
    last: u64,
}

impl Work {
    /// Starts a session on a database.
    ///
    /// # Errors
    /// The query engine does not start.
    pub(crate) fn new(opened: Opened, options: &Options) -> Result<Self> {
        let session = Arc::new(Session::on_store(opened.store().clone(), Postgres::new())?);
        // Not that of whoever opened the database first in this process.
        session
            .start_with(SessionSettings::default().with_durability(options.durability.unwrap_or(Durability::Sync)))?;
        let stop = Stop::new(session.canceller());
        Ok(Self { session, opened, stop, current: NOBODY, last: NOBODY })
    }

    /// Ends the session, and closes the database if nobody else has it open.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub(crate) fn close(self) -> Result<()> {
        let Self { session, opened, .. } = self;
        drop(session);
        opened.close()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn store(&self) -> &Store {
        self.opened.store()
    }

    /// Ends what runs, from another thread.
    pub(crate) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// The tables as they are now.
    ///
    /// # Errors
    /// A reader cannot read what was written.
    pub(crate) fn view(&self) -> Result<View> {
        self.store().refresh()?;
        self.store().settled_view(None, &|| Ok(()))
    }

    /// Makes the session ready for a statement of something that began then.
    fn ready(&mut self, begun: &Begun) -> Result<()> {
        self.current = NOBODY;
        // As an error of the statement: only ROLLBACK helps.
        begun.announce(&self.session).inspect_err(|_| self.session.fail_transaction())
    }

    /// Runs the statements of a text; returns the rows that the last one wrote. Rows of results are
    /// computed and dropped.
    ///
    /// # Errors
    /// Those of the session. The statements before the one that failed have taken effect.
    pub(crate) fn run(&mut self, text: &str) -> Result<Option<i64>> {
        self.run_since(text, &self.stop.begin())
    }

    /// As [`run`](Self::run), for a text that is a part of something that began then.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub(crate) fn run_since(&mut self, text: &str, begun: &Begun) -> Result<Option<i64>> {
        // The plan of a single statement that is asked again is kept.
        let is_single = !text.trim_end().trim_end_matches(';').contains(';');
        if is_single && !self.session.is_in_transaction() {
            self.ready(begun)?;
            let answer = self.session.sql(text)?;
            let done = self.keep(answer, begun, &ColumnNames::default());
            return self.drained(done);
        }
        let mut changed = None;
        let statements = self.session.parse(text).inspect_err(|_| self.session.fail_transaction())?;
        for statement in statements {
            let done = self.execute(statement, begun)?;
            changed = self.drained(done)?;
        }
        Ok(changed)
    }

    /// The rows of a query that is a part of something that began then.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn query(&mut self, text: &str, begun: &Begun) -> Result<Vec<RecordBatch>> {
        self.ready(begun)?;
        self.session.sql(text)?.collect()
    }

    /// The columns of a query. An error does not concern the open transaction.
    ///
    /// # Errors
    /// A syntax error; or the query does not match the tables.
    pub(crate) fn columns(&mut self, query: &str) -> Result<SchemaRef> {
        self.ready(&self.stop.begin())?;
        Ok(self.session.prepare(query)?.schema())
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn execute(&mut self, statement: Statement, begun: &Begun) -> Result<Done> {
        self.ready(begun)?;
        let names = column_names(&statement);
        let answer = self.answer(statement)?;
        Ok(self.keep(answer, begun, &names))
    }

    /// Runs a statement. A COMMIT that the engine has no room for leaves its transaction open.
    fn answer(&self, statement: Statement) -> Result<Answer> {
        if !matches!(statement.command().kind, Ok(Kind::Commit)) {
            return self.session.execute(statement);
        }
        // COMMIT of a failed transaction rolls it back. Its caller sees no tag, and must know.
        let failed = self.session.check_transaction().err();
        let committed = self.session.commit_or_stay()?;
        failed.map_or(Ok(committed), Err)
    }

    /// Writes rows: as a batch, or in the open transaction. After an error they are still there.
    ///
    /// # Errors
    /// Those of the engine; or the transaction is too large.
    pub(crate) fn write(&self, rows: &mut Batch) -> Result<()> {
        let session = &self.session;
        session.check_may_write("INSERT")?;
        if session.is_in_transaction() {
            // What was gathered in part must not be committed.
            session.gather(rows.clone()).inspect_err(|_| session.fail_transaction())?;
        } else {
            *rows = std::mem::take(rows).with_durability(session.durability());
            self.store().writer()?.commit(&*rows)?;
        }
        *rows = Batch::new();
        Ok(())
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// A syntax error; or a query does not match the tables.
    pub(crate) fn prepare(&mut self, text: &str) -> Result<PreparedStatement> {
        let begun = self.stop.begin();
        let statement = self.session.parse_one(text).inspect_err(|_| self.session.fail_transaction())?;
        self.prepare_parsed(statement, &begun)
    }

    /// Prepares a parsed statement.
    ///
    /// # Errors
    /// A query does not match the tables.
    pub(crate) fn prepare_parsed(&mut self, statement: Statement, begun: &Begun) -> Result<PreparedStatement> {
        self.ready(begun)?;
        let (parameters, writes_rows) = (statement.parameters(), writes_rows(&statement));
        let names = column_names(&statement);
        let plan = match statement.command().kind {
            // EXPLAIN is one of DataFusion's own statements, and its lines are made for a run.
            Ok(Kind::Query) if statement.sql().is_some() => {
                Prepared::new(Arc::clone(&self.session), statement).map(|query| Plan::Query(Box::new(query)))
            }
            Ok(_) => Ok(Plan::Other(Box::new(statement))),
            Err(error) => Err(error),
        };
        // As an error of the run: only ROLLBACK helps.
        let plan = plan.inspect_err(|_| self.session.fail_transaction())?;
        Ok(PreparedStatement { plan, names, parameters, writes_rows })
    }

    /// The types of a prepared statement's parameters, for a call that began then; `None` where they are
    /// not known.
    ///
    /// # Errors
    /// The statement does not match the tables.
    pub(crate) fn parameter_types(
        &mut self,
        prepared: &PreparedStatement,
        begun: &Begun,
    ) -> Result<Vec<Option<DataType>>> {
        self.ready(begun)?;
        match &prepared.plan {
            Plan::Query(query) => Ok(query.parameter_types().to_vec()),
            Plan::Other(_) if prepared.parameters == 0 => Ok(Vec::new()),
            Plan::Other(statement) => self.session.parameter_types_of(statement),
        }
    }

    /// Runs a prepared statement with these values.
    ///
    /// # Errors
    /// The values do not match the parameters, or those of the session.
    pub(crate) fn start(&mut self, prepared: &PreparedStatement, values: &[Value], begun: &Begun) -> Result<Done> {
        self.ready(begun)?;
        // What is no query says itself what it lacks.
        let says_itself = values.is_empty() && matches!(prepared.plan, Plan::Other(_));
        if values.len() != prepared.parameters && !says_itself {
            let (count, given) = (prepared.parameters, values.len());
            return Err(Error::invalid(format!("the statement has {count} parameters, not {given}")));
        }
        let answer = match &prepared.plan {
            Plan::Query(query) => {
                let started = self.session.check_transaction().and_then(|()| query.start(values));
                started.inspect_err(|_| self.session.fail_transaction())?
            }
            Plan::Other(statement) if values.is_empty() => self.answer(Statement::clone(statement))?,
            Plan::Other(statement) => {
                let statement = statement.with_values(values);
                self.answer(statement.inspect_err(|_| self.session.fail_transaction())?)?
            }
        };
        Ok(self.keep(answer, begun, &prepared.names))
    }

    /// Keeps an answer until its rows are read. Its columns have PostgreSQL's names.
    fn keep(&mut self, answer: Answer, begun: &Begun, names: &ColumnNames) -> Done {
        let changed = answer.tag().and_then(rows_in);
        let Some(schema) = answer.schema().map(|schema| names.of(&schema)) else {
            return Done { changed, results: None };
        };
        self.last += 1;
        self.current = self.last;
        let source = Source::Answer(Box::new(answer));
        let results = Results { number: self.last, begun: begun.clone(), schema, source };
        Done { changed, results: Some(results) }
    }

    /// Fails if a result must end.
    ///
    /// # Errors
    /// [`Code::Cancelled`].
    pub(crate) fn check(&self, results: &Results) -> Result<()> {
        results.begun.check()
    }

    /// The next rows of a result; `None` at its end. Batches are not empty.
    ///
    /// # Errors
    /// The statement failed. The result is then at its end.
    pub(crate) fn next(&mut self, results: &mut Results) -> Result<Option<RecordBatch>> {
        let next = self.read(results);
        if !matches!(next, Ok(Some(_))) {
            results.source = Source::Ended;
        }
        next
    }

    fn read(&mut self, results: &mut Results) -> Result<Option<RecordBatch>> {
        self.check(results)?;
        let next = match &mut results.source {
            Source::Answer(answer) => {
                if self.current != results.number {
                    results.begun.announce(&self.session)?;
                    self.session.resume(answer);
                    self.current = results.number;
                }
                answer.find(is_not_empty)
            }
            Source::Scanned(rows) => rows.find(is_not_empty),
            Source::Ended => None,
        };
        next.map(|rows| with_names(rows?, &results.schema)).transpose()
    }

    /// Computes and drops the rows of a result; returns the rows that the statement wrote.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) fn drained(&mut self, done: Done) -> Result<Option<i64>> {
        if let Some(mut results) = done.results {
            while self.next(&mut results)?.is_some() {}
        }
        Ok(done.changed)
    }
}

fn is_not_empty(next: &Result<RecordBatch>) -> bool {
    next.as_ref().map_or(true, |rows| rows.num_rows() > 0)
}

/// The number of rows in a command tag such as `INSERT 0 5`.
fn rows_in(tag: &str) -> Option<i64> {
    tag.rsplit_once(' ')?.1.parse().ok()
}
