//! The tables that DataFusion sees. They all come from one view, so a statement sees the database
//! at one point in time.

use crate::binding::Binding;
use crate::store::Store;
use crate::table::FleetTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result;
use fleetdb_engine::{TableSchema, TableView, View};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};

/// The tables of the view that the current statement reads. Between statements there is no view,
/// because an idle client would keep unused files and memtables alive.
pub struct ViewTables {
    store: Store,
    shown: RwLock<Shown>,
    /// Set while a statement is being prepared.
    binding: RwLock<Option<Arc<Binding>>>,
}

#[derive(Default)]
struct Shown {
    /// Keeps the view of the statement that is starting alive.
    begun: Option<Arc<View>>,
    /// The same view, as long as the statement or its answer is alive.
    last: Weak<View>,
}

impl ViewTables {
    /// The tables of a store, at first as they are whenever they are asked for.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), shown: RwLock::default(), binding: RwLock::default() }
    }

    /// Makes the following statements read this view.
    pub fn show(&self, view: View) {
        let view = Arc::new(view);
        let shown = Shown { last: Arc::downgrade(&view), begun: Some(view) };
        let before = std::mem::replace(&mut *self.shown.write().unwrap_or_else(PoisonError::into_inner), shown);
        // Dropping it may close files.
        drop(before);
    }

    /// Called once the statement has started; from then on, its answer keeps the view alive.
    pub fn release(&self) {
        let begun = self.shown.write().unwrap_or_else(PoisonError::into_inner).begun.take();
        drop(begun);
    }

    /// The current view, or the database as it is now if no statement has started.
    pub fn shown(&self) -> Arc<View> {
        let last = self.shown.read().unwrap_or_else(PoisonError::into_inner).last.upgrade();
        last.unwrap_or_else(|| Arc::new(self.store.view()))
    }

    /// Makes the following plans take their parameters from this binding.
    pub fn bind(&self, binding: Option<Arc<Binding>>) {
        *self.binding.write().unwrap_or_else(PoisonError::into_inner) = binding;
    }

    /// A table in the current view.
    pub(crate) fn table_view(&self, name: &str) -> fleetdb_engine::Result<TableView> {
        self.shown().table(name).cloned()
    }

    /// The columns and key of a table.
    pub fn schema(&self, name: &str) -> fleetdb_engine::Result<Arc<TableSchema>> {
        Ok(Arc::clone(self.shown().table(name)?.schema()))
    }
}

impl fmt::Debug for ViewTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shown().table_names()).finish()
    }
}

#[async_trait::async_trait]
impl SchemaProvider for ViewTables {
    fn table_names(&self) -> Vec<String> {
        self.shown().table_names().map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = self.shown().table(name).ok().cloned();
        let binding = self.binding.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(found.map(|view| Arc::new(FleetTable::new(&self.store, view, binding)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.shown().table(name).is_ok()
    }
}
