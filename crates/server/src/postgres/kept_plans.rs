//! Runs queries that a client sends again and again without preparing them, by plans that are kept
//! ([`PlanCache`](fleetdb_query::PlanCache)).

use super::connection::Connection;
use super::query::{KeptQuery, Query};
use crate::error::postgres_error;
use crate::sessions::ClientSession;
use crate::work::Weight;
use arrow::datatypes::SchemaRef;
use fleetdb_engine::{ErrorKind, Value};
use fleetdb_postgres::column_names;
use fleetdb_query::{Access, Cached, ComparedLiterals, Prepared, Statement, held_bytes, may_have_effects};
use pgwire::api::portal::Format;
use pgwire::api::results::Response;
use pgwire::error::PgWireResult;
use std::sync::Arc;

impl Connection {
    /// Runs a text whose plan is kept; `None` if it must be parsed and planned.
    pub(super) async fn run_kept(&self, text: &str) -> PgWireResult<Option<Response>> {
        let Some(ComparedLiterals { text, values }) = ComparedLiterals::of(text) else { return Ok(None) };
        let session = self.session()?;
        let plan = self.plans.lock().look_up(&text);
        let kept = match plan {
            Cached::Kept(kept) if kept.query.is_current() => Some(kept),
            Cached::Kept(_) => {
                self.plans.lock().forget(&text);
                None
            }
            // The plan would be that of the transaction's tables.
            Cached::ToPrepare if !session.is_in_transaction() => self.prepare_kept(&session, &text, &values).await,
            Cached::ToPrepare | Cached::None => None,
        };
        let Some(kept) = kept.filter(|kept| kept.query.prepared.takes_literals(&values)) else { return Ok(None) };
        self.check(Access::Read)?;
        session.check_transaction().map_err(|e| postgres_error(&e))?;
        self.commit_pending().await?;
        let query = &kept.query;
        let running = match self.begin_prepared(&session, query, Weight::Light, &values).await {
            Ok(running) => running,
            // Planned with its literals, the text says where the error is.
            Err(error) if error.kind() == ErrorKind::Input => return Ok(None),
            Err(error) => return Err(postgres_error(&error)),
        };
        // The table has changed since, so the plan is another.
        if !query.is_first_plan() {
            self.plans.lock().forget(&text);
            return Ok(None);
        }
        query.ran(&running);
        self.respond(running, Some(query.described.fields(&Format::UnifiedText)?)).map(Some)
    }

    /// Prepares a query to keep its plan; `None` if it cannot be kept.
    async fn prepare_kept(&self, session: &ClientSession, text: &str, values: &[Value]) -> Option<Arc<KeptQuery>> {
        let prepared = self.prepared(session, text).await.filter(|prepared| prepared.0.takes_literals(values));
        let Some((prepared, described)) = prepared else {
            self.plans.lock().never_keep(text);
            return None;
        };
        let bytes = held_bytes(text, true);
        let held = self.shared.store.query_memory().reserve("this query's plan", bytes).ok()?;
        let kept = Arc::new(KeptQuery { query: Query::new(prepared, described), _held: held });
        self.plans.lock().keep(text, Arc::clone(&kept), bytes);
        Some(kept)
    }

    /// A query and its columns as clients know them; `None` if it cannot be prepared or should not be.
    async fn prepared(&self, session: &ClientSession, text: &str) -> Option<(Prepared<ClientSession>, SchemaRef)> {
        if may_have_effects(text) {
            return None;
        }
        let is_kept = |statement: &Statement| {
            Weight::of(statement) == Weight::Light && statement.command().access == Access::Read
        };
        let statement = self.parse_one(text).await.ok().filter(is_kept)?;
        let (names, session) = (column_names(&statement), session.clone());
        let prepared =
            self.shared.work.run_here(Weight::Light, || Prepared::new(session, statement)).await.ok()?.ok()?;
        let described = names.of(&prepared.schema());
        Some((prepared, described))
    }
}
