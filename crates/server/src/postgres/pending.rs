//! The writes of a client that are gathered until it waits for them (Sync) or a statement must see
//! them. A pipeline thus costs one batch of the log.

use fleetdb_engine::{Batch, Code, Database, Error, MAX_BATCH_BYTES, MemoryReservation, Result, Value};
use fleetdb_query::{InsertValues, KeyedWrite};
use std::sync::Arc;

/// The largest number of keyed writes in a batch; each is compared with all others.
const MAX_KEYED: usize = 256;

/// A keyed write with its values.
pub(super) type Keyed = (Arc<KeyedWrite>, Vec<Value>);

/// The writes since the last Sync. The keyed ones read and write no rows of the others, so their order
/// does not matter.
pub(super) struct Pending {
    rows: Batch,
    keyed: Vec<Keyed>,
    /// Memory of the values of `keyed`.
    keyed_bytes: usize,
    memory: MemoryReservation,
}

impl Pending {
    pub(super) fn new(db: &Database) -> Self {
        Self { rows: Batch::new(), keyed: Vec::new(), keyed_bytes: 0, memory: db.query_memory().reservation() }
    }

    pub(super) fn gather(&mut self, insert: &InsertValues, values: &[Value]) -> Result<usize> {
        let count = insert.push(values, &mut self.rows)?;
        self.reserve()?;
        Ok(count)
    }

    pub(super) fn gather_keyed(&mut self, write: &Arc<KeyedWrite>, values: Vec<Value>) -> Result<()> {
        self.keyed_bytes += values.iter().map(value_bytes).sum::<usize>();
        self.keyed.push((Arc::clone(write), values));
        self.reserve()
    }

    fn reserve(&mut self) -> Result<()> {
        let bytes = self.rows.bytes() + self.keyed_bytes;
        if bytes > MAX_BATCH_BYTES {
            return Err(Error::new(
                Code::LimitExceeded,
                format!("{bytes} bytes were sent without a Sync; the limit is {MAX_BATCH_BYTES}"),
            ));
        }
        self.memory.grow_to("the data sent since the last Sync", bytes)
    }

    /// Whether a keyed write may be in one batch with these.
    pub(super) fn is_apart(&self, write: &KeyedWrite, values: &[Value]) -> bool {
        self.keyed.len() < MAX_KEYED
            && self.rows.tables().all(|table| table != write.table().name)
            && self.keyed.iter().all(|(other, of_other)| write.is_apart(values, other, of_other))
    }

    pub(super) fn has_keyed_of<'a>(&self, mut tables: impl Iterator<Item = &'a str>) -> bool {
        !self.keyed.is_empty() && tables.any(|table| self.keyed.iter().any(|(write, _)| write.table().name == table))
    }

    /// Takes all writes.
    pub(super) fn take(&mut self) -> (Batch, Vec<Keyed>) {
        self.memory.release();
        self.keyed_bytes = 0;
        (std::mem::take(&mut self.rows), std::mem::take(&mut self.keyed))
    }

    /// Discards all writes.
    pub(super) fn clear(&mut self) {
        drop(self.take());
    }
}

/// Bytes of memory.
fn value_bytes(value: &Value) -> usize {
    let outside = match value {
        Value::Text(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + outside
}
