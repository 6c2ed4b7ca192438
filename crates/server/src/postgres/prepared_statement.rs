//! Prepared statements of the extended protocol.

use super::columns::Columns;
use super::query::Query;
use super::values::{Fields, Parameters, Target};
use crate::error::user_error;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fleetdb_engine::{MemoryReservation, Value};
use fleetdb_query::{Access, InsertValues, KeyedWrite, Kind, Session, Statement, Store, Zone, held_bytes};
use parking_lot::Mutex;
use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::error::PgWireResult;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A prepared statement.
pub(crate) struct PreparedStatement {
    pub(super) statement: Statement,
    /// The part of its text that other clients see.
    pub(super) text: Arc<str>,
    /// Memory charged to the budget of queries.
    pub(super) _held: MemoryReservation,
    /// Whether it was analysed again, because its table had changed.
    pub(super) is_renewed: AtomicBool,
    /// The EXECUTE it was prepared from, if any.
    pub(super) execute: Option<Statement>,
    pub(super) kind: Kind,
    pub(super) takes: Access,
    /// Types of the parameters, as given by the client or else as derived from the statement.
    pub(super) types: Vec<Type>,
    pub(super) plan: Plan,
}

pub(super) enum Plan {
    /// An INSERT of plain values, analysed again when its table changes.
    Insert(Mutex<Arc<InsertValues>>),
    /// A write by primary keys, analysed again when its table changes.
    Keyed(Mutex<Arc<KeyedWrite>>),
    Query(Query),
    /// A FETCH, with the columns that its cursor had.
    Fetch(Fields),
    /// Planned at each run, with the values as literals. Holds the columns of RETURNING.
    Other(Option<Returns>),
}

/// The columns that a writing statement returns, as the session and as clients know them.
pub(super) struct Returns {
    pub(super) columns: SchemaRef,
    pub(super) described: Columns,
}

/// A statement as pgwire stores it.
pub(crate) type SharedStatement = Arc<PreparedStatement>;

impl PreparedStatement {
    /// The values of parameters; `target` gives the type of the place that a parameter is for, if
    /// known.
    pub(super) fn values(
        &self,
        parameters: &Parameters<'_>,
        target: impl Fn(usize) -> Target,
        zone: Zone,
    ) -> PgWireResult<Vec<Value>> {
        // Collecting into a `Result` would not reserve the exact capacity.
        let mut values = Vec::with_capacity(self.types.len());
        for (place, given) in self.types.iter().enumerate() {
            values.push(parameters.value(place, given, target(place), zone)?);
        }
        Ok(values)
    }

    /// The number of columns of its rows.
    pub(super) fn columns(&self) -> usize {
        match &self.plan {
            Plan::Query(query) => query.described.count(),
            Plan::Fetch(columns) => columns.len(),
            Plan::Other(Some(returns)) => returns.described.count(),
            _ => usize::from(matches!(self.kind, Kind::Show(_))),
        }
    }

    /// The columns of its rows, in this format.
    pub(super) fn fields(&self, format: &Format) -> PgWireResult<Fields> {
        match (&self.plan, &self.kind) {
            (Plan::Query(Query { described, .. }) | Plan::Other(Some(Returns { described, .. })), _) => {
                described.fields(format)
            }
            (Plan::Fetch(columns), _) => Ok(Arc::clone(columns)),
            (_, Kind::Show(name)) => {
                let (name, _) = fleetdb_postgres::setting(name)
                    .ok_or_else(|| user_error("42704", format!("unrecognized parameter \"{name}\"")))?;
                Columns::new(Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, false)]))).fields(format)
            }
            _ => Ok(Fields::default()),
        }
    }

    /// Records that it was analysed again.
    pub(super) fn set_renewed(&self) {
        self.is_renewed.store(true, Ordering::Relaxed);
    }

    /// Its memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        held_bytes(&self.text, matches!(self.plan, Plan::Query(_)))
    }

    /// Whether preparing the statement again would give the same, by which it may be used again.
    pub(super) fn is_current(&self, store: &Store, session: &Session) -> bool {
        let is_renewed = self.is_renewed.load(Ordering::Relaxed) || self.execute.is_some();
        if is_renewed || session.writes_temporary(&self.statement) {
            return false;
        }
        let zone = session.zone();
        match &self.plan {
            Plan::Insert(insert) => store.writer().is_ok_and(|db| insert.lock().fits(db, zone)),
            Plan::Keyed(write) => store.writer().is_ok_and(|db| write.lock().fits(db, zone)),
            Plan::Query(query) => query.is_current(),
            Plan::Fetch(_) | Plan::Other(_) => false,
        }
    }
}
