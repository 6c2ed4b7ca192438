//! The rows that are bound to the parameters of a statement, as values.

use super::errors::unreadable;
use crate::values::parameter;
use arrow::array::RecordBatchReader;
use fleetdb_engine::{MemoryReservation, QueryMemory, Result, Value};
use std::collections::VecDeque;

/// Bound rows.
pub(super) struct Bound {
    /// The values of each run.
    pub(super) rows: VecDeque<Vec<Value>>,
    /// The memory of the values.
    _memory: MemoryReservation,
}

impl Bound {
    /// Reads a program's rows to their end.
    ///
    /// # Errors
    /// The rows cannot be read, a parameter cannot be of their type, or there is no memory.
    pub(super) fn read(from: Box<dyn RecordBatchReader + Send>, memory: &QueryMemory) -> Result<Self> {
        let (mut rows, mut memory, mut bytes) = (VecDeque::new(), memory.reservation(), 0);
        for batch in from {
            let batch = batch.map_err(|error| unreadable(&error))?;
            for row in 0..batch.num_rows() {
                let values = batch.columns().iter().map(|column| parameter(column, row));
                let values = values.collect::<Result<Vec<_>>>()?;
                bytes += size_of::<Vec<Value>>() + values.iter().map(Value::bytes).sum::<usize>();
                memory.grow_to("the list of bound rows", bytes)?;
                rows.push_back(values);
            }
        }
        Ok(Self { rows, _memory: memory })
    }
}
