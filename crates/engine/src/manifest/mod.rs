//! The manifest: which tables and segments there are, and up to where the WAL is in segments.
//!
//! 1. [`State`] is the fold of all edits; [`Edit`] changes it; [`State::apply`] checks the numbered
//!    invariants after each edit, so that a wrong edit never becomes durable.
//! 2. [`file`] keeps them: a file begins with a fold, edits follow, each synced before it counts.

pub(crate) mod file;

use crate::error::{Error, Result};
use crate::ids::{Generation, SegmentId, Sequence, TableId};
use crate::schema::{Column, Role, TableSchema};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A segment as the manifest knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Names the file.
    pub id: SegmentId,
    /// Whose rows these are.
    pub table: TableId,
    /// Which turn of the memtables they come from.
    pub generation: Generation,
    /// How many rows.
    pub rows: u64,
    /// The file's length.
    pub bytes: u64,
    /// CRC32C of the whole file, footer included; `check` compares it.
    pub crc: u32,
    /// The least and largest time.
    pub times: (i64, i64),
}

/// Everything the manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Names the database, for ever.
    pub database_id: String,
    /// The next table's number.
    pub next_table: u32,
    /// The next segment's number.
    pub next_segment: u64,
    /// Every generation up to this one is in segments; its WAL file is not needed.
    pub flushed: Generation,
    /// The last batch of the flushed generations.
    pub flushed_sequence: Sequence,
    /// The tables.
    pub tables: BTreeMap<TableId, TableSchema>,
    /// The segments.
    pub segments: BTreeMap<SegmentId, SegmentEntry>,
}

/// One change of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    /// A table is there from now on.
    CreateTable {
        /// The table.
        schema: TableSchema,
    },
    /// A table is gone, with its segments.
    DropTable {
        /// The table.
        table: TableId,
    },
    /// A table has one more column.
    AddColumn {
        /// The table.
        table: TableId,
        /// The column, behind all others.
        column: Column,
    },
    /// A generation is in segments.
    Flush {
        /// The generation.
        generation: Generation,
        /// Its last batch.
        sequence: Sequence,
        /// Its segments.
        segments: Vec<SegmentEntry>,
    },
}

impl State {
    /// The state after an edit.
    ///
    /// # Errors
    /// [`ErrorKind::Bug`](crate::ErrorKind::Bug) if the edit breaks an invariant.
    pub fn apply(&self, edit: &Edit) -> Result<Self> {
        let mut state = self.clone();
        match edit {
            Edit::CreateTable { schema } => {
                state.next_table = state.next_table.max(schema.id.0 + 1);
                if state.tables.insert(schema.id, schema.clone()).is_some() {
                    return Err(broken("E1", format!("table {} is created twice", schema.id)));
                }
            }
            Edit::DropTable { table } => {
                if state.tables.remove(table).is_none() {
                    return Err(broken("E2", format!("table {table} is dropped and does not exist")));
                }
                state.segments.retain(|_, segment| segment.table != *table);
            }
            Edit::AddColumn { table, column } => {
                let Some(schema) = state.tables.get_mut(table) else {
                    return Err(broken("E3", format!("table {table} gets a column and does not exist")));
                };
                if column.role == Role::Key {
                    schema.key.push(schema.columns.len());
                }
                schema.columns.push(column.clone());
            }
            Edit::Flush { generation, sequence, segments } => {
                if *generation != Generation(state.flushed.0 + 1) || *sequence < state.flushed_sequence {
                    return Err(broken("E4", format!("generation {generation} is flushed after {}", state.flushed)));
                }
                state.flushed = *generation;
                state.flushed_sequence = *sequence;
                for segment in segments {
                    state.next_segment = state.next_segment.max(segment.id.0 + 1);
                    if state.segments.insert(segment.id, segment.clone()).is_some() {
                        return Err(broken("E5", format!("segment {} is added twice", segment.id)));
                    }
                }
            }
        }
        state.check()?;
        Ok(state)
    }

    /// Checks the invariants that hold for every state.
    ///
    /// # Errors
    /// [`ErrorKind::Bug`](crate::ErrorKind::Bug) that names the broken one.
    pub fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for (id, table) in &self.tables {
            if table.id != *id || id.0 >= self.next_table {
                return Err(broken("S1", format!("table {id} has a number that was not given out")));
            }
            if !names.insert(&table.name) {
                return Err(broken("S2", format!("two tables are called '{}'", table.name)));
            }
            let ids: BTreeSet<_> = table.columns.iter().map(|column| column.id).collect();
            let columns: BTreeSet<_> = table.columns.iter().map(|column| &column.name).collect();
            if ids.len() != table.columns.len() || columns.len() != table.columns.len() {
                return Err(broken("S3", format!("table '{}' has a column twice", table.name)));
            }
            let role = |place: &usize| table.columns.get(*place).map(|column| column.role);
            if !table.key.iter().all(|place| role(place) == Some(Role::Key))
                || !table.time.iter().all(|place| role(place) == Some(Role::Time))
                || table.columns.iter().filter(|c| c.role == Role::Key).count() != table.key.len()
            {
                return Err(broken("S4", format!("the key of table '{}' names wrong columns", table.name)));
            }
        }
        for (id, segment) in &self.segments {
            if segment.id != *id || id.0 >= self.next_segment {
                return Err(broken("S5", format!("segment {id} has a number that was not given out")));
            }
            if !self.tables.contains_key(&segment.table) {
                return Err(broken("S6", format!("segment {id} is of table {}, which does not exist", segment.table)));
            }
            if segment.generation > self.flushed {
                return Err(broken(
                    "S7",
                    format!("segment {id} is of generation {}, which is not flushed", segment.generation),
                ));
            }
            if segment.rows == 0 || segment.times.0 > segment.times.1 {
                return Err(broken("S8", format!("segment {id} has no rows or no span of time")));
            }
        }
        Ok(())
    }
}

fn broken(invariant: &str, what: String) -> Error {
    Error::bug(format!("manifest invariant {invariant} is broken: {what}"))
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
