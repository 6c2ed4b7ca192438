//! What functions have made and is still there: texts and arrays are much larger than what they are made of, and rows that are
//! on their way from one step to the next are counted nowhere else.
//!
//! 1. A call asks for its bytes before it makes them ([`FunctionMemory::call`]).
//! 2. What it has made of rows stays counted until the same call makes the next ones: by then the rows before have gone on.
//! 3. What it has made of constants is in the plan, and stays counted as long as the statement is there
//!    ([`ConstantMemory`]).

use super::are_constant;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Less than this is not asked for.
const LITTLE_BYTES: f64 = 1e6;

/// A plan has a constant more than once while it is made, as its rules copy it; the resident set grew up to seven times as much.
const COPIES: usize = 4;

/// What the calls of a session's statement have made.
#[derive(Debug)]
pub(crate) struct FunctionMemory {
    pool: Arc<dyn MemoryPool>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    constants: Vec<MemoryReservation>,
    /// By the place of the call in the plan.
    rows: HashMap<usize, MemoryReservation>,
}

/// What calls of a statement have made of constants; with it goes what they have made of rows.
#[derive(Debug)]
pub(crate) struct ConstantMemory {
    made: Arc<FunctionMemory>,
    _constants: Vec<MemoryReservation>,
}

impl Drop for ConstantMemory {
    fn drop(&mut self) {
        self.made.kept().rows.clear();
    }
}

impl FunctionMemory {
    /// Nothing, counted by this pool.
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Self { pool: Arc::clone(pool), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A statement begins: what the one before has made is gone.
    pub(crate) fn begin(&self) {
        let mut kept = self.kept();
        kept.constants.clear();
        kept.rows.clear();
    }

    /// What has been made of constants since the statement began: whoever has the plan keeps it.
    pub(crate) fn take(self: &Arc<Self>) -> ConstantMemory {
        ConstantMemory { made: Arc::clone(self), _constants: std::mem::take(&mut self.kept().constants) }
    }

    /// Has a call make so many bytes.
    ///
    /// # Errors
    /// There is no room for them, or the call's own.
    pub(crate) fn call(
        &self,
        name: &str,
        args: ScalarFunctionArgs,
        bytes: f64,
        make: impl FnOnce(ScalarFunctionArgs) -> Result<ColumnarValue>,
    ) -> Result<ColumnarValue> {
        // Each call of a plan has a field of its own for what it gives.
        let place = (!are_constant(&args.args)).then_some(Arc::as_ptr(&args.return_field) as usize);
        if let Some(place) = place {
            self.kept().rows.remove(&place);
        }
        if bytes < LITTLE_BYTES {
            return make(args);
        }
        let taken = MemoryConsumer::new(name).register(&self.pool);
        taken.try_grow(bytes as usize * if place.is_some() { 1 } else { COPIES })?;
        let made = make(args)?;
        let bytes = match &made {
            ColumnarValue::Array(values) => values.get_array_memory_size(),
            ColumnarValue::Scalar(value) => value.size(),
        };
        taken.resize(if place.is_some() { bytes } else { bytes * COPIES });
        let mut kept = self.kept();
        match place {
            Some(place) => drop(kept.rows.insert(place, taken)),
            None => kept.constants.push(taken),
        }
        Ok(made)
    }
}

#[cfg(test)]
#[path = "function_memory_tests.rs"]
mod tests;
