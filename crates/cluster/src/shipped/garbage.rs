//! Removes manifests that are old, and segments that only they list.

use super::delta;
use super::storage::manifests_of;
use super::{ManifestEntry, SEGMENTS, manifest_name, read_manifest, segment_name, state_of};
use crate::bucket::Bucket;
use crate::requests::Requests;
use fleetdb_engine::Result;
use std::collections::HashSet;
use std::time::Duration;

/// How long each manifest can be restored. Newer than this, or pinned, a manifest stays.
pub const HISTORY: Duration = Duration::from_secs(24 * 3600);

/// How much the clocks of a store's machines may differ.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(3600);

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Manifests.
    pub manifests: usize,
    /// Segments.
    pub segments: usize,
    /// The size of the segments.
    pub bytes: u64,
}

/// Removes what no manifest of the last `history` and no pin lists. Time is that of the store, and
/// the newest manifest is now. Only the database that ships to the bucket may do it, and not while
/// it ships.
///
/// The newest of the manifests that are older than `history` is the oldest that stays. No later
/// manifest lists a segment that was sent before it was written and that it does not list: a
/// segment that a manifest lists, and the one before it does not, was sent between the two.
///
/// # Errors
/// The store does not answer. What was removed is removed.
pub fn collect_garbage(bucket: &Bucket, history: Duration) -> Result<Garbage> {
    collect(&Requests::new(bucket.clone())?, history)
}

/// See [`collect_garbage`].
pub(crate) fn collect(requests: &Requests, history: Duration) -> Result<Garbage> {
    let manifests = manifests_of(requests)?;
    let Some(newest) = manifests.last() else { return Ok(Garbage::default()) };
    let Some(oldest_wanted) = newest.written.checked_sub(history) else { return Ok(Garbage::default()) };
    let Some(oldest) = manifests.iter().rfind(|entry| entry.written <= oldest_wanted) else {
        return Ok(Garbage::default());
    };
    let stays = |entry: &&ManifestEntry| entry.number >= oldest.number || !entry.pins.is_empty();
    let mut wanted = HashSet::new();
    for entry in manifests.iter().filter(|entry| entry.number <= oldest.number).filter(stays) {
        if let Some(bytes) = read_manifest(requests, entry.number)? {
            let state = state_of(requests, entry.number, &bytes)?;
            wanted.extend(state.segments.values().map(segment_name));
        }
    }
    let old: Vec<String> =
        manifests.iter().filter(|entry| !stays(entry)).map(|entry| manifest_name(entry.number)).collect();
    let mut garbage = Garbage { manifests: old.len(), ..Garbage::default() };
    // First the manifests, so that none lists a segment that is gone.
    requests.wait(|bucket| async move { bucket.delete(old).await })?;
    let Some(sent_before) = oldest.written.checked_sub(CLOCK_DIFFERENCE) else { return Ok(garbage) };
    let segments = requests.wait(|bucket| async move { bucket.within(SEGMENTS).objects().await })?;
    let mut unlisted = Vec::new();
    for segment in segments {
        let name = format!("{SEGMENTS}/{}", segment.name);
        if !delta::is_log(&name) && segment.written < sent_before && !wanted.contains(&name) {
            garbage.segments += 1;
            garbage.bytes += segment.bytes;
            unlisted.push(name);
        }
    }
    requests.wait(|bucket| async move { bucket.delete(unlisted).await })?;
    Ok(garbage)
}
