//! Runs one statement, for both ways to send it.

use super::connection::Connection;
use super::copy_out;
use super::values::{self, Fields};
use crate::error::{postgres_error, told, user_error};
use crate::sessions::{ClientSession, Running};
use crate::work::Weight;
use fleetdb_engine::{Result, Value};
use fleetdb_postgres::column_names;
use fleetdb_query::{Access, Answer, CopyFormat, InsertValues, KeyedWrite, Kind, Session, Statement};
use futures::StreamExt;
use pgwire::api::portal::Format;
use pgwire::api::results::{CopyResponse, Response, Tag};
use pgwire::error::PgWireResult;
use std::sync::Arc;
use std::time::Instant;

const NO_TRANSACTION: &str = "there is no transaction in progress";

impl Connection {
    /// Refuses a statement that the client's role does not allow.
    pub(super) fn check(&self, takes: Access) -> PgWireResult<()> {
        let role = self.role()?;
        crate::access::check(&self.identity()?.name, role, takes).map_err(|e| postgres_error(&e))
    }

    /// Runs a statement other than an INSERT of plain values.
    pub(super) async fn run(&self, statement: &Statement, kind: &Kind, format: &Format) -> PgWireResult<Response> {
        let session = self.session()?;
        // This statement must see the rows that were sent before it.
        self.commit_pending().await?;
        match kind {
            Kind::Begin => {
                session.check_transaction().map_err(|e| postgres_error(&e))?;
                // As in PostgreSQL, BEGIN within a transaction only causes a warning.
                let warning = match session.is_in_transaction() {
                    true => Some("there is already a transaction in progress"),
                    false => session.begin_as(statement).map_err(|e| postgres_error(&e))?,
                };
                self.warn(warning);
                Ok(Response::TransactionStart(Tag::new("BEGIN")))
            }
            Kind::Commit => {
                if !session.is_in_transaction() {
                    self.warn(Some(NO_TRANSACTION));
                    return Ok(Response::TransactionEnd(Tag::new("COMMIT")));
                }
                self.cursors.end_transaction(&session);
                let done = self.commit_transaction(&session, statement).await;
                // Even if the COMMIT failed, the transaction has ended; a client that retries
                // begins a new one.
                session.transaction_ended();
                done.map(|tag| Response::TransactionEnd(Tag::new(&tag)))
            }
            Kind::Rollback => {
                if session.is_in_transaction() {
                    session.execute(statement.clone()).map_err(|e| postgres_error(&e))?;
                    self.cursors.end_transaction(&session);
                } else {
                    self.warn(Some(NO_TRANSACTION));
                }
                Ok(Response::TransactionEnd(Tag::new("ROLLBACK")))
            }
            Kind::RollbackTo(savepoint) => {
                let number = session.roll_back_to(savepoint).map_err(|e| postgres_error(&e))?;
                self.cursors.roll_back_to(&session, number);
                Ok(Response::TransactionStart(Tag::new("ROLLBACK")))
            }
            Kind::Setting(tag) => {
                self.warn(session.set(statement).map_err(|e| postgres_error(&e))?);
                Ok(Response::Execution(Tag::new(tag)))
            }
            Kind::Nothing(tag) => {
                session.check_transaction().map_err(|e| postgres_error(&e))?;
                self.warn((*tag == "COMMENT").then_some("comments are not stored"));
                Ok(Response::Execution(Tag::new(tag)))
            }
            Kind::Discard => {
                session.discard_all().map_err(|e| postgres_error(&e))?;
                self.plans.lock().clear();
                self.unnamed.lock().clear();
                self.cursors.clear(&session);
                Ok(Response::Execution(Tag::new("DISCARD ALL")))
            }
            Kind::CopyFromStdin(copy) => {
                let columns = self.begin_copy(copy)?;
                let format = i8::from(copy.form.format == CopyFormat::Binary);
                Ok(Response::CopyIn(CopyResponse::new(format, columns, futures::stream::empty().boxed())))
            }
            Kind::CopyToStdout(copy) => {
                // Positions would refer to this part of the text, not to the text that the client
                // sent.
                let query = self.parse_one(&copy.query).await.map_err(|error| told(error, None))?;
                let command = query.command();
                self.check(command.access)?;
                // A statement without rows must be refused before it runs.
                if command.kind.map_err(|e| postgres_error(&e))? != Kind::Query && !query.has_returning() {
                    return Err(user_error("0A000", "COPY ... TO STDOUT requires a query that returns rows"));
                }
                let is_binary = copy.form.format == CopyFormat::Binary;
                let format = if is_binary { Format::UnifiedBinary } else { Format::UnifiedText };
                match self.run_planned(&session, query, &format).await.map_err(|error| told(error, None))? {
                    Response::Query(rows) => {
                        let count = Arc::clone(&self.copied_out);
                        Ok(Response::CopyOut(copy_out::response(copy.form.clone(), rows, count)))
                    }
                    _ => Err(user_error("0A000", "COPY ... TO STDOUT requires a query that returns rows")),
                }
            }
            Kind::Declare(declare) => self.declare(&session, declare).await,
            Kind::Fetch(name, count) => self.fetch(&session, name, *count, format).await,
            Kind::Move(name, count) => self.pass_over(&session, name, *count).await,
            Kind::Close(name) => self.close_cursor(&session, name.as_deref()),
            Kind::Definition(what) => {
                let is_temporary = session.writes_temporary(statement);
                let done = self.run_planned(&session, statement.clone(), format).await?;
                if session.is_in_transaction() && !is_temporary {
                    self.warn_also(format!("{what} has taken effect: ROLLBACK will not undo it"));
                }
                Ok(done)
            }
            Kind::Savepoint(_) | Kind::Release(_) | Kind::Query | Kind::Insert | Kind::Show(_) | Kind::Other => {
                self.run_planned(&session, statement.clone(), format).await
            }
        }
    }

