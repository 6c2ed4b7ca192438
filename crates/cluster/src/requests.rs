//! Requests to a bucket, for threads that wait for the answer.

use crate::bucket::Bucket;
use fleetdb_engine::{Error, Result};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokio::runtime::Runtime;

/// A bucket whose requests run on a thread of their own, so that they may be waited for from any other
/// thread, also from one that runs tasks. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Requests {
    bucket: Bucket,
    runtime: Arc<Background>,
}

/// A runtime that may be dropped anywhere.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        // A runtime that waits for its threads must not be dropped by a task.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Requests {
    /// Starts the thread.
    pub(crate) fn new(bucket: Bucket) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("fleetdb-bucket")
            .enable_all()
            .build()
            .map_err(|e| Error::io("could not start the thread for requests to the bucket", &e))?;
        Ok(Self { bucket, runtime: Arc::new(Background(Some(runtime))) })
    }

    /// Where the bucket is.
    pub(crate) fn url(&self) -> &str {
        self.bucket.url()
    }

    /// Makes a request and waits for its answer.
    pub(crate) fn wait<T, F>(&self, request: impl FnOnce(Bucket) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (send, receive) = sync_channel(1);
        let request = request(self.bucket.clone());
        if let Some(runtime) = &self.runtime.0 {
            // Nobody gives up waiting.
            runtime.spawn(async move { send.send(request.await).ok() });
        }
        receive.recv().unwrap_or_else(|_| Err(Error::bug("a request to the bucket ended without an answer")))
    }
}
