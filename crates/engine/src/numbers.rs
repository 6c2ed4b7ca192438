//! Numbers that a table gives to its rows, as `GENERATED ... AS IDENTITY` does. None is given twice,
//! also after a crash: numbers are reserved in the manifest before the first of them is used. Closing the
//! database gives back those that are left; after a crash they stay unused.
//!
//! A number is also greater than all that rows have from elsewhere: the first use of a table's numbers
//! reads the column, and later rows are noted when they are admitted.

use crate::db::Database;
use crate::error::{Code, Error, Result};
use crate::ids::TableId;
use crate::manifest::Edit;
use crate::scan::{Projection, ScanRequest};
use crate::schema::TableSchema;
use crate::state::{Numbers, Reserved};
use arrow::array::AsArray;
use arrow::compute::{cast, max};
use arrow::datatypes::{DataType, Int64Type};

/// An edit reserves as many numbers as were given since the database was opened, at least the first and
/// at most the second of these. An edit costs a sync, and a crash loses what is reserved.
const RESERVED: (i64, i64) = (1_000, 1_000_000);

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
    /// The table does not exist, its numbers are used up, or the manifest cannot be written.
    pub fn next_numbers(&self, table: &TableSchema, count: u64) -> Result<i64> {
        let mut numbers = self.shared.numbers.lock();
        let Numbers { greatest, reserved } = numbers.entry(table.id).or_default();
        let of_table = self.reserved(table, greatest, reserved)?;
        let next = of_table.next.max(greatest.saturating_add(1));
        let used_up = || {
            let message = format!("table '{}' has no numbers left after {}", table.name, next - 1);
            Error::new(Code::LimitExceeded, message)
        };
        let count = i64::try_from(count).map_err(|_| used_up())?;
        let after = next.checked_add(count).filter(|_| *greatest < i64::MAX).ok_or_else(used_up)?;
        if after - 1 > of_table.to {
            let to = after.saturating_add(of_table.given.clamp(RESERVED.0, RESERVED.1));
            self.shared.manifest.lock().append(&Edit::ReserveNumbers { table: table.id, to })?;
            of_table.to = to;
        }
        (of_table.next, of_table.given) = (after, of_table.given.saturating_add(count));
        Ok(next)
    }

    /// Makes all later numbers of a table greater than this one; durable when this returns.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let table = db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64)).unwrap();
    /// db.raise_numbers(&table, 41).unwrap();
    /// db.raise_numbers(&table, 7).unwrap();
    /// assert_eq!(db.next_numbers(&table, 1).unwrap(), 42);
    /// ```
    ///
    /// # Errors
    /// The table does not exist, or the manifest cannot be written.
    pub fn raise_numbers(&self, table: &TableSchema, least: i64) -> Result<()> {
        let mut numbers = self.shared.numbers.lock();
        let Numbers { greatest, reserved } = numbers.entry(table.id).or_default();
        let of_table = self.reserved(table, greatest, reserved)?;
        if least > of_table.to {
            self.shared.manifest.lock().append(&Edit::ReserveNumbers { table: table.id, to: least })?;
            of_table.to = least;
        }
        of_table.next = of_table.next.max(least.saturating_add(1));
        Ok(())
    }

    /// The numbers of a table that are reserved; the first use finds them.
    fn reserved<'a>(
        &self,
        table: &TableSchema,
        greatest: &mut i64,
        reserved: &'a mut Option<Reserved>,
    ) -> Result<&'a mut Reserved> {
        if let Some(known) = reserved {
            return Ok(known);
        }
        let state = self.shared.manifest.lock().state().numbers.get(&table.id).copied().unwrap_or(0);
        *greatest = (*greatest).max(self.greatest_number(table)?);
        Ok(reserved.insert(Reserved { next: state.saturating_add(1), to: state, given: 0 }))
    }

    /// The greatest number in the rows of a table.
    fn greatest_number(&self, table: &TableSchema) -> Result<i64> {
        let view = self.shared.view();
        let rows = view.table(&table.name)?;
        let Some(place) = rows.schema().numbered() else { return Ok(0) };
        let mut greatest = 0;
        for batch in rows.scan(&ScanRequest { projection: Projection::Places(vec![place]), ..ScanRequest::all() })? {
            let numbers = cast(batch?.column(0), &DataType::Int64)?;
            greatest = greatest.max(max(numbers.as_primitive::<Int64Type>()).unwrap_or(0));
        }
        Ok(greatest)
    }

    /// Gives back the numbers that are reserved and were not used.
    pub(crate) fn give_back_numbers(&self) -> Result<()> {
        let numbers = std::mem::take(&mut *self.shared.numbers.lock());
        let mut manifest = self.shared.manifest.lock();
        let unused = |(table, numbers): (TableId, Numbers)| {
            let Reserved { next, to, .. } = numbers.reserved?;
            let is_left = next <= to && manifest.state().tables.contains_key(&table);
            is_left.then_some(Edit::ReserveNumbers { table, to: next - 1 })
        };
        let edits: Vec<Edit> = numbers.into_iter().filter_map(unused).collect();
        if edits.is_empty() || manifest.has_failed() { Ok(()) } else { manifest.append(&Edit::Several { edits }) }
    }
}
