//! Numbers that a table gives to its rows, as `GENERATED ... AS IDENTITY` does. None is given twice,
//! also after a crash: numbers are reserved in the manifest before the first of them is used. Closing the
//! database gives back those that are left; after a crash they stay unused.

use crate::db::Database;
use crate::error::{Code, Error, Result};
use crate::ids::TableId;
use crate::manifest::Edit;
use crate::schema::TableSchema;

/// How many numbers an edit reserves beyond those that are asked for. An edit costs a sync.
const RESERVED: i64 = 1_000;

impl Database {
    /// Takes the next of a table's own numbers, as many as `count`; returns the first. Batches that fail
    /// leave gaps.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let table = db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64)).unwrap();
    /// assert_eq!(db.next_numbers(&table, 3).unwrap(), 1);
    /// assert_eq!(db.next_numbers(&table, 1).unwrap(), 4);
    /// ```
    ///
    /// # Errors
    /// The numbers are used up, or the manifest cannot be written.
    pub fn next_numbers(&self, table: &TableSchema, count: u64) -> Result<i64> {
        let mut numbers = self.shared.numbers.lock();
        let (next, reserved) = match numbers.get(&table.id) {
            Some(known) => *known,
            None => {
                let used = self.shared.manifest.lock().state().numbers.get(&table.id).copied().unwrap_or(0);
                (used.saturating_add(1), used)
            }
        };
        let used_up = || {
            Error::new(
                Code::LimitExceeded,
                format!("table '{}' has given its rows all numbers up to {next}", table.name),
            )
        };
        let after = i64::try_from(count).ok().and_then(|count| next.checked_add(count)).ok_or_else(used_up)?;
        let mut to = reserved;
        if after - 1 > reserved {
            to = after.saturating_add(RESERVED);
            self.shared.manifest.lock().append(&Edit::ReserveNumbers { table: table.id, to })?;
        }
        numbers.insert(table.id, (after, to));
        Ok(next)
    }

    /// Gives back the numbers that are reserved and were not used.
    pub(crate) fn give_back_numbers(&self) -> Result<()> {
        let numbers = std::mem::take(&mut *self.shared.numbers.lock());
        let mut manifest = self.shared.manifest.lock();
        let unused = |(table, (next, reserved)): (TableId, (i64, i64))| {
            let is_left = next <= reserved && manifest.state().tables.contains_key(&table);
            is_left.then_some(Edit::ReserveNumbers { table, to: next - 1 })
        };
        let edits: Vec<Edit> = numbers.into_iter().filter_map(unused).collect();
        if edits.is_empty() || manifest.has_failed() { Ok(()) } else { manifest.append(&Edit::Several { edits }) }
    }
}
