//! DataFusion's state, in which a session plans its statements.

use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A copy of a context's state that planned a statement and waits for the next one. A copy has its own
/// tables of functions, so that making one for each statement would be a good part of planning it.
#[derive(Default)]
pub struct SpareState(Mutex<Spare>);

#[derive(Default)]
struct Spare {
    state: Option<Box<SessionState>>,
    /// The number of changes to the context's state so far.
    changes: u64,
}

impl SpareState {
    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state for planning a statement that begins now: `now()` is the time of this call.
    pub(crate) fn begin(&self, context: &SessionContext) -> PlanningState<'_> {
        let (spare, changes) = {
            let mut spare = self.spare();
            (spare.state.take(), spare.changes)
        };
        let state = match spare {
            Some(mut state) => {
                state.mark_start_execution();
                state
            }
            None => Box::new(context.state()),
        };
        PlanningState { state: Some(state), changes, home: self }
    }

    /// Drops the copy, because the context's state has changed: whoever registers functions or planners
    /// or changes settings calls this.
    pub fn forget(&self) {
        let mut spare = self.spare();
        spare.state = None;
        spare.changes += 1;
    }
}

/// The state for planning one statement.
pub(crate) struct PlanningState<'a> {
    state: Option<Box<SessionState>>,
    changes: u64,
    home: &'a SpareState,
}

impl Deref for PlanningState<'_> {
    type Target = SessionState;

    fn deref(&self) -> &SessionState {
        self.state.as_ref().expect("it is taken only when this is dropped")
    }
}

impl Drop for PlanningState<'_> {
    fn drop(&mut self) {
        let mut spare = self.home.spare();
        if spare.changes == self.changes {
            spare.state = self.state.take();
        }
    }
}

#[cfg(test)]
#[path = "planning_state_tests.rs"]
mod tests;
