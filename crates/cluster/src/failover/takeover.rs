//! How a node takes over: it excludes the nodes before it, and finds what they have left.
//!
//! 1. A manifest in the name of the new epoch: no earlier owner can write the next one ([`fence`]).
//! 2. The logs of earlier epochs are closed, each at its first free number: no earlier owner can
//!    append ([`log::close`]).
//! 3. The objects of these logs that no manifest covers are put together to WAL files
//!    ([`FoundLog::add`]).

use super::log::{self, Header, LogObject, Place};
use crate::requests::Requests;
use crate::shipped::{Newest, manifest_name, read_newest_after};
use bytes::Bytes;
use fleetdb_engine::inspect::{ReplayFrom, State};
use fleetdb_engine::{Code, Error, Generation, Result};
use std::collections::BTreeMap;

/// The manifest of a new epoch.
pub(super) struct Fenced {
    pub(super) number: u64,
    pub(super) manifest: Bytes,
    pub(super) state: State,
}

/// What earlier owners have left in the bucket.
pub(super) struct FoundLog {
    /// The manifest's state, with the definitions of the log.
    pub(super) state: State,
    /// WAL files of the generations that the state lacks.
    pub(super) files: BTreeMap<Generation, Vec<u8>>,
    /// For each generation, the first object with a piece of it.
    pub(super) starts: Vec<(Generation, Place)>,
    /// Where the log begins that no manifest covers.
    pub(super) first: Place,
    replay_from: ReplayFrom,
    /// The epoch of the last piece.
    epoch: u64,
    /// The epoch of the last definitions, and where the manifest file of its owner ended.
    pub(super) defined: (u64, (u64, u64)),
}

/// Writes the next manifest in the name of an epoch. If there is none yet, it is that of an empty
/// database with this id, or stands for a database that is still elsewhere.
pub(super) fn fence(requests: &Requests, epoch: u64, database_id: &str, is_elsewhere: bool) -> Result<Fenced> {
    loop {
        let (newest, state) = match read_newest_after(requests, 0)? {
            Some(Newest { number, state, .. }) => (number, state),
            None => {
                let defined = (epoch, 0);
                let replay_from = ReplayFrom { owner: epoch, epoch, defined, is_elsewhere, ..ReplayFrom::default() };
                let (database_id, replay_from) = (database_id.to_owned(), Some(replay_from));
                (0, State { database_id, replay_from, ..State::default() })
            }
        };
        let before = state.replay_from.ok_or_else(|| {
            Error::invalid(format!("{} has manifests of a database that is not in a cluster", requests.url()))
        })?;
        if before.owner > epoch {
            return Err(Error::new(Code::Conflict, format!("epoch {} has begun meanwhile", before.owner)));
        }
        let state = State { replay_from: Some(ReplayFrom { owner: epoch, ..before }), ..state };
        let number = newest + 1;
        let manifest = Bytes::from(state.to_manifest(number)?);
        let (name, bytes) = (manifest_name(number), manifest.clone());
        if requests.wait(|bucket| async move { bucket.claim(&name, &bytes).await })? {
            return Ok(Fenced { number, manifest, state });
        }
    }
}

/// Closes the logs of all epochs before this one, and reads what the manifest does not cover.
pub(super) fn close_logs(requests: &Requests, state: &State, epoch: u64, node: &str) -> Result<FoundLog> {
    let mut found = FoundLog::new(state.clone());
    let (mut place, database_id) = (found.first, state.database_id.clone());
    while place.0 < epoch {
        let closed_by = Some((epoch, node.to_owned()));
        let header = Header { database_id: database_id.clone(), place, file: None, redefined: None, closed_by };
        for object in log::close(requests, place, &header)? {
            found
                .add(&object)
                .map_err(|e| e.context(format_args!("{}/{}", requests.url(), log::name(object.header.place))))?;
        }
        place = (place.0 + 1, 0);
    }
    Ok(found)
}

impl FoundLog {
    pub(super) fn new(state: State) -> Self {
        let replay_from = state.replay_from.unwrap_or_default();
        let first = (replay_from.epoch, replay_from.number);
        let defined = (replay_from.defined.0, replay_from.manifest_end);
        Self { state, files: BTreeMap::new(), starts: Vec::new(), first, replay_from, epoch: 0, defined }
    }

    /// Adds the next object of the log.
    pub(super) fn add(&mut self, object: &LogObject) -> Result<()> {
        let Header { database_id, place, file, redefined, .. } = &object.header;
        if *database_id != self.state.database_id {
            return Err(Error::damaged("the object is of another database"));
        }
        let is_newer = |count: u64| (place.0, count) > self.replay_from.defined;
        if let Some(redefined) = redefined.as_ref().filter(|redefined| is_newer(redefined.count)) {
            redefined.apply(&mut self.state);
            self.defined = (place.0, redefined.manifest_end);
        }
        let Some((generation, from)) = *file else { return Ok(()) };
        if generation <= self.state.flushed {
            return Ok(());
        }
        let is_first_of_epoch = std::mem::replace(&mut self.epoch, place.0) != place.0;
        let expected = match self.files.last_key_value() {
            Some((last, _)) if *last == generation => Some(generation),
            Some((last, _)) => Some(Generation(last.0 + 1)),
            None => Some(Generation(self.state.flushed.0 + 1)),
        };
        let is_new = !self.files.contains_key(&generation);
        let bytes = self.files.entry(generation).or_default();
        // The last frame before an owner was lost may be incomplete. The next owner writes over it.
        let fits = from == bytes.len() as u64 || (is_first_of_epoch && from < bytes.len() as u64);
        if expected != Some(generation) || !fits {
            return Err(Error::damaged(format!(
                "the object goes on at byte {from} of generation {generation}, but what was read before ends at byte \
                 {}",
                bytes.len()
            )));
        }
        bytes.truncate(from as usize);
        bytes.extend_from_slice(&object.piece);
        if is_new {
            self.starts.push((generation, *place));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
