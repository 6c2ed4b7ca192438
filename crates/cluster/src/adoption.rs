//! Adopts what devices hand over: a server takes the rows of their outboxes into its own tables.
//!
//! Each device ships to a prefix of its own below a common one
//! ([`Shipper::outbox`](crate::shipped::Shipper)).
//!
//! 1. The table [`DEVICES`] says for each device up to which generation its rows were adopted.
//! 2. [`Adopter::adopt`] reads the segments of later generations that the newest manifest of an
//!    outbox lists, as a database that holds only these. It commits their rows in batches. The last
//!    batch also has the new row of [`DEVICES`] and is synced. After a crash before that batch,
//!    the rows are written again. They replace themselves: they have the same primary keys.
//! 3. Then [`Adopter::adopt`] writes the generation to the object `adopted` in the outbox. The next
//!    manifest of the device does not list these segments.
//!
//! Tables and columns that the server lacks are created as the device has them, without its
//! retention. DELETEs and the retention of a device change nothing on the server.

use crate::bucket::Bucket;
use crate::intervals::IntervalThread;
use crate::lock;
use crate::requests::{Requests, Stop};
use crate::shipped::{DEVICES, Outbox};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use fleetdb_engine::inspect::{SegmentEntry, State};
use fleetdb_engine::{
    Adopting, Batch, Code, Column, ColumnDefinition, ColumnType, Database, Durability, Error, Generation, Reader,
    Result, Role, Rows, ScanRequest, Settings, TableDefinition, TableSchema, Unit, Value,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

/// How many devices are adopted at a time, if there is memory for them.
const AT_A_TIME: usize = 4;
/// With less memory for queries than this, devices are adopted one after another.
const LITTLE_MEMORY_BYTES: usize = 256 << 20;
/// How long a manifest that was adopted is not looked at again, as long as it is the newest.
const SEEN_FOR: Duration = Duration::from_secs(3600);
/// How many segments are read at once.
const SEGMENTS_AT_ONCE: usize = 8;
/// The memory that reading takes for each segment, and for each of its columns.
const SEGMENT_BYTES: usize = 48 << 10;
const COLUMN_BYTES: usize = 32 << 10;
/// The memory that reading takes besides that.
const READER_BYTES: usize = 4 << 20;

/// What was adopted in one pass.
#[derive(Debug, Default)]
pub struct Adoption {
    /// Devices that had something new.
    pub devices: usize,
    /// Their rows.
    pub rows: u64,
    /// The devices whose rows could not be adopted, and why.
    pub failed: Vec<(String, Error)>,
}

/// What is known of a device, as the table [`DEVICES`] has it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Device {
    name: String,
    /// Identifies its database.
    database_id: String,
    /// The number of the manifest that was adopted last, and its SHA-256.
    manifest: u64,
    sum: String,
    /// The last generation that was adopted.
    generation: Generation,
    /// Rows that were adopted so far.
    rows: u64,
    /// When, in microseconds since 1970.
    adopted_us: Option<i64>,
    error: Option<String>,
}

/// Adopts the rows of all devices below a prefix.
pub struct Adopter {
    requests: Requests,
    /// When the manifest of each device that was adopted last was written, and when it was looked at.
    seen: Mutex<HashMap<String, (SystemTime, Instant)>>,
    /// How many devices are adopted at a time.
    at_a_time: usize,
}

impl Adopter {
    /// Prepares to adopt from the prefixes below that of the bucket.
    ///
    /// ```
    /// use fleetdb_cluster::{adoption::Adopter, bucket::Bucket, shipped::Shipper};
    /// use fleetdb_engine::{ColumnType, Database, Settings, TableDefinition, Unit, Value, io::Io};
    /// let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    /// let [device, server] = [0, 1].map(|n| Database::open(folders[n].path()).unwrap());
    /// device.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// device.container("t", &[Value::Int(1)]).unwrap().append(5, &[]).unwrap();
    /// device.flush().unwrap();
    /// let bucket = Bucket::open(&format!("file://{}", folders[2].path().display())).unwrap();
    /// let io = Io::files(folders[0].path());
    /// Shipper::outbox(&bucket.within("device-1"), io).unwrap().ship(&device, |_, _| ()).unwrap();
    /// let adopted = Adopter::new(bucket).unwrap().adopt(&server).unwrap();
    /// assert_eq!((adopted.devices, adopted.rows), (1, 1));
    /// assert_eq!(server.view().table("t").unwrap().count().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// The thread for requests cannot be started.
    pub fn new(bucket: Bucket) -> Result<Self> {
        Ok(Self { requests: Requests::new(bucket)?, seen: Mutex::default(), at_a_time: AT_A_TIME })
    }

