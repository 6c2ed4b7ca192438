//! The rows that a transaction's writes depend on: those read by an UPDATE or an ON CONFLICT
//! clause. They are not locked. COMMIT reads them again under the commit lock, and the transaction
//! fails if they have changed (H. T. Kung, J. T. Robinson: On Optimistic Methods for Concurrency
//! Control, 1981).

use fleetdb_engine::{ScanRequest, TableSchema};
use std::collections::HashMap;
use std::sync::Arc;

/// A key or row encoded as comparable bytes.
pub(super) type Encoded = Box<[u8]>;

/// The rows of a table as they were read, by key; `None` for keys without a row.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(super) schema: Arc<TableSchema>,
    /// The scan that finds the rows.
    pub(super) read: ScanRequest,
    pub(super) rows: HashMap<Encoded, Option<Encoded>>,
}

impl Guard {
    /// The memory used, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let of_row = |(key, row): (&Encoded, &Option<Encoded>)| {
            size_of_val(key) + size_of_val(row) + 2 * key.len() + row.as_ref().map_or(0, |row| row.len())
        };
        size_of::<Self>() + self.rows.iter().map(of_row).sum::<usize>()
    }
}
