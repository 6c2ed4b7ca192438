//! Runs prepared queries.

use super::connection::Connection;
use super::prepared_statement::PreparedStatement;
use super::query::Query;
use super::values::{self, Parameters, Target};
use crate::error::postgres_error;
use crate::sessions::{ClientSession, Running};
use crate::work::Weight;
use fleetdb_engine::{Error, Value};
use pgwire::error::PgWireResult;
use std::time::Instant;

impl Connection {
    /// Runs a prepared query.
    pub(super) async fn run_prepared(
        &self,
        stored: &PreparedStatement,
        query: &Query,
        parameters: &Parameters<'_>,
    ) -> PgWireResult<Running<ClientSession>> {
        let session = self.session()?;
        session.check_transaction().map_err(|e| postgres_error(&e))?;
        self.commit_pending().await?;
        let types = query.prepared.parameter_types();
        let time_type = |place: usize| values::time_type(types.get(place)?.as_ref()?);
        let target = |place| time_type(place).map_or(Target::Unknown, Target::Time);
        let values = stored.values(parameters, target, session.zone())?;
        let running = self.begin_prepared(&session, query, Weight::of(&stored.statement), &values).await;
        let running = running.map_err(|e| postgres_error(&e))?;
        query.check(&running)?;
        query.ran(&running);
        Ok(running)
    }

    /// Starts a prepared query; stays on this thread if the query is likely to be short.
    pub(super) async fn begin_prepared(
        &self,
        session: &ClientSession,
        query: &Query,
        weight: Weight,
        values: &[Value],
    ) -> Result<Running<ClientSession>, Error> {
        let (prepared, begun) = (&query.prepared, Instant::now());
        // What is only read may be in an object store, so a read that was short may be long next time.
        if query.was_short() && self.shared.store.writer().is_ok() {
            let session = session.clone();
            let running = Running::start_short(&self.shared.work, session, |_| prepared.start_kept(values)).await;
            if let Some(running) = running.transpose() {
                return self.started(begun, running);
            }
        }
        let running = Running::start_here(&self.shared.work, weight, session.clone(), |_| prepared.start(values)).await;
        self.started(begun, running)
    }
}
