//! Threads for what computes or waits for a disk: so many at a time, so many more that wait, and no queue behind that.

use fleetdb_engine::{Error, Result};
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounded work off the tasks' threads.
pub(crate) struct Work {
    turns: Arc<Semaphore>,
    running: Gauge,
    waiting: Gauge,
    most_waiting: usize,
}

/// Counted as long as it lives.
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// One whose turn it is.
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
    _running: Counted,
}

impl Work {
    /// Counts in the two gauges what runs and what waits for its turn.
    pub(crate) fn new(most_running: usize, most_waiting: usize, running: Gauge, waiting: Gauge) -> Self {
        Self { turns: Arc::new(Semaphore::new(most_running)), running, waiting, most_waiting }
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

    /// Waits for the turn; it lasts until what this gives is dropped.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn turn(&self) -> Result<Turn> {
        let permit = match Arc::clone(&self.turns).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait().await?,
        };
        self.running.inc();
        Ok(Turn { _permit: permit, _running: Counted(self.running.clone()) })
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit> {
        let before_us = self.waiting.inc();
        let _waiting = Counted(self.waiting.clone());
        if usize::try_from(before_us).is_ok_and(|waiting| waiting >= self.most_waiting) {
            return Err(Error::retry(format!(
                "the server is busy: {} requests wait already (option max_waiting); try again later",
                self.most_waiting
            )));
        }
        let permit = Arc::clone(&self.turns).acquire_owned().await;
        permit.map_err(|_| Error::closed("the server is stopping"))
    }
}
