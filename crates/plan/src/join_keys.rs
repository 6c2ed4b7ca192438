//! The keys that a join has, for the scan of its other side.

use fleetdb_engine::{KeyCondition, KeyPredicate, Value};
use std::sync::{Mutex, PoisonError};

/// Seeking one container costs about as much as reading past this many containers in a full scan.
const SEEK_CONTAINERS: u64 = 4;

/// The keys of one run of a join, for a key column of the scan.
#[derive(Debug)]
pub(crate) struct JoinKeys {
    column: usize,
    /// Known once the join has taken all rows of its first side, if they are not too many.
    known: Mutex<Option<Vec<Value>>>,
}

impl JoinKeys {
    /// Keys of the column with this index in its table.
    pub(crate) fn of(column: usize) -> Self {
        Self { column, known: Mutex::new(None) }
    }

    pub(crate) fn set(&self, keys: Option<Vec<Value>>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The condition that they set for the rows of a table with at least this many containers; `None` if
    /// reading all is not slower.
    pub(crate) fn predicate(&self, min_containers: u64) -> Option<KeyPredicate> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = known.as_ref().filter(|keys| keys.len() as u64 * SEEK_CONTAINERS <= min_containers)?;
        Some(KeyPredicate { column: self.column, test: KeyCondition::In(keys.clone()) })
    }
}
