//! A simulated disk. A file is its synced content and the writes since; a directory is its synced
//! entries and the changes since. A crash decides at random what happens to each of these.

use fleetdb_engine::io::{MemoryFile, ReadFile, Storage, WriteFile};
use fleetdb_engine::{Error, Result};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that are written atomically.
const SECTOR_BYTES: usize = 512;

/// What a crash does to unsynced changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All are lost: a power cut with an honest cache.
    Lost,
    /// All are kept: a killed process.
    Kept,
    /// Writes are kept in order up to some write, and that one only up to some sector.
    Torn,
    /// Each sector of each write is kept or lost independently.
    Reordered,
    /// As reordered, and one bit of what was kept is flipped.
    Flipped,
}

/// All modes.
pub const MODES: [Mode; 5] = [Mode::Lost, Mode::Kept, Mode::Torn, Mode::Reordered, Mode::Flipped];

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Unsynced changes, in order.
    changes: Vec<Change>,
}

type File = Arc<Mutex<Content>>;

#[derive(Clone)]
enum Entry {
    Set(String, File),
    Remove(String),
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, File>,
    synced: BTreeMap<String, File>,
    /// Changes to directory entries that no directory sync has made durable, in order.
    entries: Vec<Entry>,
    /// Syncs until the crash; `None` for no crash.
    crash_in: Option<u64>,
    /// Syncs until one fails.
    fail_in: Option<u64>,
    crashed: bool,
    syncs: u64,
    /// Bytes of free space; `None` for unlimited.
    room_bytes: Option<usize>,
    /// A checksum over all requests to the disk, in order.
    trace: u32,
}

/// The disk.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

fn dead() -> Error {
    Error::io("simulated machine", &std::io::Error::other("it has crashed"))
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl State {
    fn note(&mut self, what: &str, name: &str, bytes: &[u8]) -> Result<()> {
        if self.crashed {
            return Err(dead());
        }
        for part in [what.as_bytes(), name.as_bytes(), bytes] {
            self.trace = crc32c::crc32c_append(self.trace, part);
        }
        Ok(())
    }

    /// Counts a sync, which may be the one that crashes or fails.
    fn sync(&mut self, name: &str) -> Result<()> {
        self.note("sync", name, &[])?;
        self.syncs += 1;
        if let Some(left) = &mut self.crash_in {
            if *left == 0 {
                self.crashed = true;
                return Err(dead());
            }
            *left -= 1;
        }
        if let Some(left) = &mut self.fail_in {
            if *left == 0 {
                self.fail_in = None;
                return Err(Error::io(
                    format_args!("could not fdatasync {name}"),
                    &std::io::Error::other("input/output error"),
                ));
            }
            *left -= 1;
        }
        Ok(())
    }
}

impl Disk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Crashes the machine at the sync after this many more.
    pub fn crash_in(&self, syncs: Option<u64>) {
        self.0.lock().crash_in = syncs;
    }

    /// Makes the sync after this many more fail.
    pub fn fail_in(&self, syncs: Option<u64>) {
        self.0.lock().fail_in = syncs;
    }

    /// Limits the free space; `None` for unlimited.
    pub fn set_room(&self, bytes: Option<usize>) {
        self.0.lock().room_bytes = bytes;
    }

    /// Whether the machine has crashed.
    pub fn has_crashed(&self) -> bool {
        self.0.lock().crashed
    }

    /// Number of syncs so far.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// A checksum over all requests to the disk.
    pub fn trace(&self) -> u32 {
        self.0.lock().trace
    }

    /// The disk after a crash, decided by the seed.
    pub fn after_crash(&self, mode: Mode, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let state = self.0.lock();
        let mut entries = state.synced.clone();
        // Directory entries are journalled: a crash keeps a prefix of the changes.
        let kept = match mode {
            Mode::Lost => 0,
            Mode::Kept => state.entries.len(),
            _ => random.random_range(0..=state.entries.len()),
        };
        for entry in &state.entries[..kept] {
            match entry {
                Entry::Set(name, file) => drop(entries.insert(name.clone(), Arc::clone(file))),
                Entry::Remove(name) => drop(entries.remove(name)),
            }
        }
        let after = Self::new();
        {
            let mut new = after.0.lock();
            new.trace = state.trace;
            for (name, file) in entries {
                let bytes = survivors(&file.lock(), mode, &mut random);
                let content = Content { now: bytes.clone(), synced: bytes, changes: Vec::new() };
                let file = Arc::new(Mutex::new(content));
                new.files.insert(name.clone(), Arc::clone(&file));
                new.synced.insert(name, file);
            }
        }
        after
    }

    fn file(&self, name: &str) -> Result<File> {
        let found = self.0.lock().files.get(name).cloned();
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        found.ok_or_else(|| Error::io(format_args!("could not open {name}"), &missing))
    }
}

/// The content of a file that survives.
fn survivors(content: &Content, mode: Mode, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = content.synced.clone();
    if mode == Mode::Lost {
        return bytes;
    }
    let whole = random.random_range(0..=content.changes.len());
    let mut unsynced: Vec<(usize, usize)> = Vec::new();
    for (number, change) in content.changes.iter().enumerate() {
        match change {
            Change::Truncate(len) => {
                // A truncation is metadata: journalled, in order.
                if mode == Mode::Kept || number < whole {
                    bytes.truncate(*len);
                }
            }
            Change::Write { offset, bytes: written } => {
                for (place, sector) in written.chunks(SECTOR_BYTES).enumerate() {
                    let keep = match mode {
                        Mode::Kept => true,
                        Mode::Lost => false,
                        Mode::Torn if number == whole => place * SECTOR_BYTES < written.len() / 2,
                        Mode::Torn => number < whole,
                        Mode::Reordered | Mode::Flipped => random.random_bool(0.5),
                    };
                    if !keep {
                        continue;
                    }
                    let start = offset + place * SECTOR_BYTES;
                    if bytes.len() < start + sector.len() {
                        // A hole reads as zeros.
                        bytes.resize(start + sector.len(), 0);
                    }
                    bytes[start..start + sector.len()].copy_from_slice(sector);
                    unsynced.push((start, start + sector.len()));
                }
            }
        }
    }
    if mode == Mode::Flipped
        && let Some(&(start, end)) = unsynced.get(random.random_range(0..unsynced.len().max(1)))
        && end <= bytes.len()
        && start < end
    {
        bytes[random.random_range(start..end)] ^= 1 << random.random_range(0..8);
    }
    bytes
}

