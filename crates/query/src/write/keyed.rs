//! Runs keyed writes in a session.

use crate::session::Session;
use crate::write::dml::Change;
use crate::write::returning::{Returning, WriteOutcome};
use arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use fleetdb_direct::keyed::KeyedWrite;
use fleetdb_engine::{Result, Rows, Value};
use std::sync::Arc;

impl Session {
    /// Runs a keyed write with these values for `$1`, `$2`, ...; an integer for a timestamp counts the
    /// column's unit. Returns the number of affected rows, or `None` if nothing is written because the
    /// statement must be [executed](Session::execute).
    ///
    /// # Errors
    /// Those of [`execute`](Session::execute).
    pub fn run_keyed(&self, write: &KeyedWrite, values: &[Value]) -> Result<Option<u64>> {
        self.begin_statement();
        let done = self.check_may_write(write.verb()).and_then(|()| self.write_keyed(write, values, None));
        self.tables.release();
        if done.is_err() {
            self.transaction().fail();
        }
        Ok(done?.map(|done| done.count))
    }

    fn write_keyed(
        &self,
        write: &KeyedWrite,
        values: &[Value],
        returning: Option<&Returning>,
    ) -> Result<Option<WriteOutcome>> {
        let Some(values) = write.fitted(values.to_vec()) else { return Ok(None) };
        let is_guarded = self.is_in_transaction();
        let mut is_done = true;
        let outcome = self.write_after(returning, |view| {
            let Some(change) = write.change(view, &values)? else {
                is_done = false;
                return Ok(Change::nothing(Arc::clone(write.table())));
            };
            let read = if is_guarded { rows_of(write, &change.read)? } else { Vec::new() };
            let rows = if returning.is_some() { rows_of(write, &change.written)? } else { Vec::new() };
            let (batch, count) = (change.batch, change.count);
            Ok(Change { batch, count, rows, read, table: Arc::clone(write.table()) })
        })?;
        Ok(is_done.then_some(outcome))
    }

    /// Runs a statement as a keyed write; `None` if it is none, and must be planned.
    pub(crate) fn run_as_keyed(
        &self,
        statement: &SqlStatement,
        returning: Option<&Returning>,
    ) -> Result<Option<WriteOutcome>> {
        let write = self.store.writer().ok().and_then(|db| KeyedWrite::of_sql(statement, db, self.zone()));
        match write {
            Some(write) if returning.is_none() || write.knows_rows() => self.write_keyed(&write, &[], returning),
            _ => Ok(None),
        }
    }
}

/// Rows as a batch; none if there are none.
fn rows_of(write: &KeyedWrite, values: &[Vec<Value>]) -> Result<Vec<RecordBatch>> {
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Rows::new(write.table());
    values.iter().try_for_each(|row| rows.push(row))?;
    Ok(vec![rows.finish()?])
}

#[cfg(test)]
#[path = "keyed_tests.rs"]
mod tests;
