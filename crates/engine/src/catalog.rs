//! The tables of an open database: what readers see, and where writers write.

use crate::deletes::{DeleteSet, Deletes};
use crate::error::{Error, Result};
use crate::ids::{Generation, TableId};
use crate::manifest::Delete;
use crate::memory::Budget;
use crate::memtable::{Inner, Memtable};
use crate::scan::TableView;
use crate::schema::TableSchema;
use crate::segment::Listed;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One table.
pub(crate) struct Table {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) active: Arc<Memtable>,
    /// From old to new.
    pub(crate) frozen: Vec<(Generation, Arc<Memtable>)>,
    /// From old to new.
    pub(crate) segments: Arc<Vec<Arc<Listed>>>,
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

    /// Exchanges the segments, in any order, and the deletes that the manifest lists for them.
    pub(crate) fn set_segments(&mut self, mut segments: Vec<Arc<Listed>>, deletes: &[Delete]) {
        segments.sort_by_key(|listed| (listed.entry.generation, listed.entry.id));
        self.segments = Arc::new(segments);
        self.deletes = Arc::new(Deletes::listed(deletes));
    }

    /// What a reader sees; `active` is this table's own, locked.
    pub(crate) fn view(&self, active: &Inner, now_ns: i64, batch_rows: usize, budget: &Arc<Budget>) -> TableView {
        let frozen: Vec<_> = self.frozen.iter().map(|(_, memtable)| (memtable, memtable.read())).collect();
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
            batch_rows,
            budget: Arc::clone(budget),
        }
    }
}

/// All tables.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<TableId, Table>,
}

impl Catalog {
    pub(crate) fn find(&self, name: &str) -> Option<&Table> {
        self.tables.values().find(|table| table.schema.name == name)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Table> {
        self.find(name).ok_or_else(|| {
            let names: Vec<&str> = self.tables.values().map(|t| t.schema.name.as_str()).collect();
            Error::input(format!("there is no table '{name}': there are [{}]", names.join(", ")))
        })
    }
}
