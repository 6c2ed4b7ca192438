//! Combines two consecutive batches into one that is written at once.

use super::{View, removal};
use crate::error::Result;
use crate::schema::TableSchema;
use crate::wal::record::Removal;
use crate::write::admit::{Admitted, admit};
use crate::write::batch::{Batch, Part};
use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use std::sync::Arc;

impl Batch {
    /// Combines this batch and a later one into one with the same outcome: rows of this batch that
    /// the later one deletes are left out. The tables must be in the view.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{Batch, ColumnType, Database, Rows, Settings, TableDefinition, Unit, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    /// let mut rows = Rows::new(&db.create_table(&table).unwrap());
    /// rows.push(&[Value::Int(1), Value::Int(100)]).unwrap();
    /// rows.push(&[Value::Int(1), Value::Int(200)]).unwrap();
    /// let delete = Batch::new().delete("t", Some(&[Value::Int(1)]), ..150);
    /// db.commit(Batch::new().with_rows(rows).followed_by(delete, &db.view()).unwrap()).unwrap();
    /// assert_eq!(db.view().table("t").unwrap().count().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// As [`Database::commit`](crate::Database::commit) for a batch that does not fit its tables.
    pub fn followed_by(mut self, later: Self, view: &View) -> Result<Self> {
        let parts = std::mem::take(&mut self.parts);
        let mut all = Self::new().append(self);
        for part in parts {
            let deletes = later.deletes.iter().filter(|delete| delete.table == part.table());
            let mut deletes = deletes.peekable();
            if deletes.peek().is_none() {
                all.push_part(part);
                continue;
            }
            let schema = view.table(part.table())?.schema();
            let removals = deletes.map(|delete| removal(schema, delete)).collect::<Result<Vec<_>>>()?;
            all.push_part(without(part, schema, &removals)?);
        }
        all.coalesce(later);
        Ok(all)
    }
}

/// The rows without those that are removed.
fn without(part: Part, schema: &Arc<TableSchema>, removals: &[Removal]) -> Result<Part> {
    let admitted = admit(schema, &part)?;
    let kept: BooleanArray = (0..admitted.rows).map(|row| Some(!is_removed(&admitted, row, removals))).collect();
    if kept.false_count() == 0 {
        drop(admitted);
        return Ok(part);
    }
    drop(admitted);
    let (table, rows) = match part {
        Part::Arrow(table, rows) => (table, rows),
        Part::Rows(rows) => (rows.schema().name.clone(), rows.finish()?),
    };
    Ok(Part::Arrow(table, filter_record_batch(&rows, &kept)?))
}

fn is_removed(rows: &Admitted<'_>, row: usize, removals: &[Removal]) -> bool {
    let (key, time) = (rows.keys.get(row), rows.times.get(row).map(|time| *time as i64));
    removals.iter().any(|removal| {
        let is_of_key = removal.key.as_deref().is_none_or(|of| of == key);
        is_of_key && time.is_none_or(|time| (removal.from..=removal.to).contains(&time))
    })
}
