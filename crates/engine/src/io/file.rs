//! The real machine: files, and the system's clock and random numbers.

#![allow(clippy::disallowed_methods, reason = "this is the one place that touches the machine")]

use super::{Clock, Random, ReadFile, Storage, WriteFile};
use crate::error::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Only the owner can read and write a database's files.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

pub(super) struct FileStorage {
    root: PathBuf,
    /// Device and inode number of the `LOCK` file that is held.
    locked: Mutex<Option<(u64, u64)>>,
}

impl FileStorage {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, locked: Mutex::new(None) }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    fn error(&self, doing: &str, name: &str, error: &std::io::Error) -> Error {
        Error::io(format_args!("could not {doing} {}", self.path(name).display()), error)
    }

    /// The error of a database that is open for writing elsewhere. It names the process in `LOCK`.
    fn taken(&self) -> Error {
        let holder = fs::read_to_string(self.path("LOCK")).ok().and_then(|text| text.trim().parse::<u32>().ok());
        let holder = match holder {
            Some(id) if id == std::process::id() => "in this process: close it".to_owned(),
            Some(id) => format!("in another process ({id}): close it there"),
            None => "in another process: close it there".to_owned(),
        };
        let place = self.root.display();
        Error::retry(format!("the database {place} is open for writing {holder} first"))
            .with_hint("To read it meanwhile, open it read-only: --read-only, in Python read_only=True.")
    }
}

