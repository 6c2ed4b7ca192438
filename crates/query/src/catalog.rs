//! The tables that DataFusion sees: those of one view, so that a statement sees one moment.

use crate::binding::Binding;
use crate::store::Store;
use crate::table::FleetTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result;
use fleetdb_engine::{TableSchema, TableView, View};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The tables of the view that the current statement reads.
pub(crate) struct ViewTables {
    store: Store,
    view: RwLock<View>,
    /// Set while a statement is prepared.
    binding: RwLock<Option<Arc<Binding>>>,
}

impl ViewTables {
    pub(crate) fn new(store: &Store) -> Self {
        Self { store: store.clone(), view: RwLock::new(store.view()), binding: RwLock::default() }
    }

    /// From now on statements see the database as it is now.
    pub(crate) fn refresh(&self) -> fleetdb_engine::Result<()> {
        self.store.refresh()?;
        self.show(&self.store.view());
        Ok(())
    }

    /// From now on statements see the database as this view does.
    pub(crate) fn show(&self, view: &View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = view.clone();
    }

    /// The view that is shown.
    #[cfg(feature = "pg-catalog")]
    pub(crate) fn shown(&self) -> View {
        self.view().clone()
    }

    /// What is planned from now on takes its parameters from this binding.
    pub(crate) fn bind(&self, binding: Option<Arc<Binding>>) {
        *self.binding.write().unwrap_or_else(PoisonError::into_inner) = binding;
    }

    /// A table as it is shown.
    pub(crate) fn table_view(&self, name: &str) -> fleetdb_engine::Result<TableView> {
        self.view().table(name).cloned()
    }

    /// The columns and key of a table.
    pub(crate) fn schema(&self, name: &str) -> fleetdb_engine::Result<Arc<TableSchema>> {
        Ok(Arc::clone(self.view().table(name)?.schema()))
    }

    fn view(&self) -> std::sync::RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ViewTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.view().table_names()).finish()
    }
}

#[async_trait::async_trait]
impl SchemaProvider for ViewTables {
    fn table_names(&self) -> Vec<String> {
        self.view().table_names().map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = self.view().table(name).ok().cloned();
        let binding = self.binding.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(found.map(|view| Arc::new(FleetTable::new(&self.store, view, binding)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.view().table(name).is_ok()
    }
}
