//! What an outbox holds: the segments of a database whose rows nobody has adopted yet.
//!
//! Rows are told apart by the generation in which they were flushed. Compaction keeps rows that were sent
//! apart from newer ones ([`Database::keep_apart`](fleetdb_engine::Database::keep_apart)), so a segment of a
//! newer generation has only rows that were not sent. If it has others nevertheless, because the database
//! was reopened in between, these are sent again, which changes nothing where they are adopted.

use super::storage::holding;
use super::{ADOPTED, OUTBOX, newest_after, read_manifest, state_of};
use crate::requests::Requests;
use fleetdb_engine::inspect::{SegmentEntry, State};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Error, Generation, Result};

/// The table of a server that says how far it has adopted each device. It is the server's own, and is not
/// handed over.
pub const DEVICES: &str = "fleetdb_devices";

/// What is sent first: everything.
pub(super) fn first(now: &State) -> State {
    with_segments(now, now.segments.values())
}

/// What is sent after `sent`: its segments that were not adopted, which the database may have merged since,
/// and those of later generations. Gives `sent` if there is nothing new.
pub(super) fn next(sent: &State, adopted: Generation, now: &State) -> State {
    let waiting = sent.segments.values().filter(|entry| entry.generation > adopted);
    let new = now.segments.values().filter(|entry| entry.generation > sent.flushed);
    let next = with_segments(now, waiting.chain(new));
    let is_same = next.segments == sent.segments && next.tables == sent.tables && next.flushed == sent.flushed;
    if is_same { sent.clone() } else { next }
}

/// The state with these segments, but for those of tables that are gone or that are this database's own.
fn with_segments<'a>(now: &State, segments: impl Iterator<Item = &'a SegmentEntry>) -> State {
    let is_sent = |entry: &&SegmentEntry| now.tables.get(&entry.table).is_some_and(|table| table.name != DEVICES);
    State { segments: segments.filter(is_sent).map(|entry| (entry.id, entry.clone())).collect(), ..now.clone() }
}

/// How far what is in the outbox was adopted.
pub(super) fn adopted(requests: &Requests) -> Result<Generation> {
    let read = requests.wait(|bucket| async move { bucket.read(ADOPTED).await })?;
    let Some((bytes, _)) = read else { return Ok(Generation(0)) };
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok());
    number.map(Generation).ok_or_else(|| {
        Error::damaged(format!("{}/{ADOPTED} does not contain the number of a generation", requests.url()))
            .with_hint("Remove the object: rows are then sent until they are adopted again.")
    })
}

/// The outbox of a device, for who adopts it.
pub(crate) struct Outbox(Requests);

impl Outbox {
    /// That of the device whose prefix has this name.
    pub(crate) fn of_device(devices: &Requests, name: &str) -> Self {
        Self(devices.within(name).within(OUTBOX))
    }

    /// The newest manifest and its number, unless that is `known`. It is less if the outbox was emptied.
    pub(crate) fn newer_than(&self, known: u64) -> Result<Option<(u64, State)>> {
        let newest = match newest_after(&self.0, known.saturating_sub(1))? {
            None if known > 0 => newest_after(&self.0, 0)?,
            newest => newest,
        };
        let Some((number, _)) = newest.filter(|(number, _)| *number != known) else { return Ok(None) };
        let bytes = read_manifest(&self.0, number)?;
        let bytes = bytes
            .ok_or_else(|| Error::retry(format!("{} lists manifest {number}, but does not have it", self.0.url())))?;
        Ok(Some((number, state_of(&self.0, number, &bytes)?)))
    }

    /// A database that has these segments of it.
    pub(crate) fn io(&self, state: &State) -> Result<Io> {
        holding(&self.0, state)
    }

    /// Tells the device how far it was adopted.
    pub(crate) fn tell(&self, adopted: Generation) -> Result<()> {
        self.0.wait(|bucket| async move { bucket.write(ADOPTED, adopted.0.to_string().into()).await })
    }
}
