//! Runs work that computes or waits for a disk: a limited number of jobs at a time, a limited
//! number that wait, and no queue beyond that.
//!
//! Statements that may take long to plan ([`Weight::Heavy`]) share half of the turns, so light ones
//! never have to wait for all of them.

use fleetdb_engine::{Error, Result};
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Whether the form of a statement guarantees that planning is quick ([`fleetdb_query::is_light`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Planned within a few milliseconds, or nothing to plan.
    Light,
    /// May take seconds to plan.
    Heavy,
}

impl Weight {
    /// The weight of a text.
    pub(crate) fn of_text(text: &str) -> Self {
        if fleetdb_query::is_light(text) { Self::Light } else { Self::Heavy }
    }

    /// The weight of a statement.
    pub(crate) fn of(statement: &fleetdb_query::Statement) -> Self {
        if statement.is_light() { Self::Light } else { Self::Heavy }
    }
}

/// Runs a bounded number of jobs at a time.
pub(crate) struct JobLimiter {
    turns: Arc<Semaphore>,
    /// The turns that heavy jobs may hold.
    heavy: Arc<Semaphore>,
    running: Gauge,
    waiting: Gauge,
    most_waiting: usize,
}

/// Counted in a gauge while it is alive.
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Permission to run, until it is dropped.
pub(crate) struct JobPermit {
    _permit: OwnedSemaphorePermit,
    _heavy: Option<OwnedSemaphorePermit>,
    _running: Counted,
}

impl JobLimiter {
    /// `running` and `waiting` count the jobs that run and that wait for their turn.
    pub(crate) fn new(most_running: usize, most_waiting: usize, running: Gauge, waiting: Gauge) -> Self {
        let [turns, heavy] = [most_running, (most_running / 2).max(1)].map(|most| Arc::new(Semaphore::new(most)));
        Self { turns, heavy, running, waiting, most_waiting }
    }

    /// Runs a light job on another thread when it gets its turn. The job finishes even if its
    /// caller is cancelled.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](fleetdb_engine::ErrorKind::Retry) if too many jobs are waiting.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.run_as(Weight::Light, job).await
    }

    /// Like [`run`](Self::run), for a job of any weight.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn run_as<T: Send + 'static>(
        &self,
        weight: Weight,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let permit = self.acquire(weight).await?;
        let job = move || {
            let done = job();
            drop(permit);
            done
        };
        tokio::task::spawn_blocking(job).await.map_err(|e| Error::bug(format!("a request failed: {e}")))
    }

    /// Runs a job on this thread when it gets its turn; the thread's other tasks move to another
    /// thread. No thread needs to be woken for the answer.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn run_here<T>(&self, weight: Weight, job: impl FnOnce() -> T) -> Result<T> {
        let _permit = self.acquire(weight).await?;
        Ok(tokio::task::block_in_place(job))
    }

    /// Waits for a turn, which lasts until the returned value is dropped.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn acquire(&self, weight: Weight) -> Result<JobPermit> {
        // Take the heavy permit first, so that a heavy job that waits for it does not hold a turn.
        let heavy = match weight {
            Weight::Light => None,
            Weight::Heavy => Some(self.permit(&self.heavy).await?),
        };
        let permit = self.permit(&self.turns).await?;
        self.running.inc();
        Ok(JobPermit { _permit: permit, _heavy: heavy, _running: Counted(self.running.clone()) })
    }

    async fn permit(&self, of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(of).try_acquire_owned() {
            return Ok(permit);
        }
        let before_us = self.waiting.inc();
        let _waiting = Counted(self.waiting.clone());
        if usize::try_from(before_us).is_ok_and(|waiting| waiting >= self.most_waiting) {
            return Err(Error::retry(format!(
                "the server is busy: {} requests are already waiting (option max_waiting); try again later",
                self.most_waiting
            )));
        }
        let permit = Arc::clone(of).acquire_owned().await;
        permit.map_err(|_| Error::closed("the server is shutting down"))
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
