//! The limits that stop a statement: memory, time and cancellation.
//!
//! Memory: DataFusion's operators reserve theirs from the engine's budget ([`BudgetPool`]). Sorts
//! and joins spill to temporary files when the budget is exhausted. Time and cancellation: a
//! statement's future is checked between batches, when its operators yield ([`Watch`]). Within a
//! join, its condition checks ([`crate::joins`]).

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use fleetdb_engine::{Code, Error, QueryMemory};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Adapts the engine's memory budget to DataFusion.
#[derive(Debug)]
pub struct BudgetPool(pub QueryMemory);

impl MemoryPool for BudgetPool {
    fn name(&self) -> &'static str {
        "fleetdb"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.0.reserve_unchecked(additional);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.0.release(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.0.try_reserve(additional) {
            return Ok(());
        }
        Err(DataFusionError::ResourcesExhausted(format!(
            "{} needs {additional} bytes, and {} of {} are in use by queries, scans and compaction; ask for less, try \
             again later, or raise the setting memory_limit",
            reservation.consumer().name(),
            self.0.used_bytes(),
            self.0.limit_bytes()
        )))
    }

    fn reserved(&self) -> usize {
        self.0.used_bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.0.limit_bytes())
    }
}

impl fmt::Display for BudgetPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fleetdb(used: {} bytes, limit: {} bytes)", self.0.used_bytes(), self.0.limit_bytes())
    }
}

/// Cancels the statement a session is running, from another thread. See
/// `Session::canceller` in `fleetdb-query`.
#[derive(Clone, Debug, Default)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// Makes the running statement fail; does nothing if none is running.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The limits on a session's statements.
#[derive(Debug, Default)]
pub struct Limits {
    watch: Mutex<Watch>,
    /// Whether a cancellation that has already arrived applies to the next statement.
    announced: AtomicBool,
}

/// The limits of the running statement.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    canceller: Canceller,
    deadline: Option<(Instant, Duration)>,
}

impl Limits {
    /// Cancels the running statement from another thread.
    pub fn canceller(&self) -> Canceller {
        self.watch().canceller
    }

    /// Announces a statement: a cancellation from now on applies to it.
    pub fn announce(&self) -> Canceller {
        let canceller = self.canceller();
        canceller.0.store(false, Ordering::Relaxed);
        self.announced.store(true, Ordering::Relaxed);
        canceller
    }

    /// Gives the session to another user: a cancellation by a [`Canceller`] from before has no effect.
    pub fn renew_canceller(&self) {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).canceller = Canceller::default();
    }

    /// Starts a statement with a timeout. Earlier cancellations do not apply to it, unless it was
    /// announced.
    pub fn begin(&self, timeout: Option<Duration>) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.announced.swap(false, Ordering::Relaxed) {
            watch.canceller.0.store(false, Ordering::Relaxed);
        }
        watch.deadline = timeout.and_then(|timeout| Some((Instant::now().checked_add(timeout)?, timeout)));
    }

    /// The limits of the running statement.
    pub fn watch(&self) -> Watch {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Watch {
    /// The error that must end the statement, if any.
    pub fn stopped(&self) -> Option<Error> {
        if self.canceller.0.load(Ordering::Relaxed) {
            return Some(Error::new(Code::Cancelled, "the statement was cancelled"));
        }
        let (_, timeout) = self.deadline.filter(|(deadline, _)| Instant::now() >= *deadline)?;
        Some(Error::new(
            Code::Cancelled,
            format!(
                "the statement took longer than statement_timeout ({} ms): ask for less, or SET statement_timeout",
                timeout.as_millis()
            ),
        ))
    }

    /// Runs the future until it completes or is stopped. Operators yield after some batches, and
    /// the limits are checked then.
    pub async fn until_stopped<F: Future>(&self, future: F) -> fleetdb_engine::Result<F::Output> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| match self.stopped() {
            Some(error) => Poll::Ready(Err(error)),
            None => future.as_mut().poll(context).map(Ok),
        })
        .await
    }
}

/// Parses a timeout in PostgreSQL's form: milliseconds, or a number with a unit; 0 means none.
/// `name` is the setting's name.
pub fn timeout(name: &str, text: &str) -> fleetdb_engine::Result<Option<Duration>> {
    let wrong = || {
        Error::new(
            Code::InvalidParameter,
            format!("{name} = '{text}': give milliseconds, or a time as in '5s' or '2min'; 0 is none"),
        )
    };
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit_ms = match text[digits..].trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let ms = number.checked_mul(unit_ms).ok_or_else(wrong)?;
    Ok((ms > 0).then(|| Duration::from_millis(ms)))
}

/// Formats a timeout in the largest unit that gives a whole number.
pub fn timeout_text(timeout: Option<Duration>) -> String {
    let ms = timeout.map_or(0, |timeout| timeout.as_millis());
    let units = [(3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let unit = units.iter().find(|(unit_ms, _)| ms > 0 && ms.is_multiple_of(*unit_ms));
    unit.map_or_else(|| ms.to_string(), |(unit_ms, unit)| format!("{}{unit}", ms / unit_ms))
}
