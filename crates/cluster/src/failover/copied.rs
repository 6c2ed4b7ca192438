//! How much of a database is in the bucket. The threads of an owner share this: one appends to the
//! log, one ships manifests, one renews the claim, and the engine asks whether it may answer.

use super::log::Place;
use crate::lock;
use fleetdb_engine::inspect::ReplayFrom;
use fleetdb_engine::{Checkpoint, Code, Definitions, Error, Generation, LogCopy, Result, Sequence};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// A log is long if it has this many objects, or this many bytes, that no manifest covers.
const LONG_LOG: (u64, u64) = (1_000, 64 << 20);

/// How much of a database is in the bucket.
pub(super) struct Copied {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// There is more of the log than was appended.
    is_woken: bool,
    /// A manifest is needed before the log goes on.
    needs_manifest: bool,
    covered: Covered,
    /// For each generation in the log, the first object with a piece of it.
    starts: Vec<(Generation, Place)>,
    /// The place of the next object.
    next: Place,
    /// Objects and bytes that were appended since a manifest covered something new.
    appended: (u64, u64),
    /// Everything that was durable here at this time is in the bucket.
    complete: Option<Instant>,
    /// The last batch that is in the bucket.
    sequence: Sequence,
    append_error: Option<Error>,
    lease_until: Instant,
    fenced: Option<Error>,
    on_fence: Option<OnFence>,
}

/// Called once if another node owns the database.
pub(super) type OnFence = Box<dyn FnOnce(Error) + Send>;

/// What the newest manifest of this epoch has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Covered {
    pub(super) generation: Generation,
    pub(super) sequence: Sequence,
    /// The count of changes of definitions; `None` if there must be a manifest first.
    pub(super) definitions: Option<u64>,
}

impl Copied {
    pub(super) fn new(starts: Vec<(Generation, Place)>, next: Place, covered: Covered) -> Self {
        let state = State {
            is_woken: true,
            needs_manifest: covered.definitions.is_none(),
            covered,
            starts,
            next,
            appended: (0, 0),
            complete: None,
            sequence: covered.sequence,
            append_error: None,
            lease_until: Instant::now(),
            fenced: None,
            on_fence: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until there may be something to do for the appender.
    pub(super) fn wait_for_work(&self, most: Duration) {
        let mut state = lock(&self.state);
        if !state.is_woken {
            (state, _) = self.changed.wait_timeout(state, most).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state.is_woken = false;
    }

    pub(super) fn covered(&self) -> Covered {
        lock(&self.state).covered
    }

    /// The log cannot go on before the next manifest.
    pub(super) fn need_manifest(&self) {
        lock(&self.state).needs_manifest = true;
    }

    /// Whether a manifest is needed now.
    pub(super) fn needs_manifest(&self) -> bool {
        lock(&self.state).needs_manifest
    }

    /// Whether taking over would take long because of the log.
    pub(super) fn log_is_long(&self) -> bool {
        let (objects, bytes) = lock(&self.state).appended;
        objects >= LONG_LOG.0 || bytes >= LONG_LOG.1
    }

    /// An object is about to be appended, with a piece of a generation or none. Returns its place.
    pub(super) fn begin(&self, generation: Option<Generation>) -> Place {
        let mut state = lock(&self.state);
        let next = state.next;
        if let Some(generation) = generation
            && state.starts.last().is_none_or(|(last, _)| *last < generation)
        {
            state.starts.push((generation, next));
        }
        next
    }

    /// The object was appended.
    pub(super) fn appended(&self, bytes: u64) {
        let mut state = lock(&self.state);
        state.next.1 += 1;
        state.appended = (state.appended.0 + 1, state.appended.1 + bytes);
    }

    /// All batches that were durable here at a time are in the bucket, up to this one.
    pub(super) fn complete(&self, sequence: Sequence, at: Instant) {
        let mut state = lock(&self.state);
        (state.complete, state.sequence, state.append_error) = (Some(at), sequence, None);
    }

    /// The log could not be appended to.
    pub(super) fn append_failed(&self, error: &Error) {
        lock(&self.state).append_error = Some(error.clone());
    }

    /// Why the log cannot be appended to, at the moment.
    pub(super) fn append_error(&self) -> Option<Error> {
        lock(&self.state).append_error.clone()
    }

    /// How long ago all of the log was in the bucket, and the last batch that is.
    pub(super) fn progress(&self) -> (Option<Duration>, Sequence) {
        let state = lock(&self.state);
        (state.complete.map(|complete| complete.elapsed()), state.sequence)
    }

    /// Where the log goes on after a checkpoint.
    pub(super) fn replay_from(&self, checkpoint: &Checkpoint<'_>) -> ReplayFrom {
        let state = lock(&self.state);
        let owner = state.next.0;
        let flushed = checkpoint.state().flushed;
        let first = state.starts.iter().find(|(generation, _)| *generation > flushed);
        let place = first.map_or(state.next, |(_, place)| *place);
        let Definitions { count, manifest_end, .. } = checkpoint.definitions();
        ReplayFrom {
            owner,
            epoch: place.0,
            number: place.1,
            defined: (owner, count),
            manifest_end,
            is_elsewhere: false,
        }
    }

    /// A manifest has this.
    pub(super) fn cover(&self, covered: Covered) {
        let mut state = lock(&self.state);
        if covered.generation > state.covered.generation {
            state.starts.retain(|(generation, _)| *generation > covered.generation);
            state.appended = (0, 0);
        }
        (state.covered, state.needs_manifest, state.is_woken) = (covered, false, true);
        drop(state);
        self.changed.notify_all();
    }

    /// The claim was renewed: nobody else takes over before this time.
    pub(super) fn renewed(&self, until: Instant) {
        lock(&self.state).lease_until = until;
    }

    /// What happens if another node owns the database.
    pub(super) fn on_fence(&self, then: OnFence) {
        lock(&self.state).on_fence = Some(then);
    }

    /// Another node owns the database. Only the first error counts.
    pub(super) fn fence(&self, error: Error) {
        let mut state = lock(&self.state);
        let error = state.fenced.get_or_insert(error).clone();
        let then = state.on_fence.take();
        drop(state);
        self.changed.notify_all();
        if let Some(then) = then {
            then(error);
        }
    }

    /// Why the node no longer owns the database.
    pub(super) fn fenced(&self) -> Option<Error> {
        lock(&self.state).fenced.clone()
    }
}

impl LogCopy for Copied {
    fn wake(&self) {
        lock(&self.state).is_woken = true;
        self.changed.notify_all();
    }

    fn check_newest(&self) -> Result<()> {
        let state = lock(&self.state);
        match &state.fenced {
            Some(error) => Err(error.clone()),
            None if Instant::now() <= state.lease_until => Ok(()),
            None => Err(Error::new(
                Code::Busy,
                "this node could not renew its claim in the bucket, and another one may have taken over",
            )
            .with_hint("Connect to another node, or try again.")),
        }
    }
}
