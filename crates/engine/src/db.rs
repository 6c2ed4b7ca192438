//! The database: puts the parts of the data path together.
//!
//! 1. [`Database::open_with`] takes the writer's lock, reads the manifest, opens the segments, replays the WAL
//!    ([`crate::recovery`]) and starts three threads: `fleetdb-log`, `fleetdb-flush` and `fleetdb-compact`.
//! 2. [`Database::commit`] admits a batch, waits for room, and under the commit lock resolves, logs
//!    and applies it; then it waits for the durability it was asked for.
//! 3. When the memtables are full they are frozen: a new generation begins, with a new WAL file;
//!    the flush thread makes segments of the frozen one.
//!
//! `ARCHITECTURE.md` has the order of the locks.

use crate::catalog::Table;
use crate::commit::{Acknowledged, TryCommit, completion};
use crate::compaction::plan;
use crate::error::{Code, Error, Result};
use crate::ids::TableId;
use crate::io::{Io, Joiner};
use crate::manifest::Edit;
use crate::memory::QueryMemory;
use crate::recovery;
use crate::scan::View;
use crate::schema::{TableDefinition, TableSchema};
use crate::settings::{MOST_TABLES, Settings};
use crate::state::Shared;
use crate::wal::frame;
use crate::wal::log::Waiting;
use crate::write::batch::Batch;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of memtables below which closing leaves them to the WAL instead of writing small segments.
const LEAST_FLUSH_BYTES: usize = 1 << 20;

/// What the database is doing and has done since it was opened.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Bytes of the active memtables.
    pub memtable_bytes: usize,
    /// Generations frozen and not yet in segments.
    pub frozen: usize,
    /// Segments of all tables.
    pub segments: usize,
    /// Bytes of all segments.
    pub segment_bytes: u64,
    /// Bytes of decoded pages in the cache.
    pub cache_bytes: u64,
    /// Bytes that scans and compaction hold.
    pub work_bytes: usize,
    /// Bytes written to WAL files.
    pub wal_bytes_written: u64,
    /// fdatasync calls on WAL files.
    pub wal_syncs: u64,
    /// Bytes of the segments that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes of the segments that compactions wrote.
    pub compacted_bytes: u64,
    /// Merges done.
    pub compactions: u64,
    /// Bytes of segments that wait to be merged.
    pub compaction_debt_bytes: u64,
    /// A partition has so many runs that flushes, and then writers, wait for compaction.
    pub held_back: bool,
    /// The table that is being compacted.
    pub compacting: Option<String>,
    /// Why the last flush failed, until one succeeds.
    pub flush_error: Option<Error>,
    /// Why the last compaction failed, until one succeeds.
    pub compaction_error: Option<Error>,
}

/// An open database.
///
/// ```
/// use fleetdb_engine::{Batch, ColumnType, Database, Rows, ScanRequest, TableDefinition, Unit, Value};
/// let directory = tempfile::tempdir().unwrap();
/// let db = Database::open(directory.path()).unwrap();
/// let table = TableDefinition::new("cpu").key("host", ColumnType::Utf8).time("ts", Unit::Nanosecond).field("usage", ColumnType::Int64);
/// let mut rows = Rows::new(&db.create_table(&table).unwrap());
/// rows.push(&["host_1".into(), Value::Int(1_000), Value::Int(58)]).unwrap();
/// db.commit(Batch::new().with_rows(rows)).unwrap();
/// let view = db.view();
/// let batches: Vec<_> = view.table("cpu").unwrap().scan(&ScanRequest::all()).unwrap().map(Result::unwrap).collect();
/// assert_eq!(batches[0].num_rows(), 1);
/// db.close().unwrap();
/// ```
pub struct Database {
    pub(crate) shared: Arc<Shared>,
    joiners: Mutex<Vec<Joiner>>,
    /// Held as long as the database is open.
    _lock: Box<dyn Send + Sync>,
}

