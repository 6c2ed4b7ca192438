//! The database: connects the parts of the data path.
//!
//! 1. [`Database::open_with`] takes the writer's lock, reads the manifest, opens the segments,
//!    replays the WAL ([`crate::recovery`]) and starts three threads: `fleetdb-log`,
//!    `fleetdb-flush` and `fleetdb-compact`.
//! 2. [`Database::commit`] admits a batch and waits for room in the memtables. Under the commit
//!    lock it resolves, logs and applies the batch. Then it waits for the requested durability.
//! 3. Full memtables are frozen, which begins a new generation with a new WAL file. The flush
//!    thread turns the frozen generation into segments.
//!
//! `ARCHITECTURE.md` gives the lock order.

use crate::catalog::Table;
use crate::commit::{Acknowledged, TryCommit, completion};
use crate::error::{Code, Error, Result};
use crate::ids::{Generation, TableId};
use crate::io::{Io, Joiner};
use crate::manifest::Edit;
use crate::memory::QueryMemory;
use crate::recovery;
use crate::scan::View;
use crate::schema::{TableDefinition, TableSchema};
use crate::settings::{MAX_TABLES, Settings};
use crate::shipping::{Adopting, Shipping};
use crate::state::Shared;
use crate::status::Status;
use crate::wal::frame;
use crate::wal::log::Waiting;
use crate::write::batch::Batch;
use parking_lot::Mutex;
use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Below this many memtable bytes, closing leaves the rows in the WAL instead of writing small
/// segments.
const MIN_FLUSH_BYTES: usize = 1 << 20;

/// An open database.
///
/// ```
/// use fleetdb_engine::{Batch, ColumnType, Database, Rows, ScanRequest, TableDefinition, Unit, Value};
/// let directory = tempfile::tempdir().unwrap();
/// let db = Database::open(directory.path()).unwrap();
/// let table = TableDefinition::new("cpu").key("host", ColumnType::Utf8).time("ts", Unit::Nanosecond);
/// let table = table.field("usage", ColumnType::Int64);
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
    /// Held while the database is open.
    _lock: Box<dyn Send + Sync>,
}

