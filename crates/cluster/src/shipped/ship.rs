//! Sends what a database has on disk to a bucket.

use super::delta::Delta;
use super::record::Record;
use super::{
    Newest, OUTBOX, SEGMENTS, manifest_name, outbox, pin_name, read_manifest, read_newest_after, segment_name, state_of,
};
use crate::bucket::{Bucket, Listed, Outcome, sha256};
use crate::requests::Requests;
use bytes::Bytes;
use fleetdb_engine::inspect::{ReplayFrom, SegmentEntry, State};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Checkpoint, Code, Database, Error, Generation, Result};
use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::{Duration, Instant, SystemTime};

/// The length of a part of a large object, and of the largest object that is written at once.
const PART_BYTES: u64 = 5 << 20;

/// What a bucket has of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shipment {
    /// The number of the manifest.
    pub number: u64,
    /// Whether it was written now, and not by an earlier shipment of the same state.
    pub is_new: bool,
    /// Segments that it lists.
    pub segments: usize,
    /// Their size.
    pub bytes: u64,
    /// Size of the segments that were sent now.
    pub sent_bytes: u64,
    /// Whether some rows were not sent, because the outbox is full until a server adopts what it has.
    pub is_held_back: bool,
    /// Why the Delta tables were not published, although everything was sent.
    pub delta_error: Option<Error>,
}

/// Ships one database to one bucket, again and again.
pub struct Shipper {
    requests: Requests,
    io: Io,
    /// What the bucket has; `None` until it is asked, and after an error.
    known: Option<Known>,
    bandwidth: Option<NonZeroU64>,
    is_outbox: bool,
    delta: Option<Delta>,
    mark: Option<Mark>,
}

