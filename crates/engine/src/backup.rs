//! Backup and restore: copies a database's segments and manifest to another directory.
//!
//! 1. [`Database::backup`] flushes, then copies what the manifest lists at that moment: the
//!    checkpoint. Writes and compaction continue, but files that compaction replaces are kept until
//!    the backup is done.
//! 2. Files that the destination already has are kept, so a second backup copies only what is new.
//!    Segments never change, so on the same file system a hard link suffices.
//! 3. The destination's manifest is written last, under a temporary name, and renamed. Until then
//!    the previous backup is valid. Afterwards, files that it no longer lists are removed.
//!
//! A backup is a database directory: `check` verifies it, and it can be opened.

use crate::db::Database;
use crate::error::{Error, Result};
use crate::ids::Generation;
use crate::inspect::{CheckReport, check};
use crate::io::{Io, Storage, remove_temporaries};
use crate::manifest::file as manifest_file;
use crate::manifest::{SegmentEntry, State};
use crate::segment::{directory, file_name};
use crate::wal::frame;
use std::collections::BTreeMap;

/// Bytes copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// The result of a backup or restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupReport {
    /// Segments in the backup.
    pub segments: usize,
    /// Total size of the segments.
    pub bytes: u64,
    /// Bytes that the destination already had.
    pub kept_bytes: u64,
    /// Bytes that were hard-linked.
    pub linked_bytes: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// The last batch in the backup.
    pub sequence: u64,
}

impl Database {
    /// Backs up the database, while it is in use, to a directory that is empty or holds an older
    /// backup of it. The backup contains everything acknowledged before the call. `progress` is
    /// called with the bytes done and the total bytes.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition, Unit, Value, io::Io};
    /// let (source, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// let db = Database::open_with(Io::files(source.path()), Settings::default()).unwrap();
    /// db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// db.container("t", &[Value::Int(1)]).unwrap().append(5, &[]).unwrap();
    /// db.backup(&Io::files(backup.path()), |_, _| ()).unwrap();
    /// let copy = Database::open_with(Io::files(backup.path()), Settings::default()).unwrap();
    /// assert_eq!(copy.view().table("t").unwrap().count().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the directory is the database's own, holds
    /// something else, or holds a backup that has been written to; or the error of reading or
    /// writing a file. The older backup stays valid.
    pub fn backup(&self, destination: &Io, progress: impl FnMut(u64, u64)) -> Result<BackupReport> {
        refuse_itself(self.shared.io.storage.as_ref(), destination.storage.as_ref())?;
        self.flush()?;
        let checkpoint = self.checkpoint();
        copy(checkpoint.storage(), checkpoint.state(), destination, true, progress)
    }
}

/// Copies a backup to an empty directory and verifies every checksum and invariant of the copy.
///
/// # Errors
/// [`ErrorKind::Input`](crate::ErrorKind::Input) if `from` is not a backup or `to` is not empty;
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged) if the copy fails the check.
pub fn restore(from: &Io, to: &Io, progress: impl FnMut(u64, u64)) -> Result<(BackupReport, CheckReport)> {
    let Some((_, contents)) = manifest_file::read(from.storage.as_ref())? else {
        return Err(Error::invalid(format!("{} is not a backup", from.storage.describe())));
    };
    if has_batches(from.storage.as_ref())? {
        return Err(Error::invalid(format!(
            "{} has batches in its log: it is a database in use, not a backup; create a backup with 'fleetdb backup'",
            from.storage.describe()
        )));
    }
    if manifest_file::read(to.storage.as_ref())?.is_some() {
        return Err(Error::invalid(format!("{} already contains a database", to.storage.describe())));
    }
    let report = copy(from.storage.as_ref(), &contents.state, to, false, progress)?;
    let checked = check(to, |_, _| ())?;
    match checked.problems.first() {
        None => Ok((report, checked)),
        Some(problem) => Err(Error::damaged(format!(
            "the restored copy failed the check ({} problems, the first: {problem}); the backup is damaged",
            checked.problems.len()
        ))),
    }
}

