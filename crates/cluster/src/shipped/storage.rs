//! A shipped database as a directory that can only be read.

use super::disk_cache::DiskCache;
use super::ship::remember;
use super::{
    MANIFESTS, ManifestEntry, PINS, is_elsewhere, manifest_file, manifest_name, manifest_number, newest_after,
    newest_from, pinned, read_manifest, segment_name, state_of,
};
use crate::bucket::Bucket;
use crate::lock;
use crate::requests::Requests;
use bytes::Bytes;
use fleetdb_engine::backup::{BackupReport, restore};
use fleetdb_engine::inspect::{CheckReport, State, segment_file};
use fleetdb_engine::io::{Io, ReadFile, Storage, WriteFile};
use fleetdb_engine::{Code, Error, Result};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are read at once from the end of a file, where the footer is.
const FOOTER_BYTES: u64 = 64 << 10;
/// Bytes that are read at once from a file that is read in order.
const IN_ORDER_BYTES: u64 = 4 << 20;
/// The largest number of pieces that are kept for the next reads.
const KEPT_PIECES: usize = 4;

/// Which manifest is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The newest; a reader that refreshes reads the one that is newest then.
    Newest,
    /// The one with this number.
    Number(u64),
    /// The one that this pin keeps.
    Pin(String),
}

/// A shipped database. It is a [`Storage`] that can only be read.
#[derive(Clone)]
pub struct ShippedDatabase(Arc<Inner>);

struct Inner {
    requests: Requests,
    follows: bool,
    seen: Mutex<Seen>,
    pieces: Mutex<Pieces>,
    cache: OnceLock<DiskCache>,
}

/// The manifest that was read last.
#[derive(Default)]
struct Seen {
    number: u64,
    manifest: Bytes,
    /// When it was written, by the clock of the store.
    written: Option<SystemTime>,
    /// The objects of the segments and their lengths, by the name of the file.
    segments: HashMap<String, (String, u64)>,
}

/// What was read ahead.
#[derive(Default)]
struct Pieces {
    kept: VecDeque<(String, u64, Bytes)>,
    /// The file of the last read, and where it ended.
    last: (String, u64),
}

impl ShippedDatabase {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if there is no such manifest or pin;
    /// [`Code::Busy`] if the store does not answer.
    pub fn open(bucket: Bucket, moment: &Moment) -> Result<Self> {
        let requests = Requests::new(bucket)?;
        let (number, written) = match moment {
            Moment::Newest => {
                let none = || {
                    Error::new(Code::Invalid, format!("{} contains no shipped database", requests.url()))
                        .with_hint("'fleetdb backup' ships one.")
                };
                newest_after(&requests, 0)?.ok_or_else(none)?
            }
            Moment::Number(number) => with_time(&requests, *number)?,
            Moment::Pin(name) => with_time(&requests, pinned(&requests, name)?)?,
        };
        let follows = *moment == Moment::Newest;
        let inner =
            Inner { requests, follows, seen: Mutex::default(), pieces: Mutex::default(), cache: OnceLock::new() };
        inner.see(number, written)?;
        Ok(Self(Arc::new(inner)))
    }

    /// The number of the manifest that was read last.
    pub fn number(&self) -> u64 {
        lock(&self.0.seen).number
    }

    /// Where the bucket is.
    pub fn url(&self) -> &str {
        self.0.requests.url()
    }

    /// From now on, keeps on disk what is read from the bucket. Only the first cache counts.
    pub fn use_cache(&self, cache: DiskCache) {
        self.0.cache.set(cache).ok();
    }

    /// The machine on which a [`Reader`](fleetdb_engine::Reader) reads it.
    pub fn io(&self) -> Io {
        Io { storage: Arc::new(self.clone()), ..Io::files("") }
    }

