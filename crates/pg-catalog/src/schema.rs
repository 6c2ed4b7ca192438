//! The schema `pg_catalog`: the crate's tables, FleetDB's tables, and views over both. A view is
//! planned when it is first used, because planning all of them takes longer than most statements.

use super::tables::{HIDDEN_TABLE, OWN, SIZES_TABLE};
use super::{columns, keys, settings, views};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct CatalogSchema {
    /// The crate's schema.
    inner: Arc<dyn SchemaProvider>,
    /// FleetDB's tables.
    tables: HashMap<&'static str, Arc<dyn TableProvider>>,
    views: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
    /// Returns the state that plans the views, or `None` once the session is gone. It holds the
    /// session weakly, because the session holds this schema.
    state: Box<dyn Fn() -> Option<SessionState> + Send + Sync>,
}

impl CatalogSchema {
    pub(super) fn new(
        context: &SessionContext,
        inner: Arc<dyn SchemaProvider>,
        tables: HashMap<&'static str, Arc<dyn TableProvider>>,
    ) -> Self {
        let state = context.state_weak_ref();
        let state = Box::new(move || state.upgrade().map(|state| state.read().clone()));
        Self { inner, tables, views: Mutex::default(), state }
    }

    /// The query of a view; `None` if no view has this name.
    async fn query(&self, name: &str) -> Result<Option<String>> {
        if keys::has_view(name) {
            return Ok(self.inner.table(name).await?.and_then(|table| keys::view(name, &table.schema())));
        }
        Ok(query(name))
    }
}

/// The query of a view that does not shadow a crate table; `None` if no view has this name.
pub(super) fn query(name: &str) -> Option<String> {
    match name {
        SIZES_TABLE => Some(keys::sizes()),
        HIDDEN_TABLE => Some(keys::hidden()),
        columns::NAME => Some(columns::query()),
        settings::NAME => Some(settings::query()),
        _ => views::query(name),
    }
}

impl fmt::Debug for CatalogSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CatalogSchema").field(&self.inner).finish()
    }
}

#[async_trait::async_trait]
impl SchemaProvider for CatalogSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(own) = name.strip_prefix(OWN) {
            return self.inner.table(own).await;
        }
        if let Some(table) = self.tables.get(name) {
            return Ok(Some(Arc::clone(table)));
        }
        let planned = self.views.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if planned.is_some() {
            return Ok(planned);
        }
        let Some(query) = self.query(name).await? else { return self.inner.table(name).await };
        let gone = || DataFusionError::Internal("the session has gone".to_owned());
        let state = (self.state)().ok_or_else(gone)?;
        let plan = state.create_logical_plan(&query).await?;
        let view = DataFrame::new(state, plan).into_view();
        self.views.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&view));
        Ok(Some(view))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
            || query(name).is_some()
            || self.inner.table_exist(name.strip_prefix(OWN).unwrap_or(name))
    }
}
