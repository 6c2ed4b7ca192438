//! The tables that DataFusion sees. They all come from one view, so a statement sees the database
//! at one point in time.

use crate::binding::Binding;
use crate::store::Store;
use crate::table::FleetTable;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use fleetdb_engine::{StoredQuery, TableSchema, TableView, View};
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

    /// The database of the tables.
    pub(crate) fn store(&self) -> &Store {
        &self.store
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
        let shown = self.shown();
        shown.table_names().chain(shown.stored_queries().keys().map(String::as_str)).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let shown = self.shown();
        if let Some(query) = shown.stored_queries().get(name) {
            return Ok(Some(Arc::new(NamedQuery::new(query))));
        }
        let found = shown.table(name).ok().cloned();
        let binding = self.binding.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(found.map(|view| Arc::new(FleetTable::new(&self.store, view, binding)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        let shown = self.shown();
        shown.table(name).is_ok() || shown.stored_queries().contains_key(name)
    }
}

/// A view as the catalog shows it. Statements never scan it: its query is written out before they are
/// planned.
#[derive(Debug)]
struct NamedQuery {
    schema: SchemaRef,
    text: String,
}

impl NamedQuery {
    /// The columns are those that the query had when it was stored; a column of unknown type is a text.
    fn new(query: &StoredQuery) -> Self {
        let field = |(name, data_type): &(String, String)| {
            Field::new(name, data_type.parse::<DataType>().unwrap_or(DataType::Utf8), true)
        };
        let schema = Schema::new(query.columns.iter().map(field).collect::<Vec<_>>());
        Self { schema: Arc::new(schema), text: query.text.clone() }
    }
}

#[async_trait::async_trait]
impl TableProvider for NamedQuery {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.text)
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("the query of a view was not written out".to_owned()))
    }
}
