//! The object that names the owner of a partition. It is replaced only if it is unchanged, so each
//! change is seen by whoever makes the next one.
//!
//! Each claim begins an epoch. The owner renews the object, so that others see that it is alive; no
//! argument for the safety of writes depends on that.

use super::OWNER;
use crate::bucket::{Bucket, Outcome, Version};
use crate::requests::Requests;
use bytes::Bytes;
use fleetdb_engine::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The version of the format that is written.
const FORMAT: u32 = 1;

/// Who owns a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    format: u32,
    /// Identifies the node: the directory of its data.
    pub node: String,
    /// The number of the claim.
    pub epoch: u64,
    /// The first epoch since which this node has owned the partition without a break. Its directory
    /// then has all that is in the bucket.
    pub since: u64,
    /// How often the owner has renewed this epoch.
    pub renewals: u64,
    /// Whether the owner has stopped, so that nobody needs to wait.
    pub released: bool,
    /// Where clients find it, by protocol.
    #[serde(default)]
    pub addresses: BTreeMap<String, String>,
}

/// An owner as it stands in the bucket.
#[derive(Clone, Debug)]
pub(super) struct OwnerObject {
    pub(super) owner: Owner,
    version: Version,
}

/// What became of a change.
pub(super) enum Changed {
    /// The object has it.
    Done(OwnerObject),
    /// Another node has changed the object.
    Other,
}

/// The owner, if there was ever one.
pub(super) fn read(requests: &Requests, limit: Duration) -> Result<Option<OwnerObject>> {
    let read = requests.wait_within(limit, |bucket| async move { bucket.read(OWNER).await })?;
    let Some((bytes, version)) = read else { return Ok(None) };
    Ok(Some(OwnerObject { owner: decode(requests.url(), &bytes)?, version }))
}

/// Claims the next epoch. `before` is what the caller saw. If `continues`, the directory of the
/// node has all that is in the bucket.
pub(super) fn claim(
    requests: &Requests,
    node: &str,
    addresses: &BTreeMap<String, String>,
    before: Option<&OwnerObject>,
    continues: bool,
    limit: Duration,
) -> Result<Changed> {
    let epoch = before.map_or(0, |before| before.owner.epoch) + 1;
    let since = match before {
        Some(before) if continues => before.owner.since,
        _ => epoch,
    };
    let (node, addresses) = (node.to_owned(), addresses.clone());
    let owner = Owner { format: FORMAT, node, epoch, since, renewals: 0, released: false, addresses };
    change(requests, before, owner, limit)
}

/// Renews the epoch, or ends it.
pub(super) fn renew(requests: &Requests, before: &OwnerObject, released: bool, limit: Duration) -> Result<Changed> {
    let renewals = before.owner.renewals + 1;
    change(requests, Some(before), Owner { renewals, released, ..before.owner.clone() }, limit)
}

/// Writes the object anew if it is still `before`.
fn change(requests: &Requests, before: Option<&OwnerObject>, owner: Owner, limit: Duration) -> Result<Changed> {
    let json = serde_json::to_vec_pretty(&owner).map_err(|e| Error::bug(format!("an owner: {e}")))?;
    let (bytes, version) = (Bytes::from(json), before.map(|before| before.version.clone()));
    let written = requests.wait_within(limit, move |bucket| async move { put(&bucket, bytes, version).await })?;
    match written {
        Outcome::Written(version) => Ok(Changed::Done(OwnerObject { owner, version })),
        Outcome::Refused => match read(requests, limit)? {
            // An earlier try, whose answer was lost, may have been done.
            Some(named) if named.owner == owner => Ok(Changed::Done(named)),
            // A store may refuse a request because an earlier one is under way.
            now if now.as_ref().map(|named| &named.owner) == before.map(|before| &before.owner) => {
                Err(Error::retry(format!("{}/{OWNER} is unchanged, but cannot be changed", requests.url())))
            }
            _ => Ok(Changed::Other),
        },
    }
}

async fn put(bucket: &Bucket, bytes: Bytes, version: Option<Version>) -> Result<Outcome> {
    match version {
        Some(version) => bucket.replace(OWNER, bytes, &version).await,
        None => bucket.create(OWNER, bytes).await,
    }
}

fn decode(url: &str, bytes: &[u8]) -> Result<Owner> {
    let owner: Owner = serde_json::from_slice(bytes)
        .map_err(|e| Error::damaged(format!("{url}/{OWNER} does not name an owner: {e}")))?;
    if owner.format > FORMAT {
        return Err(Error::invalid(format!(
            "{url} is used by a newer version of FleetDB (format {}, this program knows {FORMAT}): use that version",
            owner.format
        )));
    }
    Ok(owner)
}
