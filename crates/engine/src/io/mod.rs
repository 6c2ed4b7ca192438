//! The one seam to the world: storage, clock, random numbers and threads.
//!
//! Everything the engine asks of the machine goes through [`Io`]; [`Io::files`] is the real form,
//! [`Io::memory`] a deterministic one for tests. No other module may touch a file, a clock, a
//! random number or a thread; clippy's `disallowed-methods` keeps it so.

mod file;
mod memory;

use crate::error::Result;
use bytes::Bytes;
use std::sync::Arc;

pub use memory::{MemoryFile, MemoryStorage, StepClock};

/// Storage, clock, random numbers and threads of one database.
#[derive(Clone)]
pub struct Io {
    /// Where the database's files are.
    pub storage: Arc<dyn Storage>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where random numbers come from.
    pub random: Arc<dyn Random>,
    /// How background work runs.
    pub spawn: Arc<dyn Spawn>,
}

impl Io {
    /// The real machine: files below `directory`, the system's clock, random numbers and threads.
    pub fn files(directory: impl Into<std::path::PathBuf>) -> Self {
        Self {
            storage: Arc::new(file::FileStorage::new(directory.into())),
            clock: Arc::new(file::SystemClock),
            random: Arc::new(file::SystemRandom),
            spawn: Arc::new(file::Threads),
        }
    }

    /// A database in memory: `storage` may be shared by several openings one after the other;
    /// background work runs on the calling thread, so that every run is the same.
    pub fn memory(storage: Arc<MemoryStorage>) -> Self {
        Self {
            storage,
            clock: Arc::new(memory::StepClock::default()),
            random: Arc::new(memory::CountingRandom::default()),
            spawn: Arc::new(memory::Inline),
        }
    }
}

/// A tree of files; names are relative to the database and use `/`.
pub trait Storage: Send + Sync {
    /// Creates a file that must not exist yet.
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>>;
    /// Opens an existing file to append to it, cut to its first `len_bytes`.
    fn append(&self, name: &str, len_bytes: u64) -> Result<Box<dyn WriteFile>>;
    /// Opens an existing file to read it.
    fn read(&self, name: &str) -> Result<Arc<dyn ReadFile>>;
    /// The names of the files directly in `directory`, sorted; empty if there is no such directory.
    fn list(&self, directory: &str) -> Result<Vec<String>>;
    /// Creates a directory and what is missing above it; fine if it exists.
    fn create_directory(&self, directory: &str) -> Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_directory(&self, directory: &str) -> Result<()>;
    /// Moves a file over another name, atomically.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Removes a file. Whoever has it open still reads it.
    fn remove(&self, name: &str) -> Result<()>;
    /// Makes `name` a hard link to the file `original` of another storage; `false` if the two have no file system in
    /// common, and nothing has happened.
    fn link(&self, name: &str, other: &dyn Storage, original: &str) -> Result<bool> {
        let (_, _, _) = (name, other, original);
        Ok(false)
    }
    /// The directory in the file system, if there is one.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }
    /// The same, without links in the path, so that two paths can be compared; also of a directory that is yet to be made.
    fn place(&self) -> Option<std::path::PathBuf> {
        None
    }
    /// Takes the one writer's lock; it is held until the returned value is dropped.
    fn lock(&self) -> Result<Box<dyn Send + Sync>>;
    /// Refuses if the lock that was taken is not the one writer's any more: somebody removed or replaced its file.
    fn check_lock(&self) -> Result<()> {
        Ok(())
    }
    /// How messages name the place: a path or `memory`.
    fn describe(&self) -> String;
}

/// Removes what a crash left of files that are written under another name first: those ending in `.tmp`.
pub(crate) fn remove_temporaries(storage: &dyn Storage, directory: &str) -> Result<()> {
    for name in storage.list(directory)?.iter().filter(|name| name.ends_with(".tmp")) {
        storage.remove(&format!("{directory}/{name}"))?;
    }
    Ok(())
}

/// A file being written from front to back.
pub trait WriteFile: Send {
    /// Appends all bytes. After an error any number of them may be there.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// Writes so many zeros behind the end, in whose place what is written next stands: its sync then need not bring a new
    /// length of the file, and the file system's journal of it, to the medium.
    fn reserve(&mut self, bytes: usize) -> Result<()>;
    /// Cuts the file to its first `len_bytes`, and what was reserved; what is written next stands behind them.
    fn truncate(&mut self, len_bytes: u64) -> Result<()>;
    /// Makes what was written durable (`fdatasync`).
    fn sync(&mut self) -> Result<()>;
}

/// A file being read at any place.
pub trait ReadFile: Send + Sync {
    /// The file's length in bytes.
    fn len_bytes(&self) -> u64;
    /// Exactly `len` bytes from `offset`; an error if the file is shorter.
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes>;
}

/// What time it is.
pub trait Clock: Send + Sync {
    /// Nanoseconds since 1970 (UTC).
    fn wall_ns(&self) -> i64;
    /// Nanoseconds from some start that never go back.
    fn monotonic_ns(&self) -> u64;
}

/// A source of random numbers.
pub trait Random: Send + Sync {
    /// A random number.
    fn next_u64(&self) -> u64;
}

/// A background thread that was started.
pub type Joiner = Box<dyn FnOnce() + Send>;

/// How background work runs.
pub trait Spawn: Send + Sync {
    /// Whether there are threads; without them background steps run on the caller's thread.
    fn has_threads(&self) -> bool;
    /// Starts a named thread; the returned function waits for its end.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Joiner>;
}
