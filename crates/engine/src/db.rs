//! The database: puts the parts of the data path together.
//!
//! 1. [`Database::open`] takes the writer's lock, reads the manifest, opens the segments, replays the WAL
//!    ([`crate::recovery`]) and starts two threads: `fleetdb-log` and `fleetdb-flush`.
//! 2. [`Database::commit`] admits a batch, waits for room, and under the commit lock resolves, logs
//!    and applies it; then it waits for the durability it was asked for.
//! 3. When the memtables are full they are frozen: a new generation begins, with a new WAL file;
//!    the flush thread makes segments of the frozen one.
//!
//! Lock order: commit, manifest, catalog, memtables (by table number), log. The flush thread takes the
//! catalog's lock only to exchange what readers see.

use crate::error::{Error, Result};
use crate::flush::flush_table;
use crate::ids::{ColumnId, Generation, SegmentId, Sequence, TableId};
use crate::io::{Io, Joiner};
use crate::manifest::file::Manifest;
use crate::manifest::{Edit, SegmentEntry};
use crate::memtable::{MAX_ROWS, Memtable};
use crate::recovery;
use crate::scan::{TableView, View};
use crate::schema::{Column, ColumnDefinition, MAX_COLUMNS, Role, TableDefinition, TableSchema, check_name};
use crate::segment::cache::Cache;
use crate::segment::reader::Segment;
use crate::segment::{file_name, writer};
use crate::settings::{Durability, Settings};
use crate::wal::frame;
use crate::wal::log::Log;
use crate::wal::record;
use crate::write::admit::{Admitted, admit};
use crate::write::batch::Batch;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of memtables below which closing leaves them to the WAL instead of writing small segments.
const LEAST_FLUSH_BYTES: usize = 1 << 20;
/// The most bytes of a batch in memory; as a WAL frame it is smaller than [`frame::MAX_PAYLOAD_BYTES`].
const MAX_BATCH_BYTES: usize = 256 << 20;
/// Milliseconds until a failed flush is tried again.
const FLUSH_RETRY_MS: u64 = 1_000;

/// A batch that was acknowledged: what it is called and what it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The batch's place in the order of all batches.
    pub sequence: Sequence,
    /// The level it was written with; see [`Durability`] for what survives what.
    pub durability: Durability,
}

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
    /// Bytes written to WAL files.
    pub wal_bytes_written: u64,
    /// fdatasync calls on WAL files.
    pub wal_syncs: u64,
    /// Why the last flush failed, until one succeeds.
    pub flush_error: Option<Error>,
}

/// What readers see of a table, and where writers write.
pub(crate) struct Table {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) active: Arc<Memtable>,
    /// From old to new.
    pub(crate) frozen: Vec<(Generation, Arc<Memtable>)>,
    /// From old to new.
    pub(crate) segments: Arc<Vec<Arc<Segment>>>,
}

/// All tables.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<TableId, Table>,
}

impl Catalog {
    fn find(&self, name: &str) -> Option<&Table> {
        self.tables.values().find(|table| table.schema.name == name)
    }

    fn get(&self, name: &str) -> Result<&Table> {
        self.find(name).ok_or_else(|| {
            let names: Vec<&str> = self.tables.values().map(|t| t.schema.name.as_str()).collect();
            Error::input(format!("there is no table '{name}': there are [{}]", names.join(", ")))
        })
    }
}

/// What the commit lock guards.
pub(crate) struct Commit {
    pub(crate) sequence: Sequence,
    pub(crate) generation: Generation,
    pub(crate) closed: bool,
}

/// A generation that waits to be flushed.
#[derive(Clone, Copy)]
pub(crate) struct Frozen {
    pub(crate) generation: Generation,
    pub(crate) last: Sequence,
}

pub(crate) struct FlushQueue {
    pub(crate) frozen: Vec<Frozen>,
    error: Option<Error>,
    stop: bool,
}

pub(crate) struct Shared {
    pub(crate) io: Io,
    pub(crate) settings: Settings,
    pub(crate) commit: Mutex<Commit>,
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) catalog: RwLock<Catalog>,
    pub(crate) log: Arc<Log>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) queue: Mutex<FlushQueue>,
    /// Signalled when the queue changes.
    pub(crate) flushed: Condvar,
    /// The last batch in the memtables.
    pub(crate) applied: AtomicU64,
    pub(crate) next_segment: Mutex<u64>,
}

