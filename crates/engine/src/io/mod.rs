//! The interface to the machine: storage, clock, random numbers and threads.
//!
//! The engine reaches the machine only through [`Io`]. [`Io::files`] is the real one,
//! [`Io::memory`] a deterministic one for tests. (Only the helper threads of long scans do not come
//! from it: they change nothing.) No other module may use files, clocks, random
//! numbers or threads; clippy's `disallowed-methods` enforces this.

mod file;
mod memory;
pub(crate) mod threads;

use crate::error::Result;
use bytes::Bytes;
use std::sync::Arc;

pub use memory::{MemoryFile, MemoryStorage, StepClock};

/// The storage, clock, random numbers and threads of one database.
#[derive(Clone)]
pub struct Io {
    /// The database's files.
    pub storage: Arc<dyn Storage>,
    /// The current time.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub random: Arc<dyn Random>,
    /// How background work runs.
    pub spawn: Arc<dyn Spawn>,
}

impl Io {
    /// The real machine: files under `directory`, the system's clock, random numbers and threads.
    pub fn files(directory: impl Into<std::path::PathBuf>) -> Self {
        Self {
            storage: Arc::new(file::FileStorage::new(directory.into())),
            clock: Arc::new(file::SystemClock),
            random: Arc::new(file::SystemRandom),
            spawn: Arc::new(threads::Threads),
        }
    }

    /// A database in memory. Successive opens may share `storage`. Background work runs on the
    /// calling thread, so that every run is identical.
    pub fn memory(storage: Arc<MemoryStorage>) -> Self {
        Self {
            storage,
            clock: Arc::new(memory::StepClock::default()),
            random: Arc::new(memory::CountingRandom::default()),
            spawn: Arc::new(memory::Inline),
        }
    }
}

/// A tree of files. Names are relative to the database directory and use `/`.
pub trait Storage: Send + Sync {
    /// Creates a file. It must not exist.
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>>;
    /// Opens an existing file for appending, truncated to `len_bytes`.
    fn append(&self, name: &str, len_bytes: u64) -> Result<Box<dyn WriteFile>>;
    /// Opens an existing file for writing from its beginning. It keeps its length and its content:
    /// each write overwrites a part of it.
    fn overwrite(&self, name: &str) -> Result<Box<dyn WriteFile>>;
    /// Opens an existing file for reading.
    fn read(&self, name: &str) -> Result<Arc<dyn ReadFile>>;
    /// The names of the files directly in `directory`, sorted; empty if it does not exist.
    fn list(&self, directory: &str) -> Result<Vec<String>>;
    /// Creates a directory and its missing parents. It may exist already.
    fn create_directory(&self, directory: &str) -> Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_directory(&self, directory: &str) -> Result<()>;
    /// Renames a file atomically, replacing the target.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file. Open handles can still read it.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes `name` a hard link to the file `original` of another storage. Returns `false`, without
    /// effect, if the two have no file system in common.
    fn link(&self, name: &str, other: &dyn Storage, original: &str) -> Result<bool> {
        let (_, _, _) = (name, other, original);
        Ok(false)
    }
    /// The directory in the file system, if there is one.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }
    /// The directory without symbolic links in its path, so that two paths can be compared. It may
    /// not exist yet.
    fn place(&self) -> Option<std::path::PathBuf> {
        None
    }
    /// Takes the exclusive writer's lock, which is held until the returned value is dropped.
    fn lock(&self) -> Result<Box<dyn Send + Sync>>;
    /// Returns an error if the lock is no longer valid because its file was removed or replaced.
    fn check_lock(&self) -> Result<()> {
        Ok(())
    }
    /// The location for messages: a path or `memory`.
    fn describe(&self) -> String;
    /// If this is a copy of a database elsewhere: the time when the part that is read now was copied, in
    /// nanoseconds since 1970.
    fn copied_ns(&self) -> Option<i64> {
        None
    }
}

/// Removes temporary files that a crash left: those ending in `.tmp`.
pub(crate) fn remove_temporaries(storage: &dyn Storage, directory: &str) -> Result<()> {
    for name in storage.list(directory)?.iter().filter(|name| name.ends_with(".tmp")) {
        storage.remove(&format!("{directory}/{name}"))?;
    }
    Ok(())
}

/// A file being written sequentially.
pub trait WriteFile: Send {
    /// Appends bytes. After an error any number of them may have been written.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Writes `bytes` zeros after the end. Later writes overwrite them, so that a sync need not
    /// also write a new file length and the file system's journal.
    fn reserve(&mut self, bytes: usize) -> Result<()>;
    /// Truncates the file to `len_bytes`, dropping any reserved zeros. Later writes continue from
    /// there.
    fn truncate(&mut self, len_bytes: u64) -> Result<()>;
    /// Makes the written data durable (`fdatasync`).
    fn sync(&mut self) -> Result<()>;
}

/// A file for random-access reads.
pub trait ReadFile: Send + Sync {
    /// File length.
    fn len_bytes(&self) -> u64;
    /// Reads exactly `len` bytes at `offset`; an error if the file is shorter.
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes>;
    /// Reads the whole file. Another process may have truncated it since it was opened; then there
    /// are fewer than [`len_bytes`](Self::len_bytes).
    fn read_all(&self) -> Result<Bytes> {
        self.read_at(0, self.len_bytes() as usize)
    }
}

/// A clock.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970 (UTC).
    fn wall_ns(&self) -> i64;
    /// Nanoseconds since an arbitrary start; never goes back.
    fn monotonic_ns(&self) -> u64;
}

/// A source of random numbers.
pub trait Random: Send + Sync {
    /// A random number.
    fn next_u64(&self) -> u64;
}

/// Waits for the end of a background thread.
pub type Joiner = Box<dyn FnOnce() + Send>;

/// How background work runs.
pub trait Spawn: Send + Sync {
    /// Whether there are threads. Without them, background steps run on the caller's thread.
    fn has_threads(&self) -> bool;
    /// Starts a named thread. The returned function waits for its end.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Joiner>;
}