/// Says where the log goes on after a checkpoint.
pub(crate) type Mark = Box<dyn FnMut(&Checkpoint<'_>) -> ReplayFrom + Send>;

/// Keeps a shipment within a bandwidth.
struct Pace {
    bandwidth: Option<NonZeroU64>,
    begun: Instant,
    sent_bytes: u64,
}

impl Pace {
    /// Counts bytes that were sent, and waits until the bandwidth allows for them.
    fn sent(&mut self, requests: &Requests, bytes: usize) -> Result<()> {
        self.sent_bytes += bytes as u64;
        let Some(bandwidth) = self.bandwidth else { return Ok(()) };
        let due = self.begun + Duration::from_secs_f64(self.sent_bytes as f64 / bandwidth.get() as f64);
        requests.wait(|_| async move {
            tokio::time::sleep_until(due.into()).await;
            Ok(())
        })
    }
}

/// What a bucket has.
struct Known {
    record: Record,
    /// What the newest manifest holds.
    state: Option<State>,
    /// The names of the segments that need not be sent: those that the newest manifest lists, and
    /// those that were sent since it was written.
    segments: HashSet<String>,
}

impl Shipper {
    /// Prepares to ship the database in the directory of `io`. Nothing is sent yet.
    ///
    /// ```
    /// use fleetdb_cluster::{bucket::Bucket, shipped::{Moment, ShippedDatabase, Shipper}};
    /// use fleetdb_engine::{ColumnType, Database, Reader, Settings, TableDefinition, Unit, Value, io::Io};
    /// let (data, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    /// let db = Database::open_with(Io::files(data.path()), Settings::default()).unwrap();
    /// db.create_table(&TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second)).unwrap();
    /// db.container("t", &[Value::Int(1)]).unwrap().append(5, &[]).unwrap();
    /// db.flush().unwrap();
    /// let bucket = Bucket::open(&format!("file://{}", store.path().display())).unwrap();
    /// let mut shipper = Shipper::new(bucket.clone(), Io::files(data.path())).unwrap();
    /// assert_eq!(shipper.ship(&db, |_, _| ()).unwrap().number, 1);
    /// let shipped = ShippedDatabase::open(bucket, &Moment::Newest).unwrap();
    /// let reader = Reader::open(shipped.io(), Settings::default()).unwrap();
    /// assert_eq!(reader.view().table("t").unwrap().count().unwrap(), 1);
    /// ```
    ///
    /// # Errors
    /// The thread for requests cannot be started.
    pub fn new(bucket: Bucket, io: Io) -> Result<Self> {
        let requests = Requests::new(bucket)?;
        Ok(Self { requests, io, known: None, bandwidth: None, is_outbox: false, delta: None, mark: None })
    }

    /// Prepares to hand the rows of the database over to a server that [adopts](crate::adoption)
    /// them. Each row is sent once, with the segment to which it was flushed; what compaction does
    /// later is not. Nothing is sent yet.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn outbox(bucket: &Bucket, io: Io) -> Result<Self> {
        Ok(Self { is_outbox: true, ..Self::new(bucket.within(OUTBOX), io)? })
    }

    /// Also publishes the tables as [Delta tables](super::delta), from the next shipment on. An
    /// outbox has none.
    #[must_use]
    pub fn with_delta(self) -> Self {
        Self { delta: (!self.is_outbox).then(Delta::default), ..self }
    }

    /// Limits the bandwidth, in bytes per second.
    #[must_use]
    pub fn with_bandwidth(self, bandwidth: Option<NonZeroU64>) -> Self {
        Self { bandwidth, ..self }
    }

    /// Ships the database of a cluster's node: `mark` is called before each manifest is written.
    pub(crate) fn of_node(requests: Requests, io: Io, mark: Mark) -> Self {
        Self { requests, io, known: None, bandwidth: None, is_outbox: false, delta: None, mark: Some(mark) }
    }

    /// The requests to its bucket.
    pub(super) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Sends what is on disk and not in the bucket yet. Rows in the log are not sent:
    /// [`flush`](Database::flush) first. `progress` is called with the bytes done and the total
    /// bytes.
    ///
    /// After an error, the next call goes on where this one ended.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the bucket holds another database,
    /// or another copy of this one ships there; [`Code::Busy`] if the store does not answer;
    /// [`Code::Damaged`] if a segment on disk is damaged.
    pub fn ship(&mut self, db: &Database, mut progress: impl FnMut(u64, u64)) -> Result<Shipment> {
        let checkpoint = db.checkpoint();
        let mut known = match self.known.take() {
            Some(known) => known,
            None => {
                let record = Record::read(&self.io, self.requests.url())?;
                self.keep_apart(db, record.flushed);
                self.look(record, &checkpoint.state().database_id)?
            }
        };
        let is_empty = known.state.is_none();
        let outbox = match &known.state {
            _ if !self.is_outbox => None,
            None => Some(outbox::first(checkpoint.state())),
            Some(sent) => {
                self.keep_apart(db, sent.flushed);
                let adopted = if sent.segments.is_empty() {
                    Generation(0)
                } else {
                    outbox::adopted(&self.requests, &sent.database_id)?
                };
                Some(outbox::next(sent, adopted, checkpoint.state()))
            }
        };
        let marked = self.mark.as_mut().map(|mark| {
            let replay_from = Some(mark(&checkpoint));
            State { replay_from, ..checkpoint.state().clone() }
        });
        let state = outbox.as_ref().or(marked.as_ref()).unwrap_or(checkpoint.state());
        let bytes = state.segments.values().map(|entry| entry.bytes).sum();
        let mut shipment = Shipment { segments: state.segments.len(), bytes, ..Shipment::default() };
        if known.state.as_ref() != Some(state) {
            let mut done = 0;
            let mut pace = Pace { bandwidth: self.bandwidth, begun: Instant::now(), sent_bytes: 0 };
            for entry in state.segments.values() {
                let name = segment_name(entry);
                if !known.segments.contains(&name) {
                    self.send(&checkpoint, entry, &name, &mut pace)?;
                    shipment.sent_bytes += entry.bytes;
                    known.segments.insert(name);
                }
                done += entry.bytes;
                progress(done, bytes);
            }
            self.list(&mut known, state)?;
            self.keep_apart(db, state.flushed);
            shipment.is_new = true;
        }
        shipment.number = known.record.number;
        shipment.is_held_back = state.flushed < checkpoint.state().flushed;
        self.known = Some(known);
        if let Some(delta) = &mut self.delta {
            if is_empty {
                *delta = Delta::default();
            }
            shipment.delta_error = delta.publish(&self.requests, &checkpoint).err();
        }
        Ok(shipment)
    }

    fn keep_apart(&self, db: &Database, sent: Generation) {
        if self.is_outbox {
            db.keep_apart(sent);
        }
    }

    /// Looks what the bucket has, and whether this database may ship there.
    fn look(&self, mut record: Record, database_id: &str) -> Result<Known> {
        let url = self.requests.url();
        let Some(Newest { number, written, bytes, state }) = read_newest_after(&self.requests, 0)? else {
            // What was tried may arrive yet. An emptied bucket is a new one.
            let record = if record.number == 0 { record } else { Record::default() };
            return Ok(Known { record, state: None, segments: self.sent_after(None)? });
        };
        if state.database_id != database_id {
            return Err(Error::invalid(format!("{url} contains another database: choose another prefix")));
        }
        let sum = sha256(&bytes);
        let is_last = number == record.number && sum == record.sum;
        let was_tried = number == record.number + 1 && record.tried.contains(&sum);
        if was_tried {
            record = Record::of(number, sum, state.flushed);
            record.write(&self.io, url)?;
        } else if !is_last {
            return Err(of_a_copy(url, number));
        }
        let mut segments = self.sent_after(Some(written))?;
        segments.extend(names_of(&state));
        Ok(Known { record, state: Some(state), segments })
    }

    /// The names of the segments that were sent after this time, by the clock of the store.
    fn sent_after(&self, time: Option<SystemTime>) -> Result<HashSet<String>> {
        let objects = self.requests.wait(|bucket| async move { bucket.within(SEGMENTS).objects().await })?;
        let is_after = |object: &Listed| time.is_none_or(|time| object.written > time);
        Ok(objects.into_iter().filter(is_after).map(|object| format!("{SEGMENTS}/{}", object.name)).collect())
    }

    /// Sends a segment. If the same bytes are there already, they become new again, so that they
    /// are not taken for garbage of before the newest manifest.
    fn send(&self, checkpoint: &Checkpoint<'_>, entry: &SegmentEntry, name: &str, pace: &mut Pace) -> Result<()> {
        let file = checkpoint.file(entry)?;
        let mut crc = 0;
        let mut part = |at: u64| -> Result<Bytes> {
            let bytes = file.read_at(at, PART_BYTES.min(entry.bytes - at) as usize)?;
            crc = crc32c::crc32c_append(crc, &bytes);
            if at + bytes.len() as u64 == entry.bytes && crc != entry.crc {
                return Err(Error::damaged(format!(
                    "the segment {} differs from its checksum in the manifest and is not shipped",
                    fleetdb_engine::inspect::segment_file(entry)
                ))
                .with_hint("'fleetdb check' shows all damage; restore the file from a backup."));
            }
            Ok(bytes)
        };
        let name = name.to_owned();
        if entry.bytes <= PART_BYTES {
            let bytes = part(0)?;
            let len = bytes.len();
            self.requests.wait(|bucket| async move { bucket.write(&name, bytes).await })?;
            return pace.sent(&self.requests, len);
        }
        let mut upload = self.requests.wait(|bucket| async move { bucket.upload(&name).await })?;
        for at in (0..entry.bytes).step_by(PART_BYTES as usize) {
            let bytes = match part(at) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.requests.wait(|_| async move { upload.give_up().await })?;
                    return Err(error);
                }
            };
            let len = bytes.len();
            upload = self.requests.wait(|_| async move { upload.send(bytes).await.map(|()| upload) })?;
            pace.sent(&self.requests, len)?;
        }
        self.requests.wait(|_| async move { upload.finish().await })
    }

    /// Writes the next manifest.
    fn list(&self, known: &mut Known, state: &State) -> Result<()> {
        let url = self.requests.url();
        loop {
            let number = known.record.number + 1;
            let bytes = Bytes::from(state.to_manifest(number)?);
            let sum = sha256(&bytes);
            // Before it is written: if the answer is lost, it is known later that it was this database.
            if !known.record.tried.contains(&sum) {
                known.record.tried.push(sum.clone());
                known.record.write(&self.io, url)?;
            }
            let name = manifest_name(number);
            if self.requests.wait(|bucket| async move { bucket.claim(&name, &bytes).await })? {
                known.record = Record::of(number, sum, state.flushed);
                known.record.write(&self.io, url)?;
                known.segments = names_of(state).collect();
                known.state = Some(state.clone());
                return Ok(());
            }
            // An earlier try may have been done since.
            let found = read_manifest(&self.requests, number)?.ok_or_else(|| of_a_copy(url, number))?;
            let sum = sha256(&found);
            if !known.record.tried.contains(&sum) {
                return Err(of_a_copy(url, number));
            }
            let tried = state_of(&self.requests, number, &found)?;
            known.record = Record::of(number, sum, tried.flushed);
            known.record.write(&self.io, url)?;
        }
    }
}

