//! Whether a single connection is active.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A connection is alone when no other one has sent anything for this long.
const ALONE_AFTER_MS: u64 = 1_000;

/// Which connection sent the newest request. Racing connections may both appear as the newest for a
/// moment, but then neither is alone.
pub(crate) struct Activity {
    started: Instant,
    /// The number of connections so far.
    numbers: AtomicU64,
    newest: AtomicU64,
    /// When `newest` sent its first request after one of another connection, in milliseconds after
    /// `started`.
    since_ms: AtomicU64,
}

impl Activity {
    /// No connection has sent anything.
    pub(crate) fn new() -> Self {
        let [numbers, newest, since_ms] = [0; 3].map(AtomicU64::new);
        Self { started: Instant::now(), numbers, newest, since_ms }
    }

    /// A number for another connection.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Notes that a connection has sent something.
    pub(crate) fn note(&self, connection: u64) {
        if self.newest.load(Ordering::Relaxed) != connection {
            self.note_at(connection, self.now_ms());
        }
    }

    /// Whether the connection that sent the newest request is alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone_at(self.now_ms())
    }

    fn note_at(&self, connection: u64, now_ms: u64) {
        self.since_ms.store(now_ms, Ordering::Relaxed);
        self.newest.store(connection, Ordering::Relaxed);
    }

    fn is_alone_at(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms.load(Ordering::Relaxed)) >= ALONE_AFTER_MS
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
#[path = "activity_tests.rs"]
mod tests;
