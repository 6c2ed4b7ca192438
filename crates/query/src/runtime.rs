//! The runtime for DataFusion's futures, which run on the thread that asks for rows.

use datafusion::execution::{SessionState, TaskContext};
use fleetdb_engine::{Error, Result};
use std::ops::Deref;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A runtime that may be dropped anywhere, even within a future, because dropping it does not wait
/// for tasks.
pub(crate) struct QueryRuntime(Option<Runtime>);

impl QueryRuntime {
    pub(crate) fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(|e| Error::io("start the query engine", &e))
    }
}

impl Deref for QueryRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken only when this is dropped")
    }
}

impl Drop for QueryRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The context for running plans. It does not include the function registry, because a plan holds
/// its functions; DataFusion needs the registry only for serialized plans.
pub(crate) fn task_context(state: &SessionState) -> Arc<TaskContext> {
    let (id, config, runtime) = (state.session_id().to_owned(), state.config().clone(), state.runtime_env());
    let (scalar, higher_order, aggregate, window) = Default::default();
    Arc::new(TaskContext::new(None, id, config, scalar, higher_order, aggregate, window, Arc::clone(runtime)))
}
