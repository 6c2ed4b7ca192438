//! Advisory locks: numbers that programs agree on so that only one of them works at a time, as
//! migration tools do
//! (<https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS>). A session that
//! finds a lock taken gets an error and may retry; it does not wait, because no thread is kept for
//! a waiting session.

use fleetdb_engine::{Code, Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of locks held by all sessions together, and of acquisitions by one session.
const MAX_LOCKS: usize = 10_000;

/// A lock's key: one number, or two of half the size. The two forms do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    One(i64),
    Two(i64, i64),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(number) => write!(f, "{number}"),
            Self::Two(first, second) => write!(f, "({first}, {second})"),
        }
    }
}

/// The advisory locks of a database, shared by all of its sessions.
#[derive(Default)]
pub struct AdvisoryLocks {
    /// The session that holds each lock, and how many times it has taken it.
    holders: Mutex<HashMap<Key, (u64, usize)>>,
    /// The number of the next session.
    sessions: AtomicU64,
}

/// When a lock that was not released explicitly is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Session,
    Transaction,
}

/// The locks a session holds. Dropping it releases them.
pub struct HeldLocks {
    locks: Arc<AdvisoryLocks>,
    session: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Vec<(Key, Scope)>,
    is_in_transaction: bool,
}

impl HeldLocks {
    /// For a new session, which holds no locks.
    pub fn new(locks: Arc<AdvisoryLocks>) -> Self {
        let session = locks.sessions.fetch_add(1, Ordering::Relaxed);
        Self { locks, session, state: Mutex::default() }
    }

    /// Takes a lock, which the session may already hold; returns false if another session holds it.
    /// A transaction lock outside a transaction is released at once.
    ///
    /// # Errors
    /// There are too many locks.
    pub(crate) fn take(&self, key: Key, scope: Scope) -> Result<bool> {
        let mut state = self.state();
        let mut holders = self.locks.holders();
        let is_kept = scope == Scope::Session || state.is_in_transaction;
        if is_kept && (holders.len() >= MAX_LOCKS || state.held.len() >= MAX_LOCKS) {
            return Err(Error::new(
                Code::LimitExceeded,
                format!("there are too many advisory locks: the most is {MAX_LOCKS}"),
            ));
        }
        match holders.entry(key) {
            Entry::Occupied(mut holder) if holder.get().0 == self.session => holder.get_mut().1 += usize::from(is_kept),
            Entry::Occupied(_) => return Ok(false),
            Entry::Vacant(_) if !is_kept => {}
            Entry::Vacant(place) => {
                place.insert((self.session, 1));
            }
        }
        if is_kept {
            state.held.push((key, scope));
        }
        Ok(true)
    }

    /// Releases one acquisition of a session lock; returns whether the session held it.
    pub(crate) fn release(&self, key: Key) -> bool {
        let mut state = self.state();
        let place = state.held.iter().rposition(|held| *held == (key, Scope::Session));
        let held = place.map(|place| state.held.remove(place));
        self.give_back(held);
        held.is_some()
    }

    /// Releases all of the session's locks except those of its transaction.
    pub fn release_all(&self) {
        self.release_those(|scope| scope == Scope::Session);
    }

    /// Says that a transaction began, whose locks end with it.
    pub fn begin_transaction(&self) {
        self.state().is_in_transaction = true;
    }

    /// Ends the transaction and releases its locks.
    pub fn end_transaction(&self) {
        self.state().is_in_transaction = false;
        self.release_those(|scope| scope == Scope::Transaction);
    }

    fn release_those(&self, is_one: impl Fn(Scope) -> bool) {
        let mut state = self.state();
        // Most transactions hold no locks, and need not wait for other sessions here.
        if !state.held.iter().any(|(_, scope)| is_one(*scope)) {
            return;
        }
        let (gone, kept) = std::mem::take(&mut state.held).into_iter().partition(|(_, scope)| is_one(*scope));
        state.held = kept;
        self.give_back::<Vec<_>>(gone);
    }

    fn give_back<T: IntoIterator<Item = (Key, Scope)>>(&self, gone: T) {
        let mut holders = self.locks.holders();
        for (key, _) in gone {
            if let Entry::Occupied(mut holder) = holders.entry(key) {
                holder.get_mut().1 -= 1;
                if holder.get().1 == 0 {
                    holder.remove();
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.release_those(|_| true);
    }
}

impl AdvisoryLocks {
    fn holders(&self) -> MutexGuard<'_, HashMap<Key, (u64, usize)>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "advisory_tests.rs"]
mod tests;
