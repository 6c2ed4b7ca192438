//! Runs queries whose texts come again and again, with other literals perhaps, by plans that are kept
//! ([`PlanCache`]).

use crate::answer::Answer;
use crate::session::Session;
use crate::session::plan_cache::{Cached, PlanCache, held_bytes};
use crate::session::prepared_query::{KeptQuery, PreparedQuery};
use fleetdb_engine::{ErrorKind, Result, Value};
use fleetdb_statement::{Access, ComparedLiterals};
use std::sync::{Arc, MutexGuard, PoisonError};

/// Parts of the names of functions whose effect is more than their value.
const WITH_EFFECTS: [&str; 2] = ["pg_", "set_config"];

/// Whether a text may name a function whose effect is more than its value.
pub fn may_have_effects(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    WITH_EFFECTS.iter().any(|name| lower.contains(name))
}

impl Session {
    pub(super) fn kept(&self) -> MutexGuard<'_, PlanCache<KeptQuery>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a text whose plan is kept; `None` if it must be parsed and planned.
    ///
    /// # Errors
    /// Those of [`execute`](Self::execute).
    pub(crate) fn run_kept(&self, text: &str) -> Result<Option<Answer>> {
        let Some(ComparedLiterals { text, values }) = ComparedLiterals::of(text) else { return Ok(None) };
        let known = self.kept().look_up(&text);
        let kept = match known {
            Cached::Kept(kept) if kept.query.is_current(self) => Some(kept),
            Cached::Kept(_) => {
                self.kept().forget(&text);
                None
            }
            // The plan would be that of the transaction's tables.
            Cached::ToPrepare if !self.is_in_transaction() => self.keep(&text, &values),
            Cached::ToPrepare | Cached::None => None,
        };
        let Some(kept) = kept.filter(|kept| kept.query.takes_literals(&values)) else { return Ok(None) };
        self.check_transaction()?;
        match kept.query.start(self, &values) {
            Ok(answer) => Ok(Some(answer)),
            // Planned with its literals, the text says where the error is.
            Err(error) if error.kind() == ErrorKind::Input => Ok(None),
            Err(error) => {
                self.transaction().fail();
                Err(error)
            }
        }
    }

    /// Prepares a query to keep its plan; `None` if it cannot be kept.
    fn keep(&self, text: &str, values: &[Value]) -> Option<Arc<KeptQuery>> {
        let query = self.prepared_read(text).filter(|query| query.takes_literals(values));
        let Some(query) = query else {
            self.kept().never_keep(text);
            return None;
        };
        let bytes = held_bytes(text, true);
        let held = self.store.query_memory().reserve("this query's plan", bytes).ok()?;
        let kept = Arc::new(KeptQuery { query, _held: held });
        self.kept().keep(text, Arc::clone(&kept), bytes);
        Some(kept)
    }

    fn prepared_read(&self, text: &str) -> Option<PreparedQuery> {
        if may_have_effects(text) {
            return None;
        }
        let statement = self.parse_one(text).ok()?;
        let is_read = statement.command().access == Access::Read;
        if is_read { PreparedQuery::new(self, statement).ok() } else { None }
    }
}

#[cfg(test)]
#[path = "kept_plans_tests.rs"]
mod tests;
