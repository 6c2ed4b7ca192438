//! Recovery: from a database's files to its state.
//!
//! 1. The manifest gives the tables and segments ([`load`]). Segment files that it does not list
//!    were left by a crash and are removed.
//! 2. WAL files of flushed generations are removed. The others must be consecutive. Each is
//!    replayed into its own memtables, in order, so that container numbers and codes keep their
//!    meaning ([`replay`]).
//! 3. All memtables except the last generation's are frozen and wait for the flush. The last WAL
//!    file is continued after its last good frame.
//!
//! A reader does the same while a writer runs, but removes nothing.

use crate::catalog::{Catalog, Table};
use crate::error::{Code, Error, Result};
use crate::ids::{Generation, Sequence, TableId};
use crate::io::Io;
use crate::manifest::file::Manifest;
use crate::manifest::{Delete, Edit, State};
use crate::memory::Budget;
use crate::scan::resources::ScanResources;
use crate::schema::TableSchema;
use crate::segment::cache::Cache;
use crate::segment::{Listed, directory, file_name};
use crate::settings::Settings;
use crate::state::{Commit, Counters, Frozen, Queue, Shared};
use crate::wal::frame;
use crate::wal::log::Log;
use crate::wal::record::{self, Entry, Removal};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Replay checks its memory use once every this many frames.
const CHECK_FRAMES: u64 = 64;

/// Recovers the state of a database from its files.
pub(crate) fn recover(io: Io, settings: Settings) -> Result<Shared> {
    let manifest = Manifest::open(&io)?;
    let state = manifest.state().clone();
    remove_leftovers(&io, &state)?;
    remove_flushed(&io, &state)?;
    let cache = Arc::new(Cache::new(settings.cache_bytes));
    let mut catalog = load(&io, &state, &cache, &Catalog::default())?;
    let replay = replay(&io, &settings, &state, &mut catalog)?;
    check_log(&io, &state, replay.last)?;
    let log = match replay.good_bytes {
        Some(bytes) => Log::resume(&io, settings.sync_interval_ms, replay.generation, bytes, replay.last)?,
        None => Log::create(&io, settings.sync_interval_ms, replay.generation, replay.last)?,
    };
    let memtables = || catalog.tables.values().map(|table| table.active.read());
    let commit = Commit {
        sequence: replay.last,
        generation: replay.generation,
        memtable_bytes: memtables().map(|inner| inner.bytes()).sum(),
        memtable_rows: memtables().map(|inner| inner.rows()).max().unwrap_or(0),
        closed: false,
    };
    let budget = Budget::new(settings.work_bytes());
    Ok(Shared {
        scans: ScanResources::new(&settings, &budget, &cache),
        budget,
        settings,
        commit: Mutex::new(commit),
        next_segment: AtomicU64::new(state.next_segment),
        numbers: Mutex::default(),
        manifest: Mutex::new(manifest),
        catalog: RwLock::new(catalog),
        log,
        cache,
        queue: Mutex::new(Queue::new(replay.frozen)),
        wake: Condvar::new(),
        compaction: Mutex::new(()),
        counters: Counters::default(),
        apart: AtomicU64::new(0),
        applied: AtomicU64::new(replay.last.0),
        io,
    })
}

/// Loads the tables and segments that the manifest lists. Segments already open in `known` are
/// reused.
pub(crate) fn load(io: &Io, state: &State, cache: &Arc<Cache>, known: &Catalog) -> Result<Catalog> {
    let mut catalog = Catalog::default();
    catalog.stored_queries = Arc::new(state.stored_queries.clone());
    for (&id, schema) in &state.tables {
        let mut segments = Vec::new();
        for entry in state.segments_of(id) {
            let mut open = known.tables.get(&id).into_iter().flat_map(|table| table.segments.iter());
            segments.push(match open.find(|listed| (listed.entry.id, listed.entry.crc) == (entry.id, entry.crc)) {
                Some(listed) => listed.again(entry),
                None => Listed::open(io, entry, cache)?,
            });
        }
        // Plans that were made for the schema stay valid.
        let known = known.tables.get(&id).filter(|table| *table.schema == *schema);
        let schema = known.map_or_else(|| Arc::new(schema.clone()), |table| Arc::clone(&table.schema));
        let mut table = Table::new(schema, Generation(state.flushed.0 + 1));
        table.set_segments(segments, state.deletes_of(id));
        catalog.insert(table);
    }
    Ok(catalog)
}

/// Removes the WAL files of generations that are in segments, and the spare one.
fn remove_flushed(io: &Io, state: &State) -> Result<()> {
    // Usually there is none. If it stays, the next spare file replaces it.
    io.storage.remove(frame::SPARE).ok();
    for generation in frame::generations(io.storage.as_ref())? {
        if generation <= state.flushed {
            io.storage.remove(&frame::file_name(generation))?;
        }
    }
    Ok(())
}

/// Removes segment files that the manifest does not list: a crash came between writing and listing
/// them.
fn remove_leftovers(io: &Io, state: &State) -> Result<()> {
    let listed: BTreeSet<String> = state.segments.values().map(|entry| file_name(entry.table, entry.id)).collect();
    for table in 0..state.next_table {
        let directory = directory(TableId(table));
        for name in io.storage.list(&directory)? {
            let name = format!("{directory}/{name}");
            if !listed.contains(&name) {
                io.storage.remove(&name)?;
            }
        }
    }
    Ok(())
}

/// What the WAL files hold beyond the segments.
pub(crate) struct Replay {
    pub(crate) last: Sequence,
    generation: Generation,
    /// Length of the good part of the last WAL file; `None` if there is no file.
    good_bytes: Option<usize>,
    frozen: Vec<Frozen>,
}

