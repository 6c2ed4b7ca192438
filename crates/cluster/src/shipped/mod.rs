//! A database that is shipped to a bucket: its segments and the manifests that list them.
//!
//! | object | what it is |
//! |---|---|
//! | `segments/TABLE/ID-CRC.parquet` | a segment. The checksum is part of the name, so that copies of one database never write the same object with other bytes |
//! | `manifest/NUMBER.manifest` | tables and segments of one moment, as a manifest file without edits. Created only if absent, in order |
//! | `pins/NAME` | the number of a manifest that is kept |
//!
//! 1. [`Shipper`] sends the segments that the bucket lacks, and then creates the next manifest. So
//!    the segments of each manifest are there. [`Shipper::at_intervals`] does so on a thread.
//! 2. [`ShippedDatabase`] reads a manifest and its segments as if they were a database directory:
//!    the engine's reader and its restore need nothing else.
//! 3. The folder `outbox` holds only rows that no server has [adopted](crate::adoption) yet. The
//!    server writes to the object `adopted` up to which generation it has adopted them.
//! 4. [`delta`] publishes the tables for other programs, if that is wanted.
//! 5. [`collect_garbage`] drops what no manifest of the last day and no pin lists.

mod at_intervals;
pub mod delta;
mod disk_cache;
mod garbage;
mod outbox;
mod record;
mod ship;
mod storage;

pub use disk_cache::DiskCache;
pub(crate) use garbage::collect;
pub use garbage::{Garbage, HISTORY, collect_garbage};
pub use outbox::DEVICES;
pub(crate) use outbox::Outbox;
pub(crate) use ship::remember;
pub use ship::{Shipment, Shipper, pin, unpin};
pub(crate) use storage::holding;
pub use storage::{Moment, ShippedDatabase, manifests};

use crate::requests::Requests;
use fleetdb_engine::inspect::{self, SegmentEntry, State, segment_file};
use fleetdb_engine::{Code, Error, Result};
use std::time::SystemTime;

pub(crate) const MANIFESTS: &str = "manifest";
const PINS: &str = "pins";
const SEGMENTS: &str = "segments";
/// The folder of what a device hands over, in its prefix.
const OUTBOX: &str = "outbox";
/// In an [`OUTBOX`]: the last generation that was adopted.
const ADOPTED: &str = "adopted";
/// Ends the names of manifests.
const MANIFEST_SUFFIX: &str = ".manifest";
/// The longest name of a pin.
const MAX_PIN_BYTES: usize = 200;

/// A manifest in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Its number.
    pub number: u64,
    /// When it was written, by the clock of the store.
    pub written: SystemTime,
    /// The pins that keep it, by name.
    pub pins: Vec<String>,
}

/// The name of a manifest in the folder of manifests.
fn manifest_file(number: u64) -> String {
    last_part(&manifest_name(number)).to_owned()
}

/// What a name is in its folder.
fn last_part(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, file)| file)
}

fn manifest_number(file: &str) -> Option<u64> {
    file.strip_suffix(MANIFEST_SUFFIX)?.parse().ok()
}

pub(crate) fn manifest_name(number: u64) -> String {
    inspect::manifest_file(number)
}

fn segment_name(entry: &SegmentEntry) -> String {
    let file = segment_file(entry);
    let (stem, suffix) = file.rsplit_once('.').unwrap_or((&file, ""));
    format!("{stem}-{:08x}.{suffix}", entry.crc)
}

fn pin_name(name: &str) -> Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > MAX_PIN_BYTES || name.starts_with('.') || !name.bytes().all(is_plain) {
        return Err(Error::invalid(format!(
            "'{name}' cannot be the name of a pin: use letters, digits, '-', '_' and '.', at most {MAX_PIN_BYTES}"
        )));
    }
    Ok(format!("{PINS}/{name}"))
}

/// The newest manifest's number and when it was written; `None` if there is none after this one.
fn newest_after(requests: &Requests, number: u64) -> Result<Option<(u64, SystemTime)>> {
    let listed = requests
        .wait(move |bucket| async move { bucket.within(MANIFESTS).objects_after(&manifest_file(number)).await })?;
    Ok(listed.iter().filter_map(|object| Some((manifest_number(&object.name)?, object.written))).max())
}

/// The newest manifest's number and when it was written. If the one that is known is gone, because
/// the bucket was emptied, the newest may have a smaller number.
fn newest_from(requests: &Requests, known: u64) -> Result<Option<(u64, SystemTime)>> {
    match newest_after(requests, known.saturating_sub(1))? {
        None if known > 0 => newest_after(requests, 0),
        newest => Ok(newest),
    }
}

/// A manifest that was read.
pub(crate) struct Newest {
    pub(crate) number: u64,
    pub(crate) written: SystemTime,
    pub(crate) bytes: bytes::Bytes,
    pub(crate) state: State,
}

/// Reads the newest manifest; `None` if there is none after this one.
pub(crate) fn read_newest_after(requests: &Requests, number: u64) -> Result<Option<Newest>> {
    let Some((number, written)) = newest_after(requests, number)? else { return Ok(None) };
    let url = requests.url();
    let listed_only = || Error::retry(format!("{url} lists manifest {number}, but does not have it"));
    let bytes = read_manifest(requests, number)?.ok_or_else(listed_only)?;
    let state = state_of(requests, number, &bytes)?;
    Ok(Some(Newest { number, written, bytes, state }))
}

/// Whether a manifest only stands for a database that is not in the bucket yet.
pub(crate) fn is_elsewhere(state: &State) -> bool {
    state.replay_from.is_some_and(|replay_from| replay_from.is_elsewhere)
}

/// The bytes of a manifest.
fn read_manifest(requests: &Requests, number: u64) -> Result<Option<bytes::Bytes>> {
    let read = requests.wait(move |bucket| async move { bucket.read(&manifest_name(number)).await })?;
    Ok(read.map(|(bytes, _)| bytes))
}

/// The state that a manifest holds.
fn state_of(requests: &Requests, number: u64, bytes: &[u8]) -> Result<State> {
    State::from_manifest(&format!("{}/{}", requests.url(), manifest_name(number)), bytes, number)
}

/// The manifest that a pin names.
fn pinned(requests: &Requests, name: &str) -> Result<u64> {
    let object = pin_name(name)?;
    let read = requests.wait(move |bucket| async move { bucket.read(&object).await })?;
    let Some((bytes, _)) = read else {
        return Err(Error::new(Code::Invalid, format!("{} has no pin '{name}'", requests.url())));
    };
    std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        Error::damaged(format!("{}/{PINS}/{name} does not contain the number of a manifest", requests.url()))
    })
}

#[cfg(test)]
#[path = "shipped_tests.rs"]
mod tests;
