//! Temporary tables: rows in memory that only one session sees. They are the schema `pg_temp`.
//!
//! A table never changes: a write replaces it by another, which shares the rows that stay. So a transaction
//! keeps the tables of its beginning, and rolling back restores them.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, SchemaProvider, Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use fleetdb_engine::{MemoryReservation, QueryMemory, TableSchema};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Temporary tables by name.
pub type TablesByName = BTreeMap<String, Arc<TemporaryTable>>;

/// What happens to a temporary table at the end of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCommit {
    /// Its rows stay.
    #[default]
    Preserve,
    /// Its rows are deleted.
    DeleteRows,
    /// It is dropped.
    Drop,
}

/// A temporary table.
#[derive(Clone, Debug)]
pub struct TemporaryTable {
    /// Its columns and checks.
    pub schema: Arc<TableSchema>,
    /// The columns of its primary key, as indexes; empty without one.
    pub key: Vec<usize>,
    /// What happens to it at the end of a transaction.
    pub on_commit: OnCommit,
    /// Its rows.
    pub rows: Vec<Arc<HeldRows>>,
}

/// Rows with the memory that they take. Given back when dropped.
#[derive(Debug)]
pub struct HeldRows {
    /// The rows.
    pub rows: RecordBatch,
    _held: MemoryReservation,
}

impl TemporaryTable {
    /// The columns of its rows. The planner takes each for nullable.
    pub fn arrow(&self) -> SchemaRef {
        self.schema.to_nullable_arrow()
    }

    /// Its rows, batch by batch.
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.rows.iter().map(|held| held.rows.clone()).collect()
    }

    /// The number of its rows.
    pub fn count(&self) -> u64 {
        self.rows.iter().map(|held| held.rows.num_rows() as u64).sum()
    }
}

#[async_trait::async_trait]
impl TableProvider for TemporaryTable {
    fn schema(&self) -> SchemaRef {
        self.arrow()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        MemTable::try_new(self.arrow(), vec![self.batches()])?.scan(session, projection, filters, limit).await
    }
}

/// The temporary tables of a session.
#[derive(Debug)]
pub struct TemporaryTables {
    memory: QueryMemory,
    tables: RwLock<Arc<TablesByName>>,
}

impl TemporaryTables {
    /// None. Rows are charged to this memory.
    pub fn new(memory: QueryMemory) -> Self {
        Self { memory, tables: RwLock::default() }
    }

    /// The tables as they are now.
    pub fn now(&self) -> Arc<TablesByName> {
        Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces all tables.
    pub fn restore(&self, tables: Arc<TablesByName>) {
        let before = std::mem::replace(&mut *self.tables.write().unwrap_or_else(PoisonError::into_inner), tables);
        drop(before);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// A table by its name.
    pub fn get(&self, name: &str) -> Option<Arc<TemporaryTable>> {
        self.now().get(name).map(Arc::clone)
    }

    /// Adds a table, or replaces the one with its name.
    pub fn put(&self, table: TemporaryTable) {
        self.change(|tables| {
            tables.insert(table.schema.name.clone(), Arc::new(table));
        });
    }

    /// Removes a table.
    pub fn remove(&self, name: &str) {
        self.change(|tables| {
            tables.remove(name);
        });
    }

    /// Ends a transaction that is committed, or a statement outside of one.
    pub fn end_transaction(&self) {
        if self.now().values().all(|table| table.on_commit == OnCommit::Preserve) {
            return;
        }
        self.change(|tables| {
            tables.retain(|_, table| table.on_commit != OnCommit::Drop);
            for table in tables.values_mut().filter(|table| table.on_commit == OnCommit::DeleteRows) {
                *table = Arc::new(TemporaryTable { rows: Vec::new(), ..table.as_ref().clone() });
            }
        });
    }

    /// Charges rows of a table to the session's memory.
    ///
    /// # Errors
    /// [`Code::OutOfMemory`](fleetdb_engine::Code::OutOfMemory) if there is not enough.
    pub fn hold(&self, table: &str, rows: RecordBatch) -> fleetdb_engine::Result<Arc<HeldRows>> {
        let what = format!("temporary table \"{table}\"");
        let held = self.memory.reserve(&what, rows.get_array_memory_size())?;
        Ok(Arc::new(HeldRows { rows, _held: held }))
    }

    fn change(&self, change: impl FnOnce(&mut TablesByName)) {
        let mut tables = self.now().as_ref().clone();
        change(&mut tables);
        self.restore(Arc::new(tables));
    }
}

#[async_trait::async_trait]
impl SchemaProvider for TemporaryTables {
    fn table_names(&self) -> Vec<String> {
        self.now().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.get(name).map(|table| table as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.now().contains_key(name)
    }
}

#[cfg(test)]
#[path = "temporary_tests.rs"]
mod tests;