    /// Copies it to an empty directory and verifies the copy. The copy may then go on shipping to
    /// the same bucket, unless the bucket has a newer manifest; the database that shipped there may
    /// not.
    ///
    /// # Errors
    /// As [`restore`], or the store does not answer.
    pub fn restore(&self, to: &Io, progress: impl FnMut(u64, u64)) -> Result<(BackupReport, CheckReport)> {
        // The bucket may have a newer manifest when the copy is done.
        let (number, manifest, written) = {
            let seen = lock(&self.0.seen);
            (seen.number, seen.manifest.clone(), seen.written)
        };
        let of_now = Inner {
            requests: self.0.requests.clone(),
            follows: false,
            seen: Mutex::default(),
            pieces: Mutex::default(),
            cache: OnceLock::new(),
        };
        of_now.take(number, manifest.clone(), written)?;
        let from = Self(Arc::new(of_now));
        let restored = restore(&from.io(), to, progress)?;
        remember(to, self.url(), number, &manifest)?;
        Ok(restored)
    }
}

impl Inner {
    fn see(&self, number: u64, written: SystemTime) -> Result<()> {
        let read = read_manifest(&self.requests, number)?;
        let bytes = read.ok_or_else(|| Error::invalid(format!("{} has no manifest {number}", self.requests.url())))?;
        self.take(number, bytes, Some(written))
    }

    fn take(&self, number: u64, manifest: Bytes, written: Option<SystemTime>) -> Result<()> {
        let state = state_of(&self.requests, number, &manifest)?;
        if is_elsewhere(&state) {
            return Err(Error::retry(format!("{} does not have its database yet", self.requests.url())));
        }
        let named = state.segments.values().map(|entry| (segment_file(entry), (segment_name(entry), entry.bytes)));
        *lock(&self.seen) = Seen { number, manifest, written, segments: named.collect() };
        Ok(())
    }

    /// Reads a range of an object, and more of it if the next reads will need it.
    fn read(&self, object: &str, len_bytes: u64, start: u64, end: u64) -> Result<Bytes> {
        let (from, to) = {
            let mut pieces = lock(&self.pieces);
            let is_next = pieces.last == (object.to_owned(), start);
            pieces.last = (object.to_owned(), end);
            let holds = |(name, at, bytes): &&(String, u64, Bytes)| {
                name == object && *at <= start && end <= at + bytes.len() as u64
            };
            if let Some((_, at, bytes)) = pieces.kept.iter().find(holds) {
                return Ok(bytes.slice((start - at) as usize..(end - at) as usize));
            }
            match () {
                // The last bytes are the length of the footer.
                () if end == len_bytes => (start.min(len_bytes.saturating_sub(FOOTER_BYTES)), end),
                () if is_next => (start, end.max(len_bytes.min(start + IN_ORDER_BYTES))),
                () => (start, end),
            }
        };
        let bytes = match self.cache.get() {
            Some(cache) => cache.read(object, len_bytes, from..to, |range| self.fetch(object, range))?,
            None => self.fetch(object, from..to)?,
        };
        if (from, to) != (start, end) {
            let mut pieces = lock(&self.pieces);
            pieces.kept.push_back((object.to_owned(), from, bytes.clone()));
            if pieces.kept.len() > KEPT_PIECES {
                pieces.kept.pop_front();
            }
        }
        Ok(bytes.slice((start - from) as usize..(end - from) as usize))
    }
}

impl Inner {
    /// Reads a range of an object from the bucket.
    fn fetch(&self, object: &str, range: Range<u64>) -> Result<Bytes> {
        let (name, len) = (object.to_owned(), range.end - range.start);
        let bytes = self.requests.wait(|bucket| async move { bucket.read_range(&name, range).await })?;
        if bytes.len() as u64 != len {
            return Err(Error::damaged(format!("{}/{object} is shorter than its manifest says", self.requests.url())));
        }
        Ok(bytes)
    }
}

/// A manifest and when it was written.
fn with_time(requests: &Requests, number: u64) -> Result<(u64, SystemTime)> {
    let before = manifest_file(number.saturating_sub(1));
    let listed = requests.wait(move |bucket| async move { bucket.within(MANIFESTS).objects_after(&before).await })?;
    let found = listed.into_iter().find(|object| manifest_number(&object.name) == Some(number));
    let found = found.ok_or_else(|| Error::invalid(format!("{} has no manifest {number}", requests.url())))?;
    Ok((number, found.written))
}

/// The machine on which a reader reads a database that has only the segments of a state.
pub(crate) fn holding(requests: &Requests, state: &State) -> Result<Io> {
    const NUMBER: u64 = 1;
    let (requests, manifest) = (requests.clone(), Bytes::from(state.to_manifest(NUMBER)?));
    let inner =
        Inner { requests, follows: false, seen: Mutex::default(), pieces: Mutex::default(), cache: OnceLock::new() };
    inner.take(NUMBER, manifest, None)?;
    Ok(ShippedDatabase(Arc::new(inner)).io())
}

