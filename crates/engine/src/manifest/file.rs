//! The manifest's file: a fold of everything before, then edits, each durable before it takes
//! effect.
//!
//! File `manifest/<number>.manifest`: a header of 24 bytes (magic `FLEETMAN`, format version 4,
//! number 8, CRC32C of those 4), then frames: length 4, CRC32C 4 (of the content), JSON content.
//! The first frame is a [`State`], the others are [`Edit`]s. When the edits have outgrown the fold,
//! a file with the next number is written under a temporary name, synced and renamed. The highest
//! number is current.

use super::{Definitions, Edit, State};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Io, Storage, WriteFile, remove_temporaries};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::RangeInclusive;

pub(crate) const DIRECTORY: &str = "manifest";
const MAGIC: &[u8; 8] = b"FLEETMAN";
/// The version that is written.
const VERSION: u32 = 3;
/// The versions that are read. A file of an older one is replaced when a database is opened.
const KNOWN_VERSIONS: RangeInclusive<u32> = 1..=VERSION;
const HEADER_BYTES: usize = 24;
/// A new fold is written when the edits exceed both this size and twice the size of the fold.
const MIN_EDIT_BYTES: usize = 256 << 10;
/// A frame header with a greater length is invalid.
const MAX_FRAME_BYTES: usize = 1 << 30;

/// The manifest of an open database.
pub(crate) struct Manifest {
    io: Io,
    number: u64,
    file: Box<dyn WriteFile>,
    state: State,
    /// Bytes of the file up to the last complete edit.
    good_bytes: u64,
    fold_bytes: usize,
    edit_bytes: usize,
    definitions: Definitions,
    /// Set when a write or sync failed: the file's contents are then unknown until it is reopened.
    failed: Option<Error>,
}

/// The contents of a manifest file.
pub(crate) struct Contents {
    version: u32,
    pub(crate) edits: Vec<Edit>,
    pub(crate) state: State,
    /// Bytes of the file up to the last complete frame.
    pub(crate) good_bytes: usize,
    fold_bytes: usize,
}

pub(crate) fn file_name(number: u64) -> String {
    format!("{DIRECTORY}/{number:016}.manifest")
}

fn header(version: u32, number: u64) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&version.to_le_bytes());
    header.extend_from_slice(&number.to_le_bytes());
    let crc = crc32c::crc32c(&header);
    header.extend_from_slice(&crc.to_le_bytes());
    header
}

fn put_frame(out: &mut Vec<u8>, content: &impl Serialize) -> Result<()> {
    let json =
        serde_json::to_vec(content).map_err(|e| Error::bug(format!("a manifest frame cannot be serialized: {e}")))?;
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&json).to_le_bytes());
    out.extend_from_slice(&json);
    Ok(())
}

/// The content of the frame at `offset`, if it is complete and its checksum matches.
fn frame_at(file: &[u8], offset: usize) -> Option<&[u8]> {
    let (len, rest) = file.get(offset..)?.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    let content = rest.get(..len).filter(|_| len > 0 && len <= MAX_FRAME_BYTES)?;
    (crc32c::crc32c(content) == u32::from_le_bytes(*crc)).then_some(content)
}

fn parse<T: DeserializeOwned>(name: &str, offset: usize, content: &[u8]) -> Result<T> {
    serde_json::from_slice(content).map_err(|e| {
        Error::damaged(format!(
            "{name}: the frame at byte {offset} has a valid checksum but cannot be decoded: {e}; it may be from a \
             newer version of FleetDB"
        ))
    })
}

impl State {
    /// The bytes of a manifest file with this number that holds the state and no edits.
    ///
    /// # Errors
    /// The state cannot be serialized.
    pub fn to_manifest(&self, number: u64) -> Result<Vec<u8>> {
        let mut bytes = header(VERSION, number);
        put_frame(&mut bytes, self)?;
        Ok(bytes)
    }

    /// Reads what [`to_manifest`](Self::to_manifest) gave. `name` is for messages.
    ///
    /// ```
    /// use fleetdb_engine::inspect::State;
    /// let state = State { database_id: "1".to_owned(), ..State::default() };
    /// let bytes = state.to_manifest(7).unwrap();
    /// assert_eq!(State::from_manifest("seven", &bytes, 7).unwrap(), state);
    /// assert!(State::from_manifest("seven", &bytes[1..], 7).unwrap_err().to_string().starts_with("seven"));
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] if it is not the manifest of this number;
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if it is from a newer version of FleetDB.
    pub fn from_manifest(name: &str, bytes: &[u8], number: u64) -> Result<Self> {
        Ok(read_bytes(name, bytes, number)?.state)
    }
}