    pub(crate) fn stop(&self) -> Stop {
        self.requests.stop()
    }

    /// Where the devices are.
    pub fn url(&self) -> &str {
        self.requests.url()
    }

    /// Starts a thread that adopts what is new, now and then at intervals. The log reports each new
    /// error of a device, and the table [`DEVICES`] has it. The thread does not keep the database
    /// open between two passes.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn at_intervals(self, db: Weak<Database>, interval: Duration) -> Result<IntervalThread> {
        let stop = self.stop();
        let (mut known, mut adopting) = (HashMap::new(), Adopting::default());
        let work = move || {
            let Some(db) = db.upgrade() else { return false };
            let begun_ns = db.now_ns();
            let adopted = self.adopt(&db);
            if self.stop().is_stopped() {
                return false;
            }
            let failed = match adopted {
                Ok(adoption) => {
                    adopting.looked_ns = Some(begun_ns);
                    adopting.rows += adoption.rows;
                    adopting.failing = adoption.failed.len() as u64;
                    adopting.error = None;
                    adoption.failed
                }
                Err(error) => {
                    adopting.error = Some(error.clone());
                    vec![(String::new(), error)]
                }
            };
            db.note_adopting(adopting.clone());
            // Each reason once: an outage may last for days.
            for (name, error) in failed.iter().filter(|(name, error)| known.get(name) != Some(error)) {
                tracing::warn!("could not adopt from {}/{name}: {error}", self.url());
            }
            known = failed.into_iter().collect();
            true
        };
        IntervalThread::start("fleetdb-adopt", stop, interval, work)
    }

    /// Adopts what is new, device by device. If one fails, the others are adopted all the same.
    ///
    /// # Errors
    /// The store does not list the devices, or the table [`DEVICES`] cannot be read or created.
    pub fn adopt(&self, db: &Database) -> Result<Adoption> {
        let names = self.requests.wait(|bucket| async move { bucket.folders().await })?;
        let known = known_devices(db)?;
        let own_id = db.checkpoint().state().database_id.clone();
        let (names, done) = (Mutex::new(names.into_iter()), Mutex::new(Adoption::default()));
        let next = || lock(&names).next();
        let work = || {
            while let Some(name) = next() {
                let before = known.get(&name).cloned().unwrap_or(Device { name, ..Device::default() });
                // A fault of this program must not keep the other devices from being adopted.
                let adopted = catch_unwind(AssertUnwindSafe(|| self.adopt_device(db, &own_id, &before)));
                let adopted = adopted.unwrap_or_else(|_| Err(Error::bug("adopting its rows panicked; see the log")));
                let mut done = lock(&done);
                match adopted {
                    Ok(None) => {}
                    Ok(Some(rows)) => {
                        done.devices += 1;
                        done.rows += rows;
                    }
                    Err(error) => done.failed.push((before.name.clone(), error)),
                }
            }
        };
        let has_little = db.query_memory().limit_bytes() < LITTLE_MEMORY_BYTES;
        let threads = if has_little { 1 } else { self.at_a_time };
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !self.stop().is_stopped() {
            note_errors(db, &done.failed)?;
        }
        Ok(done)
    }

    /// Adopts what a device has beyond `before`; gives the number of rows, or `None` if there is
    /// nothing new.
    fn adopt_device(&self, db: &Database, own_id: &str, before: &Device) -> Result<Option<u64>> {
        if !Bucket::takes_name(&before.name) {
            return Err(Error::invalid("the name of this device has characters that a prefix must not have"));
        }
        let outbox = Outbox::of_device(&self.requests, &before.name);
        let Some((number, written)) = outbox.newest(before.manifest)? else { return Ok(None) };
        if number == before.manifest && self.was_seen(&before.name, written) {
            return Ok(None);
        }
        let (sum, state) = outbox.manifest(number)?;
        if number == before.manifest && sum == before.sum {
            self.tell(&outbox, before, written)?;
            return Ok(None);
        }
        if state.database_id == own_id {
            return Err(Error::invalid("this is the outbox of the server itself: it would adopt its own rows"));
        }
        let is_known = before.database_id == state.database_id;
        let known = if is_known { before.generation } else { Generation(0) };
        let told = outbox.told(&state.database_id)?;
        if told > known {
            return Err(Error::invalid(format!(
                "the rows of this device were adopted up to generation {}, but this server has them up to {}: another \
                 server adopts them, or this one was restored from a backup",
                told.0, known.0
            ))
            .with_hint("Stop the device, delete the objects below 'outbox/' in its prefix, and start the device."));
        }
        // If the last manifest is gone, the outbox was emptied, and the device may be one that was
        // restored. Then its generations may have other rows. Rows that are known replace themselves.
        let is_continued = is_known && (before.manifest == 0 || outbox.still_has(before.manifest, &before.sum)?);
        let done = if is_continued { known } else { Generation(0) };
        let after = Device {
            name: before.name.clone(),
            database_id: state.database_id.clone(),
            manifest: number,
            sum,
            generation: state.flushed,
            rows: before.rows,
            adopted_us: Some(db.now_ns() / 1_000),
            error: None,
        };
        let before = Device { generation: done, database_id: state.database_id.clone(), ..before.clone() };
        // Another error must not undo what this pass has done.
        let before = if is_continued { before } else { Device { manifest: 0, sum: String::new(), ..before } };
        let rows = self.take(db, &outbox, state, &before, &after)?;
        self.tell(&outbox, &after, written)?;
        Ok(Some(rows))
    }

    /// Commits the rows of a state beyond `before`, a few segments at a time, each time with how
    /// far it is. With the last of them, the device is as in `after`.
    fn take(&self, db: &Database, outbox: &Outbox, mut state: State, before: &Device, after: &Device) -> Result<u64> {
        let mut segments: Vec<SegmentEntry> = std::mem::take(&mut state.segments).into_values().collect();
        // What the device has deleted, and its retention, hide nothing.
        state.deletes.clear();
        state.tables.values_mut().for_each(|table| table.retention_seconds = None);
        segments.retain(|entry| entry.generation > before.generation && state.tables.contains_key(&entry.table));
        segments.retain(|entry| state.tables[&entry.table].name != DEVICES);
        segments.sort_unstable_by_key(|entry| (entry.generation, entry.id));
        let wanted = |table: &&TableSchema| segments.iter().any(|entry| entry.table == table.id);
        let tables: Vec<&TableSchema> = state.tables.values().filter(wanted).collect();
        for table in &tables {
            prepare(db, table)?;
        }
        let columns = tables.iter().map(|table| table.columns.len()).max().unwrap_or(0);
        let needed = READER_BYTES + SEGMENTS_AT_ONCE * (SEGMENT_BYTES + columns * COLUMN_BYTES);
        let memory = db.query_memory().reserve("adopting the rows of a device", needed);
        let _memory = memory.map_err(|_| {
            Error::retry("there was not enough memory to adopt its rows")
                .with_hint("It is tried again; if it stays so, raise memory_limit.")
        })?;
        let mut rows = 0;
        let mut rest = segments.as_slice();
        loop {
            let (now, later) = rest.split_at(SEGMENTS_AT_ONCE.min(rest.len()));
            rest = later;
            let generation = match later.first() {
                // Some rows of this generation may be among those that come later.
                Some(next) => Generation(next.generation.0 - 1),
                None => after.generation,
            };
            let segments = now.iter().map(|entry| (entry.id, entry.clone())).collect();
            let (taken, last) = self.commit(db, outbox, &State { segments, ..state.clone() }, needed)?;
            rows += taken;
            let is_last = later.is_empty();
            let reached = if is_last { after } else { before };
            let device = Device { generation, rows: before.rows + rows, error: None, ..reached.clone() };
            db.commit(last.with_rows(row_of(db, &device)?).with_durability(Durability::Sync))?;
            if is_last {
                return Ok(rows);
            }
        }
    }

    /// Commits the rows of a state, except the last ones, which it gives with the number of all.
    fn commit(&self, db: &Database, outbox: &Outbox, state: &State, needed: usize) -> Result<(u64, Batch)> {
        let (mut rows, mut last) = (0, Batch::new());
        if state.segments.is_empty() {
            return Ok((rows, last));
        }
        // The reader has no memtables, and queries may use three quarters of what is left.
        let edge = Settings::edge();
        let memory_limit = edge.memory_limit.max(needed / 3 * 4 + (2 << 20));
        let settings = Settings { memory_limit, memtable_bytes: 64 << 10, cache_bytes: 1 << 20, ..edge };
        let reader = Reader::open(outbox.io(state)?, settings)?;
        let view = reader.view();
        for table in state.tables.values().filter(|table| state.segments_of(table.id).next().is_some()) {
            for batch in view.table(&table.name)?.scan(&ScanRequest::all())? {
                let batch = batch?;
                rows += batch.num_rows() as u64;
                let before = std::mem::replace(&mut last, Batch::new().with(&table.name, batch));
                if !before.is_empty() {
                    db.commit(before)?;
                }
                if self.stop().is_stopped() {
                    return Err(Error::closed("adopting was stopped"));
                }
            }
        }
        Ok((rows, last))
    }

    /// Whether the manifest of this time was adopted, and the device told so, not long ago.
    fn was_seen(&self, name: &str, written: SystemTime) -> bool {
        lock(&self.seen).get(name).is_some_and(|(of, at)| *of == written && at.elapsed() < SEEN_FOR)
    }

    /// Tells a device how far it was adopted, with its manifest of this time.
    fn tell(&self, outbox: &Outbox, device: &Device, written: SystemTime) -> Result<()> {
        outbox.tell(&device.database_id, device.generation)?;
        lock(&self.seen).insert(device.name.clone(), (written, Instant::now()));
        Ok(())
    }
}

