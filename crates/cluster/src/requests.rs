//! Requests to a bucket, for threads that wait for the answer.

use crate::bucket::Bucket;
use fleetdb_engine::{Error, Result};
use futures::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// A bucket whose requests run on a thread of their own, so that they may be waited for from any
/// other thread, also from one that runs tasks. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Requests {
    bucket: Bucket,
    runtime: Handle,
    stopped: Arc<watch::Sender<bool>>,
}

/// Ends the requests of others.
#[derive(Clone)]
pub(crate) struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// For a thread that makes no requests, or must not be interrupted in one.
    pub(crate) fn of_no_request() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Ends all requests now, and those that are made later. A write may have been done.
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether they are stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }
}

impl Requests {
    /// Starts the thread, if it does not run yet.
    pub(crate) fn new(bucket: Bucket) -> Result<Self> {
        let runtime = bucket.background().handle()?;
        Ok(Self { bucket, runtime, stopped: Arc::new(watch::Sender::new(false)) })
    }

    /// The same for a prefix below this one; what stops these requests stops those as well.
    pub(crate) fn within(&self, name: &str) -> Self {
        Self { bucket: self.bucket.within(name), ..self.clone() }
    }

    /// The same bucket, for requests that are stopped apart from these.
    pub(crate) fn apart(&self) -> Self {
        Self { stopped: Arc::new(watch::Sender::new(false)), ..self.clone() }
    }

    /// What ends the requests.
    pub(crate) fn stop(&self) -> Stop {
        Stop(Arc::clone(&self.stopped))
    }

    /// Where the bucket is.
    pub(crate) fn url(&self) -> &str {
        self.bucket.url()
    }

    /// As [`wait`](Self::wait), but not longer than this.
    pub(crate) fn wait_within<T, F>(&self, limit: Duration, request: impl FnOnce(Bucket) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let url = self.url().to_owned();
        self.wait(|bucket| {
            let request = request(bucket);
            async move {
                let no_answer = |_| Err(Error::retry(format!("{url} did not answer within {} ms", limit.as_millis())));
                tokio::time::timeout(limit, request).await.unwrap_or_else(no_answer)
            }
        })
    }

    /// Makes a request and waits for its answer, or until [`Stop::stop`].
    pub(crate) fn wait<T, F>(&self, request: impl FnOnce(Bucket) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (send, receive) = sync_channel(1);
        let request = request(self.bucket.clone());
        let mut stopped = self.stopped.subscribe();
        self.runtime.spawn(async move {
            let stop = pin!(stopped.wait_for(|stopped| *stopped));
            let answer = match select(pin!(request), stop).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Err(Error::closed("the requests to the bucket were stopped")),
            };
            // Nobody gives up waiting.
            send.send(answer).ok();
        });
        receive.recv().unwrap_or_else(|_| Err(Error::bug("a request to the bucket ended without an answer")))
    }
}
