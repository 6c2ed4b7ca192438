//! Threads for what computes or waits for a disk: so many at a time, so many more that wait, and no queue behind that.
//!
//! Statements that may take long to plan ([`Weight::Heavy`]) have half of the turns: others never wait for all of them.

use fleetdb_engine::{Error, Result};
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whether a statement is planned in a moment, by its form ([`fleetdb_query::is_light`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// In less than some milliseconds; or there is nothing to plan.
    Light,
    /// Perhaps in seconds.
    Heavy,
}

impl Weight {
    /// That of a text.
    pub(crate) fn of_text(text: &str) -> Self {
        if fleetdb_query::is_light(text) { Self::Light } else { Self::Heavy }
    }

    /// That of a statement.
    pub(crate) fn of(statement: &fleetdb_query::Statement) -> Self {
        if statement.is_light() { Self::Light } else { Self::Heavy }
    }
}

/// Bounded work off the tasks' threads.
pub(crate) struct Work {
    turns: Arc<Semaphore>,
    /// Those that heavy work may have of them.
    heavy: Arc<Semaphore>,
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
    _heavy: Option<OwnedSemaphorePermit>,
    _running: Counted,
}

impl Work {
    /// Counts in the two gauges what runs and what waits for its turn.
    pub(crate) fn new(most_running: usize, most_waiting: usize, running: Gauge, waiting: Gauge) -> Self {
        let [turns, heavy] = [most_running, (most_running / 2).max(1)].map(|most| Arc::new(Semaphore::new(most)));
        Self { turns, heavy, running, waiting, most_waiting }
    }

    /// Runs a light job when it is its turn, on a thread of its own: who asked may go before it ends.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](fleetdb_engine::ErrorKind::Retry) if too many wait already.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.run_as(Weight::Light, job).await
    }

    /// As [`run`](Self::run), of any weight.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn run_as<T: Send + 'static>(
        &self,
        weight: Weight,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turn = self.turn(weight).await?;
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
    pub(crate) async fn run_here<T>(&self, weight: Weight, job: impl FnOnce() -> T) -> Result<T> {
        let _turn = self.turn(weight).await?;
        Ok(tokio::task::block_in_place(job))
    }

    /// Waits for the turn; it lasts until what this gives is dropped.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn turn(&self, weight: Weight) -> Result<Turn> {
        // Before the turn itself: what waits here keeps nobody else from it.
        let heavy = match weight {
            Weight::Light => None,
            Weight::Heavy => Some(self.permit(&self.heavy).await?),
        };
        let permit = self.permit(&self.turns).await?;
        self.running.inc();
        Ok(Turn { _permit: permit, _heavy: heavy, _running: Counted(self.running.clone()) })
    }

    async fn permit(&self, of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(of).try_acquire_owned() {
            return Ok(permit);
        }
        let before_us = self.waiting.inc();
        let _waiting = Counted(self.waiting.clone());
        if usize::try_from(before_us).is_ok_and(|waiting| waiting >= self.most_waiting) {
            return Err(Error::retry(format!(
                "the server is busy: {} requests wait already (option max_waiting); try again later",
                self.most_waiting
            )));
        }
        let permit = Arc::clone(of).acquire_owned().await;
        permit.map_err(|_| Error::closed("the server is stopping"))
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
