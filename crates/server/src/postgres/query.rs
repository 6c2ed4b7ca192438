//! Prepared queries of a client.

use super::columns::Columns;
use crate::error::postgres_error;
use crate::sessions::{ClientSession, Running};
use arrow::datatypes::{Schema, SchemaRef};
use fleetdb_engine::MemoryReservation;
use fleetdb_query::{Prepared, check_described};
use pgwire::error::PgWireResult;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A prepared query.
pub(super) struct Query {
    pub(super) prepared: Arc<Prepared<ClientSession>>,
    /// The columns as clients know them, from when the query was prepared.
    pub(super) described: Columns,
    /// The columns of the plan that the query was prepared with.
    first: SchemaRef,
    /// Whether the last run was short.
    is_short: AtomicBool,
}

impl Query {
    pub(super) fn new(prepared: Prepared<ClientSession>, described: SchemaRef) -> Self {
        let (first, described) = (prepared.schema(), Columns::new(described));
        Self { prepared: Arc::new(prepared), described, first, is_short: AtomicBool::new(false) }
    }

    /// Whether the plan is the one that the query was prepared with. It is replaced when a table changes.
    pub(super) fn is_first_plan(&self) -> bool {
        Arc::ptr_eq(&self.prepared.schema(), &self.first)
    }

    /// Whether preparing the query again would give the same.
    pub(super) fn is_current(&self) -> bool {
        self.is_first_plan() && self.prepared.is_current()
    }

    /// Records a run.
    pub(super) fn ran(&self, running: &Running<ClientSession>) {
        self.is_short.store(running.is_short(), Ordering::Relaxed);
    }

    /// Whether the last run was short.
    pub(super) fn was_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Refuses to send rows if the columns have changed since clients were told of them.
    pub(super) fn check(&self, running: &Running<ClientSession>) -> PgWireResult<()> {
        let gives_these = running.schema().is_some_and(|schema| schema.fields().len() == self.described.count());
        if gives_these && self.is_first_plan() {
            return Ok(());
        }
        let now = if gives_these { self.prepared.schema() } else { Arc::new(Schema::empty()) };
        check_described(self.described.schema(), &now).map_err(|e| postgres_error(&e))
    }
}

/// A query that was not prepared by its client, and its memory charged to the budget of queries.
pub(super) struct KeptQuery {
    pub(super) query: Query,
    pub(super) _held: MemoryReservation,
}
