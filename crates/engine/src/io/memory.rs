//! A machine in memory: files that remember what was synced, a clock that advances in steps, and
//! background work on the calling thread.

use super::{Clock, Joiner, Random, ReadFile, Spawn, Storage, WriteFile};
use crate::error::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Files in memory. [`crash`](Self::crash) discards what was not synced.
///
/// ```
/// use fleetdb_engine::io::{MemoryStorage, Storage};
/// let storage = MemoryStorage::new();
/// storage.create("a").unwrap().write(b"lost").unwrap();
/// let after = storage.crash();
/// assert!(after.list("").unwrap().is_empty());
/// ```
#[derive(Default)]
pub struct MemoryStorage {
    files: Mutex<BTreeMap<String, Arc<Mutex<Content>>>>,
    /// The durable directory: what a crash keeps.
    durable: Mutex<BTreeMap<String, Arc<Mutex<Content>>>>,
    locked: Arc<AtomicBool>,
    /// Syncs that still succeed before all later ones fail; -1 means no limit.
    syncs_left: Arc<AtomicI64>,
    syncs: Arc<AtomicU64>,
    full: Arc<AtomicBool>,
}

#[derive(Default)]
struct Content {
    /// The written bytes.
    bytes: Vec<u8>,
    synced_bytes: usize,
    /// The content that is being overwritten: what of it is behind the written bytes is still there.
    /// It is durable.
    before: Vec<u8>,
    /// The file's length. After the written bytes and those from before it holds zeros.
    length_bytes: usize,
    synced_length_bytes: usize,
}

impl Content {
    /// A file whose contents are durable.
    fn synced(bytes: Vec<u8>) -> Self {
        let length_bytes = bytes.len();
        Self { bytes, synced_bytes: length_bytes, length_bytes, synced_length_bytes: length_bytes, ..Self::default() }
    }

    /// The first `written` bytes, followed by what is behind them up to `length_bytes`.
    fn with_rest(&self, written: usize, length_bytes: usize) -> Vec<u8> {
        let mut bytes = self.bytes[..written].to_vec();
        bytes.extend_from_slice(self.before.get(written..).unwrap_or_default());
        bytes.resize(length_bytes.max(written), 0);
        bytes
    }
}

impl MemoryStorage {
    /// An empty storage.
    pub fn new() -> Arc<Self> {
        let storage = Self::default();
        storage.syncs_left.store(-1, Ordering::Relaxed);
        Arc::new(storage)
    }

    /// Allows `syncs` more syncs; all later ones fail, as if the disk were gone.
    pub fn fail_after(&self, syncs: i64) {
        self.syncs_left.store(syncs, Ordering::Relaxed);
    }

    /// Makes every write fail as on a full disk, or stops doing so.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Release);
    }

    /// Number of syncs (of files and directories).
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// The storage after a power cut: only the synced bytes of files whose directory was synced.
    pub fn crash(&self) -> Arc<Self> {
        self.crash_keeping(|_, _| 0)
    }

    /// As [`crash`](Self::crash), but `keep` decides how many bytes of each file's unsynced tail
    /// survive, given the file's name and the number of unsynced bytes.
    pub fn crash_keeping(&self, mut keep: impl FnMut(&str, usize) -> usize) -> Arc<Self> {
        let after = Self::new();
        for (name, content) in self.durable.lock().iter() {
            let content = content.lock();
            let unsynced = content.bytes.len() - content.synced_bytes;
            let kept = content.synced_bytes + keep(name, unsynced).min(unsynced);
            let bytes = content.with_rest(kept, content.synced_length_bytes);
            let content = Arc::new(Mutex::new(Content::synced(bytes)));
            after.files.lock().insert(name.clone(), Arc::clone(&content));
            after.durable.lock().insert(name.clone(), content);
        }
        after
    }

    /// Changes the bytes of a file behind the engine's back, to test how it handles damage.
    pub fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(content) = self.files.lock().get(name) {
            let mut content = content.lock();
            let mut bytes = content.with_rest(content.bytes.len(), content.length_bytes);
            change(&mut bytes);
            *content = Content::synced(bytes);
        }
    }

    fn find(&self, name: &str) -> Result<Arc<Mutex<Content>>> {
        let found = self.files.lock().get(name).cloned();
        found.ok_or_else(|| Error::io(format_args!("could not open {name}"), &not_found()))
    }
}

fn truncate(content: &Mutex<Content>, len_bytes: u64) {
    let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
    let mut content = content.lock();
    content.bytes.truncate(len);
    content.before.truncate(len);
    content.synced_bytes = content.synced_bytes.min(len);
    content.length_bytes = content.length_bytes.min(len);
    content.synced_length_bytes = content.synced_length_bytes.min(len);
}

fn not_found() -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::NotFound)
}

fn count_sync(left: &AtomicI64, syncs: &AtomicU64, name: &str) -> Result<()> {
    syncs.fetch_add(1, Ordering::Relaxed);
    match left.load(Ordering::Relaxed) {
        0 => Err(Error::io(format_args!("could not fdatasync {name}"), &std::io::Error::other("medium gone"))),
        -1 => Ok(()),
        n => {
            left.store(n - 1, Ordering::Relaxed);
            Ok(())
        }
    }
}

