//! Threads for what computes or waits for a disk: so many at a time, so many more that wait, and no queue behind that.

use fleetdb_engine::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

    /// Runs a job when it is its turn, on a thread of its own: who asked may go before it ends.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](fleetdb_engine::ErrorKind::Retry) if too many wait already.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let turn = self.turn().await?;
        let job = move || {
            let done = job();
            drop(turn);
            done
        };
        tokio::task::spawn_blocking(job).await.map_err(|e| Error::bug(format!("a request ended the thread: {e}")))
    }

    /// Runs a job when it is its turn, on this thread, whose other tasks go to another one: nobody has to be woken for the
    /// answer.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn run_here<T>(&self, job: impl FnOnce() -> T) -> Result<T> {
        let _turn = self.turn().await?;
        Ok(tokio::task::block_in_place(job))
    }

    /// Waits for the turn; it lasts until the permit is dropped.
    async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() {
            return Ok(permit);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.most_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::retry(format!(
                "the server is busy: {} requests wait already (option max_waiting); try again later",
                self.most_waiting
            )));
        }
        let _waiting = Waiting(&self.waiting);
        let permit = Arc::clone(&self.running).acquire_owned().await;
        permit.map_err(|_| Error::closed("the server is stopping"))
    }
}
