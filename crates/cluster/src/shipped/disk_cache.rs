//! A cache on disk for what is read from a bucket.
//!
//! 1. An object is read in blocks of [`BLOCK_BYTES`]. Each block that was read is a file. Its name
//!    is that of the object and the number of the block. Its last four bytes are the CRC32C of the
//!    others. Damaged blocks are read again, so files need no sync.
//! 2. If the files have more bytes than the limit, those that were used least recently are removed.
//!
//! The objects of segments never change: their names contain their checksums. So a block is valid
//! for ever, and a reader that starts again finds what it has read before.

use crate::lock;
use bytes::{Bytes, BytesMut};
use fleetdb_engine::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The length of a block. The last one of an object is shorter.
const BLOCK_BYTES: u64 = 256 << 10;
/// The file that is locked while the cache is open.
const LOCK: &str = "LOCK";
/// Ends the names of files that are being written.
const TEMPORARY: &str = ".tmp";

/// A directory of blocks, for one bucket.
pub struct DiskCache {
    directory: PathBuf,
    limit_bytes: u64,
    blocks: Mutex<Blocks>,
    /// The number of the next temporary file.
    temporaries: AtomicU64,
    /// Held while the cache is open.
    _lock: File,
}

/// Which blocks there are.
#[derive(Default)]
struct Blocks {
    /// The length of each file, and when it was used last.
    files: HashMap<String, (u64, u64)>,
    /// The names of the files, by when they were used last.
    used: BTreeMap<u64, String>,
    bytes: u64,
    /// Counts uses.
    now: u64,
}

impl Blocks {
    fn use_now(&mut self, name: &str, bytes: u64) {
        self.forget(name);
        self.now += 1;
        self.files.insert(name.to_owned(), (bytes, self.now));
        self.used.insert(self.now, name.to_owned());
        self.bytes += bytes;
    }

    fn forget(&mut self, name: &str) {
        if let Some((bytes, used)) = self.files.remove(name) {
            self.used.remove(&used);
            self.bytes -= bytes;
        }
    }

    /// Forgets the files that are too much; gives their names.
    fn shrink(&mut self, limit_bytes: u64) -> Vec<String> {
        let mut gone = Vec::new();
        while self.bytes > limit_bytes
            && let Some((_, name)) = self.used.first_key_value()
        {
            let name = name.clone();
            self.forget(&name);
            gone.push(name);
        }
        gone
    }
}

impl DiskCache {
    /// Opens the cache of a bucket in a directory that caches of other buckets may share, or
    /// creates it. `limit_bytes` is for this bucket.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn open(directory: &Path, url: &str, limit_bytes: u64) -> Result<Self> {
        let directory = directory.join(&crate::bucket::sha256(url.as_bytes())[..16]);
        let failed =
            |e: std::io::Error| Error::io(format_args!("could not open the cache {}", directory.display()), &e);
        fs::create_dir_all(&directory).map_err(failed)?;
        let lock = File::create(directory.join(LOCK)).map_err(failed)?;
        lock.try_lock().map_err(|_| {
            Error::retry(format!("the cache {} is used by another process", directory.display()))
                .with_hint("Give each process a directory of its own.")
        })?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
            match name.ends_with(TEMPORARY) {
                true => drop(fs::remove_file(entry.path())),
                false if name == LOCK => {}
                false => found.push((metadata.modified().ok(), name, metadata.len())),
            }
        }
        found.sort_unstable();
        let mut blocks = Blocks::default();
        found.iter().for_each(|(_, name, bytes)| blocks.use_now(name, *bytes));
        let cache =
            Self { directory, limit_bytes, blocks: Mutex::new(blocks), temporaries: AtomicU64::new(0), _lock: lock };
        cache.shrink();
        Ok(cache)
    }

    /// Reads a range of an object of this length. `fetch` reads what is not in the cache.
    ///
    /// # Errors
    /// Those of `fetch`. If the cache cannot be read or written, the object is.
    pub(super) fn read(
        &self,
        object: &str,
        len_bytes: u64,
        range: Range<u64>,
        fetch: impl Fn(Range<u64>) -> Result<Bytes>,
    ) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let numbers = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let span = |numbers: &Range<u64>| numbers.start * BLOCK_BYTES..(numbers.end * BLOCK_BYTES).min(len_bytes);
        let all = span(&numbers);
        let mut bytes = BytesMut::with_capacity((all.end - all.start) as usize);
        let mut number = numbers.start;
        while number < numbers.end {
            if let Some(block) = self.block(object, number, span(&(number..number + 1))) {
                bytes.extend_from_slice(&block);
                number += 1;
                continue;
            }
            // One request for all blocks up to the next one that is there.
            let is_here = |number: &u64| lock(&self.blocks).files.contains_key(&name_of(object, *number));
            let end = (number + 1..numbers.end).find(is_here).unwrap_or(numbers.end);
            let fetched = fetch(span(&(number..end)))?;
            for at in number..end {
                let Range { start, end } = span(&(at..at + 1));
                let first = number * BLOCK_BYTES;
                self.keep(object, at, &fetched[(start - first) as usize..(end - first) as usize]);
            }
            bytes.extend_from_slice(&fetched);
            number = end;
        }
        let bytes = bytes.freeze();
        Ok(bytes.slice((range.start - all.start) as usize..(range.end - all.start) as usize))
    }

    /// A block, if it is there and undamaged.
    fn block(&self, object: &str, number: u64, span: Range<u64>) -> Option<Bytes> {
        let name = name_of(object, number);
        if !lock(&self.blocks).files.contains_key(&name) {
            return None;
        }
        let read = fs::read(self.directory.join(&name)).ok();
        let intact = read.and_then(|file| {
            let (bytes, crc) = file.split_last_chunk::<4>()?;
            let is_intact = bytes.len() as u64 == span.end - span.start && crc32c::crc32c(bytes).to_le_bytes() == *crc;
            is_intact.then(|| Bytes::copy_from_slice(bytes))
        });
        let mut blocks = lock(&self.blocks);
        match &intact {
            Some(bytes) => blocks.use_now(&name, bytes.len() as u64 + 4),
            None => blocks.forget(&name),
        }
        intact
    }

    /// Keeps a block, unless the disk does not take it.
    fn keep(&self, object: &str, number: u64, bytes: &[u8]) {
        let name = name_of(object, number);
        let temporary = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = self.directory.join(format!("{temporary}{TEMPORARY}"));
        let file = [bytes, &crc32c::crc32c(bytes).to_le_bytes()].concat();
        let written = fs::write(&temporary, &file).and_then(|()| fs::rename(&temporary, self.directory.join(&name)));
        match written {
            Ok(()) => lock(&self.blocks).use_now(&name, file.len() as u64),
            Err(error) => {
                tracing::debug!("could not write to the cache {}: {error}", self.directory.display());
                fs::remove_file(&temporary).ok();
            }
        }
        self.shrink();
    }

    fn shrink(&self) {
        let gone = lock(&self.blocks).shrink(self.limit_bytes);
        gone.iter().for_each(|name| drop(fs::remove_file(self.directory.join(name))));
    }
}

fn name_of(object: &str, number: u64) -> String {
    format!("{}@{number}", object.replace('/', "_"))
}

#[cfg(test)]
#[path = "disk_cache_tests.rs"]
mod tests;
