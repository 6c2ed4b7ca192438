//! The extended protocol: a statement is prepared once, then bound and run many times.
//!
//! pgwire's own handlers send each answer separately. Here answers are gathered until the client
//! asks for them with Sync or Flush, so that a pipeline costs one write to the socket.

use super::columns::Columns;
use super::connection::Connection;
use super::copy_out;
use super::prepared_statement::{Plan, PreparedStatement, Returns, SharedStatement};
use super::query::Query;
use super::values::{self, Fields, Parameters, Target};
use crate::clients::shown;
use crate::error::{postgres_error, told, user_error};
use crate::sessions::{ClientSession, Running};
use crate::work::Weight;
use fleetdb_engine::{Code, ColumnType, Error};
use fleetdb_postgres::column_names;
use fleetdb_query::{Cached, KeyedWrite, Kind, Prepared, Statement, held_bytes};
use futures::{Sink, SinkExt};
use parking_lot::Mutex;
use pgwire::api::copy::send_copy_in_response;
use pgwire::api::portal::{Format, Portal, PortalExecutionState};
use pgwire::api::query::{ExtendedQueryHandler, send_partial_query_response, send_query_response};
use pgwire::api::results::{DescribeResponse, DescribeStatementResponse, FieldInfo, Response};
use pgwire::api::stmt::{QueryParser, StoredStatement};
use pgwire::api::store::{Entry, PortalStore};
use pgwire::api::{ClientInfo, ClientPortalStore, DEFAULT_NAME, PgWireConnectionState, Type};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription, RowDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete, Sync as PgSync,
    TARGET_TYPE_BYTE_PORTAL, TARGET_TYPE_BYTE_STATEMENT,
};
use pgwire::messages::response::ReadyForQuery;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a run of a prepared statement comes to.
pub(super) enum Outcome {
    /// A query, which may still be running, and its columns.
    Rows(Box<Running<ClientSession>>, Fields),
    Other(Response),
}

impl Connection {
    /// Prepares a statement without a name. Some drivers do so for each run, so one that is prepared
    /// again is kept.
    async fn prepare_unnamed(&self, text: &str, oids: &[u32], given: &[Option<Type>]) -> PgWireResult<SharedStatement> {
        let key = format!("{text}\0{oids:?}");
        let session = self.session()?;
        let known = self.unnamed.lock().look_up(&key);
        match known {
            Cached::Kept(kept) if kept.is_current(&self.shared.store, &session) => {
                self.statement_started(&kept.text);
                return Ok(kept);
            }
            Cached::None => return self.prepare(text, given).await,
            Cached::Kept(_) | Cached::ToPrepare => {}
        }
        let stored = self.prepare(text, given).await?;
        if stored.is_current(&self.shared.store, &session) {
            self.unnamed.lock().keep(&key, Arc::clone(&stored), stored.held_bytes());
        } else {
            self.unnamed.lock().never_keep(&key);
        }
        Ok(stored)
    }

