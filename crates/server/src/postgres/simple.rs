//! The simple protocol: a text of several statements, which run one after another.

use super::connection::Connection;
use super::copy_out;
use crate::clients::shown;
use crate::error::{postgres_error, told, user_error};
use fleetdb_query::Statement;
use futures::{Sink, SinkExt};
use pgwire::api::copy::send_copy_in_response;
use pgwire::api::portal::Format;
use pgwire::api::query::{SimpleQueryHandler, send_execution_response, send_query_response};
use pgwire::api::results::Response;
use pgwire::api::store::PortalStore;
use pgwire::api::{ClientInfo, ClientPortalStore, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use pgwire::messages::simplequery::Query;
use std::fmt::Debug;
use std::sync::Arc;

#[async_trait::async_trait]
impl SimpleQueryHandler for Connection {
    /// Answers each statement before it runs the next, since a session runs one at a time. pgwire's
    /// own handler runs all statements before it sends the first answer.
    async fn on_query<C>(&self, client: &mut C, query: Query) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        self.set_busy();
        self.ask_rights_again();
        self.statement_started(&shown(&query.query));
        let told = |error| told(error, Some(&query.query));
        if let Some(response) = self.run_kept(&query.query).await.map_err(told)? {
            if let Response::Query(rows) = response {
                send_query_response(client, rows, true).await?;
            }
            return self.ready(client).await;
        }
        let statements = self.parse(&query.query).await.map_err(told)?;
        if statements.is_empty() {
            client.feed(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
        }
        // As in PostgreSQL, an error undoes what other statements of the text have set.
        let is_one = statements.len() == 1;
        let mut before = if is_one { None } else { self.session()?.settings_before() };
        let last = statements.len().saturating_sub(1);
        for (number, statement) in statements.into_iter().enumerate() {
            let mut response = self.run_simple(statement).await;
            // What is gathered is written before the last statement is answered.
            if number == last && response.is_ok() {
                response = self.commit_pending().await.and(response);
            }
            let response = match response {
                Ok(response) => response,
                Err(error) => {
                    if let Some(before) = before {
                        self.session()?.undo_settings(before);
                        self.report_settings(client).await?;
                    }
                    return Err(told(error));
                }
            };
            let is_end = matches!(response, Response::TransactionEnd(_));
            match response {
                Response::Query(rows) => send_query_response(client, rows, true).await?,
                Response::CopyIn(copy) => {
                    client.set_state(PgWireConnectionState::CopyInProgress(false));
                    return send_copy_in_response(client, copy).await;
                }
                Response::CopyOut(copy) => copy_out::send(client, copy, &self.copied_out).await?,
                other => self.send_done(client, other).await?,
            }
            if is_end && !is_one {
                before = self.session()?.settings_before();
            }
        }
        self.commit_pending().await?;
        self.ready(client).await
    }

    async fn do_query<C>(&self, _client: &mut C, _text: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        Err(user_error("XX000", "statements are run one by one"))
    }
}

impl Connection {
    /// Says that the client may send the next text.
    async fn ready<C>(&self, client: &mut C) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send,
        PgWireError: From<C::Error>,
    {
        self.report_settings(client).await?;
        let ready = ReadyForQuery::new(client.transaction_status());
        client.feed(PgWireBackendMessage::ReadyForQuery(ready)).await?;
        Ok(())
    }

    async fn run_simple(&self, statement: Statement) -> PgWireResult<Response> {
        let session = self.session()?;
        let statement = session.named(statement).map_err(|e| postgres_error(&e))?;
        let command = statement.command();
        self.check(command.access)?;
        let kind = command.kind.map_err(|e| postgres_error(&e))?;
        let zone = session.zone();
        if session.writes_temporary(&statement) {
            return self.run(&statement, &kind, &Format::UnifiedText).await;
        }
        if let Some(insert) = self.shared.insert_values(&statement, zone).map_err(|e| postgres_error(&e))? {
            return self.insert(&insert, &[]).await;
        }
        if let Some(write) = self.shared.keyed_write(&statement, zone)
            && let Some(values) = write.fitted(Vec::new())
            && let Some(response) = self.write_keyed(&Arc::new(write), values).await?
        {
            return Ok(response);
        }
        self.run(&statement, &kind, &Format::UnifiedText).await
    }

    /// Answers a statement that returns no rows.
    pub(super) async fn send_done<C>(&self, client: &mut C, response: Response) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let before = client.transaction_status();
        let (tag, after) = match response {
            Response::Execution(tag) => (tag, before),
            // Also after a ROLLBACK TO, which makes a failed transaction usable again.
            Response::TransactionStart(tag) => (tag, TransactionStatus::Transaction),
            Response::TransactionEnd(tag) => (tag, before.to_idle_state()),
            _ => return Err(user_error("XX000", "a statement returned an unexpected response")),
        };
        client.set_transaction_status(after);
        if let Some(warning) = self.take_warning() {
            client.feed(PgWireBackendMessage::NoticeResponse(warning)).await?;
        }
        send_execution_response(client, tag).await
    }
}
