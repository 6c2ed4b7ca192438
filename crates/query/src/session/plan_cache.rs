//! Keeps what a client's texts become when they are prepared, from the second time on that one is sent.
//! The session keeps those that it is [asked](crate::Session::sql), the server those of each connection.

use fleetdb_engine::QueryMemory;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most texts that are remembered of each kind; then those are forgotten.
const MAX_TEXTS: usize = 64;
/// The part of the queries' memory that all connections' texts may take.
const SHARE: usize = 8;

/// A longer text is not kept.
const MAX_TEXT_BYTES: usize = 8 << 10;

/// The memory of what all connections of a server keep, or a session. It is a small part of the budget of queries, to which each
/// kept item is charged as well, so that running statements have the rest.
pub struct KeptMemory {
    used_bytes: AtomicUsize,
    limit_bytes: usize,
}

impl KeptMemory {
    /// A share of the queries' memory.
    pub fn new(memory: &QueryMemory) -> Self {
        Self { used_bytes: AtomicUsize::new(0), limit_bytes: memory.limit_bytes() / SHARE }
    }

    fn take(self: &Arc<Self>, bytes: usize) -> Option<KeptBytes> {
        let take = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit_bytes);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(KeptBytes(Arc::clone(self), bytes))
    }
}

/// A part of [`KeptMemory`], given back when dropped.
struct KeptBytes(Arc<KeptMemory>, usize);

impl Drop for KeptBytes {
    fn drop(&mut self) {
        self.0.used_bytes.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// Rough memory use of a prepared statement, in bytes, most of it for its syntax tree and plan.
pub fn held_bytes(text: &str, is_query: bool) -> usize {
    let (each, of_each_byte) = if is_query { (32 << 10, 256) } else { (16 << 10, 128) };
    each + text.len().saturating_mul(of_each_byte)
}

/// A client's texts; `T` is what one becomes.
pub struct PlanCache<T> {
    memory: Arc<KeptMemory>,
    /// The hashes of texts that were sent but are not kept.
    seen: HashMap<u64, Seen>,
    kept: HashMap<String, (Arc<T>, KeptBytes)>,
}

#[derive(Clone, Copy)]
enum Seen {
    /// It was sent once. Most texts are never sent again, so they are not prepared.
    Once,
    NeverKept,
}

/// What is known of a text.
pub enum Cached<T> {
    /// What it has become.
    Kept(Arc<T>),
    /// It has been sent before, so it is worth keeping.
    ToPrepare,
    /// It is new, or cannot be kept.
    None,
}

impl<T> PlanCache<T> {
    /// No texts yet.
    pub fn new(memory: &Arc<KeptMemory>) -> Self {
        Self { memory: Arc::clone(memory), seen: HashMap::new(), kept: HashMap::new() }
    }

    /// What is known of a text, which is then no longer new.
    pub fn look_up(&mut self, text: &str) -> Cached<T> {
        if let Some((kept, _)) = self.kept.get(text) {
            return Cached::Kept(Arc::clone(kept));
        }
        if text.len() > MAX_TEXT_BYTES {
            return Cached::None;
        }
        match self.seen.get(&hash(text)) {
            Some(Seen::Once) => Cached::ToPrepare,
            Some(Seen::NeverKept) => Cached::None,
            None => {
                self.see(text, Seen::Once);
                Cached::None
            }
        }
    }

    /// Keeps what a text has become, if there is memory for it; otherwise forgets everything.
    pub fn keep(&mut self, text: &str, kept: Arc<T>, bytes: usize) {
        self.seen.remove(&hash(text));
        let taken = if self.kept.len() < MAX_TEXTS { self.memory.take(bytes) } else { None };
        match taken {
            Some(taken) => drop(self.kept.insert(text.to_owned(), (kept, taken))),
            None => self.kept.clear(),
        }
    }

    /// Remembers that a text cannot be kept.
    pub fn never_keep(&mut self, text: &str) {
        self.kept.remove(text);
        self.see(text, Seen::NeverKept);
    }

    /// Forgets a text's plan.
    pub fn forget(&mut self, text: &str) {
        self.kept.remove(text);
    }

    /// The texts that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> impl Iterator<Item = &str> {
        self.kept.keys().map(String::as_str)
    }

    /// Forgets all texts.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.seen.clear();
    }

    fn see(&mut self, text: &str, seen: Seen) {
        if self.seen.len() >= MAX_TEXTS {
            self.seen.clear();
        }
        self.seen.insert(hash(text), seen);
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
