//! Runs keyed writes in a session.

use super::KeyedWrite;
use crate::session::Session;
use crate::write::dml::Change;
use crate::write::returning::WriteOutcome;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
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
        let done = self.check_may_write(write.verb()).and_then(|()| self.write_keyed(write, values));
        self.tables.release();
        if done.is_err() {
            self.transaction().fail();
        }
        done
    }

    fn write_keyed(&self, write: &KeyedWrite, values: &[Value]) -> Result<Option<u64>> {
        let Some(values) = write.fitted(values.to_vec()) else { return Ok(None) };
        let is_guarded = self.is_in_transaction();
        let mut is_done = true;
        let outcome = self.write_after(None, |view| {
            let Some(change) = write.change(view, &values)? else {
                is_done = false;
                return Ok(Change::nothing(Arc::clone(write.table())));
            };
            let mut read = Rows::new(write.table());
            if is_guarded {
                change.read.iter().try_for_each(|row| read.push(row))?;
            }
            let read = if read.is_empty() { Vec::new() } else { vec![read.finish()?] };
            let (batch, count) = (change.batch, change.count);
            Ok(Change { batch, count, read, ..Change::nothing(Arc::clone(write.table())) })
        })?;
        Ok(is_done.then_some(outcome.count))
    }

    /// Runs a statement as a keyed write; `None` if it is none, and must be planned.
    pub(crate) fn run_as_keyed(&self, statement: &SqlStatement) -> Result<Option<WriteOutcome>> {
        let write = self.store.writer().ok().and_then(|db| KeyedWrite::of_sql(statement, db, self.zone()));
        let Some(write) = write else { return Ok(None) };
        Ok(self.write_keyed(&write, &[])?.map(|count| WriteOutcome { count, returned: None }))
    }
}
