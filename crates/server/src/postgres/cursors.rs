//! Cursors: `DECLARE name CURSOR FOR query`, `FETCH`, `CLOSE`. A cursor is a statement whose rows
//! are still being read; it occupies no thread between fetches.

use super::columns::Columns;
use super::connection::Connection;
use super::values::{self, Fields};
use crate::error::{postgres_error, user_error};
use crate::server::Shared;
use crate::sessions::{ClientSession, Running};
use crate::work::Weight;
use arrow::array::RecordBatch;
use fleetdb_postgres::column_names;
use fleetdb_query::{Declare, Kind};
use futures::{Stream, TryStreamExt};
use parking_lot::Mutex;
use pgwire::api::portal::Format;
use pgwire::api::results::{QueryResponse, Response, Tag};
use pgwire::error::PgWireResult;
use std::collections::HashMap;
use std::sync::Arc;

/// Most cursors of one connection. Each may hold a few thousand rows.
const MAX_CURSORS: usize = 100;

/// The cursors of a client.
#[derive(Default)]
pub(super) struct Cursors(Mutex<HashMap<String, Arc<Cursor>>>);

pub(super) struct Cursor {
    columns: Columns,
    declared: Declare,
    /// The last savepoint of the session when the cursor was declared.
    savepoint: u64,
    rows: tokio::sync::Mutex<Rows>,
}

struct Rows {
    running: Running<ClientSession>,
    /// Rows that have been computed but exceeded the last FETCH.
    left: Option<RecordBatch>,
}

impl Cursors {
    fn find(&self, name: &str) -> PgWireResult<Arc<Cursor>> {
        let found = self.0.lock().get(name).cloned();
        found.ok_or_else(|| user_error("34000", format!("cursor \"{name}\" does not exist")))
    }

    /// Changes the set of cursors.
    fn change<T>(&self, session: &ClientSession, change: impl FnOnce(&mut HashMap<String, Arc<Cursor>>) -> T) -> T {
        let mut cursors = self.0.lock();
        let (before, changed) = (cursors.len(), change(&mut cursors));
        if cursors.len() != before {
            session.postgres.show_cursors(cursors.values().map(|cursor| cursor.declared.clone()).collect());
        }
        changed
    }

    /// Closes the cursors that do not outlive the transaction.
    pub(super) fn end_transaction(&self, session: &ClientSession) {
        self.change(session, |cursors| cursors.retain(|_, cursor| cursor.declared.holds));
    }

    /// Closes the cursors declared after a savepoint to which the transaction rolls back.
    pub(super) fn roll_back_to(&self, session: &ClientSession, savepoint: u64) {
        self.change(session, |cursors| cursors.retain(|_, cursor| cursor.savepoint < savepoint));
    }

    pub(super) fn clear(&self, session: &ClientSession) {
        self.change(session, HashMap::clear);
    }

    /// The columns of a cursor, if it exists.
    pub(super) fn fields(&self, name: &str, format: &Format) -> Option<PgWireResult<Fields>> {
        self.0.lock().get(name).map(|cursor| cursor.columns.fields(format))
    }
}

