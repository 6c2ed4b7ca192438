//! The memory budget for transient use: scans, compaction, queries and gathered rows.
//!
//! `memory_limit` is a single number for everything. Memtables (two generations, and the flush's
//! sorted copy) and the cache have fixed shares of it, and
//! [`Settings::validate`](crate::Settings::validate) checks that they fit. The rest is this budget.
//! Code that needs memory in proportion to the data first takes a [`Charge`], and is refused when
//! the budget is exhausted. Only a scan waits for a while, if a compaction holds what it lacks.

use crate::error::{Code, Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How often, and each time how long, a charge waits for the end of a compaction.
const WAITS: usize = 50;
const WAIT: Duration = Duration::from_millis(100);

/// The bytes that scans, compactions and queries may hold together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    /// The part of the used bytes that compactions hold.
    compaction_bytes: Mutex<usize>,
    /// Wakes those who wait when a compaction gives its bytes back.
    compacted: Condvar,
}

/// Bytes taken from a budget and given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
    is_of_compaction: bool,
}

impl Budget {
    pub(crate) fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
            compaction_bytes: Mutex::new(0),
            compacted: Condvar::new(),
        })
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// The bytes that are free now.
    pub(crate) fn free_bytes(&self) -> usize {
        self.limit_bytes.saturating_sub(self.used_bytes())
    }

    /// Charges bytes that are already held, even over the limit.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Charge {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        Charge { budget: Arc::clone(self), bytes, is_of_compaction: false }
    }

    /// Charges bytes for a compaction.
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub(crate) fn charge_compaction(self: &Arc<Self>, bytes: usize) -> Result<Charge> {
        let mut held = self.compaction_bytes.lock();
        let mut charge = self.charge("a compaction", bytes)?;
        charge.is_of_compaction = true;
        *held += bytes;
        Ok(charge)
    }

    /// Charges bytes for `what`. If only compactions are in the way, this waits for their end, but
    /// not for long.
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    pub(crate) fn charge_behind_compaction(self: &Arc<Self>, what: &str, bytes: usize) -> Result<Charge> {
        if let Ok(charge) = self.charge(what, bytes) {
            return Ok(charge);
        }
        let mut held = self.compaction_bytes.lock();
        for _ in 0..WAITS {
            let charge = self.charge(what, bytes);
            let by_others = self.used_bytes().saturating_sub(*held);
            if charge.is_ok() || by_others.saturating_add(bytes) > self.limit_bytes {
                return charge;
            }
            self.compacted.wait_for(&mut held, WAIT);
        }
        self.charge(what, bytes)
    }

    /// Charges bytes for `what`.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](crate::ErrorKind::Retry): others hold the memory now, or the limit is too small.
    pub(crate) fn charge(self: &Arc<Self>, what: &str, bytes: usize) -> Result<Charge> {
        let taken = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|total| *total <= self.limit_bytes)
        });
        match taken {
            Ok(_) => Ok(Charge { budget: Arc::clone(self), bytes, is_of_compaction: false }),
            Err(used) => Err(Error::new(
                Code::OutOfMemory,
                format!(
                    "{what} needs {bytes} bytes of memory, but {used} of {} are in use by scans and compaction: try \
                     again later, request less data, or raise the setting memory_limit",
                    self.limit_bytes
                ),
            )),
        }
    }
}

/// The memory that queries may use, from the same budget as scans and compaction. For a query
/// engine that sorts and joins.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let memory = db.query_memory();
/// assert!(memory.try_reserve(1 << 20));
/// memory.release(1 << 20);
/// assert!(!memory.try_reserve(memory.limit_bytes() + 1));
/// ```
#[derive(Clone, Debug)]
pub struct QueryMemory(pub(crate) Arc<Budget>);

impl QueryMemory {
    /// Maximum bytes that queries may hold: three quarters of the budget, so that compaction can
    /// proceed.
    pub fn limit_bytes(&self) -> usize {
        self.0.limit_bytes / 4 * 3
    }

    /// Bytes held now by queries, scans and compaction.
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes()
    }

    /// Takes bytes if they are available.
    pub fn try_reserve(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|total| *total <= self.limit_bytes());
        self.0.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Takes bytes that are already held, even over the limit.
    pub fn reserve_unchecked(&self, bytes: usize) {
        self.0.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes bytes that are given back when the returned value is dropped.
    ///
    /// # Errors
    /// As [`MemoryReservation::grow_to`].
    pub fn reserve(&self, what: &str, bytes: usize) -> Result<MemoryReservation> {
        let mut held = self.reservation();
        held.grow(what, bytes)?;
        Ok(held)
    }

    /// An empty charge that can grow.
    pub fn reservation(&self) -> MemoryReservation {
        MemoryReservation { memory: self.clone(), bytes: 0 }
    }

    /// Gives back bytes that were taken.
    pub fn release(&self, bytes: usize) {
        self.0.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A growing memory charge, for example of a client's gathered rows. Given back on drop.
///
/// ```
/// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let mut rows = db.query_memory().reservation();
/// rows.grow_to("a transaction", 1 << 20).unwrap();
/// assert!(db.query_memory().used_bytes() >= 1 << 20);
/// assert!(rows.grow_to("a transaction", 1 << 40).is_err());
/// rows.release();
/// assert_eq!(db.query_memory().used_bytes(), 0);
/// ```
#[derive(Debug)]
pub struct MemoryReservation {
    memory: QueryMemory,
    bytes: usize,
}

impl MemoryReservation {
    /// Growth below this is not charged: most clients never hold more.
    const STEP_BYTES: usize = 16 << 10;

    /// Grows the charge to `bytes`. Small growth is not charged.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`](crate::ErrorKind::Retry): others hold the memory now, or the limit is too small.
    pub fn grow_to(&mut self, what: &str, bytes: usize) -> Result<()> {
        if bytes < self.bytes + Self::STEP_BYTES {
            return Ok(());
        }
        self.grow(what, bytes)
    }

    fn grow(&mut self, what: &str, bytes: usize) -> Result<()> {
        let missing = bytes - self.bytes;
        if !self.memory.try_reserve(missing) {
            return Err(Error::new(
                Code::OutOfMemory,
                format!(
                    "{what} needs {missing} more bytes of memory, but {} of {} are in use by queries, scans, \
                     compaction and the writes of other clients: make it smaller, try again later, or raise the \
                     setting memory_limit",
                    self.memory.used_bytes(),
                    self.memory.limit_bytes()
                ),
            ));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Gives back the whole charge.
    pub fn release(&mut self) {
        self.memory.release(std::mem::take(&mut self.bytes));
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.release();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut of_compaction = self.is_of_compaction.then(|| self.budget.compaction_bytes.lock());
        self.budget.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(held) = of_compaction.as_deref_mut() {
            *held -= self.bytes;
            self.budget.compacted.notify_all();
        }
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