/// Replays the WAL files of generations that are not in segments.
pub(crate) fn replay(io: &Io, settings: &Settings, state: &State, catalog: &mut Catalog) -> Result<Replay> {
    let mut generations = frame::generations(io.storage.as_ref())?;
    generations.retain(|generation| *generation > state.flushed);
    let mut replay = Replay {
        last: state.flushed_sequence,
        generation: Generation(state.flushed.0 + 1),
        good_bytes: None,
        frozen: Vec::new(),
    };
    for (place, &generation) in generations.iter().enumerate() {
        let expected = Generation(state.flushed.0 + 1 + place as u64);
        if generation != expected {
            return Err(Error::damaged(format!(
                "{} is missing although {} exists: the batches of generation {expected} are lost. Restore the file, or \
                 move the newer WAL files away to continue without them",
                frame::file_name(expected),
                frame::file_name(generation)
            )));
        }
        let last_file = place + 1 == generations.len();
        if place > 0 {
            // The previous generation is complete and waits for its flush.
            catalog.tables.values_mut().for_each(|table| table.freeze(generation));
            replay.frozen.push(Frozen { generation: replay.generation, last: replay.last });
        }
        replay.generation = generation;
        let name = frame::file_name(generation);
        let bytes = io.storage.read(&name)?.read_all()?;
        let contents = frame::read_file(&name, &bytes, generation, replay.last, last_file)?;
        for frame in &contents.frames {
            if frame.sequence.0 != replay.last.0 + 1 {
                return Err(Error::damaged(format!(
                    "{name}: batch {} follows batch {}; the batches between them are lost. Restore the WAL files",
                    frame.sequence, replay.last
                )));
            }
            apply(catalog, &state.tables, frame.sequence, frame.payload)
                .map_err(|e| e.context(format_args!("{name}, frame at byte {}", frame.offset)))?;
            replay.last = frame.sequence;
            if frame.sequence.0.is_multiple_of(CHECK_FRAMES) {
                check_memory(catalog, settings)?;
            }
        }
        replay.good_bytes = Some(contents.good_bytes);
    }
    Ok(replay)
}

/// Refuses a log that holds less than the manifest knows: a file was removed or truncated.
pub(crate) fn check_log(io: &Io, state: &State, last: Sequence) -> Result<()> {
    let Some(mark) = state.log.filter(|mark| mark.generation > state.flushed) else { return Ok(()) };
    let name = frame::file_name(mark.generation);
    let go_on = "Restore the log files, or continue without their batches with 'fleetdb check --accept-loss'";
    let generations = frame::generations(io.storage.as_ref())?;
    if generations.last().is_none_or(|last| *last < mark.generation) {
        return Err(Error::damaged(format!("{name} is missing: the batches after {last} are lost. {go_on}")));
    }
    if io.storage.read(&name)?.len_bytes() < frame::FILE_HEADER_BYTES as u64 {
        return Err(Error::damaged(format!("{name} is empty: the batches after {last} are lost. {go_on}")));
    }
    if last < mark.durable {
        return Err(Error::damaged(format!(
            "{name}: the log ends with batch {last}, but batch {} had been written: the batches after {last} are lost. \
             {go_on}",
            mark.durable
        )));
    }
    Ok(())
}

/// Clears what the manifest knows about the log, so that a database with lost log files can be
/// opened. The batches in those files are given up. Returns whether there was anything to clear.
///
/// # Errors
/// The database is open, or its manifest cannot be written.
pub fn accept_loss(io: &Io) -> Result<bool> {
    let _lock = io.storage.lock()?;
    let mut manifest = Manifest::open(io)?;
    let is_known = manifest.state().log.is_some();
    if is_known {
        manifest.append(&Edit::Log { mark: None })?;
    }
    Ok(is_known)
}

/// Refuses to replay more than the memory limit allows: the log was written with larger memtables.
fn check_memory(catalog: &Catalog, settings: &Settings) -> Result<()> {
    let memtables = catalog.tables.values().flat_map(|table| table.frozen.iter().chain([&table.active]));
    let bytes: usize = memtables.map(|memtable| memtable.read().bytes()).sum();
    if bytes > settings.memory_limit {
        return Err(Error::new(
            Code::LimitExceeded,
            format!(
                "the log holds more rows than fit into memory_limit ({} bytes): it was written with larger memtables; \
                 open the database once with the limit it was written with, and close it",
                settings.memory_limit
            ),
        ));
    }
    Ok(())
}

/// Applies one batch. Skips the sections of tables that have been dropped.
fn apply(
    catalog: &Catalog,
    schemas: &BTreeMap<TableId, TableSchema>,
    sequence: Sequence,
    mut payload: &[u8],
) -> Result<()> {
    while !payload.is_empty() {
        match record::decode(&mut payload)? {
            Entry::Rows(new_entries, mut section) => {
                let (Some(table), Some(schema)) = (catalog.tables.get(&section.table), schemas.get(&section.table))
                else {
                    continue;
                };
                let mut memtable = table.active.write();
                memtable.learn(&new_entries, &mut section);
                if !memtable.accepts(&section, schema) {
                    return Err(Error::damaged(format!(
                        "a section of table '{}' does not match the table, although its checksum is valid",
                        schema.name
                    )));
                }
                memtable.apply(&section);
            }
            Entry::Delete(Removal { table, key, from, to }) => {
                if let Some(table) = catalog.tables.get(&table) {
                    let generation = table.active.generation();
                    table.active.write().delete(Delete { id: sequence.0, generation, key, from, to });
                }
            }
        }
    }
    Ok(())
}