/// Creates a device's table, or the columns of it that are missing.
fn prepare(db: &Database, table: &TableSchema) -> Result<()> {
    let define = |column: &Column| ColumnDefinition {
        name: column.name.clone(),
        column_type: column.column_type,
        nullable: column.nullable,
        default: None,
    };
    let created = match db.table(&table.name) {
        Ok(own) => own,
        Err(error) if error.code() == Code::UndefinedTable => {
            let definition = TableDefinition {
                name: table.name.clone(),
                columns: table.columns.iter().map(define).collect(),
                primary_key: table.key.iter().chain(&table.time).map(|&at| table.columns[at].name.clone()).collect(),
                merge: table.merge,
                ..TableDefinition::default()
            };
            match db.create_table(&definition) {
                // Another device was faster.
                Err(error) if error.code() == Code::DuplicateTable => db.table(&table.name)?,
                created => created?,
            }
        }
        Err(error) => return Err(error),
    };
    // First: what is added to a primary key cannot be taken away.
    check_fit(&created, table)?;
    for column in table.columns.iter().filter(|column| created.find(&column.name).is_none()) {
        // Rows that are there already have no value.
        let definition = ColumnDefinition { nullable: true, ..define(column) };
        match db.add_column(&table.name, &definition, column.role) {
            Err(error) if error.code() == Code::DuplicateColumn => {}
            added => drop(added?),
        }
    }
    check_fit(&*db.table(&table.name)?, table)
}