impl Database {
    /// Opens the database in a directory with the default settings, or makes an empty one there.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(Io::files(path.as_ref()), Settings::default())
    }

    /// Opens the database on a machine's parts ([`Io::files`], [`Io::memory`]) with settings, or makes an empty one.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`] if another process writes it; [`ErrorKind::Damaged`] with what is lost and how to
    /// go on; [`ErrorKind::Input`] for a setting out of its range; [`ErrorKind::Io`].
    pub fn open_with(io: Io, settings: Settings) -> Result<Self> {
        settings.validate()?;
        for directory in ["", frame::DIRECTORY, crate::manifest::file::DIRECTORY, crate::segment::DIRECTORY] {
            io.storage.create_directory(directory)?;
        }
        let lock = io.storage.lock()?;
        io.storage.sync_directory("")?;
        let shared = Arc::new(recovery::recover(io, settings)?);
        let mut joiners = Vec::new();
        if shared.has_threads() {
            let log = Arc::clone(&shared.log);
            joiners.push(shared.io.spawn.spawn("fleetdb-log", Box::new(move || log.run()))?);
            let flusher = Arc::clone(&shared);
            joiners.push(shared.io.spawn.spawn("fleetdb-flush", Box::new(move || flusher.run_flushes()))?);
            let compactor = Arc::clone(&shared);
            joiners.push(shared.io.spawn.spawn("fleetdb-compact", Box::new(move || compactor.run_compactions()))?);
        } else {
            shared.flush_all()?;
        }
        shared.mark_log()?;
        Ok(Self { shared, joiners: Mutex::new(joiners), _lock: lock })
    }

    /// Creates a table; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the definition is wrong, the name is taken, or there are as many tables as there may be at all.
    /// [`max_tables`](Settings::max_tables) is for those that line protocol makes.
    pub fn create_table(&self, definition: &TableDefinition) -> Result<Arc<TableSchema>> {
        let commit = self.shared.open_commit()?;
        let mut manifest = self.shared.manifest.lock();
        if self.shared.catalog.read().find(&definition.name).is_some() {
            return Err(Error::coded(Code::DuplicateTable, format!("table '{}' exists already", definition.name)));
        }
        let (tables, most) = (manifest.state().tables.len(), MOST_TABLES);
        if tables >= most {
            return Err(Error::coded(
                Code::LimitExceeded,
                format!(
                    "table '{}': there are {tables} tables already, the most is {most}; devices \
                 belong in one table, told apart by its key",
                    definition.name
                ),
            ));
        }
        let schema = definition.build(TableId(manifest.state().next_table))?;
        self.shared.change_schema(&mut manifest, &Edit::CreateTable { schema: schema.clone() })?;
        let schema = Arc::new(schema);
        let table = Table::new(Arc::clone(&schema), commit.generation);
        self.shared.catalog.write().insert(table);
        drop(commit);
        Ok(schema)
    }

    /// Drops a table and its rows; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if there is no such table.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let commit = self.shared.open_commit()?;
        let mut manifest = self.shared.manifest.lock();
        let id = self.shared.catalog.read().get(name)?.schema.id;
        self.shared.change_schema(&mut manifest, &Edit::DropTable { table: id })?;
        let dropped = self.shared.catalog.write().remove(id);
        drop((manifest, commit));
        // Views may still read the files; on Unix an open file stays readable after its name is gone.
        let segments = dropped.iter().flat_map(|table| table.segments.iter());
        self.shared.remove_files(segments.map(|listed| listed.segment.name.clone()))
    }

    /// The tables there are, in order of creation.
    pub fn tables(&self) -> Vec<Arc<TableSchema>> {
        self.shared.catalog.read().tables.values().map(|table| Arc::clone(&table.schema)).collect()
    }

    /// How many tables there are.
    pub(crate) fn table_count(&self) -> usize {
        self.shared.catalog.read().tables.len()
    }

    /// The columns and key of a table.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if there is none.
    pub fn table(&self, name: &str) -> Result<Arc<TableSchema>> {
        Ok(Arc::clone(&self.shared.catalog.read().get(name)?.schema))
    }

    /// Writes a batch, all of it or nothing, and waits until it is as durable as
    /// [asked](Batch::with_durability), or as [`Settings::durability`] says.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] names the table, column and row that is wrong, and nothing is written.
    /// [`ErrorKind::Retry`]: the memtables are full and the flush did not catch up. [`ErrorKind::Closed`]:
    /// the database is closed or the log failed; whether the batch survives is then unknown.
    pub fn commit(&self, batch: Batch) -> Result<Acknowledged> {
        let (done, outcome) = completion();
        self.shared.commit(&batch, Waiting::ForOutcome, done)?;
        self.shared.step_without_threads();
        outcome.wait()
    }

    /// Writes a batch as [`commit`](Self::commit) does, without waiting for its outcome: `done` is called once when
    /// the batch is as durable as asked, or when the log failed. `done` runs on the log's thread or a committer's,
    /// perhaps before this returns: it must be short and must not wait for the database. If the memtables are full,
    /// this waits for room.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); then `done` is not called.
    pub fn commit_async(&self, batch: Batch, done: impl FnOnce(Result<Acknowledged>) + Send + 'static) -> Result<()> {
        self.shared.commit(&batch, Waiting::ForRoom, Box::new(done))?;
        self.shared.step_without_threads();
        Ok(())
    }

    /// Writes a batch as [`commit_async`](Self::commit_async) does, but never waits: if the memtables are full, or a long
    /// [`transact`](Self::transact) or [`delete_rows`](Self::delete_rows) holds other writers up, it does nothing, and
    /// `done` is not called ([`TryCommit::Full`]). A sync that no other batch is likely to share may be
    /// run by the caller ([`TryCommit::NeedsSync`]).
    ///
    /// # Errors
    /// As [`commit`](Self::commit); then `done` is not called.
    pub fn try_commit(
        &self,
        batch: &Batch,
        done: impl FnOnce(Result<Acknowledged>) + Send + 'static,
    ) -> Result<TryCommit<'_>> {
        let outcome = self.shared.commit(batch, Waiting::Never, Box::new(done))?;
        self.shared.step_without_threads();
        Ok(outcome)
    }

    /// All tables as they are now.
    pub fn view(&self) -> View {
        self.shared.view()
    }

    /// Some tables as they are now, which takes less time than a view of many; one that is not there is not in it.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let one = db.create_table(&TableDefinition::new("one").key("id", ColumnType::Int64)).unwrap();
    /// db.create_table(&TableDefinition::new("two").key("id", ColumnType::Int64)).unwrap();
    /// assert_eq!(db.view_of(&[one.id]).table_names().collect::<Vec<_>>(), ["one"]);
    /// ```
    pub fn view_of(&self, tables: &[TableId]) -> View {
        self.shared.view_of(Some(tables))
    }

    /// Makes segments of everything in the memtables; returns when they are durable.
    ///
    /// # Errors
    /// The flush failed; nothing is lost, the rows are in the WAL and in memory.
    pub fn flush(&self) -> Result<()> {
        self.shared.flush_now()
    }

    /// Makes segments of everything in the memtables and does the compaction that is due; returns when that is done. What
    /// the background would come to by itself: for a benchmark that counts what was put off.
    ///
    /// # Errors
    /// Flush or compaction failed; nothing is lost.
    pub fn settle(&self) -> Result<()> {
        self.shared.flush_now()?;
        self.shared.compact_all(false)
    }

    /// Makes segments of everything in the memtables and merges every time partition into as few segments as it can
    /// have, without deleted and expired rows; returns when that is done. Not needed for good reads: the background
    /// keeps their number low. Before a backup, or to get the space of deletes back now.
    ///
    /// # Errors
    /// Flush or compaction failed; nothing is lost.
    pub fn compact(&self) -> Result<()> {
        self.shared.flush_now()?;
        self.shared.compact_all(true)
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The memory that queries may hold.
    pub fn query_memory(&self) -> QueryMemory {
        QueryMemory(Arc::clone(&self.shared.budget))
    }

    /// What the database is doing.
    pub fn status(&self) -> Status {
        let catalog = self.shared.catalog.read();
        let segments: Vec<_> = catalog.tables.values().flat_map(|table| table.segments.iter()).collect();
        let debt = catalog
            .tables
            .values()
            .map(|table| plan::debt_bytes(&table.segments.iter().map(|listed| &listed.entry).collect::<Vec<_>>()));
        let queue = self.shared.queue.lock();
        Status {
            memtable_bytes: catalog.tables.values().map(|table| table.active.read().bytes()).sum(),
            frozen: queue.frozen.len(),
            segments: segments.len(),
            segment_bytes: segments.iter().map(|listed| listed.entry.bytes).sum(),
            cache_bytes: self.shared.cache.bytes(),
            work_bytes: self.shared.budget.used_bytes(),
            wal_bytes_written: self.shared.log.bytes_written(),
            wal_syncs: self.shared.log.syncs(),
            flushed_bytes: self.shared.counters.flushed_bytes.load(Ordering::Relaxed),
            compacted_bytes: self.shared.counters.compacted_bytes.load(Ordering::Relaxed),
            compactions: self.shared.counters.compactions.load(Ordering::Relaxed),
            compaction_debt_bytes: debt.sum(),
            held_back: queue.is_held_back(),
            compacting: queue.compacting.clone(),
            flush_error: queue.flush_error.clone(),
            compaction_error: queue.compaction_error.clone(),
        }
    }

    /// Brings everything acknowledged to the medium and closes the database. Dropping it does the
    /// same without saying whether it worked.
    ///
    /// # Errors
    /// Something could not be brought to the medium.
    pub fn close(self) -> Result<()> {
        self.shut_down()
    }

    fn shut_down(&self) -> Result<()> {
        let already = std::mem::replace(&mut self.shared.commit.lock().closed, true);
        if already {
            return Ok(());
        }
        let large = self.status().memtable_bytes >= LEAST_FLUSH_BYTES;
        let flushed = if large { self.shared.flush_now() } else { Ok(()) };
        self.shared.stop_background();
        let closed = self.shared.log.close();
        for join in self.joiners.lock().drain(..) {
            join();
        }
        let marked = if closed.is_ok() { self.shared.mark_log() } else { Ok(()) };
        flushed.and(closed).and(marked)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        self.shut_down().ok();
    }
}

impl Shared {
    /// Without threads: what they would have done after a commit.
    pub(crate) fn step_without_threads(&self) {
        if self.has_threads() {
            return;
        }
        self.log.step();
        // What fails is told by `Status`; the batch is in the log.
        if self.flush_all().is_ok() && std::mem::take(&mut self.queue.lock().changed) {
            self.compact_all(false).ok();
        }
    }

    /// Lets both threads end; a running merge stops at its next row group.
    pub(crate) fn stop_background(&self) {
        self.counters.stopping.store(true, Ordering::Release);
        self.queue.lock().stop = true;
        self.wake.notify_all();
    }
}