    async fn prepare(&self, text: &str, given: &[Option<Type>]) -> PgWireResult<SharedStatement> {
        let shown = shown(text);
        self.statement_started(&shown);
        let mut statements = self.parse(text).await?;
        let (Some(mut statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(user_error("42601", "cannot insert multiple commands into a prepared statement"));
        };
        let session = self.session()?;
        let execute = statement.is_execute().then(|| statement.clone());
        statement = session.named(statement).map_err(|e| postgres_error(&e))?;
        let types: Vec<_> = given.iter().enumerate().filter_map(values::type_given).collect();
        if !types.is_empty() {
            statement.set_types(&types);
        }
        let command = statement.command();
        let kind = command.kind.map_err(|e| postgres_error(&e))?;
        let is_temporary = session.writes_temporary(&statement);
        let insert = match is_temporary {
            true => None,
            false => self.shared.insert_values(&statement, session.zone()).map_err(|e| postgres_error(&e))?,
        };
        let bytes = held_bytes(text, matches!(kind, Kind::Query));
        let held = self.shared.store.query_memory().reserve("this prepared statement", bytes);
        let held = held.map_err(|e| postgres_error(&e))?;
        let keyed = match is_temporary {
            true => None,
            false => self.shared.keyed_write(&statement, session.zone()),
        };
        let of_columns = |types: &[ColumnType]| types.iter().map(|of| values::type_of_column(*of)).collect::<Vec<_>>();
        let (plan, inferred) = match (&kind, insert, keyed) {
            (_, Some(insert), _) => {
                let types = of_columns(insert.parameter_types());
                (Plan::Insert(Mutex::new(Arc::new(insert))), types)
            }
            (_, None, Some(write)) => {
                let types = of_columns(write.parameter_types());
                (Plan::Keyed(Mutex::new(Arc::new(write))), types)
            }
            (Kind::Query, None, None) => {
                // Statements sent earlier must take effect first.
                self.commit_pending().await?;
                let (query, weight) = (statement.clone(), Weight::of(&statement));
                let prepared = self.shared.work.run_as(weight, move || Prepared::new(session, query)).await;
                let prepared = prepared.and_then(|prepared| prepared).map_err(|e| postgres_error(&e))?;
                let types = prepared.parameter_types();
                let types = types.iter().map(|of| values::type_of_parameter(of.as_ref())).collect();
                let described = column_names(&statement).of(&prepared.schema());
                (Plan::Query(Query::new(prepared, described)), types)
            }
            (Kind::Fetch(name, _), None, None) => {
                let columns = self.cursors.fields(name, &Format::UnifiedText).transpose()?;
                (Plan::Fetch(columns.unwrap_or_default()), Vec::new())
            }
            _ if statement.parameters() == 0 && !statement.has_returning() => (Plan::Other(None), Vec::new()),
            _ => {
                self.commit_pending().await?;
                let (of, weight) = (statement.clone(), Weight::of(&statement));
                let looked = move || (session.parameter_types_of(&of), session.returned_columns(&of));
                let looked = self.shared.work.run_as(weight, looked);
                let (types, columns) = looked.await.map_err(|e| postgres_error(&e))?;
                let types = match types {
                    Ok(types) => types,
                    // A statement that can only be planned with its values gets parameters of type
                    // text.
                    Err(error) if matches!(error.code(), Code::UndefinedTable | Code::UndefinedColumn) => {
                        return Err(postgres_error(&error));
                    }
                    Err(_) => Vec::new(),
                };
                let types = (0..statement.parameters()).map(|place| types.get(place).and_then(Option::as_ref));
                let types = types.map(values::type_of_parameter).collect();
                let columns = columns.map_err(|e| postgres_error(&e))?;
                let returns = columns.map(|columns| {
                    let described = Columns::new(column_names(&statement).of(&columns));
                    Returns { columns, described }
                });
                (Plan::Other(returns), types)
            }
        };
        let count = inferred.len().max(given.len());
        let unspecified = |of: &&Type| **of != Type::UNKNOWN;
        let types = (0..count).map(|place| {
            let given = given.get(place).and_then(Option::as_ref).filter(unspecified);
            given.or(inferred.get(place)).cloned().unwrap_or(Type::TEXT)
        });
        let (types, takes) = (types.collect(), command.access);
        statement.give_back_memory();
        Ok(Arc::new(PreparedStatement {
            statement,
            text: shown,
            _held: held,
            is_renewed: AtomicBool::new(false),
            execute,
            kind,
            takes,
            types,
            plan,
        }))
    }

    /// Runs a prepared statement; the number of parameters has been checked.
    pub(super) async fn execute(
        &self,
        stored: &PreparedStatement,
        parameters: &Parameters<'_>,
        format: &Format,
    ) -> PgWireResult<Response> {
        match self.outcome(stored, parameters, format).await? {
            Outcome::Rows(running, fields) => self.respond(*running, Some(fields)),
            Outcome::Other(response) => Ok(response),
        }
    }

    /// What a run of a prepared statement comes to.
    pub(super) async fn outcome(
        &self,
        stored: &PreparedStatement,
        parameters: &Parameters<'_>,
        format: &Format,
    ) -> PgWireResult<Outcome> {
        self.begin_run(stored)?;
        let response = match &stored.plan {
            // A temporary table may hide the one that it was prepared for.
            Plan::Insert(_) | Plan::Keyed(_) if self.session()?.writes_temporary(&stored.statement) => {
                self.run_with_values(stored, None, parameters, format).await
            }
            Plan::Insert(insert) => {
                let (mut known, zone) = (Arc::clone(&insert.lock()), self.session()?.zone());
                if !self.shared.store.writer().is_ok_and(|db| known.fits(db, zone)) {
                    let again = self.shared.insert_values(&stored.statement, zone).map_err(|e| postgres_error(&e))?;
                    let again = again
                        .ok_or_else(|| user_error("0A000", "the table has changed: prepare the statement again"))?;
                    known = Arc::new(again);
                    *insert.lock() = Arc::clone(&known);
                    stored.set_renewed();
                }
                let types = known.parameter_types();
                let target = |place: usize| types.get(place).copied().map_or(Target::Unknown, Target::Column);
                self.insert(&known, &stored.values(parameters, target, zone)?).await
            }
            Plan::Keyed(write) => match self.run_keyed(stored, write, parameters).await? {
                Some(response) => Ok(response),
                None => self.run_with_values(stored, None, parameters, format).await,
            },
            Plan::Query(query) => {
                let running = self.run_prepared(stored, query, parameters).await?;
                return Ok(Outcome::Rows(Box::new(running), query.described.fields(format)?));
            }
            Plan::Fetch(_) => self.run(&stored.statement, &stored.kind, format).await,
            Plan::Other(None) if parameters.values.is_empty() => {
                self.run(&stored.statement, &stored.kind, format).await
            }
            Plan::Other(returns) => self.run_with_values(stored, returns.as_ref(), parameters, format).await,
        };
        response.map(Outcome::Other)
    }

    /// Records that a run of a prepared statement begins.
    ///
    /// # Errors
    /// The client may not run it, or its EXECUTE refers to another statement now.
    fn begin_run(&self, stored: &PreparedStatement) -> PgWireResult<()> {
        self.statement_started(&stored.text);
        self.check(stored.takes)?;
        let Some(execute) = &stored.execute else { return Ok(()) };
        let now = self.session()?.named(execute.clone()).map_err(|e| postgres_error(&e))?;
        if now.to_string() == stored.statement.to_string() {
            return Ok(());
        }
        Err(user_error("0A000", format!("{execute} now refers to a different statement: prepare it again")))
    }

    /// Runs a prepared write by primary keys; `None` if it must be planned, which includes runs with
    /// values that do not fit.
    async fn run_keyed(
        &self,
        stored: &PreparedStatement,
        write: &Mutex<Arc<KeyedWrite>>,
        parameters: &Parameters<'_>,
    ) -> PgWireResult<Option<Response>> {
        let (mut known, zone) = (Arc::clone(&write.lock()), self.session()?.zone());
        if !self.shared.store.writer().is_ok_and(|db| known.fits(db, zone)) {
            let again = self.shared.keyed_write(&stored.statement, zone);
            let Some(again) = again.filter(|again| again.parameter_types() == known.parameter_types()) else {
                return Ok(None);
            };
            known = Arc::new(again);
            *write.lock() = Arc::clone(&known);
            stored.set_renewed();
        }
        let types = known.parameter_types();
        let target = |place: usize| types.get(place).copied().map_or(Target::Unknown, Target::Column);
        match stored.values(parameters, target, zone).ok().and_then(|values| known.fitted(values)) {
            Some(values) => self.write_keyed(&known, values).await,
            None => Ok(None),
        }
    }

    /// Runs a prepared statement with the values as literals.
    async fn run_with_values(
        &self,
        stored: &PreparedStatement,
        returns: Option<&Returns>,
        parameters: &Parameters<'_>,
        format: &Format,
    ) -> PgWireResult<Response> {
        let values = stored.values(parameters, |_| Target::Unknown, self.session()?.zone())?;
        let statement = stored.statement.with_values(&values).map_err(|e: Error| postgres_error(&e))?;
        if let Some(returns) = returns {
            return self.run_returning(statement, returns, format).await;
        }
        // The query of a cursor or of a COPY holds the values now.
        let kind = statement.command().kind.map_err(|e| postgres_error(&e))?;
        self.run(&statement, &kind, format).await
    }

    /// Runs a prepared statement with RETURNING.
    async fn run_returning(&self, statement: Statement, returns: &Returns, format: &Format) -> PgWireResult<Response> {
        let session = self.session()?;
        self.commit_pending().await?;
        let columns = Arc::clone(&returns.columns);
        let weight = Weight::of(&statement);
        let running = move |session: &ClientSession| session.execute_described(statement, Some(&columns));
        let running = self.start(&session, weight, running).await?;
        self.respond(running, Some(returns.described.fields(format)?))
    }

    /// The columns that a statement returns; for a FETCH, the current columns of its cursor.
    pub(super) fn columns(&self, stored: &SharedStatement, format: &Format) -> PgWireResult<Fields> {
        if let Kind::Fetch(cursor, _) = &stored.kind
            && let Some(fields) = self.cursors.fields(cursor, format)
        {
            return fields;
        }
        stored.fields(format)
    }

    /// Sends the result of an execution.
    pub(super) async fn answer<C>(&self, client: &mut C, response: Response) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        match response {
            Response::Query(rows) => send_query_response(client, rows, false).await,
            Response::TransactionEnd(tag) => {
                client.portal_store().clear_portals();
                self.send_done(client, Response::TransactionEnd(tag)).await
            }
            Response::CopyIn(copy) => {
                client.set_state(PgWireConnectionState::CopyInProgress(true));
                send_copy_in_response(client, copy).await
            }
            Response::CopyOut(copy) => copy_out::send(client, copy, &self.copied_out).await,
            other => self.send_done(client, other).await,
        }
    }
}

