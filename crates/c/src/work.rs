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
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use fleetdb_engine::{Code, Durability, Error, Result, Value, View};
use fleetdb_postgres::Postgres;
use fleetdb_query::{Access, Answer, Canceller, Kind, Prepared, Session, SessionSettings, Statement, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows that come from the engine itself, without SQL.
pub(crate) type Scanned = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Nobody has the session's limits.
const NOBODY: u64 = 0;

/// Ends what a session runs.
pub(crate) struct Stop {
    canceller: Canceller,
    is_stopped: AtomicBool,
}

impl Stop {
    /// Ends the statement that runs, and those that would follow it in its call.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.canceller.cancel();
    }

    /// Begins a call: earlier stops do not concern it.
    pub(crate) fn begin(&self) {
        self.is_stopped.store(false, Ordering::Release);
    }

    /// Fails if the call must end.
    ///
    /// # Errors
    /// [`Code::Cancelled`].
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_stopped.load(Ordering::Acquire) {
            true => Err(Error::new(Code::Cancelled, "the call was cancelled")),
            false => Ok(()),
        }
    }
}

/// A result that is being read.
pub(crate) struct Results {
    number: u64,
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
    pub(crate) fn scanned(schema: SchemaRef, rows: Scanned) -> Self {
        Self { number: NOBODY, schema, source: Source::Scanned(rows) }
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
            Plan::Query(prepared) => Some(prepared.schema()),
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
        let stop = Arc::new(Stop { canceller: session.canceller(), is_stopped: AtomicBool::new(false) });
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

    /// Runs the statements of a text; returns the rows that the last one wrote. Rows of results are
    /// computed and dropped.
    ///
    /// # Errors
    /// Those of the session. The statements before the one that failed have taken effect.
    pub(crate) fn run(&mut self, text: &str) -> Result<Option<i64>> {
        self.stop.begin();
        self.current = NOBODY;
        // The plan of a single statement that is asked again is kept.
        let is_single = !text.trim_end().trim_end_matches(';').contains(';');
        if is_single && !self.session.is_in_transaction() {
            let answer = self.session.sql(text)?;
            let done = self.keep(answer);
            return self.drained(done);
        }
        let mut changed = None;
        for statement in self.session.parse(text)? {
            self.stop.check()?;
            let is_commit = matches!(statement.command().kind, Ok(Kind::Commit));
            let failed = self.session.check_transaction().err().filter(|_| is_commit);
            let done = self.execute(statement)?;
            // COMMIT of a failed transaction rolls it back. Its caller sees no tag, and must know.
            if let Some(failed) = failed {
                return Err(failed);
            }
            changed = self.drained(done)?;
        }
        Ok(changed)
    }

    /// The statements of a text.
    ///
    /// # Errors
    /// A syntax error.
    pub(crate) fn parse(&mut self, text: &str) -> Result<Vec<Statement>> {
        self.stop.begin();
        self.current = NOBODY;
        self.session.parse(text)
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// Those of the session.
    pub(crate) fn execute(&mut self, statement: Statement) -> Result<Done> {
        self.current = NOBODY;
        let answer = self.session.execute(statement)?;
        Ok(self.keep(answer))
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// A syntax error; or a query does not match the tables.
    pub(crate) fn prepare(&mut self, text: &str) -> Result<PreparedStatement> {
        self.stop.begin();
        self.current = NOBODY;
        let statement = self.session.parse_one(text).inspect_err(|_| self.session.fail_transaction())?;
        self.prepare_parsed(statement)
    }

    /// Prepares a parsed statement.
    ///
    /// # Errors
    /// A query does not match the tables.
    pub(crate) fn prepare_parsed(&mut self, statement: Statement) -> Result<PreparedStatement> {
        self.current = NOBODY;
        let (parameters, writes_rows) = (statement.parameters(), writes_rows(&statement));
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
        Ok(PreparedStatement { plan, parameters, writes_rows })
    }

    /// The types of a prepared statement's parameters; `None` where they are not known.
    ///
    /// # Errors
    /// The statement does not match the tables.
    pub(crate) fn parameter_types(&mut self, prepared: &PreparedStatement) -> Result<Vec<Option<DataType>>> {
        self.current = NOBODY;
        match &prepared.plan {
            Plan::Query(query) => Ok(query.parameter_types()),
            Plan::Other(_) if prepared.parameters == 0 => Ok(Vec::new()),
            Plan::Other(statement) => self.session.parameter_types_of(statement),
        }
    }

    /// Runs a prepared statement with these values.
    ///
    /// # Errors
    /// The values do not match the parameters, or those of the session.
    pub(crate) fn start(&mut self, prepared: &PreparedStatement, values: &[Value]) -> Result<Done> {
        self.stop.begin();
        self.current = NOBODY;
        // What is no query says itself what it lacks.
        let says_itself = values.is_empty() && matches!(prepared.plan, Plan::Other(_));
        if values.len() != prepared.parameters && !says_itself {
            let (count, given) = (prepared.parameters, values.len());
            return Err(Error::invalid(format!("the statement has {count} parameters, not {given}")));
        }
        let answer = match &prepared.plan {
            Plan::Query(query) => self.session.check_transaction().and_then(|()| query.start(values)),
            Plan::Other(statement) if values.is_empty() => self.session.execute(Statement::clone(statement)),
            Plan::Other(statement) => {
                statement.with_values(values).and_then(|statement| self.session.execute(statement))
            }
        };
        let answer = answer.inspect_err(|_| self.session.fail_transaction())?;
        Ok(self.keep(answer))
    }

    fn keep(&mut self, answer: Answer) -> Done {
        let changed = answer.tag().and_then(rows_in);
        let Some(schema) = answer.schema() else { return Done { changed, results: None } };
        self.last += 1;
        self.current = self.last;
        let results = Results { number: self.last, schema, source: Source::Answer(Box::new(answer)) };
        Done { changed, results: Some(results) }
    }

    /// The next rows of a result; `None` at its end. Batches are not empty.
    ///
    /// # Errors
    /// The statement failed. The result is then at its end.
    pub(crate) fn next(&mut self, results: &mut Results) -> Result<Option<RecordBatch>> {
        if let Source::Answer(answer) = &mut results.source
            && self.current != results.number
        {
            self.session.resume(answer);
            self.current = results.number;
        }
        let next = match &mut results.source {
            Source::Answer(answer) => answer.find(is_not_empty),
            Source::Scanned(rows) => rows.find(is_not_empty),
            Source::Ended => None,
        };
        if !matches!(next, Some(Ok(_))) {
            results.source = Source::Ended;
        }
        next.transpose()
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