impl Storage for Disk {
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let mut state = self.0.lock();
        state.note("create", name, &[])?;
        if state.files.contains_key(name) {
            let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(Error::io(format_args!("could not create {name}"), &exists));
        }
        let file = File::default();
        state.files.insert(name.to_owned(), Arc::clone(&file));
        state.entries.push(Entry::Set(name.to_owned(), Arc::clone(&file)));
        Ok(Box::new(Writer { disk: self.clone(), name: name.to_owned(), file, end: 0 }))
    }

    fn append(&self, name: &str, len_bytes: u64) -> Result<Box<dyn WriteFile>> {
        let mut writer = self.overwrite(name)?;
        writer.truncate(len_bytes)?;
        Ok(writer)
    }

    fn overwrite(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        self.0.lock().note("overwrite", name, &[])?;
        let file = self.file(name)?;
        Ok(Box::new(Writer { disk: self.clone(), name: name.to_owned(), file, end: 0 }))
    }

    fn read(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.0.lock().note("read", name, &[])?;
        let bytes = self.file(name)?.lock().now.clone();
        Ok(Arc::new(MemoryFile::new(name, bytes)))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let mut state = self.0.lock();
        state.note("list", directory, &[])?;
        let inside = state.files.keys().filter(|name| parent(name) == directory);
        Ok(inside.map(|name| name.rsplit_once('/').map_or(name.as_str(), |(_, file)| file).to_owned()).collect())
    }

    fn create_directory(&self, directory: &str) -> Result<()> {
        self.0.lock().note("create directory", directory, &[])
    }

    fn sync_directory(&self, directory: &str) -> Result<()> {
        let mut state = self.0.lock();
        state.sync(directory)?;
        let State { synced, entries, .. } = &mut *state;
        entries.retain(|entry| {
            let (Entry::Set(name, _) | Entry::Remove(name)) = entry;
            if parent(name) != directory {
                return true;
            }
            match entry {
                Entry::Set(name, file) => drop(synced.insert(name.clone(), Arc::clone(file))),
                Entry::Remove(name) => drop(synced.remove(name)),
            }
            false
        });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.0.lock();
        state.note("rename", from, to.as_bytes())?;
        let missing =
            || Error::io(format_args!("could not rename {from}"), &std::io::Error::from(std::io::ErrorKind::NotFound));
        let file = state.files.remove(from).ok_or_else(missing)?;
        state.files.insert(to.to_owned(), Arc::clone(&file));
        // One journal step: the new name first, so that no crash loses both.
        state.entries.push(Entry::Set(to.to_owned(), file));
        state.entries.push(Entry::Remove(from.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.0.lock();
        state.note("remove", name, &[])?;
        let Some(file) = state.files.remove(name) else {
            return Err(Error::io(
                format_args!("could not remove {name}"),
                &std::io::Error::from(std::io::ErrorKind::NotFound),
            ));
        };
        if let Some(room) = &mut state.room_bytes {
            *room += file.lock().now.len();
        }
        state.entries.push(Entry::Remove(name.to_owned()));
        Ok(())
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }

    fn describe(&self) -> String {
        "the simulated disk".to_owned()
    }
}

struct Writer {
    disk: Disk,
    name: String,
    file: File,
    /// Offset of the next write.
    end: usize,
}

impl Writer {
    /// Writes at the end. Reserved bytes need no further space.
    fn write_at_end(&self, what: &str, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.note(what, &self.name, bytes)?;
        let mut content = self.file.lock();
        let has_room = content.now.len().saturating_sub(self.end);
        let fits = match &mut state.room_bytes {
            None => bytes.len(),
            Some(room) => {
                let fits = bytes.len().min(has_room + *room);
                *room -= fits.saturating_sub(has_room);
                fits
            }
        };
        let end = self.end + fits;
        if content.now.len() < end {
            content.now.resize(end, 0);
        }
        content.now[self.end..end].copy_from_slice(&bytes[..fits]);
        content.changes.push(Change::Write { offset: self.end, bytes: bytes[..fits].to_vec() });
        if fits < bytes.len() {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(Error::io(format_args!("could not {what} {}", self.name), &full));
        }
        Ok(())
    }
}

impl WriteFile for Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_at_end("write", bytes)?;
        self.end += bytes.len();
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.write_at_end("reserve", &vec![0; bytes])
    }

    fn truncate(&mut self, len_bytes: u64) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.note("truncate", &self.name, &len_bytes.to_le_bytes())?;
        let mut content = self.file.lock();
        let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
        if len < content.now.len() {
            if let Some(room) = &mut state.room_bytes {
                *room += content.now.len() - len;
            }
            content.now.truncate(len);
            content.changes.push(Change::Truncate(len));
        }
        self.end = len;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let mut state = self.disk.0.lock();
        state.sync(&self.name)?;
        let mut content = self.file.lock();
        content.synced = content.now.clone();
        content.changes.clear();
        Ok(())
    }
}
