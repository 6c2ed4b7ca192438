//! The log in the bucket: numbered objects, each created only if its number is free.
//!
//! An object holds a piece of a WAL file, changed definitions, or both; or it closes the log of its
//! epoch. Its bytes: magic `FLEETLOG`, format version 4, length of the header 4, the header as
//! JSON, the piece, and the CRC32C of all that. `docs/format.md` has the details.

use super::LOG;
use super::definitions::Redefined;
use crate::requests::Requests;
use bytes::Bytes;
use fleetdb_engine::{Error, Generation, Result};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 8] = b"FLEETLOG";
/// The version of the format that is written.
const FORMAT: u32 = 1;
const PREFIX_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
/// Objects that are read at a time.
const READS: usize = 16;

/// The place of an object: its epoch, and its number in the log of this epoch.
pub(super) type Place = (u64, u64);

/// An object of the log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LogObject {
    pub(super) header: Header,
    /// Bytes of a WAL file.
    pub(super) piece: Bytes,
}

/// What an object is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The database, so that objects of another one are noticed.
    pub(super) database_id: String,
    /// Its place.
    pub(super) place: Place,
    /// The WAL file of the piece, and where the piece begins in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<(Generation, u64)>,
    /// What was redefined before the batches of the piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) redefined: Option<Redefined>,
    /// The epoch whose owner has closed the log here, and its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) closed_by: Option<(u64, String)>,
}

pub(super) fn name((epoch, number): Place) -> String {
    format!("{}/{number:016}", folder(epoch))
}

fn folder(epoch: u64) -> String {
    format!("{LOG}/{epoch:016}")
}

impl LogObject {
    pub(super) fn encode(&self) -> Result<Bytes> {
        let header = serde_json::to_vec(&self.header).map_err(|e| Error::bug(format!("a log object: {e}")))?;
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + header.len() + self.piece.len() + CRC_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.piece);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        Ok(bytes.into())
    }

    /// `name` is for messages.
    pub(super) fn decode(name: &str, bytes: &Bytes) -> Result<Self> {
        let damaged = |what: &str| Error::damaged(format!("{name} is not a readable log object: {what}"));
        let checked = bytes.len().checked_sub(CRC_BYTES).filter(|len| *len >= PREFIX_BYTES);
        let checked = checked.filter(|_| bytes.starts_with(MAGIC)).ok_or_else(|| damaged("it has no header"))?;
        let word = |at: usize| bytes[at..at + 4].iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        if word(8) > FORMAT {
            return Err(Error::invalid(format!(
                "{name} has format {}, but this program reads {FORMAT}: use a newer version of FleetDB",
                word(8)
            )));
        }
        if crc32c::crc32c(&bytes[..checked]) != word(checked) {
            return Err(damaged("its checksum is wrong"));
        }
        let end = PREFIX_BYTES + word(12) as usize;
        let header = bytes.get(PREFIX_BYTES..end).filter(|_| end <= checked).ok_or_else(|| damaged("it is short"))?;
        let header = serde_json::from_slice(header).map_err(|e| damaged(&e.to_string()))?;
        Ok(Self { header, piece: bytes.slice(end..checked) })
    }
}

/// Creates an object: `false` if another one has its place, so that this node is no longer the
/// owner.
///
/// # Errors
/// The store refuses the request or does not answer. The object may be there, now or later, so the
/// same object must be tried again, and no other in its place.
pub(super) fn append(requests: &Requests, place: Place, bytes: &Bytes) -> Result<bool> {
    let (name, bytes) = (name(place), bytes.clone());
    requests.wait(move |bucket| async move {
        if bucket.claim(&name, &bytes).await? {
            return Ok(true);
        }
        // It may have been created by an earlier try.
        let gone = || Error::retry(format!("{}/{name} was there and is gone", bucket.url()));
        let (found, _) = bucket.read(&name).await?.ok_or_else(gone)?;
        Ok(found == bytes)
    })
}

/// Reads the log of an epoch from a number on, and closes it at its first free number.
///
/// # Errors
/// An object is damaged or of another database, or the store does not answer.
pub(super) fn close(requests: &Requests, (epoch, first): Place, closing: &Header) -> Result<Vec<LogObject>> {
    let mut objects = read_listed(requests, (epoch, first))?;
    loop {
        if let Some(last) = objects.last()
            && last.header.closed_by.is_some()
        {
            objects.pop();
            return Ok(objects);
        }
        let place = (epoch, first + objects.len() as u64);
        if let Some(object) = read(requests, place)? {
            objects.push(object);
            continue;
        }
        let header = Header { place, ..closing.clone() };
        let bytes = LogObject { header, piece: Bytes::new() }.encode()?;
        if append(requests, place, &bytes)? {
            return Ok(objects);
        }
    }
}

/// The objects of an epoch from a number on that a list shows, without a gap.
fn read_listed(requests: &Requests, (epoch, first): Place) -> Result<Vec<LogObject>> {
    let url = requests.url().to_owned();
    requests.wait(move |bucket| async move {
        let before = first.checked_sub(1).map(|number| format!("{number:016}"));
        let within = bucket.within(&folder(epoch));
        let listed = match before {
            Some(before) => within.objects_after(&before).await?,
            None => within.objects().await?,
        };
        let numbers = listed.iter().filter_map(|object| object.name.parse::<u64>().ok());
        let places = numbers.zip(first..).take_while(|(number, expected)| number == expected);
        let places: Vec<Place> = places.map(|(number, _)| (epoch, number)).collect();
        let reads = futures::stream::iter(places).map(|place| {
            let (bucket, url) = (bucket.clone(), url.clone());
            async move {
                let name = name(place);
                let read = bucket.read(&name).await?;
                let none = || Error::retry(format!("{url} lists {name}, but does not have it"));
                LogObject::decode(&format!("{url}/{name}"), &read.ok_or_else(none)?.0)
            }
        });
        reads.buffered(READS).try_collect().await
    })
}

/// An object of the log, if it is there.
fn read(requests: &Requests, place: Place) -> Result<Option<LogObject>> {
    let name = name(place);
    let full = format!("{}/{name}", requests.url());
    let read = requests.wait(move |bucket| async move { bucket.read(&name).await })?;
    read.map(|(bytes, _)| LogObject::decode(&full, &bytes)).transpose()
}

/// Removes the objects before a place that a durable manifest covers. What closes a log stays for
/// ever: otherwise a late request could create its number again.
pub(super) fn trim(requests: &Requests, before: Place, trimmed: Place) -> Result<u64> {
    requests.wait(move |bucket| async move {
        let log = bucket.within(LOG);
        let mut names = Vec::new();
        for epoch in trimmed.0..=before.0 {
            let listed = bucket.within(&folder(epoch)).objects().await?;
            let mut numbers: Vec<u64> = listed.iter().filter_map(|object| object.name.parse().ok()).collect();
            if epoch < before.0 {
                // The last one closes it.
                numbers.pop();
            }
            let covered = numbers.into_iter().filter(|number| (epoch, *number) < before);
            names.extend(covered.map(|number| format!("{epoch:016}/{number:016}")));
        }
        let count = names.len() as u64;
        log.delete(names).await?;
        Ok(count)
    })
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