impl Storage for MemoryStorage {
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let content = Arc::new(Mutex::new(Content::default()));
        let mut files = self.files.lock();
        if files.contains_key(name) {
            let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::io(format_args!("could not create {name}"), &exists));
        }
        files.insert(name.to_owned(), Arc::clone(&content));
        Ok(Box::new(self.writer(name, content)))
    }

    fn append(&self, name: &str, len_bytes: u64) -> Result<Box<dyn WriteFile>> {
        let content = self.find(name)?;
        truncate(&content, len_bytes);
        Ok(Box::new(self.writer(name, content)))
    }

    fn overwrite(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let content = self.find(name)?;
        {
            let mut content = content.lock();
            let before = content.with_rest(content.bytes.len(), content.length_bytes);
            *content = Content { bytes: Vec::new(), synced_bytes: 0, before, ..*content };
        }
        Ok(Box::new(self.writer(name, content)))
    }

    fn read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let content = self.find(name)?;
        let content = content.lock();
        Ok(Arc::new(MemoryFile::new(name, content.with_rest(content.bytes.len(), content.length_bytes))))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let files = self.files.lock();
        let inside = files.keys().filter_map(|name| name.strip_prefix(&prefix));
        Ok(inside.filter(|rest| !rest.contains('/')).map(str::to_owned).collect())
    }

    fn create_directory(&self, _directory: &str) -> Result<()> {
        Ok(())
    }

    fn sync_directory(&self, directory: &str) -> Result<()> {
        count_sync(&self.syncs_left, &self.syncs, directory)?;
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let in_directory = |name: &str| name.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/'));
        let files = self.files.lock();
        let mut durable = self.durable.lock();
        durable.retain(|name, _| !in_directory(name));
        for (name, content) in files.iter().filter(|(name, _)| in_directory(name)) {
            durable.insert(name.clone(), Arc::clone(content));
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut files = self.files.lock();
        let content =
            files.remove(from).ok_or_else(|| Error::io(format_args!("could not rename {from}"), &not_found()))?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.files.lock().remove(name) {
            Some(_) => Ok(()),
            None => Err(Error::io(format_args!("could not remove {name}"), &not_found())),
        }
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        if self.locked.swap(true, Ordering::AcqRel) {
            return Err(Error::retry("the database is already open for writing: close it there first"));
        }
        Ok(Box::new(Unlock(Arc::clone(&self.locked))))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl MemoryStorage {
    fn writer(&self, name: &str, content: Arc<Mutex<Content>>) -> Written {
        Written {
            name: name.to_owned(),
            content,
            syncs_left: Arc::clone(&self.syncs_left),
            syncs: Arc::clone(&self.syncs),
            full: Arc::clone(&self.full),
        }
    }
}

struct Unlock(Arc<AtomicBool>);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

struct Written {
    name: String,
    content: Arc<Mutex<Content>>,
    syncs_left: Arc<AtomicI64>,
    syncs: Arc<AtomicU64>,
    full: Arc<AtomicBool>,
}

impl Written {
    fn check_room(&self) -> Result<()> {
        if self.full.load(Ordering::Acquire) {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(Error::io(format_args!("could not write {}", self.name), &full));
        }
        Ok(())
    }
}

impl WriteFile for Written {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_room()?;
        let mut content = self.content.lock();
        content.bytes.extend_from_slice(bytes);
        content.length_bytes = content.length_bytes.max(content.bytes.len());
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.check_room()?;
        let mut content = self.content.lock();
        content.length_bytes = content.length_bytes.max(content.bytes.len() + bytes);
        Ok(())
    }

    fn truncate(&mut self, len_bytes: u64) -> Result<()> {
        truncate(&self.content, len_bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        count_sync(&self.syncs_left, &self.syncs, &self.name)?;
        let mut content = self.content.lock();
        content.synced_bytes = content.bytes.len();
        content.synced_length_bytes = content.length_bytes;
        Ok(())
    }
}

/// A file in memory for reading. Other storage implementations can use it as well.
pub struct MemoryFile {
    name: String,
    bytes: Bytes,
}

impl MemoryFile {
    /// A file with this content; the name is for messages.
    pub fn new(name: &str, bytes: impl Into<Bytes>) -> Self {
        Self { name: name.to_owned(), bytes: bytes.into() }
    }
}

impl ReadFile for MemoryFile {
    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(len);
        if end > self.bytes.len() {
            return Err(Error::damaged(format!(
                "{}: cannot read bytes {start} to {end}: the file has {}",
                self.name,
                self.bytes.len()
            )));
        }
        Ok(self.bytes.slice(start..end))
    }
}

/// A clock that advances by one microsecond per reading, and further on request.
///
/// ```
/// use fleetdb_engine::io::{Clock, StepClock};
/// let clock = StepClock::default();
/// clock.advance(60_000_000_000);
/// assert!(clock.wall_ns() >= 60_000_000_000);
/// ```
#[derive(Default)]
pub struct StepClock(AtomicU64);

impl StepClock {
    /// Advances the clock.
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for StepClock {
    fn wall_ns(&self) -> i64 {
        i64::try_from(self.monotonic_ns()).unwrap_or(i64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }
}

/// Numbers that are the same in every run.
#[derive(Default)]
pub(super) struct CountingRandom(AtomicU64);

impl Random for CountingRandom {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// No threads: background steps run on the caller's thread.
pub(super) struct Inline;

impl Spawn for Inline {
    fn has_threads(&self) -> bool {
        false
    }

    fn spawn(&self, name: &str, _work: Box<dyn FnOnce() + Send>) -> Result<Joiner> {
        Err(Error::bug(format!("thread {name} is started where there are none")))
    }
}