/// Whether any of the log's files contains a batch.
fn has_batches(storage: &dyn Storage) -> Result<bool> {
    for generation in frame::generations(storage)? {
        if storage.read(&frame::file_name(generation))?.len_bytes() > frame::FILE_HEADER_BYTES as u64 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes a directory hold a state of a database in a cluster, and the log that follows it, whatever it
/// held before: another state of the same database, or nothing. Segments that it has already are kept.
/// `log` has the WAL files after the state, without gaps.
///
/// A crash leaves a directory that must be rebuilt again before it is opened: the caller remembers that
/// it is not finished.
///
/// # Errors
/// [`ErrorKind::Input`](crate::ErrorKind::Input) if the directory holds something else or another
/// database; or the error of reading or writing a file.
pub fn rebuild(from: &Io, state: &State, log: &BTreeMap<Generation, Vec<u8>>, to: &Io) -> Result<BackupReport> {
    let storage = to.storage.as_ref();
    create_directories(storage)?;
    let _lock = storage.lock()?;
    let before = manifest_file::read(storage)?;
    if before.as_ref().is_some_and(|(_, contents)| contents.state.database_id != state.database_id) {
        return Err(Error::invalid(format!(
            "{} contains another database: choose an empty directory",
            storage.describe()
        )));
    }
    let state = &State { log: None, replay_from: None, ..state.clone() };
    let report = copy_segments(from.storage.as_ref(), state, storage, before.as_ref(), false, |_, _| ())?;
    remove_log(storage)?;
    for (&generation, bytes) in log {
        let mut file = storage.create(&frame::file_name(generation))?;
        file.write(bytes)?;
        file.sync()?;
    }
    storage.sync_directory(frame::DIRECTORY)?;
    list(state, before, to)?;
    Ok(report)
}

/// Copies files from `from` until `to` holds what `state` lists.
fn copy(
    from: &dyn Storage,
    state: &State,
    to: &Io,
    link: bool,
    progress: impl FnMut(u64, u64),
) -> Result<BackupReport> {
    // A backup has no log.
    let state = &State { log: None, replay_from: None, ..state.clone() };
    let storage = to.storage.as_ref();
    create_directories(storage)?;
    let _lock = storage.lock()?;
    let before = manifest_file::read(storage)?;
    refuse_strangers(storage, state, before.as_ref().map(|(_, contents)| &contents.state))?;
    let report = copy_segments(from, state, storage, before.as_ref(), link, progress)?;
    list(state, before, to)?;
    remove_log(storage)?;
    Ok(report)
}

fn create_directories(storage: &dyn Storage) -> Result<()> {
    let directories = ["", frame::DIRECTORY, manifest_file::DIRECTORY, crate::segment::DIRECTORY];
    directories.into_iter().try_for_each(|directory| storage.create_directory(directory))
}

fn remove_log(storage: &dyn Storage) -> Result<()> {
    frame::generations(storage)?.into_iter().try_for_each(|generation| storage.remove(&frame::file_name(generation)))
}

/// Copies the segments that `storage` does not have yet. `before` is its manifest.
fn copy_segments(
    from: &dyn Storage,
    state: &State,
    storage: &dyn Storage,
    before: Option<&(u64, manifest_file::Contents)>,
    link: bool,
    mut progress: impl FnMut(u64, u64),
) -> Result<BackupReport> {
    let mut report = BackupReport {
        segments: state.segments.len(),
        bytes: state.segments.values().map(|entry| entry.bytes).sum(),
        sequence: state.flushed_sequence.0,
        ..BackupReport::default()
    };
    for &table in state.tables.keys() {
        storage.create_directory(&directory(table))?;
        remove_temporaries(storage, &directory(table))?;
    }
    let mut done = 0;
    for entry in state.segments.values() {
        let known = before.and_then(|(_, contents)| contents.state.segments.get(&entry.id));
        let same =
            |known: &SegmentEntry| (known.table, known.crc, known.bytes) == (entry.table, entry.crc, entry.bytes);
        let name = file_name(entry.table, entry.id);
        if known.is_some_and(same) && storage.read(&name).is_ok_and(|file| file.len_bytes() == entry.bytes) {
            report.kept_bytes += entry.bytes;
        } else {
            let temporary = format!("{name}.tmp");
            if link && storage.link(&temporary, from, &name)? {
                report.linked_bytes += entry.bytes;
            } else {
                copy_file(from, &name, storage, &temporary)?;
                report.copied_bytes += entry.bytes;
            }
            storage.rename(&temporary, &name)?;
        }
        done += entry.bytes;
        progress(done, report.bytes);
    }
    for &table in state.tables.keys() {
        storage.sync_directory(&directory(table))?;
    }
    storage.sync_directory(crate::segment::DIRECTORY)?;
    storage.sync_directory("")?;
    Ok(report)
}

/// Replaces the manifest, and removes the segments that only the older one listed.
fn list(state: &State, before: Option<(u64, manifest_file::Contents)>, to: &Io) -> Result<()> {
    let number = before.as_ref().map_or(1, |(number, _)| number + 1);
    manifest_file::replace(to, number, state)?;
    for entry in before.iter().flat_map(|(_, before)| before.state.segments.values()) {
        if !state.segments.contains_key(&entry.id) {
            to.storage.remove(&file_name(entry.table, entry.id))?;
        }
    }
    Ok(())
}

/// Refuses a destination that is the database's own directory or inside it.
fn refuse_itself(from: &dyn Storage, to: &dyn Storage) -> Result<()> {
    match (from.place(), to.place()) {
        (Some(from), Some(to)) if to.starts_with(&from) => Err(Error::invalid(format!(
            "{} is the database's own directory or inside it: choose another directory for the backup",
            to.display()
        ))),
        _ => Ok(()),
    }
}

/// Refuses a destination that does not hold an older backup of the same database.
fn refuse_strangers(storage: &dyn Storage, state: &State, before: Option<&State>) -> Result<()> {
    let place = storage.describe();
    match before {
        None if storage.list("")?.iter().any(|name| name != "LOCK") => {
            Err(Error::invalid(format!("{place} is not empty and is not a backup: choose an empty directory")))
        }
        Some(other) if other.database_id != state.database_id => {
            Err(Error::invalid(format!("{place} contains a backup of another database: choose an empty directory")))
        }
        Some(other) if other.flushed > state.flushed || has_batches(storage)? => Err(Error::invalid(format!(
            "{place} has been opened and written to as a database: choose an empty directory"
        ))),
        _ => Ok(()),
    }
}

fn copy_file(from: &dyn Storage, name: &str, to: &dyn Storage, copy: &str) -> Result<()> {
    let file = from.read(name)?;
    let mut out = to.create(copy)?;
    let mut at = 0;
    while at < file.len_bytes() {
        let len = PIECE_BYTES.min(file.len_bytes() - at);
        out.write(&file.read_at(at, len as usize)?)?;
        at += len;
    }
    out.sync()
}