impl Connection {
    pub(super) async fn declare(&self, session: &ClientSession, declare: &Declare) -> PgWireResult<Response> {
        session.check_transaction().map_err(|e| postgres_error(&e))?;
        if !declare.holds && !session.is_in_transaction() {
            let text = "DECLARE CURSOR can only be used in transaction blocks: BEGIN first, or declare it WITH HOLD";
            return Err(user_error("25P01", text));
        }
        let (is_there, count) = {
            let cursors = self.cursors.0.lock();
            (cursors.contains_key(&declare.name), cursors.len())
        };
        if is_there {
            return Err(user_error("42P03", format!("cursor \"{}\" already exists", declare.name)));
        }
        if count >= MAX_CURSORS {
            return Err(user_error(
                "54000",
                format!("too many cursors: a connection may have {MAX_CURSORS}; CLOSE some"),
            ));
        }
        let query = self.parse_one(&declare.query).await?;
        let command = query.command();
        self.check(command.access)?;
        // Anything but a query must be refused before it runs.
        if command.kind.map_err(|e| postgres_error(&e))? != Kind::Query {
            return Err(user_error("42P11", "a cursor requires a read-only query"));
        }
        let (names, weight) = (column_names(&query), Weight::of(&query));
        let running = self.start(session, weight, |session| session.execute(query)).await?;
        let Some(columns) = running.schema().map(|schema| Columns::new(names.of(schema))) else {
            return Err(user_error("42P11", "a cursor requires a query that returns rows"));
        };
        let rows = tokio::sync::Mutex::new(Rows { running, left: None });
        let cursor = Arc::new(Cursor { columns, declared: declare.clone(), savepoint: session.savepoints(), rows });
        self.cursors.change(session, |cursors| cursors.insert(declare.name.clone(), cursor));
        Ok(Response::Execution(Tag::new("DECLARE CURSOR")))
    }

    /// Fetches the next rows of a cursor; without a count, all that are left.
    pub(super) async fn fetch(
        &self,
        session: &ClientSession,
        name: &str,
        count: Option<usize>,
        format: &Format,
    ) -> PgWireResult<Response> {
        let cursor = self.resume(session, name).await?;
        let fields = cursor.columns.fields(format)?;
        let batches = next_rows(cursor, Arc::clone(&self.shared), count);
        let mut response = QueryResponse::new(Arc::clone(&fields), values::encoded(fields, batches, session.zone()));
        response.set_command_tag("FETCH");
        Ok(Response::Query(response))
    }

    /// Skips the next rows of a cursor (MOVE).
    pub(super) async fn pass_over(
        &self,
        session: &ClientSession,
        name: &str,
        count: Option<usize>,
    ) -> PgWireResult<Response> {
        let cursor = self.resume(session, name).await?;
        let batches = next_rows(cursor, Arc::clone(&self.shared), count);
        let passed = batches.try_fold(0, async |passed, batch| Ok(passed + batch.num_rows())).await?;
        Ok(Response::Execution(Tag::new("MOVE").with_rows(passed)))
    }

    async fn resume(&self, session: &ClientSession, name: &str) -> PgWireResult<Arc<Cursor>> {
        session.check_transaction().map_err(|e| postgres_error(&e))?;
        let cursor = self.cursors.find(name)?;
        cursor.rows.lock().await.running.resume();
        Ok(cursor)
    }

    /// Closes a cursor; without a name, all cursors.
    pub(super) fn close_cursor(&self, session: &ClientSession, name: Option<&str>) -> PgWireResult<Response> {
        let Some(name) = name else {
            self.cursors.clear(session);
            return Ok(Response::Execution(Tag::new("CLOSE CURSOR ALL")));
        };
        self.cursors.find(name)?;
        self.cursors.change(session, |cursors| cursors.remove(name));
        Ok(Response::Execution(Tag::new("CLOSE CURSOR")))
    }
}

/// The next `count` rows of a cursor, or fewer if it ends.
fn next_rows(
    cursor: Arc<Cursor>,
    shared: Arc<Shared>,
    count: Option<usize>,
) -> impl Stream<Item = PgWireResult<RecordBatch>> {
    let state = (cursor, shared, count.unwrap_or(usize::MAX));
    futures::stream::try_unfold(state, |(cursor, shared, wanted)| async move {
        if wanted == 0 {
            return Ok(None);
        }
        let mut rows = cursor.rows.lock().await;
        let next = match rows.left.take() {
            Some(left) => Some(left),
            None => rows.running.next(&shared.work).await.map_err(|e| postgres_error(&e))?,
        };
        let Some(mut batch) = next else { return Ok(None) };
        if batch.num_rows() > wanted {
            rows.left = Some(batch.slice(wanted, batch.num_rows() - wanted));
            batch = batch.slice(0, wanted);
        }
        drop(rows);
        let wanted = wanted - batch.num_rows();
        Ok(Some((batch, (cursor, shared, wanted))))
    })
}