/// Checks that rows of a device's table stay apart, and are merged, in the server's table as in the
/// device's.
fn check_fit(own: &TableSchema, table: &TableSchema) -> Result<()> {
    let wrong = |what: String| Err(Error::invalid(format!("table '{}' of the device {what}", table.name)));
    let column = |schema: &TableSchema, name: &str| schema.find(name).map(|place| schema.columns[place].clone());
    for of_device in &table.columns {
        let Some(here) = column(own, &of_device.name) else { continue };
        if here.role != of_device.role {
            let part = |role: Role| if role == Role::Field { "not in" } else { "in" };
            return wrong(format!(
                "has the column '{}' {} its primary key, but it is {} that of the server",
                here.name,
                part(of_device.role),
                part(here.role)
            ));
        }
        if let (Some(finer), Some(coarser)) = (of_device.column_type.time_unit(), here.column_type.time_unit())
            && here.role != Role::Field
            && coarser.per_second() < finer.per_second()
        {
            return wrong(format!("counts the time '{}' in a smaller unit than that of the server", here.name));
        }
    }
    if own.time.is_some() != table.time.is_some()
        || own.time.is_some_and(|time| table.find(&own.columns[time].name).is_none())
    {
        return wrong("has another time column than that of the server".to_owned());
    }
    if own.merge != table.merge {
        return wrong(format!("has merge = '{}', but that of the server '{}'", table.merge, own.merge));
    }
    Ok(())
}