/// The number of the current manifest file.
fn newest(storage: &dyn Storage) -> Result<Option<u64>> {
    let names = storage.list(DIRECTORY)?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".manifest")?.parse().ok()).max())
}

/// Reads the manifest; `None` if there is none.
pub(crate) fn read(storage: &dyn Storage) -> Result<Option<(u64, Contents)>> {
    let Some(number) = newest(storage)? else { return Ok(None) };
    let name = file_name(number);
    let bytes = storage.read(&name)?.read_all()?;
    Ok(Some((number, read_bytes(&name, &bytes, number)?)))
}

/// Decodes a manifest file.
pub(crate) fn read_bytes(name: &str, bytes: &[u8], number: u64) -> Result<Contents> {
    let lost = |offset: usize, what: &str| {
        Error::damaged(format!(
            "{name}: {what} at byte {offset}. The list of tables and segments cannot be read; restore the file \
             from a backup"
        ))
    };
    let has_header = |version: &u32| bytes.get(..HEADER_BYTES) == Some(&header(*version, number));
    let Some(version) = KNOWN_VERSIONS.into_iter().find(has_header) else {
        let version = bytes.get(8..12).and_then(|version| version.try_into().ok()).map_or(0, u32::from_le_bytes);
        return Err(match version > VERSION && has_header(&version) {
            true => Error::invalid(format!(
                "{name} has format version {version}, but this program reads {VERSION}: use a newer version of FleetDB"
            )),
            false => lost(0, "invalid manifest header"),
        });
    };
    let content = frame_at(bytes, HEADER_BYTES).ok_or_else(|| lost(HEADER_BYTES, "the fold is damaged"))?;
    let state: State = parse(name, HEADER_BYTES, content)?;
    state.check().map_err(|e| lost(HEADER_BYTES, &e.to_string()))?;
    let fold_bytes = content.len() + 8;
    let mut contents =
        Contents { version, state, edits: Vec::new(), good_bytes: HEADER_BYTES + fold_bytes, fold_bytes };
    while let Some(content) = frame_at(bytes, contents.good_bytes) {
        let edit: Edit = parse(name, contents.good_bytes, content)?;
        contents.state = contents.state.apply(&edit).map_err(|e| lost(contents.good_bytes, &e.to_string()))?;
        contents.edits.push(edit);
        contents.good_bytes += content.len() + 8;
    }
    // Each edit is synced before the next is written, so only the last can be torn. If a good edit
    // follows a broken one, the broken one was complete and is damaged.
    let behind = contents.good_bytes + 1..bytes.len().max(contents.good_bytes + 1);
    if behind.into_iter().any(|offset| frame_at(bytes, offset).is_some_and(|content| content.len() > 1)) {
        return Err(lost(contents.good_bytes, "an edit is damaged"));
    }
    Ok(contents)
}

impl Manifest {
    /// Opens the manifest, or creates the first one.
    pub(crate) fn open(io: &Io) -> Result<Self> {
        remove_temporaries(io.storage.as_ref(), DIRECTORY)?;
        let Some((number, contents)) = read(io.storage.as_ref())? else {
            let state = State {
                database_id: format!("{:016x}{:016x}", io.random.next_u64(), io.random.next_u64()),
                ..State::default()
            };
            let (file, fold_bytes) = write_fold(io, 1, &state)?;
            let io = io.clone();
            let good_bytes = (HEADER_BYTES + fold_bytes) as u64;
            let (edit_bytes, definitions, failed) = (0, Definitions::FIRST, None);
            return Ok(Self { io, number: 1, file, state, good_bytes, fold_bytes, edit_bytes, definitions, failed });
        };
        let mut file = io.storage.append(&file_name(number), contents.good_bytes as u64)?;
        file.sync()?;
        for name in io.storage.list(DIRECTORY)? {
            let name = format!("{DIRECTORY}/{name}");
            if name != file_name(number) {
                io.storage.remove(&name)?;
            }
        }
        let edit_bytes = contents.good_bytes - HEADER_BYTES - contents.fold_bytes;
        let fold_bytes = contents.fold_bytes;
        let good_bytes = contents.good_bytes as u64;
        let mut manifest = Self {
            io: io.clone(),
            number,
            file,
            state: contents.state,
            good_bytes,
            fold_bytes,
            edit_bytes,
            definitions: Definitions::FIRST,
            failed: None,
        };
        // An older program must not append to what this one may have written.
        if contents.version != VERSION {
            manifest.begin_file()?;
        }
        Ok(manifest)
    }