/// The names of the segments that a manifest lists.
fn names_of(state: &State) -> impl Iterator<Item = String> {
    state.segments.values().map(segment_name)
}

fn of_a_copy(url: &str, number: u64) -> Error {
    Error::new(Code::Invalid, format!("{url} contains manifest {number}, which this directory has not written"))
        .with_hint("Another copy of this database ships there: choose another prefix for this one.")
}

/// Keeps a manifest and its segments until [`unpin`].
///
/// # Errors
/// There is no such manifest, the name is taken or invalid, or the store does not answer.
pub fn pin(bucket: &Bucket, name: &str, number: u64) -> Result<()> {
    let (requests, object) = (Requests::new(bucket.clone())?, pin_name(name)?);
    let taken = requests.wait(|bucket| async move { bucket.create(&object, number.to_string().into()).await })?;
    if taken == Outcome::Refused {
        let kept = super::pinned(&requests, name)?;
        if kept != number {
            return Err(Error::invalid(format!("{} has a pin '{name}' already, of manifest {kept}", bucket.url())));
        }
    }
    match read_manifest(&requests, number)? {
        Some(_) => Ok(()),
        None => {
            unpin(bucket, name)?;
            Err(Error::invalid(format!("{} has no manifest {number}", bucket.url())))
        }
    }
}

/// Drops a pin, if there is one. What it kept goes with the next
/// [`collect_garbage`](super::collect_garbage).
///
/// # Errors
/// The name is invalid, or the store does not answer.
pub fn unpin(bucket: &Bucket, name: &str) -> Result<()> {
    let object = pin_name(name)?;
    Requests::new(bucket.clone())?.wait(|bucket| async move { bucket.delete(vec![object]).await })
}

/// Lets a restored directory go on shipping where it came from. A copy that ships there already is
/// then refused.
pub(crate) fn remember(io: &Io, url: &str, number: u64, manifest: &[u8]) -> Result<()> {
    let flushed = State::from_manifest(url, manifest, number)?.flushed;
    Record::of(number, sha256(manifest), flushed).write(io, url)
}