/// An open database.
///
/// ```
/// use fleetdb_engine::{Batch, ColumnType, Database, Rows, ScanRequest, Settings, TableDefinition, Unit, Value, io::Io};
/// let directory = tempfile::tempdir().unwrap();
/// let db = Database::open(Io::files(directory.path()), Settings::default()).unwrap();
/// let table = TableDefinition::new("cpu").key("host", ColumnType::Utf8).time("ts", Unit::Nanosecond).field("usage", ColumnType::Int64);
/// let mut rows = Rows::new(&db.create_table(&table).unwrap());
/// rows.push(&["host_1".into(), Value::Int(1_000), Value::Int(58)]).unwrap();
/// db.commit(Batch::new().with("cpu", rows.finish().unwrap())).unwrap();
/// let view = db.view();
/// let batches: Vec<_> = view.table("cpu").unwrap().scan(&ScanRequest::all()).unwrap().map(Result::unwrap).collect();
/// assert_eq!(batches[0].num_rows(), 1);
/// db.close().unwrap();
/// ```
pub struct Database {
    shared: Arc<Shared>,
    joiners: Mutex<Vec<Joiner>>,
    /// Held as long as the database is open.
    _lock: Box<dyn Send + Sync>,
}

impl Database {
    /// Opens the database, or makes an empty one.
    ///
    /// # Errors
    /// [`ErrorKind::Retry`] if another process writes it; [`ErrorKind::Damaged`] with what is lost and how to
    /// go on; [`ErrorKind::Input`] for a setting out of its range; [`ErrorKind::Io`].
    pub fn open(io: Io, settings: Settings) -> Result<Self> {
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
        } else {
            shared.flush_all()?;
        }
        Ok(Self { shared, joiners: Mutex::new(joiners), _lock: lock })
    }

    /// Creates a table; durable when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the definition is wrong or the name is taken.
    pub fn create_table(&self, definition: &TableDefinition) -> Result<Arc<TableSchema>> {
        let commit = self.shared.open_commit()?;
        let mut manifest = self.shared.manifest.lock();
        if self.shared.catalog.read().find(&definition.name).is_some() {
            return Err(Error::input(format!("table '{}' exists already", definition.name)));
        }
        let schema = definition.build(TableId(manifest.state().next_table))?;
        manifest.append(&Edit::CreateTable { schema: schema.clone() })?;
        let schema = Arc::new(schema);
        let table = Table {
            active: Arc::new(Memtable::new(&schema)),
            schema: Arc::clone(&schema),
            frozen: Vec::new(),
            segments: Arc::default(),
        };
        self.shared.catalog.write().tables.insert(schema.id, table);
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
        manifest.append(&Edit::DropTable { table: id })?;
        let dropped = self.shared.catalog.write().tables.remove(&id);
        drop((manifest, commit));
        // Views may still read the files; on Unix an open file stays readable after its name is gone.
        for segment in dropped.iter().flat_map(|table| table.segments.iter()) {
            self.shared.io.storage.remove(&segment.name)?;
        }
        Ok(())
    }

    /// Adds a column, NULL in all rows there are; durable when this returns. With [`Role::Key`] the
    /// column joins the key (behind its other columns): containers there are have NULL in it.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the table does not exist, the name is taken or wrong.
    pub fn add_column(&self, table: &str, column: &ColumnDefinition, role: Role) -> Result<Arc<TableSchema>> {
        let commit = self.shared.open_commit()?;
        let mut manifest = self.shared.manifest.lock();
        let schema = Arc::clone(&self.shared.catalog.read().get(table)?.schema);
        check_name("column", &column.name)?;
        let refused = match role {
            _ if schema.find(&column.name).is_some() => Some("the table has a column of this name"),
            _ if schema.columns.len() >= MAX_COLUMNS => Some("the table has as many columns as it may"),
            _ if !column.nullable => Some("it must be nullable, since there may be rows"),
            Role::Time => Some("a time column cannot be added"),
            Role::Key if column.column_type.is_float() => Some("a float cannot be part of a key"),
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(Error::input(format!("column '{}' cannot be added to '{table}': {reason}", column.name)));
        }
        let number = schema.columns.iter().map(|c| c.id.0 + 1).max().unwrap_or(0);
        let column = Column {
            id: ColumnId(number),
            name: column.name.clone(),
            column_type: column.column_type,
            role,
            nullable: true,
        };
        manifest.append(&Edit::AddColumn { table: schema.id, column })?;
        let changed = Arc::new(manifest.state().tables[&schema.id].clone());
        if let Some(table) = self.shared.catalog.write().tables.get_mut(&schema.id) {
            table.schema = Arc::clone(&changed);
        }
        drop(commit);
        Ok(changed)
    }

    /// The tables there are, in order of creation.
    pub fn tables(&self) -> Vec<Arc<TableSchema>> {
        self.shared.catalog.read().tables.values().map(|table| Arc::clone(&table.schema)).collect()
    }

    /// Writes a batch with the database's default durability; see [`commit_with`](Self::commit_with).
    ///
    /// # Errors
    /// See [`commit_with`](Self::commit_with).
    pub fn commit(&self, batch: Batch) -> Result<Acknowledged> {
        self.commit_with(batch, self.shared.settings.durability)
    }

    /// Writes a batch, all of it or nothing, and waits until it is as durable as asked.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] names the table, column and row that is wrong, and nothing is written.
    /// [`ErrorKind::Retry`]: the memtables are full and the flush did not catch up. [`ErrorKind::Closed`]:
    /// the database is closed or the log failed; whether the batch survives is then unknown.
    pub fn commit_with(&self, batch: Batch, durability: Durability) -> Result<Acknowledged> {
        let outcome = Arc::new((Mutex::new(None), Condvar::new()));
        let done = Arc::clone(&outcome);
        self.commit_then(batch, durability, move |result| {
            *done.0.lock() = Some(result);
            done.1.notify_one();
        })?;
        let (result, ready) = &*outcome;
        let mut result = result.lock();
        loop {
            match result.take() {
                Some(result) => return result,
                None => ready.wait(&mut result),
            }
        }
    }

    /// Writes a batch as [`commit_with`](Self::commit_with) does, without waiting: `done` is called once
    /// when the batch is as durable as asked, or when the log failed. It runs on the log's thread: it
    /// must be short and must not wait for the database.
    ///
    /// # Errors
    /// As [`commit_with`](Self::commit_with); then `done` is not called.
    pub fn commit_then(
        &self,
        batch: Batch,
        durability: Durability,
        done: impl FnOnce(Result<Acknowledged>) + Send + 'static,
    ) -> Result<()> {
        self.shared.commit(&batch, durability, Box::new(done))?;
        if !self.shared.has_threads() {
            self.shared.log.step();
            self.shared.flush_all()?;
        }
        Ok(())
    }

    /// All tables as they are now.
    pub fn view(&self) -> View {
        self.shared.view()
    }

    /// Makes segments of everything in the memtables; returns when they are durable.
    ///
    /// # Errors
    /// The flush failed; nothing is lost, the rows are in the WAL and in memory.
    pub fn flush(&self) -> Result<()> {
        self.shared.flush_now()
    }

    /// What the database is doing.
    pub fn status(&self) -> Status {
        let catalog = self.shared.catalog.read();
        let segments: Vec<_> = catalog.tables.values().flat_map(|table| table.segments.iter()).collect();
        let queue = self.shared.queue.lock();
        Status {
            memtable_bytes: catalog.tables.values().map(|table| table.active.read().bytes()).sum(),
            frozen: queue.frozen.len(),
            segments: segments.len(),
            segment_bytes: segments.iter().map(|segment| segment.len_bytes()).sum(),
            cache_bytes: self.shared.cache.bytes(),
            wal_bytes_written: self.shared.log.bytes_written(),
            wal_syncs: self.shared.log.syncs(),
            flush_error: queue.error.clone(),
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
        {
            let mut queue = self.shared.queue.lock();
            queue.stop = true;
            self.shared.flushed.notify_all();
        }
        let closed = self.shared.log.close();
        for join in self.joiners.lock().drain(..) {
            join();
        }
        flushed.and(closed)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        self.shut_down().ok();
    }
}