    /// Commits the open transaction; returns the command tag.
    async fn commit_transaction(&self, session: &ClientSession, statement: &Statement) -> PgWireResult<String> {
        if session.has_read_rows() {
            let statement = statement.clone();
            let running = self.start(session, Weight::Light, move |session| session.execute(statement)).await?;
            return Ok(running.tag().to_owned());
        }
        match session.take_transaction().map_err(|e| postgres_error(&e))? {
            Some(batch) => self.commit(batch).await.map(|()| "COMMIT".to_owned()),
            None => Ok("ROLLBACK".to_owned()),
        }
    }

    async fn run_planned(
        &self,
        session: &ClientSession,
        statement: Statement,
        format: &Format,
    ) -> PgWireResult<Response> {
        let (names, weight) = (column_names(&statement), Weight::of(&statement));
        let running = self.start(session, weight, move |session| session.execute(statement)).await?;
        let columns = running.schema().map(|schema| values::fields(&names.of(schema), format).map(Arc::new));
        self.respond(running, columns.transpose()?)
    }

    /// The response for a statement: its rows if it has columns, else its tag.
    pub(super) fn respond(&self, running: Running<ClientSession>, columns: Option<Fields>) -> PgWireResult<Response> {
        self.warn_of(&running);
        match columns {
            None => Ok(Response::Execution(Tag::new(running.tag()))),
            Some(columns) => {
                let (zone, verb) = (self.session()?.zone(), running.verb().to_owned());
                let mut response = values::response(&self.shared, running, columns, zone);
                // pgwire appends the row count.
                response.set_command_tag(&verb);
                Ok(Response::Query(response))
            }
        }
    }

    /// Sends what a statement warns of with the next answer.
    pub(super) fn warn_of(&self, running: &Running<ClientSession>) {
        if let Some(warning) = running.warning() {
            self.warn(Some(warning));
        }
    }

    /// Starts a statement; `begin` executes it.
    pub(super) async fn start(
        &self,
        session: &ClientSession,
        weight: Weight,
        begin: impl FnOnce(&ClientSession) -> Result<Answer> + Send,
    ) -> PgWireResult<Running<ClientSession>> {
        let begun = Instant::now();
        let running = Running::start_here(&self.shared.work, weight, session.clone(), begin).await;
        self.started(begun, running).map_err(|e| postgres_error(&e))
    }

    /// Records in the metrics that a statement has started or failed to start.
    pub(super) fn started(
        &self,
        begun: Instant,
        running: Result<Running<ClientSession>>,
    ) -> Result<Running<ClientSession>> {
        self.shared.metrics.postgres.ended(begun, running.is_ok());
        running
    }

    /// Takes the rows of an INSERT of plain values, which are written with the transaction or at
    /// the next Sync.
    pub(super) async fn insert(&self, insert: &InsertValues, values: &[Value]) -> PgWireResult<Response> {
        self.commit_keyed_of(insert.tables()).await?;
        let begun = Instant::now();
        let gathered = self.gather(insert, values);
        self.shared.metrics.postgres.ended(begun, gathered.is_ok());
        let rows = gathered.map_err(|e| postgres_error(&e))?;
        Ok(Response::Execution(Tag::new("INSERT").with_oid(0).with_rows(rows)))
    }

    /// Runs a write by primary keys with values that it takes; `None` if it must be planned. If the
    /// number of its rows does not depend on the tables, it is written at the next Sync.
    pub(super) async fn write_keyed(
        &self,
        write: &Arc<KeyedWrite>,
        values: Vec<Value>,
    ) -> PgWireResult<Option<Response>> {
        let session = self.session()?;
        let begun = Instant::now();
        let run = async {
            if session.is_in_transaction() {
                let run = || session.run_keyed(write, &values);
                return self.shared.work.run_here(Weight::Light, run).await.flatten().map_err(|e| postgres_error(&e));
            }
            session.check_may_write(write.verb()).map_err(|e| postgres_error(&e))?;
            self.add_keyed(write, values).await.map(Some)
        };
        let count = run.await;
        self.shared.metrics.postgres.ended(begun, count.is_ok());
        let tag = Tag::new(write.verb());
        let tag = if write.verb() == "INSERT" { tag.with_oid(0) } else { tag };
        Ok(count?.map(|count| Response::Execution(tag.with_rows(count as usize))))
    }

    /// Parses a text into its statements.
    pub(super) async fn parse(&self, text: &str) -> PgWireResult<Vec<Statement>> {
        self.parse_by(text, Session::parse).await
    }

    /// Parses the one statement of a text that was part of another statement.
    pub(super) async fn parse_one(&self, text: &str) -> PgWireResult<Statement> {
        self.parse_by(text, Session::parse_one).await
    }

    /// Parses a text: on this thread if it is [light](Weight), otherwise on a worker thread when it
    /// gets its turn.
    async fn parse_by<T: Send + 'static>(&self, text: &str, parse: fn(&Session, &str) -> Result<T>) -> PgWireResult<T> {
        let session = self.session()?;
        let parsed = match Weight::of_text(text) {
            Weight::Light => parse(&session, text),
            heavy => {
                let text = text.to_owned();
                self.shared.work.run_as(heavy, move || parse(&session, &text)).await.and_then(|parsed| parsed)
            }
        };
        parsed.map_err(|e| postgres_error(&e))
    }
}
