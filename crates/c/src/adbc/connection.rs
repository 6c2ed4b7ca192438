//! A connection: a session with modes, and what the database says about itself.

use super::errors::{call, not_implemented};
use super::options::{optionable, text, truth, unknown};
use super::session::{Cancel, Session};
use super::statement::Statement;
use super::{info, objects};
use crate::open::wrong;
use adbc_core::CancelHandle;
use adbc_core::constants::{
    ADBC_OPTION_ISOLATION_LEVEL_DEFAULT, ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED,
    ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ,
};
use adbc_core::error::Result as AdbcResult;
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::schemas::GET_STATISTIC_NAMES_SCHEMA;
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use fleetdb_engine::{Durability, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// The option of the durability of a connection's writes.
const DURABILITY: &str = "fleetdb.durability";

/// Rows of a program.
type Rows = Box<dyn RecordBatchReader + Send + 'static>;

/// A connection. Its statements run one at a time.
pub struct Connection {
    session: Arc<Session>,
}

impl Connection {
    pub(super) fn new(session: Arc<Session>) -> Self {
        Self { session }
    }

    pub(super) fn set(&mut self, key: &OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref();
        let mut state = self.session.lock();
        match key {
            OptionConnection::AutoCommit => state.set_autocommit(truth(name, value)?),
            OptionConnection::ReadOnly => {
                let word = if truth(name, value)? { "on" } else { "off" };
                state.work.run(&format!("SET default_transaction_read_only = '{word}'")).map(drop)
            }
            OptionConnection::CurrentCatalog => only(name, value, objects::CATALOG),
            OptionConnection::CurrentSchema => only(name, value, objects::SCHEMA),
            OptionConnection::IsolationLevel => {
                let level = text(name, value)?;
                let (is_repeatable, word) = match level.as_str() {
                    ADBC_OPTION_ISOLATION_LEVEL_DEFAULT | ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED => {
                        (false, "read committed")
                    }
                    ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ => (true, "repeatable read"),
                    other => return Err(wrong(name, other, "default, read_committed or repeatable_read")),
                };
                state.work.run(&format!("SET default_transaction_isolation = '{word}'"))?;
                state.is_repeatable = is_repeatable;
                Ok(())
            }
            OptionConnection::Other(other) if other == DURABILITY => {
                let level: Durability = text(name, value)?.parse()?;
                state.work.run(&format!("SET durability = '{level}'")).map(drop)
            }
            _ => Err(unknown(name)),
        }
    }

    fn get(&self, key: &OptionConnection) -> Option<String> {
        let state = self.session.lock();
        match key {
            OptionConnection::AutoCommit => Some(state.is_autocommit().to_string()),
            OptionConnection::ReadOnly => Some(state.work.session().settings().is_read_only().to_string()),
            OptionConnection::CurrentCatalog => Some(objects::CATALOG.to_owned()),
            OptionConnection::CurrentSchema => Some(objects::SCHEMA.to_owned()),
            OptionConnection::IsolationLevel => {
                let levels = [ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED, ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ];
                Some(levels[usize::from(state.is_repeatable)].to_owned())
            }
            OptionConnection::Other(other) if other == DURABILITY => {
                Some(state.work.session().durability().to_string())
            }
            _ => None,
        }
    }
}

/// Checks that an option has the only value that it can have.
fn only(name: &str, value: OptionValue, takes: &str) -> Result<()> {
    let value = text(name, value)?;
    if value == takes { Ok(()) } else { Err(wrong(name, &value, takes)) }
}

fn rows(batch: RecordBatch) -> Rows {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

optionable!(Connection, OptionConnection);

impl adbc_core::Connection for Connection {
    type StatementType = Statement;

    fn new_statement(&mut self) -> AdbcResult<Statement> {
        Ok(Statement::new(&self.session))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(Cancel(Arc::clone(self.session.stop())))
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> AdbcResult<Rows> {
        call(|| info::info(codes.as_ref()).map(rows))
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> AdbcResult<Rows> {
        call(|| {
            let view = self.session.lock().work.view()?;
            let filter = objects::Filter { depth, catalog, db_schema, table_name, table_type, column_name };
            objects::objects(&view, &filter).map(rows)
        })
    }

    fn get_table_schema(&self, catalog: Option<&str>, db_schema: Option<&str>, table_name: &str) -> AdbcResult<Schema> {
        call(|| objects::table_schema(&mut self.session.lock().work, catalog, db_schema, table_name))
    }

    fn get_table_types(&self) -> AdbcResult<Rows> {
        call(|| objects::table_types().map(rows))
    }

    fn get_statistic_names(&self) -> AdbcResult<Rows> {
        Ok(rows(RecordBatch::new_empty(GET_STATISTIC_NAMES_SCHEMA.clone())))
    }

    fn get_statistics(
        &self,
        _catalog: Option<&str>,
        _db_schema: Option<&str>,
        _table_name: Option<&str>,
        _approximate: bool,
    ) -> AdbcResult<Rows> {
        not_implemented("GetStatistics")
    }

    fn commit(&mut self) -> AdbcResult<()> {
        call(|| self.session.lock().commit())
    }

    fn rollback(&mut self) -> AdbcResult<()> {
        call(|| self.session.lock().rollback())
    }

    fn read_partition(&self, _partition: impl AsRef<[u8]>) -> AdbcResult<Rows> {
        not_implemented("ReadPartition")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // What is not committed is not written. Results may still be read.
        let mut state = self.session.lock();
        if !state.is_autocommit() {
            state.rollback().ok();
        }
    }
}