type Done = Box<dyn FnOnce(Result<Acknowledged>) + Send>;

impl FlushQueue {
    pub(crate) fn new(frozen: Vec<Frozen>) -> Self {
        Self { frozen, error: None, stop: false }
    }
}

impl Shared {
    fn has_threads(&self) -> bool {
        self.io.spawn.has_threads()
    }

    fn open_commit(&self) -> Result<parking_lot::MutexGuard<'_, Commit>> {
        let commit = self.commit.lock();
        if commit.closed { Err(Error::closed("the database is closed")) } else { Ok(commit) }
    }

    fn admit(&self, batch: &Batch) -> Result<Vec<Admitted>> {
        let catalog = self.catalog.read();
        let schemas = batch.parts.iter().map(|(name, _)| Ok(Arc::clone(&catalog.get(name)?.schema)));
        let schemas = schemas.collect::<Result<Vec<_>>>()?;
        drop(catalog);
        batch.parts.iter().zip(&schemas).map(|((_, rows), schema)| admit(schema, rows)).collect()
    }

    fn commit(&self, batch: &Batch, durability: Durability, done: Done) -> Result<()> {
        self.log.check()?;
        let bytes: usize = batch.parts.iter().map(|(_, rows)| rows.get_array_memory_size()).sum();
        if bytes > MAX_BATCH_BYTES {
            return Err(Error::input(format!("a batch of {bytes} bytes: the most is {MAX_BATCH_BYTES}, split it")));
        }
        let mut admitted = self.admit(batch)?;
        let mut commit = self.wait_for_room()?;
        // A schema may have changed since; it cannot while the commit lock is held.
        while !self.is_current(&admitted) {
            admitted = self.admit(batch)?;
        }
        let sequence = Sequence(commit.sequence.0 + 1);
        admitted.sort_by_key(|admitted| admitted.schema.id);
        let full = {
            let catalog = self.catalog.read();
            let mut groups: Vec<Vec<Admitted>> = Vec::new();
            for part in admitted.into_iter().filter(|part| part.rows > 0) {
                match groups.last_mut() {
                    Some(group) if group[0].schema.id == part.schema.id => group.push(part),
                    _ => groups.push(vec![part]),
                }
            }
            // `is_current` found every table.
            let mut guards: Vec<_> =
                groups.iter().map(|group| catalog.tables[&group[0].schema.id].active.write()).collect();
            let mut sections: Vec<(usize, record::Section)> = Vec::new();
            let mut payload = Vec::new();
            for (number, group) in groups.into_iter().enumerate() {
                for part in group {
                    let inner = &mut guards[number];
                    let section = inner.resolve(part);
                    let crate::memtable::Inner { keys, texts, .. } = &mut **inner;
                    record::encode(&section, keys, texts, &mut payload);
                    sections.push((number, section));
                }
            }
            if payload.is_empty() {
                done(Ok(Acknowledged { sequence: commit.sequence, durability }));
                return Ok(());
            }
            let completion = Box::new(move |result: Result<()>| {
                done(result.map(|()| Acknowledged { sequence, durability }));
            });
            self.log.enqueue(sequence, durability, |out| out.extend_from_slice(&payload), completion);
            for (number, section) in sections {
                guards[number].apply(section);
            }
            commit.sequence = sequence;
            drop(guards);
            self.is_full(&catalog)
        };
        self.applied.store(sequence.0, Ordering::Release);
        if full && self.queue.lock().frozen.is_empty() {
            self.freeze(&mut commit);
        }
        Ok(())
    }

    fn is_current(&self, admitted: &[Admitted]) -> bool {
        let catalog = self.catalog.read();
        admitted.iter().all(|part| {
            let table = catalog.tables.get(&part.schema.id);
            table.is_some_and(|table| Arc::ptr_eq(&table.schema, &part.schema))
        })
    }

    fn is_full(&self, catalog: &Catalog) -> bool {
        let (mut bytes, mut rows) = (0, 0);
        for table in catalog.tables.values() {
            let inner = table.active.read();
            bytes += inner.bytes();
            rows = rows.max(inner.rows());
        }
        bytes >= self.settings.memtable_bytes || rows >= MAX_ROWS
    }

    /// The commit lock, when the memtables have room. Full memtables whose forerunners are still being
    /// flushed must wait: at most two generations are in memory.
    fn wait_for_room(&self) -> Result<parking_lot::MutexGuard<'_, Commit>> {
        let wait_ns = self.settings.write_wait_ms.saturating_mul(1_000_000);
        let start_ns = self.io.clock.monotonic_ns();
        loop {
            let mut commit = self.open_commit()?;
            if !self.is_full(&self.catalog.read()) {
                return Ok(commit);
            }
            let mut queue = self.queue.lock();
            if queue.frozen.is_empty() {
                drop(queue);
                self.freeze(&mut commit);
                if self.has_threads() {
                    return Ok(commit);
                }
                drop(commit);
                self.flush_all()?;
                continue;
            }
            drop(commit);
            let waited_ns = self.io.clock.monotonic_ns().saturating_sub(start_ns);
            if waited_ns >= wait_ns || !self.has_threads() {
                let reason = match &queue.error {
                    Some(error) => format!("the last flush failed: {error}"),
                    None => "the flush does not keep up".to_owned(),
                };
                return Err(Error::retry(format!(
                    "the memtables are full ({} bytes, setting memtable_bytes) and {reason}; nothing was written, try again",
                    self.settings.memtable_bytes
                )));
            }
            self.flushed.wait_for(&mut queue, Duration::from_nanos(wait_ns - waited_ns));
        }
    }

    /// Begins a new generation. The caller holds the commit lock.
    fn freeze(&self, commit: &mut Commit) -> bool {
        let mut catalog = self.catalog.write();
        if catalog.tables.values().all(|table| table.active.read().rows() == 0) {
            return false;
        }
        let generation = commit.generation;
        for table in catalog.tables.values_mut() {
            if table.active.read().rows() > 0 {
                let fresh = Arc::new(Memtable::new(&table.schema));
                let full = std::mem::replace(&mut table.active, fresh);
                table.frozen.push((generation, full));
            }
        }
        commit.generation = Generation(generation.0 + 1);
        self.log.rotate(commit.generation, commit.sequence);
        let mut queue = self.queue.lock();
        queue.frozen.push(Frozen { generation, last: commit.sequence });
        self.flushed.notify_all();
        true
    }

    fn flush_now(&self) -> Result<()> {
        self.log.check()?;
        let mut commit = self.commit.lock();
        self.freeze(&mut commit);
        let up_to = Generation(commit.generation.0.saturating_sub(1));
        drop(commit);
        if !self.has_threads() {
            self.log.step();
            return self.flush_all();
        }
        let mut queue = self.queue.lock();
        queue.error = None;
        self.flushed.notify_all();
        while queue.frozen.iter().any(|frozen| frozen.generation <= up_to) {
            if let Some(error) = &queue.error {
                return Err(error.clone());
            }
            self.flushed.wait(&mut queue);
        }
        Ok(())
    }

    /// The flush thread: flushes the oldest frozen generation, again and again.
    fn run_flushes(&self) {
        loop {
            let mut queue = self.queue.lock();
            let next = loop {
                match queue.frozen.first() {
                    _ if queue.stop => return,
                    Some(&next) if queue.error.is_none() => break next,
                    Some(_) => {
                        // Failed before: wait a while, or until somebody asks for it.
                        self.flushed.wait_for(&mut queue, Duration::from_millis(FLUSH_RETRY_MS));
                        queue.error = None;
                    }
                    None => self.flushed.wait(&mut queue),
                }
            };
            drop(queue);
            let outcome = self.flush_generation(next);
            let mut queue = self.queue.lock();
            match outcome {
                Ok(()) => queue.frozen.retain(|frozen| frozen.generation != next.generation),
                Err(error) => queue.error = Some(error),
            }
            self.flushed.notify_all();
        }
    }

    /// Flushes all frozen generations on this thread.
    pub(crate) fn flush_all(&self) -> Result<()> {
        loop {
            let next = self.queue.lock().frozen.first().copied();
            let Some(next) = next else { return Ok(()) };
            self.flush_generation(next)?;
            self.queue.lock().frozen.retain(|frozen| frozen.generation != next.generation);
        }
    }

    /// Makes segments of one generation; see [`crate::flush`] for the order of steps.
    fn flush_generation(&self, frozen: Frozen) -> Result<()> {
        let generation = frozen.generation;
        let mut work = Vec::new();
        for table in self.catalog.read().tables.values() {
            for (_, memtable) in table.frozen.iter().filter(|(of, _)| *of == generation) {
                let view = memtable.view(&memtable.read());
                work.push((Arc::clone(&table.schema), view));
            }
        }
        let mut entries: Vec<SegmentEntry> = Vec::new();
        for (schema, view) in work {
            let next_id = || {
                let mut next = self.next_segment.lock();
                *next += 1;
                SegmentId(*next - 1)
            };
            entries.extend(flush_table(self.io.storage.as_ref(), &schema, generation, view, next_id)?);
        }
        // The batches of this generation must be durable before the manifest says where they are: a
        // later generation's WAL may hold less than the sequence the edit names.
        self.log.flush()?;
        let mut manifest = self.manifest.lock();
        // A table may have been dropped meanwhile; its files go with the next opening.
        let known = manifest.state().tables.clone();
        entries.retain(|entry| known.contains_key(&entry.table));
        let mut segments: Vec<(TableId, Arc<Segment>)> = Vec::new();
        for entry in &entries {
            segments.push((entry.table, Arc::new(self.open_segment(entry, &known[&entry.table])?)));
        }
        manifest.append(&Edit::Flush { generation, sequence: frozen.last, segments: entries })?;
        let mut catalog = self.catalog.write();
        for table in catalog.tables.values_mut() {
            table.frozen.retain(|(of, _)| *of != generation);
        }
        for (id, segment) in segments {
            if let Some(table) = catalog.tables.get_mut(&id) {
                Arc::make_mut(&mut table.segments).push(segment);
            }
        }
        drop((catalog, manifest));
        self.io.storage.remove(&frame::file_name(generation))
    }

    /// Opens a segment that the manifest lists or is about to list.
    pub(crate) fn open_segment(&self, entry: &SegmentEntry, schema: &TableSchema) -> Result<Segment> {
        open_segment(&self.io, entry, schema, &self.cache)
    }

    fn view(&self) -> View {
        let catalog = self.catalog.read();
        // All memtables are locked before the first is looked at, so that a batch is seen whole or not.
        let guards: Vec<_> = catalog.tables.values().map(|table| table.active.read()).collect();
        let mut tables = BTreeMap::new();
        for (table, active) in catalog.tables.values().zip(&guards) {
            let frozen = table.frozen.iter().map(|(_, memtable)| memtable.view(&memtable.read()));
            let mut memtables: Vec<_> = frozen.collect();
            memtables.push(table.active.view(active));
            let view = TableView {
                schema: Arc::clone(&table.schema),
                segments: Arc::clone(&table.segments),
                memtables,
                batch_rows: self.settings.scan_batch_rows,
            };
            tables.insert(table.schema.name.clone(), view);
        }
        View { tables, sequence: Sequence(self.applied.load(Ordering::Acquire)) }
    }
}

/// Opens a segment and compares it with its manifest entry.
pub(crate) fn open_segment(io: &Io, entry: &SegmentEntry, schema: &TableSchema, cache: &Arc<Cache>) -> Result<Segment> {
    let name = file_name(entry.table, entry.id);
    let segment = Segment::open(io.storage.as_ref(), &name, entry.id, cache)?;
    let facts = &segment.facts;
    if (facts.table, facts.generation, facts.rows) != (entry.table, entry.generation, entry.rows) {
        return Err(Error::damaged(format!(
            "segment {name} is not the file that the manifest lists; restore it from a backup"
        )));
    }
    // The statistics are those of the numeric fields the file has, in the table's order.
    let stored: Vec<ColumnId> = segment.column_ids().collect();
    let fields = writer::numeric_fields(schema).map(|place| schema.columns[place].id);
    let fields = fields.filter(|id| stored.contains(id)).collect();
    Ok(segment.with_numeric_fields(fields))
}
