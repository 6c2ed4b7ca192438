//! Accounts for the output of functions while it is alive. Texts and arrays can be much larger than
//! their inputs, and batches in flight between operators are counted nowhere else.
//!
//! 1. A call reserves its bytes before it produces them ([`FunctionMemory::call`]).
//! 2. Output for rows stays reserved until the same call produces its next batch; by then the
//!    previous batch has been passed on.
//! 3. Output from constants is part of the plan, and stays reserved as long as the statement exists
//!    ([`ConstantMemory`]).

use crate::errors::query_error;
use crate::expressions::are_constant;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use fleetdb_engine::{Code, Error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Smaller outputs are not counted.
const MIN_COUNTED_BYTES: f64 = 1e6;

/// Optimizer rules copy the plan, so a constant exists several times while planning; the resident
/// set grew to up to seven times its size.
const COPIES: usize = 4;

/// The most bytes of the texts in one array.
pub(crate) const MAX_TEXT_BYTES: f64 = i32::MAX as f64;

/// Refuses a call whose texts for one batch of rows would have this many bytes. Arrow panics if an array
/// would have more.
///
/// # Errors
/// They are more than an array can hold.
pub(crate) fn check_text_bytes(name: &str, bytes: f64) -> Result<()> {
    if bytes <= MAX_TEXT_BYTES {
        return Ok(());
    }
    let message = format!("{name} would make more than 2 GiB of text for one batch of rows: ask for less");
    Err(query_error(Error::new(Code::LimitExceeded, message)))
}

/// The outputs of a session's current statement.
#[derive(Debug)]
pub struct FunctionMemory {
    pool: Arc<dyn MemoryPool>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    constants: Vec<MemoryReservation>,
    /// Keyed by the call's location in the plan.
    rows: HashMap<usize, MemoryReservation>,
}

/// Keeps a statement's constant outputs reserved. Dropping it also releases the outputs for rows.
#[derive(Debug)]
pub struct ConstantMemory {
    made: Arc<FunctionMemory>,
    _constants: Vec<MemoryReservation>,
}

impl Drop for ConstantMemory {
    fn drop(&mut self) {
        self.made.kept().rows.clear();
    }
}

impl FunctionMemory {
    /// An empty account that reserves from `pool`.
    pub fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Self { pool: Arc::clone(pool), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a statement and releases what the previous one had reserved.
    pub fn begin(&self) {
        let mut kept = self.kept();
        kept.constants.clear();
        kept.rows.clear();
    }

    /// Moves the reservations for constants since the statement began to the returned guard, which
    /// lives as long as the plan.
    pub fn take(self: &Arc<Self>) -> ConstantMemory {
        ConstantMemory { made: Arc::clone(self), _constants: std::mem::take(&mut self.kept().constants) }
    }

    /// Reserves `bytes` for a constant of the running statement.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn hold(&self, name: &str, bytes: usize) -> Result<()> {
        let taken = MemoryConsumer::new(name).register(&self.pool);
        taken.try_grow(bytes)?;
        self.kept().constants.push(taken);
        Ok(())
    }

    /// Reserves `bytes`, then runs the call.
    ///
    /// # Errors
    /// There is not enough memory, or the call itself fails.
    pub fn call(
        &self,
        name: &str,
        args: ScalarFunctionArgs,
        bytes: f64,
        make: impl FnOnce(ScalarFunctionArgs) -> Result<ColumnarValue>,
    ) -> Result<ColumnarValue> {
        // Each call in a plan has its own return field, so its address identifies the call.
        let place = (!are_constant(&args.args)).then_some(Arc::as_ptr(&args.return_field) as usize);
        if let Some(place) = place {
            self.kept().rows.remove(&place);
        }
        if bytes < MIN_COUNTED_BYTES {
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