    /// Whether the file's contents are unknown.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// How often definitions were changed since it was opened.
    pub(crate) fn definitions(&self) -> Definitions {
        Definitions { manifest_end: (self.number, self.good_bytes), ..self.definitions }
    }

    /// The last edit rewrote rows.
    pub(crate) fn note_rewrite(&mut self) {
        self.definitions.count += 1;
        self.definitions.rewritten = self.definitions.count;
    }

    /// Makes an edit durable.
    ///
    /// # Errors
    /// If the edit breaks an invariant or the writer's lock is lost, nothing changes. If the
    /// storage fails, the manifest accepts no more edits until it is reopened.
    pub(crate) fn append(&mut self, edit: &Edit) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(Error::closed(format!(
                "the manifest failed and accepts no more changes until the database is reopened: {error}"
            )));
        }
        self.io.storage.check_lock()?;
        let state = self.state.apply(edit)?;
        let mut frame = Vec::new();
        put_frame(&mut frame, edit)?;
        if let Err(error) = self.file.write(&frame) {
            // A full disk: truncate to the last complete edit, as if nothing had happened.
            if error.kind() == ErrorKind::Retry && self.file.truncate(self.good_bytes).is_ok() {
                return Err(error);
            }
            return Err(self.fail(error));
        }
        self.file.sync().map_err(|error| self.fail(error.final_io()))?;
        self.good_bytes += frame.len() as u64;
        self.edit_bytes += frame.len();
        self.definitions.count += u64::from(edit.defines());
        self.state = state;
        if self.edit_bytes > MIN_EDIT_BYTES.max(2 * self.fold_bytes) {
            self.fold();
        }
        Ok(())
    }

    fn fail(&mut self, error: Error) -> Error {
        self.failed = Some(error.clone());
        error
    }

    /// Begins a new file with a fold. The last edit is already durable, so on a full disk the fold
    /// is simply written later.
    fn fold(&mut self) {
        match self.begin_file() {
            Ok(()) => {}
            // The new file has not been renamed yet.
            Err(error) if error.kind() == ErrorKind::Retry => self.edit_bytes = 0,
            Err(error) => {
                self.failed = Some(error);
            }
        }
    }

    /// Begins a new file with a fold.
    fn begin_file(&mut self) -> Result<()> {
        let (number, old) = (self.number + 1, file_name(self.number));
        let (file, fold_bytes) = write_fold(&self.io, number, &self.state)?;
        self.file = file;
        (self.number, self.fold_bytes, self.edit_bytes) = (number, fold_bytes, 0);
        self.good_bytes = (HEADER_BYTES + fold_bytes) as u64;
        // If this fails, the next open removes the file.
        self.io.storage.remove(&old).ok();
        Ok(())
    }
}

/// Replaces the manifest of a database that no process has open by a file with this number and
/// state.
pub(crate) fn replace(io: &Io, number: u64, state: &State) -> Result<()> {
    remove_temporaries(io.storage.as_ref(), DIRECTORY)?;
    let older = io.storage.list(DIRECTORY)?;
    write_fold(io, number, state)?;
    for name in older {
        io.storage.remove(&format!("{DIRECTORY}/{name}"))?;
    }
    Ok(())
}

/// Writes a manifest file that begins with `state`. [`ErrorKind::Retry`]: the disk is full, and no
/// file is left.
fn write_fold(io: &Io, number: u64, state: &State) -> Result<(Box<dyn WriteFile>, usize)> {
    let bytes = state.to_manifest(number)?;
    let name = file_name(number);
    let temporary = format!("{name}.tmp");
    let mut file = io.storage.create(&temporary)?;
    if let Err(error) = file.write(&bytes) {
        io.storage.remove(&temporary).ok();
        return Err(error);
    }
    let named = file.sync().and_then(|()| {
        io.storage.rename(&temporary, &name)?;
        io.storage.sync_directory(DIRECTORY)?;
        io.storage.append(&name, bytes.len() as u64)
    });
    Ok((named.map_err(Error::final_io)?, bytes.len() - HEADER_BYTES))
}