/// The table of the devices, which is created first.
fn devices_table(db: &Database) -> Result<Arc<TableSchema>> {
    match db.table(DEVICES) {
        Err(error) if error.code() == Code::UndefinedTable => {
            let table = TableDefinition::new(DEVICES).key("device", ColumnType::Utf8);
            let table = table.field("database", ColumnType::Utf8).field("manifest", ColumnType::Int64);
            let table = table.field("sum", ColumnType::Utf8);
            let table = table.field("generation", ColumnType::Int64).field("rows", ColumnType::Int64);
            let zoned = ColumnType::TimestampUtc(Unit::Microsecond);
            db.create_table(&table.field("adopted", zoned).field("error", ColumnType::Utf8))
        }
        found => found,
    }
}

fn known_devices(db: &Database) -> Result<HashMap<String, Device>> {
    devices_table(db)?;
    let mut known = HashMap::new();
    for batch in db.view().table(DEVICES)?.scan(&ScanRequest::all())? {
        let batch = batch?;
        for device in devices_of(&batch)? {
            known.insert(device.name.clone(), device);
        }
    }
    Ok(known)
}

fn devices_of(batch: &RecordBatch) -> Result<Vec<Device>> {
    let column = |name: &str, wanted: &DataType| {
        let found = batch.column_by_name(name);
        let found = found.ok_or_else(|| Error::invalid(format!("table '{DEVICES}' has no column '{name}'")))?;
        Ok::<_, Error>(cast(found, wanted)?)
    };
    let texts = ["device", "database", "sum", "error"].map(|name| column(name, &DataType::Utf8));
    let [name, database, sum, error] = texts;
    let (name, database, sum, error) = (name?, database?, sum?, error?);
    let text = |column: &dyn Array, row: usize| {
        let column = column.as_string::<i32>();
        column.is_valid(row).then(|| column.value(row).to_owned())
    };
    let [manifest, generation, rows, adopted] =
        ["manifest", "generation", "rows", "adopted"].map(|name| column(name, &DataType::Int64));
    let (manifest, generation, rows, adopted) = (manifest?, generation?, rows?, adopted?);
    let number = |column: &dyn Array, row: usize| {
        let column = column.as_primitive::<Int64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let count = |column: &dyn Array, row: usize| number(column, row).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    let device = |row: usize| Device {
        name: text(&name, row).unwrap_or_default(),
        database_id: text(&database, row).unwrap_or_default(),
        manifest: count(&manifest, row),
        sum: text(&sum, row).unwrap_or_default(),
        generation: Generation(count(&generation, row)),
        rows: count(&rows, row),
        adopted_us: number(&adopted, row),
        error: text(&error, row),
    };
    Ok((0..batch.num_rows()).map(device).collect())
}

/// A row of [`DEVICES`].
fn row_of(db: &Database, device: &Device) -> Result<Rows> {
    let schema = devices_table(db)?;
    let mut rows = Rows::new(&schema);
    let int = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let given = |name: &str| match name {
        "device" => Value::from(device.name.as_str()),
        "database" => Value::from(device.database_id.as_str()),
        "manifest" => int(device.manifest),
        "sum" => Value::from(device.sum.as_str()),
        "generation" => int(device.generation.0),
        "rows" => int(device.rows),
        "adopted" => device.adopted_us.map_or(Value::Null, Value::Int),
        "error" => device.error.as_deref().map_or(Value::Null, Value::from),
        _ => Value::Null,
    };
    let values: Vec<Value> = schema.columns.iter().map(|column| given(&column.name)).collect();
    rows.push(&values)?;
    Ok(rows)
}

/// Records why devices failed, where that is not known yet.
fn note_errors(db: &Database, failed: &[(String, Error)]) -> Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    // A device may have failed after its rows were adopted.
    let known = known_devices(db)?;
    for (name, error) in failed {
        let device = known.get(name).cloned().unwrap_or(Device { name: name.clone(), ..Device::default() });
        let error = Some(error.to_string());
        if device.error != error {
            db.commit(Batch::new().with_rows(row_of(db, &Device { error, ..device })?))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "adoption_tests.rs"]
mod tests;
