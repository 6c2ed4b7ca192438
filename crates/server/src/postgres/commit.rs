//! Gathers and commits what a client writes.

use super::connection::Connection;
use super::pending::Keyed;
use crate::error::postgres_error;
use fleetdb_engine::{Batch, Durability, Error, Result, Value, View};
use fleetdb_query::{InsertValues, KeyedWrite};
use pgwire::error::PgWireResult;
use std::sync::Arc;

impl Connection {
    /// Gathers the rows of an INSERT of plain values for the transaction or the next Sync; returns
    /// their number. Keyed writes of its tables have been [committed](Self::commit_keyed_of).
    pub(super) fn gather(&self, insert: &InsertValues, values: &[Value]) -> Result<usize> {
        let session = self.known_session();
        if let Some(session) = &session {
            session.check_may_write("INSERT")?;
        }
        let session = session.filter(|session| session.is_in_transaction());
        let db = self.shared.store.writer()?;
        let Some(session) = session else { return self.pending.lock().gather(db, insert, values) };
        let mut rows = Batch::new();
        let count = insert.push(db, values, &mut rows)?;
        session.gather(rows)?;
        Ok(count)
    }

    /// Writes what was gathered if it has keyed writes of one of these tables.
    pub(super) async fn commit_keyed_of(&self, tables: impl Iterator<Item = &str> + Send) -> PgWireResult<()> {
        if !self.pending.lock().has_keyed_of(tables) {
            return Ok(());
        }
        self.commit_pending().await
    }

    /// Runs a keyed write outside of a transaction. Returns the number of its rows. If that does not
    /// depend on the tables, the write is gathered.
    pub(super) async fn add_keyed(&self, write: &Arc<KeyedWrite>, values: Vec<Value>) -> PgWireResult<u64> {
        let keys = write.inserted_keys(&values).unwrap_or_default();
        let is_apart = self.pending.lock().is_apart(write, &keys);
        if !is_apart {
            self.commit_pending().await?;
        }
        if let Some(count) = write.known_count() {
            self.pending.lock().gather_keyed(write, values, keys).map_err(|e| postgres_error(&e))?;
            return Ok(count);
        }
        let (rows, mut keyed) = self.pending.lock().take();
        keyed.push((Arc::clone(write), values));
        self.commit_all(rows, keyed).await
    }

    /// Writes what was gathered; returns once it has the session's durability.
    pub(super) async fn commit_pending(&self) -> PgWireResult<()> {
        let (rows, keyed) = {
            let mut pending = self.pending.lock();
            if pending.is_empty() {
                return Ok(());
            }
            pending.take()
        };
        match keyed.is_empty() {
            true => self.commit(rows.with_durability(self.durability())).await,
            false => self.commit_all(rows, keyed).await.map(|_| ()),
        }
    }

    /// Writes rows and keyed writes in one batch; returns the number of rows of the last one.
    async fn commit_all(&self, mut rows: Batch, keyed: Vec<Keyed>) -> PgWireResult<u64> {
        let durability = self.durability();
        let may_be_long = keyed.iter().any(|(write, _)| !write.is_of_rows());
        let change = move |view: &View| {
            let (mut all, mut count) = (Batch::new(), 0);
            for (write, values) in &keyed {
                count = write.push(view, values, &mut all)?.ok_or_else(|| {
                    let table = &write.table().name;
                    Error::retry(format!("table '{table}' has changed since the statement was sent: send it again"))
                })?;
            }
            Ok((all.append(std::mem::take(&mut rows)).with_durability(durability), count))
        };
        self.shared.transact(may_be_long, change).await.map_err(|e| postgres_error(&e))
    }

    /// How durable the session wants its writes to be; `None` if the server decides.
    pub(super) fn durability(&self) -> Option<Durability> {
        self.known_session().map(|session| session.durability())
    }

    /// Writes a batch; no thread waits for it.
    pub(super) async fn commit(&self, batch: Batch) -> PgWireResult<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.shared.commit(batch).await.map(|_| ()).map_err(|e| postgres_error(&e))
    }
}