/// A file whose bytes are an object, or some that were read already.
struct ShippedFile {
    inner: Arc<Inner>,
    object: String,
    len_bytes: u64,
    whole: Option<Bytes>,
}

impl ReadFile for ShippedFile {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len_bytes).ok_or_else(|| {
            let url = self.inner.requests.url();
            Error::damaged(format!("{url}/{} has {} bytes, fewer than wanted", self.object, self.len_bytes))
        })?;
        match &self.whole {
            Some(bytes) => Ok(bytes.slice(offset as usize..end as usize)),
            None if len == 0 => Ok(Bytes::new()),
            None => self.inner.read(&self.object, self.len_bytes, offset, end),
        }
    }
}

impl Storage for ShippedDatabase {
    fn read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let seen = lock(&self.0.seen);
        let inner = Arc::clone(&self.0);
        if name == manifest_name(seen.number) {
            let (len_bytes, whole) = (seen.manifest.len() as u64, Some(seen.manifest.clone()));
            return Ok(Arc::new(ShippedFile { inner, object: name.to_owned(), len_bytes, whole }));
        }
        let Some((object, len_bytes)) = seen.segments.get(name) else {
            return Err(Error::invalid(format!("{}: there is no file {name}", self.url())));
        };
        Ok(Arc::new(ShippedFile { inner, object: object.clone(), len_bytes: *len_bytes, whole: None }))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        if directory != MANIFESTS {
            return Ok(Vec::new());
        }
        let number = self.number();
        if self.0.follows
            && let Some((newer, written)) = newest_from(&self.0.requests, number)?
            && newer != number
        {
            self.0.see(newer, written)?;
        }
        Ok(vec![manifest_file(self.number())])
    }

    fn describe(&self) -> String {
        format!("{} (manifest {})", self.url(), self.number())
    }

    fn copied_ns(&self) -> Option<i64> {
        let since = lock(&self.0.seen).written?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_nanos()).ok()
    }

    fn create(&self, _name: &str) -> Result<Box<dyn WriteFile>> {
        Err(self.read_only())
    }

    fn append(&self, _name: &str, _len_bytes: u64) -> Result<Box<dyn WriteFile>> {
        Err(self.read_only())
    }

    fn overwrite(&self, _name: &str) -> Result<Box<dyn WriteFile>> {
        Err(self.read_only())
    }

    fn create_directory(&self, _directory: &str) -> Result<()> {
        Err(self.read_only())
    }

    fn sync_directory(&self, _directory: &str) -> Result<()> {
        Err(self.read_only())
    }

    fn rename(&self, _from: &str, _to: &str) -> Result<()> {
        Err(self.read_only())
    }

    fn remove(&self, _name: &str) -> Result<()> {
        Err(self.read_only())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        Err(self.read_only())
    }
}

impl ShippedDatabase {
    fn read_only(&self) -> Error {
        Error::invalid(format!("{} is a shipped database and can only be read", self.url()))
    }
}

/// The manifests in a bucket, oldest first.
///
/// # Errors
/// The store does not answer, or a pin is damaged.
pub fn manifests(bucket: &Bucket) -> Result<Vec<ManifestEntry>> {
    manifests_of(&Requests::new(bucket.clone())?)
}

pub(super) fn manifests_of(requests: &Requests) -> Result<Vec<ManifestEntry>> {
    let names = requests.wait(|bucket| async move { bucket.within(PINS).list().await })?;
    let mut pins: HashMap<u64, Vec<String>> = HashMap::new();
    for name in names {
        pins.entry(pinned(requests, &name)?).or_default().push(name);
    }
    let objects = requests.wait(|bucket| async move { bucket.within(MANIFESTS).objects().await })?;
    let entry = |object: crate::bucket::Listed| {
        let number = manifest_number(&object.name)?;
        Some(ManifestEntry { number, written: object.written, pins: pins.remove(&number).unwrap_or_default() })
    };
    Ok(objects.into_iter().filter_map(entry).collect())
}