impl Storage for FileStorage {
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(self.path(name))
            .map_err(|e| self.error("create", name, &e))?;
        Ok(Box::new(Written { file, path: self.path(name), end_bytes: 0 }))
    }

    fn append(&self, name: &str, len_bytes: u64) -> Result<Box<dyn WriteFile>> {
        let mut file = self.overwrite(name)?;
        file.truncate(len_bytes)?;
        Ok(file)
    }

    fn overwrite(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let file = OpenOptions::new().write(true).open(self.path(name)).map_err(|e| self.error("open", name, &e))?;
        Ok(Box::new(Written { file, path: self.path(name), end_bytes: 0 }))
    }

    fn read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let file = File::open(self.path(name)).map_err(|e| self.error("open", name, &e))?;
        let len_bytes = file.metadata().map_err(|e| self.error("stat", name, &e))?.len();
        Ok(Arc::new(Readable { file, len_bytes, path: self.path(name) }))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(directory)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(self.error("list", directory, &e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| self.error("list", directory, &e))?;
            let is_file = entry.file_type().map_err(|e| self.error("list", directory, &e))?.is_file();
            if let (true, Some(name)) = (is_file, entry.file_name().to_str()) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_directory(&self, directory: &str) -> Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE);
        builder.create(self.path(directory)).map_err(|e| self.error("create", directory, &e))
    }

    fn sync_directory(&self, directory: &str) -> Result<()> {
        File::open(self.path(directory))
            .and_then(|file| file.sync_all())
            .map_err(|e| self.error("sync directory", directory, &e))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        fs::rename(self.path(from), self.path(to)).map_err(|e| self.error("rename", from, &e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        fs::remove_file(self.path(name)).map_err(|e| self.error("remove", name, &e))
    }

    fn link(&self, name: &str, other: &dyn Storage, original: &str) -> Result<bool> {
        let Some(other) = other.directory() else { return Ok(false) };
        match fs::hard_link(other.join(original), self.path(name)) {
            Ok(()) => Ok(true),
            // Different file systems, or one without hard links.
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::CrossesDevices
                        | ErrorKind::Unsupported
                        | ErrorKind::PermissionDenied
                        | ErrorKind::TooManyLinks
                ) =>
            {
                Ok(false)
            }
            Err(e) => Err(self.error("link", name, &e)),
        }
    }

    fn directory(&self) -> Option<&std::path::Path> {
        Some(&self.root)
    }

    fn place(&self) -> Option<PathBuf> {
        let absolute = std::path::absolute(&self.root).ok()?;
        // If the end of the path does not exist yet, resolves the part that does.
        absolute.ancestors().find_map(|there| {
            let rest = absolute.strip_prefix(there).ok()?;
            fs::canonicalize(there).ok().map(|there| there.join(rest))
        })
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        // This lock still holds if someone removes LOCK or creates a new one.
        let directory = File::open(&self.root).map_err(|e| self.error("open", "", &e))?;
        match directory.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Err(self.taken()),
            // Some network file systems cannot lock directories; then only LOCK protects.
            Ok(()) | Err(fs::TryLockError::Error(_)) => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(self.path("LOCK"))
            .map_err(|e| self.error("open", "LOCK", &e))?;
        match file.try_lock() {
            Ok(()) => {
                let held = file.metadata().map_err(|e| self.error("stat", "LOCK", &e))?;
                *self.locked.lock() = Some((held.dev(), held.ino()));
                // For messages only: without it, they do not name the process.
                file.set_len(0).and_then(|()| file.write_all_at(std::process::id().to_string().as_bytes(), 0)).ok();
                Ok(Box::new((file, directory)))
            }
            Err(fs::TryLockError::WouldBlock) => Err(self.taken()),
            Err(fs::TryLockError::Error(e)) => Err(self.error("lock", "LOCK", &e)),
        }
    }

    fn check_lock(&self) -> Result<()> {
        let Some(held) = *self.locked.lock() else { return Ok(()) };
        let found = fs::metadata(self.path("LOCK")).map(|found| (found.dev(), found.ino()));
        if found.is_ok_and(|found| found == held) {
            return Ok(());
        }
        Err(Error::closed(format!(
            "{} was removed or replaced while the database was open: writing has stopped, because another process may \
             be writing to it; close all processes that use the database, then open it again",
            self.path("LOCK").display()
        )))
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

struct Written {
    file: File,
    path: PathBuf,
    /// Offset of the next write.
    end_bytes: u64,
}

impl Written {
    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        let written = self.file.write_all_at(bytes, offset_bytes);
        written.map_err(|e| Error::io(format_args!("could not write {}", self.path.display()), &e))
    }
}

impl WriteFile for Written {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_at(bytes, self.end_bytes)?;
        self.end_bytes += bytes.len() as u64;
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        for from in (0..bytes).step_by(ZEROS.len()) {
            self.write_at(&ZEROS[..ZEROS.len().min(bytes - from)], self.end_bytes + from as u64)?;
        }
        Ok(())
    }

    fn truncate(&mut self, len_bytes: u64) -> Result<()> {
        let truncated = self.file.set_len(len_bytes);
        truncated.map_err(|e| Error::io(format_args!("could not truncate {}", self.path.display()), &e))?;
        self.end_bytes = len_bytes;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::io(format_args!("could not fdatasync {}", self.path.display()), &e))
    }
}

struct Readable {
    file: File,
    len_bytes: u64,
    path: PathBuf,
}

impl ReadFile for Readable {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        if offset.saturating_add(len as u64) > self.len_bytes {
            return Err(Error::damaged(format!(
                "{}: cannot read bytes {offset} to {}: the file has {}",
                self.path.display(),
                offset.saturating_add(len as u64),
                self.len_bytes
            )));
        }
        let mut buffer = vec![0; len];
        self.file
            .read_exact_at(&mut buffer, offset)
            .map_err(|e| Error::io(format_args!("could not read {}", self.path.display()), &e))?;
        Ok(buffer.into())
    }

    fn read_all(&self) -> Result<Bytes> {
        let mut buffer = vec![0; self.len_bytes as usize];
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(format_args!("could not read {}", self.path.display()), &e)),
            }
        }
        buffer.truncate(filled);
        Ok(buffer.into())
    }
}

pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn wall_ns(&self) -> i64 {
        let now = SystemTime::now();
        match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
        }
    }

    fn monotonic_ns(&self) -> u64 {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

pub(super) struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        // The standard library seeds each RandomState from the system; one use gives one number.
        RandomState::new().hash_one(std::process::id())
    }
}
