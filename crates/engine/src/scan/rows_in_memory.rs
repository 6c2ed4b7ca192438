//! Rows of a collection that the newest memtable has. It alone determines them, so that neither
//! segments nor a merge are needed, unless the table merges fields.

use super::batch_reader::{RowCondition, matching};
use super::bounds::ScanBounds;
use super::rows::BATCH_TEXT_BYTES;
use super::{ScanRequest, TableView};
use crate::column::ColumnBuilder;
use crate::error::Result;
use crate::key::{self, KeyValue};
use crate::memtable::{Inner, MemtableView};
use crate::schema::{Column, Role};
use crate::write::value::Value;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};

/// A scan of more keys than this merges all sources.
const MAX_KEYS: usize = 64;

/// A row of the newest memtable: its number, and the values of its key.
type FoundRow = (u32, Vec<KeyValue>);

impl TableView {
    /// The newest memtable, if it alone determines the rows that it has.
    fn newest_of_collection(&self) -> Option<&MemtableView> {
        let newest = self.memtables.last()?;
        let determines = self.schema.time.is_none() && self.expired.is_none() && !self.schema.merges_fields();
        determines.then_some(newest)
    }

    /// The row with this key in a collection's newest memtable, if it is there and not deleted. `inner`
    /// is the locked memtable.
    fn valid_row(&self, newest: &MemtableView, inner: &Inner, key: &[u8]) -> Option<u32> {
        // Deletes of the memtable's own generation have marked its rows.
        newest.row_of(inner, key).filter(|_| !self.deletes.hit(newest.generation(), key, u32::MAX, 0))
    }

    /// The row of a collection with this key, if the newest memtable has it.
    pub(super) fn row_in_memory(&self, key: &[u8]) -> Result<Option<Vec<Value>>> {
        let Some(newest) = self.newest_of_collection() else { return Ok(None) };
        let inner = newest.inner();
        let Some(row) = self.valid_row(newest, &inner, key) else { return Ok(None) };
        let keys = key::decode(key, &self.schema.key_types())?;
        let value = |(place, column): (usize, &Column)| match column.role {
            Role::Field => newest.value(&inner, column, row),
            _ => Value::of_key(&keys[self.schema.key_place(place)], column.column_type),
        };
        Ok(Some(self.schema.columns.iter().enumerate().map(value).collect()))
    }

    /// What a scan yields, if it is of a few rows of a collection and the newest memtable has all of
    /// them.
    pub(super) fn scan_in_memory(
        &self,
        request: &ScanRequest,
        bounds: &ScanBounds,
        places: &[usize],
        condition: Option<&RowCondition>,
    ) -> Result<Option<RecordBatch>> {
        let keys = bounds.keys.as_deref().unwrap_or_default();
        if !(1..=MAX_KEYS).contains(&keys.len()) || request.limit.is_some_and(|limit| limit < keys.len()) {
            return Ok(None);
        }
        let Some(memtable) = self.newest_of_collection() else { return Ok(None) };
        let is_long = |place: &usize| {
            let column = &self.schema.columns[*place];
            column.column_type.is_bytes() && keys.len() * memtable.text_bytes(column.id) > BATCH_TEXT_BYTES
        };
        if places.iter().any(is_long) {
            return Ok(None);
        }
        let mut found = Vec::with_capacity(keys.len());
        let inner = memtable.inner();
        for key in keys {
            if !bounds.passes(key)? {
                continue;
            }
            let Some(row) = self.valid_row(memtable, &inner, key) else { return Ok(None) };
            found.push((row, key::decode(key, &bounds.key_types)?));
        }
        // Texts are read under a lock of their own.
        drop(inner);
        if let Some(condition) = condition {
            let wanted = matching(condition, &self.columns_in_memory(memtable, &found, &condition.places)?)?;
            let mut is_wanted = wanted.values().iter();
            found.retain(|_| is_wanted.next() == Some(true));
        }
        self.columns_in_memory(memtable, &found, places).map(Some)
    }

    /// Columns of rows of a memtable.
    fn columns_in_memory(&self, memtable: &MemtableView, found: &[FoundRow], places: &[usize]) -> Result<RecordBatch> {
        let rows: Vec<u32> = found.iter().map(|(row, _)| *row).collect();
        let columns = places.iter().map(|&place| {
            let column = &self.schema.columns[place];
            let mut out = ColumnBuilder::new(column.column_type);
            out.reserve(rows.len());
            match column.role {
                Role::Field => memtable.read(column.id, &rows, &mut out),
                _ => {
                    let place = self.schema.key_place(place);
                    found.iter().for_each(|(_, key)| out.push(key[place].part()));
                }
            }
            out.finish(column.column_type)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.to_arrow_of(places), columns, &options)?)
    }
}

#[cfg(test)]
#[path = "rows_in_memory_tests.rs"]
mod tests;
