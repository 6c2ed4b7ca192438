//! The thread on which the requests to a bucket run, for those who wait for them.

use crate::lock;
use fleetdb_engine::{Error, Result};
use std::sync::{Mutex, PoisonError};
use tokio::runtime::{Handle, Runtime};

/// The thread for requests to a bucket. A client's connections belong to the runtime that opened
/// them, so all that share the client share the thread. It starts when it is first needed, and may
/// be dropped anywhere.
#[derive(Default)]
pub(crate) struct Background(Mutex<Option<Runtime>>);

impl Background {
    /// The runtime of the thread.
    pub(crate) fn handle(&self) -> Result<Handle> {
        let mut runtime = lock(&self.0);
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let started = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fleetdb-bucket")
            .enable_all()
            .build()
            .map_err(|e| Error::io("could not start the thread for requests to the bucket", &e))?;
        Ok(runtime.insert(started).handle().clone())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // A runtime that waits for its threads must not be dropped by a task.
        if let Some(runtime) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}