impl Database {
    /// Opens the database in a directory with default settings, or creates an empty one.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(Io::files(path.as_ref()), Settings::default())
    }

    /// Opens a database on an [`Io`] ([`Io::files`], [`Io::memory`]) with settings, or creates an
    /// empty one.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`] if another process has the database open for writing;
    /// [`ErrorKind::Damaged`] if stored data is damaged (the message says what is lost and how to
    /// continue);
    /// [`ErrorKind::Input`] if a setting is out of range; [`ErrorKind::Io`].
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

    /// Creates a table. It is durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the definition is invalid, the name is taken, or the database has
    /// the maximum number of tables. [`max_tables`](Settings::max_tables) does not apply here: it
    /// limits only the tables that line protocol creates.
    pub fn create_table(&self, definition: &TableDefinition) -> Result<Arc<TableSchema>> {
        let commit = self.shared.open_commit()?;
        let mut manifest = self.shared.manifest.lock();
        if let Some(what) = manifest.state().named(&definition.name) {
            return Err(Error::new(Code::DuplicateTable, format!("{what} '{}' already exists", definition.name)));
        }
        let (tables, most) = (manifest.state().tables.len(), MAX_TABLES);
        if tables >= most {
            return Err(Error::new(
                Code::LimitExceeded,
                format!(
                    "table '{}' cannot be created: there are already {tables} tables, and the limit is {most}; keep \
                     devices in one table and distinguish them by its key",
                    definition.name
                ),
            ));
        }
        let mut schema = definition.build(TableId(manifest.state().next_table))?;
        definition.add_constraints(&mut schema, |name| Ok((*self.table(name)?).clone()))?;
        let mut edit = Edit::CreateTable { schema: schema.clone() };
        if let Some(first) = definition.first_number {
            let before = Edit::ReserveNumbers { table: schema.id, to: first.saturating_sub(1) };
            edit = Edit::Several { edits: vec![edit, before] };
        }
        self.shared.change_schema(&mut manifest, &edit)?;
        let schema = Arc::new(schema);
        let table = Table::new(Arc::clone(&schema), commit.generation);
        self.shared.catalog.write().insert(table);
        drop((manifest, commit));
        self.shared.wait_until_defined()?;
        Ok(schema)
    }

    /// Drops a table and its rows. The drop is durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the table does not exist.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let commit = self.shared.open_commit()?;
        let mut manifest = self.shared.manifest.lock();
        let id = self.shared.catalog.read().get(name)?.schema.id;
        self.shared.change_schema(&mut manifest, &Edit::DropTable { table: id })?;
        let dropped = self.shared.catalog.write().remove(id);
        drop((manifest, commit));
        // Views may still read the files. On Unix an open file stays readable after it is unlinked.
        let segments = dropped.iter().flat_map(|table| table.segments.iter());
        self.shared.remove_files(segments.map(|listed| listed.segment.name.clone()))?;
        self.shared.wait_until_defined()
    }

    /// All tables, in order of creation.
    pub fn tables(&self) -> Vec<Arc<TableSchema>> {
        self.shared.catalog.read().tables.values().map(|table| Arc::clone(&table.schema)).collect()
    }

    /// Number of tables.
    pub(crate) fn table_count(&self) -> usize {
        self.shared.catalog.read().tables.len()
    }

    /// The schema of a table.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the table does not exist.
    pub fn table(&self, name: &str) -> Result<Arc<TableSchema>> {
        Ok(Arc::clone(&self.shared.catalog.read().get(name)?.schema))
    }

    /// Writes a batch atomically and waits until it is as durable as
    /// [requested](Batch::with_durability), or as [`Settings::durability`] says.
    ///
    /// # Errors
    /// [`ErrorKind::Input`]: the message names the wrong table, column and row, and nothing is
    /// written. [`ErrorKind::Retry`]: the memtables are full and the flush did not catch up.
    /// [`ErrorKind::Closed`]: the database is closed or the log failed; it is then unknown whether
    /// the batch survives.
    pub fn commit(&self, batch: impl Borrow<Batch>) -> Result<Acknowledged> {
        let (done, outcome) = completion();
        self.shared.commit(batch.borrow(), Waiting::ForOutcome, done)?;
        self.shared.step_without_threads();
        outcome.wait()
    }

    /// Checks the rows of a batch against the CHECKs of their tables, without writing it.
    ///
    /// # Errors
    /// [`Code::Check`](crate::Code::Check) if a row violates one; others as [`commit`](Self::commit).
    pub fn check(&self, batch: &Batch) -> Result<()> {
        self.shared.check_rows(batch)
    }

    /// Writes a batch as [`commit`](Self::commit) does, without waiting for its outcome. `done` is
    /// called once, when the batch is as durable as requested or when the log failed. It runs on
    /// the log thread or a committer's thread, possibly before this returns. It must be short and
    /// must not wait for the database. If the memtables are full, this call waits for room.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); `done` is then not called.
    pub fn commit_async(&self, batch: Batch, done: impl FnOnce(Result<Acknowledged>) + Send + 'static) -> Result<()> {
        self.shared.commit(&batch, Waiting::ForRoom, Box::new(done))?;
        self.shared.step_without_threads();
        Ok(())
    }

    /// Writes a batch as [`commit_async`](Self::commit_async) does, but never waits. If the
    /// memtables are full, or a long [`transact`](Self::transact) or
    /// [`delete_rows`](Self::delete_rows) blocks other writers, it does nothing and does not call
    /// `done` ([`TryCommit::Full`]). The caller may run a sync that no other batch is likely to
    /// share ([`TryCommit::NeedsSync`]).
    ///
    /// # Errors
    /// As [`commit`](Self::commit); `done` is then not called.
    pub fn try_commit(
        &self,
        batch: &Batch,
        done: impl FnOnce(Result<Acknowledged>) + Send + 'static,
    ) -> Result<TryCommit<'_>> {
        let outcome = self.shared.commit(batch, Waiting::Never, Box::new(done))?;
        self.shared.step_without_threads();
        Ok(outcome)
    }

    /// A view of all tables as they are now.
    pub fn view(&self) -> View {
        self.shared.view()
    }

    /// A view of some tables, which is cheaper than one of many. Tables that do not exist are left
    /// out.
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

    /// Writes everything in the memtables to segments and returns when they are durable.
    ///
    /// # Errors
    /// The flush failed. Nothing is lost: the rows are in the WAL and in memory.
    pub fn flush(&self) -> Result<()> {
        self.shared.flush_now()
    }

    /// Flushes the memtables and does the compaction that is due; returns when both are done. The
    /// background threads would do this anyway. It lets a benchmark count the deferred work.
    ///
    /// # Errors
    /// The flush or the compaction failed. Nothing is lost.
    pub fn settle(&self) -> Result<()> {
        self.shared.flush_now()?;
        self.shared.compact_all(false)
    }

    /// Flushes the memtables and merges each time partition into as few segments as possible,
    /// without deleted and expired rows; returns when that is done. Good reads do not need it:
    /// background compaction keeps the number of segments low. Use it before a backup, or to
    /// reclaim the space of deleted rows now.
    ///
    /// # Errors
    /// The flush or the compaction failed. Nothing is lost.
    pub fn compact(&self) -> Result<()> {
        self.shared.flush_now()?;
        self.shared.compact_all(true)
    }

    /// The settings the database was opened with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The memory budget for queries.
    pub fn query_memory(&self) -> QueryMemory {
        QueryMemory(Arc::clone(&self.shared.budget))
    }

    /// What the database is doing now and has done since it was opened.
    pub fn status(&self) -> Status {
        let catalog = self.shared.catalog.read();
        let queue = self.shared.queue.lock();
        Status {
            frozen_generations: queue.frozen.len(),
            cache_bytes: self.shared.cache.bytes(),
            work_bytes: self.shared.budget.used_bytes(),
            wal_bytes_written: self.shared.log.bytes_written(),
            wal_syncs: self.shared.log.syncs(),
            flushed_bytes: self.shared.counters.flushed_bytes.load(Ordering::Relaxed),
            compacted_bytes: self.shared.counters.compacted_bytes.load(Ordering::Relaxed),
            compactions: self.shared.counters.compactions.load(Ordering::Relaxed),
            held_back: queue.is_held_back(),
            compacting: queue.compacting.clone(),
            flush_error: queue.flush_error.clone(),
            compaction_error: queue.compaction_error.clone(),
            adopting: queue.adopting.as_ref().map(|adopting| adopting.lag(self.now_ns())),
            shipping: queue.shipping.as_ref().map(|shipping| shipping.lag(self.now_ns(), self.last_sequence())),
            ..Status::of(&catalog)
        }
    }

    /// Records how far the database is shipped; [`status`](Self::status) shows it.
    ///
    /// ```
    /// use fleetdb_engine::{Database, Settings, Shipping, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// assert!(db.status().shipping.is_none());
    /// db.note_shipping(Shipping { sent_bytes: 7, ..Shipping::default() });
    /// assert_eq!(db.status().shipping.unwrap().sent_bytes, 7);
    /// ```
    pub fn note_shipping(&self, shipping: Shipping) {
        self.shared.queue.lock().shipping = Some(shipping);
    }

    /// Records how the rows of other databases are adopted; [`status`](Self::status) shows it.
    ///
    /// ```
    /// use fleetdb_engine::{Adopting, Database, Settings, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// db.note_adopting(Adopting { rows: 7, ..Adopting::default() });
    /// assert_eq!(db.status().adopting.unwrap().rows, 7);
    /// ```
    pub fn note_adopting(&self, adopting: Adopting) {
        self.shared.queue.lock().adopting = Some(adopting);
    }

    /// From now on, compaction merges no rows of this generation or older ones with newer rows, so that
    /// whoever has copied the older ones finds the newer ones in segments of their own. A reopened
    /// database has forgotten it.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// let append = |at| {
    ///     db.container("t", &[Value::Int(1)]).unwrap().append(at, &[]).unwrap();
    ///     db.flush().unwrap();
    /// };
    /// (0..4).for_each(append);
    /// db.keep_apart(db.checkpoint().state().flushed);
    /// (4..8).for_each(append);
    /// db.compact().unwrap();
    /// assert_eq!(db.status().segments, 2);
    /// ```
    pub fn keep_apart(&self, generation: Generation) {
        self.shared.apart.store(generation.0, Ordering::Relaxed);
    }

    /// The last batch that readers see.
    pub fn last_sequence(&self) -> u64 {
        self.shared.applied.load(Ordering::Acquire)
    }

    /// The time by the database's clock, in nanoseconds since 1970.
    pub fn now_ns(&self) -> i64 {
        self.shared.io.clock.wall_ns()
    }

    /// Makes everything acknowledged durable and closes the database. Dropping it does the same,
    /// but reports no errors.
    ///
    /// # Errors
    /// Something could not be made durable.
    pub fn close(self) -> Result<()> {
        self.shut_down()
    }

    fn shut_down(&self) -> Result<()> {
        let already = std::mem::replace(&mut self.shared.commit.lock().closed, true);
        if already {
            return Ok(());
        }
        let large = self.status().memtable_bytes >= MIN_FLUSH_BYTES;
        let flushed = if large { self.shared.flush_now() } else { Ok(()) };
        self.shared.stop_background();
        let closed = self.shared.log.close();
        if let Some(sharing) = self.shared.log.sharing() {
            sharing.fail(&Error::closed(
                "the database was closed before the batch was shared; it is durable on this machine",
            ));
        }
        for join in self.joiners.lock().drain(..) {
            join();
        }
        self.shared.log.remove_spare();
        let marked = if closed.is_ok() { self.shared.mark_log() } else { Ok(()) };
        let given_back = self.give_back_numbers();
        flushed.and(closed).and(marked).and(given_back)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // To see the error, call `close`.
        self.shut_down().ok();
    }
}

impl Shared {
    /// Without background threads, does what they would do after a commit.
    pub(crate) fn step_without_threads(&self) {
        if self.has_threads() {
            return;
        }
        self.log.step();
        // `Status` reports failures; the batch is in the log.
        if self.flush_all().is_ok() && std::mem::take(&mut self.queue.lock().changed) {
            self.compact_all(false).ok();
        }
    }

    /// Tells both background threads to end. A running merge stops at its next row group.
    pub(crate) fn stop_background(&self) {
        self.counters.stopping.store(true, Ordering::Release);
        self.queue.lock().stop = true;
        self.wake.notify_all();
    }
}
