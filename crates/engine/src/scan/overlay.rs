//! A transaction's own uncommitted batches on top of a view (like RocksDB's `WriteBatchWithIndex`).

use super::{View, removal};
use crate::error::Result;
use crate::ids::Generation;
use crate::manifest::Delete;
use crate::memtable::Memtable;
use crate::schema::TableSchema;
use crate::wal::record::Removal;
use crate::write::admit::admit;
use crate::write::batch::Batch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Newer than all committed generations.
const UNWRITTEN: Generation = Generation(u64::MAX);

/// Rows and deletes of uncommitted batches, in separate memtables.
///
/// ```
/// use fleetdb_engine::io::{Io, MemoryStorage};
/// use fleetdb_engine::{Batch, ColumnType, Database, Overlay, Rows, Settings, TableDefinition, Unit, Value};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
/// let mut rows = Rows::new(&db.create_table(&table).unwrap());
/// rows.push(&[Value::Int(1), Value::Int(1_700_000_000)]).unwrap();
/// let mut overlay = Overlay::default();
/// overlay.add(&Batch::new().with_rows(rows), &db.view()).unwrap();
/// assert_eq!(overlay.over(db.view()).table("t").unwrap().count().unwrap(), 1);
/// assert_eq!(db.view().table("t").unwrap().count().unwrap(), 0);
/// ```
#[derive(Default)]
pub struct Overlay {
    tables: BTreeMap<String, (Arc<TableSchema>, Arc<Memtable>)>,
}

impl Overlay {
    /// Adds a batch after the previous ones. The batch's deletes apply to the rows of previous
    /// batches and come before its own rows. Its tables must be in the view.
    ///
    /// # Errors
    /// As [`Database::commit`](crate::Database::commit) for a batch that does not fit its tables.
    /// Part of the batch may then be in the overlay.
    pub fn add(&mut self, batch: &Batch, view: &View) -> Result<()> {
        for request in &batch.deletes {
            let (schema, memtable) = self.table(&request.table, view)?;
            let Removal { key, from, to, .. } = removal(schema, request)?;
            memtable.write().delete(Delete { id: u64::MAX, generation: UNWRITTEN, key, from, to });
        }
        for part in batch.parts.iter().filter(|part| part.rows() > 0) {
            let (schema, memtable) = self.table(part.table(), view)?;
            let admitted = admit(schema, part)?;
            let mut inner = memtable.write();
            let section = inner.resolve(admitted);
            inner.apply(&section);
        }
        Ok(())
    }

    fn table(&mut self, name: &str, view: &View) -> Result<&(Arc<TableSchema>, Arc<Memtable>)> {
        if !self.tables.contains_key(name) {
            let schema = Arc::clone(view.table(name)?.schema());
            let memtable = Arc::new(Memtable::new(&schema, UNWRITTEN));
            self.tables.insert(name.to_owned(), (schema, memtable));
        }
        Ok(&self.tables[name])
    }

    /// Whether the view's tables are unchanged since batches were added.
    pub fn fits(&self, view: &View) -> bool {
        let is_same = |place: usize, schema| Arc::ptr_eq(&view.tables[place].schema, schema);
        self.tables.iter().all(|(name, (schema, _))| view.place(name).is_some_and(|place| is_same(place, schema)))
    }

    /// A view as if the batches were committed now. The view must [fit](Self::fits).
    #[must_use]
    pub fn over(&self, mut view: View) -> View {
        for (name, (_, memtable)) in &self.tables {
            if let Some(place) = view.place(name) {
                let table = &mut view.tables[place];
                let inner = memtable.read();
                table.memtables.push(memtable.view(&inner));
                table.deletes = table.deletes.and(inner.deletes());
            }
        }
        view
    }
}
