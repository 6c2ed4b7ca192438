//! What an outbox holds: the segments of a device that no server has adopted yet.
//!
//! The generation in which a row was flushed says whether it was sent. Compaction keeps rows that
//! were sent apart from later ones: see [`keep_apart`](fleetdb_engine::Database::keep_apart). So a
//! segment of a newer generation has only rows that were not sent. A merge between the opening and
//! the first shipment may break this. Then rows are sent again, and replace themselves.

use super::storage::holding;
use super::{ADOPTED, OUTBOX, newest_from, read_manifest, state_of};
use crate::bucket::sha256;
use crate::requests::Requests;
use fleetdb_engine::inspect::{SegmentEntry, State};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Error, Generation, Result};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The table of a server that says how far it has adopted each device. It is the server's own, and
/// is not handed over.
pub const DEVICES: &str = "fleetdb_devices";

/// With this many segments that nobody has adopted yet, nothing is added. Meanwhile the device
/// merges what it has not sent.
const MAX_WAITING: usize = 64;

/// What is sent first: everything.
pub(super) fn first(now: &State) -> State {
    with_segments(now, now.segments.values())
}

/// What is sent after `sent`: its segments that were not adopted, which the database may have merged
/// since, and those of later generations. Gives `sent` if there is nothing new.
pub(super) fn next(sent: &State, adopted: Generation, now: &State) -> State {
    let waits = |entry: &&SegmentEntry| entry.generation > adopted && is_handed_over(now, entry);
    let is_full = sent.segments.values().filter(waits).count() >= MAX_WAITING;
    let is_new = |entry: &&SegmentEntry| !is_full && entry.generation > sent.flushed;
    let mut next = with_segments(now, sent.segments.values().filter(waits).chain(now.segments.values().filter(is_new)));
    if is_full {
        (next.flushed, next.flushed_sequence) = (sent.flushed, sent.flushed_sequence);
    }
    let is_same = next.segments == sent.segments && next.tables == sent.tables && next.flushed == sent.flushed;
    if is_same { sent.clone() } else { next }
}

/// Whether a segment's table is there, and is not this database's own.
fn is_handed_over(now: &State, entry: &SegmentEntry) -> bool {
    now.tables.get(&entry.table).is_some_and(|table| table.name != DEVICES)
}

/// The state with those of these segments that are handed over.
fn with_segments<'a>(now: &State, segments: impl Iterator<Item = &'a SegmentEntry>) -> State {
    let segments = segments.filter(|entry| is_handed_over(now, entry));
    let segments = segments.map(|entry| (entry.id, entry.clone())).collect();
    // A delete must not reach rows that nobody has adopted yet.
    State { segments, deletes: BTreeMap::new(), ..now.clone() }
}

/// How far the rows of this database were adopted from the outbox.
pub(super) fn adopted(requests: &Requests, database_id: &str) -> Result<Generation> {
    let read = requests.wait(|bucket| async move { bucket.read(ADOPTED).await })?;
    let Some((bytes, _)) = read else { return Ok(Generation(0)) };
    let told = std::str::from_utf8(&bytes).ok().and_then(|text| {
        let (id, generation) = text.trim().split_once(' ')?;
        Some((id.to_owned(), Generation(generation.parse().ok()?)))
    });
    match told {
        Some((id, generation)) if id == database_id => Ok(generation),
        // What was there before the outbox was emptied.
        Some(_) => Ok(Generation(0)),
        None => Err(Error::damaged(format!(
            "{}/{ADOPTED} does not contain the id of a database and the number of a generation",
            requests.url()
        ))
        .with_hint("Remove the object: rows are then sent until they are adopted again.")),
    }
}

/// The outbox of a device, as its server sees it.
pub(crate) struct Outbox(Requests);

impl Outbox {
    /// That of the device whose prefix has this name.
    pub(crate) fn of_device(devices: &Requests, name: &str) -> Self {
        Self(devices.within(name).within(OUTBOX))
    }

    /// The number of the newest manifest, and when it was written; `None` if there is none.
    pub(crate) fn newest(&self, known: u64) -> Result<Option<(u64, SystemTime)>> {
        newest_from(&self.0, known)
    }

    /// The SHA-256 of a manifest that was listed, and what it holds.
    pub(crate) fn manifest(&self, number: u64) -> Result<(String, State)> {
        let bytes = read_manifest(&self.0, number)?;
        let missing = || Error::retry(format!("{} lists manifest {number}, but does not have it", self.0.url()));
        let bytes = bytes.ok_or_else(missing)?;
        Ok((sha256(&bytes), state_of(&self.0, number, &bytes)?))
    }

    /// Whether the manifest with this number is there and has this SHA-256.
    pub(crate) fn still_has(&self, number: u64, sum: &str) -> Result<bool> {
        Ok(read_manifest(&self.0, number)?.is_some_and(|bytes| sha256(&bytes) == sum))
    }

    /// A database that has these segments of it.
    pub(crate) fn io(&self, state: &State) -> Result<Io> {
        holding(&self.0, state)
    }

    /// How far the device knows that a database was adopted.
    pub(crate) fn told(&self, database_id: &str) -> Result<Generation> {
        adopted(&self.0, database_id)
    }

    /// Tells the device how far its database was adopted.
    pub(crate) fn tell(&self, database_id: &str, adopted: Generation) -> Result<()> {
        let text = format!("{database_id} {}", adopted.0);
        self.0.wait(|bucket| async move { bucket.write(ADOPTED, text.into()).await })
    }
}
