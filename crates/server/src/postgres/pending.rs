//! The writes of a client that are gathered until it waits for them (Sync) or a statement must see
//! them. A pipeline thus costs one batch of the log.

use fleetdb_engine::{Batch, Code, Database, Error, MAX_BATCH_BYTES, MemoryReservation, QueryMemory, Result, Value};
use fleetdb_query::{InsertValues, KeyedWrite};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The largest number of rows of keyed writes in a batch.
const MAX_KEYED_ROWS: usize = 10_000;

/// A keyed write with its values.
pub(super) type Keyed = (Arc<KeyedWrite>, Vec<Value>);

/// The writes since the last Sync. The keyed ones read and write no rows of the others, so their order
/// does not matter.
pub(super) struct Pending {
    rows: Batch,
    keyed: Vec<Keyed>,
    /// The keys of the rows of `keyed`, by table.
    keys: HashMap<String, HashSet<Vec<u8>>>,
    /// Memory of `keyed` and `keys`.
    keyed_bytes: usize,
    memory: MemoryReservation,
}

impl Pending {
    pub(super) fn new(memory: &QueryMemory) -> Self {
        let memory = memory.reservation();
        Self { rows: Batch::new(), keyed: Vec::new(), keys: HashMap::new(), keyed_bytes: 0, memory }
    }

    pub(super) fn gather(&mut self, db: &Database, insert: &InsertValues, values: &[Value]) -> Result<usize> {
        let count = insert.push(db, values, &mut self.rows)?;
        self.reserve()?;
        Ok(count)
    }

    /// Gathers an INSERT whose keys [are apart](Self::is_apart).
    pub(super) fn gather_keyed(
        &mut self,
        write: &Arc<KeyedWrite>,
        values: Vec<Value>,
        keys: Vec<Vec<u8>>,
    ) -> Result<()> {
        let key_bytes: usize = keys.iter().map(|key| size_of::<Vec<u8>>() + key.len()).sum();
        self.keyed_bytes += write.bytes() + key_bytes + values.iter().map(Value::bytes).sum::<usize>();
        self.keys.entry(write.table().name.clone()).or_default().extend(keys);
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

    /// Whether a keyed write that inserts rows with these keys, or else changes rows, may be in one batch
    /// with these writes: none of them is of its rows.
    pub(super) fn is_apart(&self, write: &KeyedWrite, keys: &[Vec<u8>]) -> bool {
        let table = &write.table().name;
        if self.rows.tables().any(|of_rows| of_rows == table) {
            return false;
        }
        let Some(known) = self.keys.get(table) else { return true };
        let is_full = self.keys.values().map(HashSet::len).sum::<usize>() + keys.len() > MAX_KEYED_ROWS;
        !is_full && !keys.is_empty() && keys.iter().all(|key| !known.contains(key))
    }

    pub(super) fn has_keyed_of<'a>(&self, mut tables: impl Iterator<Item = &'a str>) -> bool {
        !self.keyed.is_empty() && tables.any(|table| self.keys.contains_key(table))
    }

    /// Whether there are no writes.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.keyed.is_empty()
    }

    /// Takes all writes.
    pub(super) fn take(&mut self) -> (Batch, Vec<Keyed>) {
        self.memory.release();
        (self.keyed_bytes, self.keys) = (0, HashMap::new());
        (std::mem::take(&mut self.rows), std::mem::take(&mut self.keyed))
    }

    /// Discards all writes.
    pub(super) fn clear(&mut self) {
        drop(self.take());
    }
}