#[async_trait::async_trait]
impl ExtendedQueryHandler for Connection {
    type Statement = SharedStatement;
    type QueryParser = Describer;

    fn query_parser(&self) -> Arc<Self::QueryParser> {
        Arc::new(Describer)
    }

    async fn on_parse<C>(&self, client: &mut C, message: Parse) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.set_busy();
        let name = message.name.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned());
        if message.query.chars().all(|c| c == ';' || c.is_whitespace()) {
            client.portal_store().put_empty_statement(&name);
        } else {
            let given: Vec<Option<Type>> = message.type_oids.iter().map(|oid| Type::from_oid(*oid)).collect();
            let stored = match name.as_str() {
                DEFAULT_NAME => self.prepare_unnamed(&message.query, &message.type_oids, &given).await,
                _ => self.prepare(&message.query, &given).await,
            };
            let stored = stored.map_err(|error| told(error, Some(&message.query)))?;
            client.portal_store().put_statement(Arc::new(StoredStatement::new(name, stored, given)));
        }
        client.feed(PgWireBackendMessage::ParseComplete(ParseComplete::new())).await?;
        Ok(())
    }

    async fn on_bind<C>(&self, client: &mut C, message: Bind) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.set_busy();
        let name = message.statement_name.as_deref().unwrap_or(DEFAULT_NAME);
        let store = client.portal_store();
        let entry = store.get_statement(name).ok_or_else(|| PgWireError::StatementNotFound(name.to_owned()))?;
        let formats = (message.parameter_format_codes.len(), message.result_column_format_codes.len());
        check_bind(&entry, message.parameters.len(), formats)?;
        match entry {
            Entry::Value(stored) => store.put_portal(Arc::new(Portal::try_new(&message, stored)?)),
            Entry::Empty => store.put_empty_portal(message.portal_name.as_deref().unwrap_or(DEFAULT_NAME)),
        }
        client.feed(PgWireBackendMessage::BindComplete(BindComplete::new())).await?;
        Ok(())
    }

    async fn on_execute<C>(&self, client: &mut C, message: Execute) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.set_busy();
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        let entry = client.portal_store().get_portal(name);
        let Entry::Value(portal) = entry.ok_or_else(|| PgWireError::PortalNotFound(name.to_owned()))? else {
            return self._on_execute(client, message).await;
        };
        // Zero means all rows. pgwire's own handler reserves room for `max_rows` rows before there
        // is one.
        let most = usize::try_from(message.max_rows).unwrap_or(0);
        let state = portal.state();
        let mut state = state.lock().await;
        let mut rows = match std::mem::replace(&mut *state, PortalExecutionState::Finished) {
            PortalExecutionState::Suspended(rows) => rows,
            PortalExecutionState::Initial => {
                let parameters = Parameters::of_portal(&portal);
                let format = &portal.result_column_format;
                match self.execute(&portal.statement.statement, &parameters, format).await? {
                    Response::Query(rows) if most > 0 => rows,
                    response => return self.answer(client, response).await,
                }
            }
            PortalExecutionState::Finished => {
                drop(state);
                return self._on_execute(client, message).await;
            }
        };
        if send_partial_query_response(client, &mut rows, most).await? {
            *state = PortalExecutionState::Suspended(rows);
        }
        Ok(())
    }

    /// Like pgwire's handler, but a cursor is also a portal.
    async fn on_describe<C>(&self, client: &mut C, message: Describe) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => {
                let described = match client.portal_store().get_statement(name) {
                    Some(Entry::Value(stored)) => self.do_describe_statement(client, &stored).await?,
                    Some(Entry::Empty) => DescribeStatementResponse::no_data(),
                    None => return Err(PgWireError::StatementNotFound(name.to_owned())),
                };
                let types = described.parameters().into_iter().flatten().map(Type::oid).collect();
                client.feed(PgWireBackendMessage::ParameterDescription(ParameterDescription::new(types))).await?;
                feed_columns(client, described.fields()).await
            }
            TARGET_TYPE_BYTE_PORTAL => {
                let fields = match client.portal_store().get_portal(name) {
                    Some(Entry::Value(portal)) => {
                        self.columns(&portal.statement.statement, &portal.result_column_format)?
                    }
                    Some(Entry::Empty) => Fields::default(),
                    None => {
                        let of_cursor = self.cursors.fields(name, &Format::UnifiedText);
                        of_cursor.ok_or_else(|| PgWireError::PortalNotFound(name.to_owned()))??
                    }
                };
                feed_columns(client, &fields).await
            }
            other => Err(PgWireError::InvalidTargetType(other)),
        }
    }

    async fn on_sync<C>(&self, client: &mut C, _message: PgSync) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let committed = self.commit_pending().await;
        client.portal_store().rm_portal(DEFAULT_NAME);
        if let Err(error) = committed {
            client.set_transaction_status(self.failed());
            let error = pgwire::error::ErrorInfo::from(told(error, None));
            client.feed(PgWireBackendMessage::ErrorResponse(error.into())).await?;
        }
        self.report_settings(client).await?;
        self.ask_rights_again();
        let ready = ReadyForQuery::new(client.transaction_status());
        client.feed(PgWireBackendMessage::ReadyForQuery(ready)).await?;
        Ok(())
    }

    async fn on_close<C>(&self, client: &mut C, message: Close) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let name = message.name.as_deref().unwrap_or(DEFAULT_NAME);
        match message.target_type {
            TARGET_TYPE_BYTE_STATEMENT => client.portal_store().rm_statement(name),
            _ => client.portal_store().rm_portal(name),
        }
        client.feed(PgWireBackendMessage::CloseComplete(CloseComplete::new())).await?;
        Ok(())
    }

    async fn do_query<C>(
        &self,
        _client: &mut C,
        portal: &Portal<Self::Statement>,
        _max_rows: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Self::Statement>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let parameters = Parameters::of_portal(portal);
        self.execute(&portal.statement.statement, &parameters, &portal.result_column_format).await
    }
}

