//! `BEGIN`, `COMMIT`, `ROLLBACK`: inserts and deletes gathered into one atomic batch.
//!
//! Nothing is written before COMMIT, and statements in between do not see what is gathered: what would have to is
//! refused. As in PostgreSQL, after an error only ROLLBACK helps.

use fleetdb_engine::{Batch, Error, Result};
use std::collections::BTreeSet;

/// What a session has begun.
#[derive(Default)]
pub(crate) enum Transaction {
    /// Nothing: each statement is written by itself.
    #[default]
    None,
    /// A batch is being gathered.
    Open { batch: Batch, tables: BTreeSet<String> },
    /// A statement failed.
    Failed,
}

impl Transaction {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// `BEGIN`.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if !self.is_none() {
            return Err(Error::input("there is a transaction already: COMMIT or ROLLBACK it first"));
        }
        *self = Self::Open { batch: Batch::new(), tables: BTreeSet::new() };
        Ok(())
    }

    /// Ends it for a `COMMIT`; gives what is to be written, `None` if a statement had failed.
    pub(crate) fn take(&mut self) -> Result<Option<Batch>> {
        match std::mem::take(self) {
            Self::None => Err(Error::input("there is no transaction: begin one with BEGIN")),
            Self::Failed => Ok(None),
            Self::Open { batch, .. } => Ok(Some(batch)),
        }
    }

    /// `ROLLBACK`.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        match std::mem::take(self) {
            Self::None => Err(Error::input("there is no transaction: begin one with BEGIN")),
            _ => Ok(()),
        }
    }

    /// Refuses statements after one that failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Failed => Err(Error::input("a statement of this transaction failed: ROLLBACK it")),
            _ => Ok(()),
        }
    }

    /// A statement failed.
    pub(crate) fn fail(&mut self) {
        if !self.is_none() {
            *self = Self::Failed;
        }
    }

    /// Gathers rows of a table.
    pub(crate) fn insert(&mut self, table: &str, rows: Batch) {
        if let Self::Open { batch, tables } = self {
            if !tables.contains(table) {
                tables.insert(table.to_owned());
            }
            *batch = std::mem::take(batch).and(rows);
        }
    }

    /// Gathers deletes; they come before all rows of the batch.
    pub(crate) fn delete(&mut self, table: &str, deletes: Batch) -> Result<()> {
        if let Self::Open { batch, tables } = self {
            if tables.contains(table) {
                return Err(Error::input(format!(
                    "DELETE FROM {table} after an INSERT into it in one transaction is not supported: delete first"
                )));
            }
            *batch = std::mem::take(batch).and(deletes);
        }
        Ok(())
    }
}
