//! Threads for what computes or waits for a disk: so many at a time, so many more that wait, and no queue behind that.

use fleetdb_engine::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// Bounded work off the tasks' threads.
pub(crate) struct Work {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
}

/// One that waits for its turn, counted as long as it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Work {
    pub(crate) fn new(most_running: usize, most_waiting: usize) -> Self {
        Self { running: Arc::new(Semaphore::new(most_running)), waiting: AtomicUsize::new(0), most_waiting }
    }

    /// Runs a job when it is its turn.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](fleetdb_engine::ErrorKind::Retry) if too many wait already.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let permit = match Arc::clone(&self.running).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.most_waiting {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    return Err(Error::retry(format!(
                        "the server is busy: {} requests wait already (option max_waiting); try again later",
                        self.most_waiting
                    )));
                }
                let _waiting = Waiting(&self.waiting);
                let permit = Arc::clone(&self.running).acquire_owned().await;
                permit.map_err(|_| Error::closed("the server is stopping"))?
            }
        };
        // The permit goes with the job: who asked may be gone before it ends.
        let job = move || {
            let done = job();
            drop(permit);
            done
        };
        tokio::task::spawn_blocking(job).await.map_err(|e| Error::bug(format!("a request ended the thread: {e}")))
    }
}