/// Feeds the description of the columns. pgwire's `send_describe_response` sends it at once, in a
/// packet of its own.
pub(super) async fn feed_columns<C>(client: &mut C, fields: &[FieldInfo]) -> PgWireResult<()>
where
    C: Sink<PgWireBackendMessage> + Unpin,
    PgWireError: From<C::Error>,
{
    let columns = match fields {
        [] => PgWireBackendMessage::NoData(NoData::new()),
        _ => PgWireBackendMessage::RowDescription(RowDescription::new(fields.iter().map(Into::into).collect())),
    };
    Ok(client.feed(columns).await?)
}

/// Refuses a Bind with the wrong number of parameters or format codes; `formats` holds the number
/// of format codes for parameters and for columns.
pub(super) fn check_bind(
    entry: &Entry<StoredStatement<SharedStatement>>,
    parameters: usize,
    formats: (usize, usize),
) -> PgWireResult<()> {
    let (wanted, columns) = match entry {
        Entry::Value(stored) => (stored.statement.types.len(), stored.statement.columns()),
        Entry::Empty => (0, 0),
    };
    if parameters != wanted {
        let text =
            format!("bind message supplies {parameters} parameters, but the prepared statement requires {wanted}");
        return Err(user_error("08P01", text));
    }
    let fits = |formats: usize, of: usize| formats <= 1 || formats == of;
    if !fits(formats.0, parameters) || !fits(formats.1, columns) {
        return Err(user_error("08P01", "bind message has the wrong number of format codes"));
    }
    Ok(())
}

/// Tells pgwire the parameter types and result columns of prepared statements.
pub(crate) struct Describer;

#[async_trait::async_trait]
impl QueryParser for Describer {
    type Statement = SharedStatement;

    async fn parse_sql<C>(
        &self,
        _client: &C,
        _sql: &str,
        _types: &[Option<Type>],
    ) -> PgWireResult<Option<SharedStatement>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        Err(user_error("XX000", "statements are prepared by the connection"))
    }

    fn get_parameter_types(&self, stored: &SharedStatement) -> PgWireResult<Vec<Type>> {
        Ok(stored.types.clone())
    }

    fn get_result_schema(&self, stored: &SharedStatement, format: Option<&Format>) -> PgWireResult<Vec<FieldInfo>> {
        stored.fields(format.unwrap_or(&Format::UnifiedText)).map(Arc::unwrap_or_clone)
    }
}
