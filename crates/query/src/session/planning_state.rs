//! DataFusion's state, in which a session plans its statements.

use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A copy of a context's state that planned a statement and waits for the next one. A copy has its own
/// tables of functions, so that making one for each statement would be a good part of planning it.
#[derive(Default)]
pub struct KeptState(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    state: Option<Box<SessionState>>,
    /// The number of changes to the context's state so far.
    changes: u64,
}

impl KeptState {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for planning a statement that begins now: `now()` is the time of this call.
    pub(crate) fn begin(&self, context: &SessionContext) -> PlanningState<'_> {
        let (kept, changes) = {
            let mut kept = self.kept();
            (kept.state.take(), kept.changes)
        };
        let state = match kept {
            Some(mut state) => {
                state.mark_start_execution();
                state
            }
            None => Box::new(context.state()),
        };
        PlanningState { state: Some(state), changes, kept: self }
    }

    /// Drops the copy, because the context's state has changed: whoever registers functions or planners
    /// or changes settings calls this.
    pub fn forget(&self) {
        let mut kept = self.kept();
        kept.state = None;
        kept.changes += 1;
    }
}

/// The state for planning one statement.
pub(crate) struct PlanningState<'a> {
    state: Option<Box<SessionState>>,
    changes: u64,
    kept: &'a KeptState,
}

impl Deref for PlanningState<'_> {
    type Target = SessionState;

    fn deref(&self) -> &SessionState {
        self.state.as_ref().expect("it is taken only when this is dropped")
    }
}

impl Drop for PlanningState<'_> {
    fn drop(&mut self) {
        let mut kept = self.kept.kept();
        if kept.changes == self.changes {
            kept.state = self.state.take();
        }
    }
}

#[cfg(test)]
#[path = "planning_state_tests.rs"]
mod tests;
