//! The tables of an open database: what readers see and where writers write.

use crate::constraints::{StoredQueries, no_table};
use crate::deletes::{DeleteSet, Deletes};
use crate::error::Result;
use crate::ids::{Generation, Sequence, TableId};
use crate::manifest::Delete;
use crate::memtable::{Inner, Memtable};
use crate::scan::resources::ScanResources;
use crate::scan::{TableView, View};
use crate::schema::TableSchema;
use crate::segment::{Listed, Segments};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One table.
pub(crate) struct Table {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) active: Arc<Memtable>,
    /// Oldest first.
    pub(crate) frozen: Vec<Arc<Memtable>>,
    pub(crate) segments: Arc<Segments>,
    /// The deletes that the manifest lists.
    deletes: Arc<Deletes>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(schema: Arc<TableSchema>, generation: Generation) -> Self {
        Self {
            active: Arc::new(Memtable::new(&schema, generation)),
            schema,
            frozen: Vec::new(),
            segments: Arc::default(),
            deletes: Arc::default(),
        }
    }

    /// Replaces the segments, given in any order, and the deletes that the manifest lists.
    pub(crate) fn set_segments(&mut self, segments: Vec<Arc<Listed>>, deletes: &[Delete]) {
        self.segments = Arc::new(Segments::new(segments));
        self.deletes = Arc::new(Deletes::listed(deletes));
    }

    /// Freezes the active memtable, if it is not empty, and starts one of generation `next`.
    pub(crate) fn freeze(&mut self, next: Generation) {
        let full = std::mem::replace(&mut self.active, Arc::new(Memtable::new(&self.schema, next)));
        if !full.read().is_empty() {
            self.frozen.push(full);
        }
    }

    /// A reader's view; `active` is the locked active memtable of this table.
    fn view(&self, active: &Inner, now_ns: i64, scans: &Arc<ScanResources>) -> TableView {
        let frozen: Vec<_> = self.frozen.iter().map(|memtable| (memtable, memtable.read())).collect();
        let layers = std::iter::once(&self.deletes).chain(frozen.iter().map(|(_, inner)| inner.deletes()));
        let deletes = DeleteSet::new(layers.chain([active.deletes()]).map(Arc::clone));
        let mut memtables: Vec<_> = frozen.iter().map(|(memtable, inner)| memtable.view(inner)).collect();
        memtables.push(self.active.view(active));
        TableView {
            schema: Arc::clone(&self.schema),
            segments: Arc::clone(&self.segments),
            memtables,
            deletes,
            expired: self.schema.expired(now_ns),
            scans: Arc::clone(scans),
        }
    }
}

/// All tables.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<TableId, Table>,
    pub(crate) stored_queries: Arc<StoredQueries>,
    names: HashMap<String, TableId>,
}

impl Catalog {
    /// A view of all tables, or of the tables in `only`, up to the batch that `last` returns.
    pub(crate) fn view(
        &self,
        only: Option<&[TableId]>,
        now_ns: i64,
        scans: &Arc<ScanResources>,
        last: impl FnOnce() -> Sequence,
    ) -> View {
        let tables: Vec<&Table> = match only {
            None => self.tables.values().collect(),
            Some(ids) => {
                // Memtables are locked in order of table id.
                let mut tables: Vec<&Table> = ids.iter().filter_map(|id| self.tables.get(id)).collect();
                tables.sort_unstable_by_key(|table| table.schema.id);
                tables.dedup_by_key(|table| table.schema.id);
                tables
            }
        };
        // All memtables are locked before any is read, so that a reader sees each batch whole or
        // not at all.
        let guards: Vec<_> = tables.iter().map(|table| table.active.read()).collect();
        let views = tables.iter().zip(&guards).map(|(table, active)| table.view(active, now_ns, scans));
        let mut views: Vec<TableView> = views.collect();
        views.sort_unstable_by(|a, b| a.schema.name.cmp(&b.schema.name));
        View { tables: views, stored_queries: Arc::clone(&self.stored_queries), sequence: last() }
    }

    /// Adds a table. Its name must be free.
    pub(crate) fn insert(&mut self, table: Table) {
        self.names.insert(table.schema.name.clone(), table.schema.id);
        self.tables.insert(table.schema.id, table);
    }

    /// Publishes a table's new schema, possibly with a new name.
    pub(crate) fn change(&mut self, schema: &Arc<TableSchema>) {
        if let Some(table) = self.tables.get_mut(&schema.id) {
            self.names.remove(&table.schema.name);
            self.names.insert(schema.name.clone(), schema.id);
            table.schema = Arc::clone(schema);
        }
    }

    pub(crate) fn remove(&mut self, id: TableId) -> Option<Table> {
        let removed = self.tables.remove(&id)?;
        self.names.remove(&removed.schema.name);
        Some(removed)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Table> {
        self.tables.get(self.names.get(name)?)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Table> {
        let names = || self.tables.values().map(|table| &table.schema.name);
        self.find(name).ok_or_else(|| no_table(name, &self.stored_queries, names()))
    }
}
