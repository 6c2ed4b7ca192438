//! The manifest: the list of tables and segments, and how far the WAL has been flushed.
//!
//! 1. [`State`] is the fold of all edits. Each [`Edit`] changes it. After each edit
//!    [`State::apply`] checks the numbered invariants, so that a wrong edit never becomes durable.
//! 2. [`file`] stores them: a file begins with a fold, followed by edits. Each is synced before it
//!    takes effect.

pub(crate) mod file;

use crate::check::Check;
use crate::column_type::ColumnType;
use crate::constraints::{DefaultValue, ForeignKey, StoredQueries, StoredQuery};
use crate::error::{Error, Result};
use crate::ids::{ColumnId, Generation, SegmentId, Sequence, TableId};
use crate::schema::{Column, Role, TableSchema};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A segment as recorded in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Identifies the file.
    pub id: SegmentId,
    /// The table of the rows.
    pub table: TableId,
    /// The memtable generation that the rows come from.
    pub generation: Generation,
    /// Number of rows in the file.
    pub rows: u64,
    /// File length.
    pub bytes: u64,
    /// CRC32C of the whole file, including the footer; `check` verifies it.
    pub crc: u32,
    /// Minimum and maximum time.
    pub times: (i64, i64),
    /// Width of the time partition that holds the rows (of each partition, if there are slices); 0
    /// in a collection.
    pub width: i64,
    /// Every delete up to this one has been applied: the file no longer holds the rows it deleted.
    pub purged: u64,
    /// The time partitions whose rows are valid, if one file holds few rows of many partitions.
    /// Empty if all rows of the file are valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
}

/// The rows of one time partition in a file that holds several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The partition's first time.
    pub from: i64,
    /// The partition's last time.
    pub to: i64,
    /// Number of rows.
    pub rows: u64,
}

/// A delete by key and time, of all rows older than it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    /// The batch that contains the delete; unique within a table.
    pub id: u64,
    /// The generation of that batch; the delete affects older generations.
    pub generation: Generation,
    /// The container's encoded key; `None` for all containers.
    pub key: Option<Vec<u8>>,
    /// First deleted time.
    pub from: i64,
    /// Last deleted time, inclusive.
    pub to: i64,
}

impl Delete {
    /// Whether it affects rows of a segment.
    pub fn concerns(&self, segment: &SegmentEntry) -> bool {
        segment.generation < self.generation
            && segment.purged < self.id
            && segment.times.0 <= self.to
            && segment.times.1 >= self.from
    }
}

/// What the log is known to hold. If it holds less, one of its files was removed or truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMark {
    /// The file of this generation exists, and its directory entry is durable.
    pub generation: Generation,
    /// Every batch up to this one is durable.
    pub durable: Sequence,
}

/// Where the log in a cluster's bucket goes on after a manifest there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayFrom {
    /// The epoch of the node that wrote the manifest.
    pub owner: u64,
    /// The epoch of the first log object that the manifest does not cover.
    pub epoch: u64,
    /// The number of that object in the log of its epoch.
    pub number: u64,
    /// The manifest has the definitions in log objects up to this epoch and
    /// [count](crate::Definitions::count).
    pub defined: (u64, u64),
    /// Where the manifest file of the owner that defined them ended:
    /// [`Definitions::manifest_end`](crate::Definitions::manifest_end).
    pub manifest_end: (u64, u64),
    /// Only the directory of the owner has the database, which was not in a cluster before: no other
    /// node can take over yet.
    #[serde(default)]
    pub is_elsewhere: bool,
}

/// The complete state of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Identifies the database. Never changes.
    pub database_id: String,
    /// The id of the next table.
    pub next_table: u32,
    /// The id of the next segment.
    pub next_segment: u64,
    /// All generations up to this one are in segments; their WAL files are no longer needed.
    pub flushed: Generation,
    /// The last batch of the flushed generations.
    pub flushed_sequence: Sequence,
    /// The tables.
    pub tables: BTreeMap<TableId, TableSchema>,
    /// The highest number that each table may have given to a row.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<TableId, i64>,
    /// Queries by name, which SQL calls views. The engine only keeps them.
    #[serde(default, skip_serializing_if = "StoredQueries::is_empty")]
    pub stored_queries: StoredQueries,
    /// The segments.
    pub segments: BTreeMap<SegmentId, SegmentEntry>,
    /// Deletes that have not been applied to all segments yet.
    #[serde(default)]
    pub deletes: BTreeMap<TableId, Vec<Delete>>,
    /// What the log is known to hold; `None` in a backup, which has no log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogMark>,
    /// Where the log in the bucket goes on; only in the bucket of a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_from: Option<ReplayFrom>,
}

/// One change to the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edit {
    /// Creates a table.
    CreateTable {
        /// The table.
        schema: TableSchema,
    },
    /// Drops a table and its segments.
    DropTable {
        /// The table.
        table: TableId,
    },
    /// Adds a column to a table.
    AddColumn {
        /// The table.
        table: TableId,
        /// The column, added after all others.
        column: Column,
    },
    /// Renames a table.
    RenameTable {
        /// The table.
        table: TableId,
        /// Its new name.
        name: String,
    },
    /// Renames a column.
    RenameColumn {
        /// The table.
        table: TableId,
        /// The column.
        column: ColumnId,
        /// Its new name.
        name: String,
    },
    /// Drops a column.
    DropColumn {
        /// The table.
        table: TableId,
        /// The column.
        column: ColumnId,
    },
    /// Widens a column's type.
    WidenColumn {
        /// The table.
        table: TableId,
        /// The column.
        column: ColumnId,
        /// Its new type.
        column_type: ColumnType,
    },
    /// Sets a table's retention.
    SetRetention {
        /// The table.
        table: TableId,
        /// Maximum age in seconds; `None` keeps all rows.
        seconds: Option<i64>,
    },
    /// Sets the value of a column in rows that do not give one.
    SetDefault {
        /// The table.
        table: TableId,
        /// The column.
        column: ColumnId,
        /// The value; `None` for NULL.
        default: Option<DefaultValue>,
    },
    /// Sets whether a column may be NULL.
    SetNullable {
        /// The table.
        table: TableId,
        /// The column.
        column: ColumnId,
        /// Whether it may.
        nullable: bool,
    },
    /// Replaces a table's checks and foreign keys.
    SetConstraints {
        /// The table.
        table: TableId,
        /// All of its checks.
        checks: Vec<Check>,
        /// All of its foreign keys.
        foreign_keys: Vec<ForeignKey>,
    },
    /// Reserves numbers for a table's rows, or gives back those that no row has.
    ReserveNumbers {
        /// The table.
        table: TableId,
        /// The highest number that may be given to a row before the next edit.
        to: i64,
    },
    /// Stores, replaces or drops a query.
    SetQuery {
        /// Its name.
        name: String,
        /// Its query; `None` drops it.
        query: Option<StoredQuery>,
    },
    /// Several edits at once.
    Several {
        /// The edits, in order.
        edits: Vec<Edit>,
    },
    /// Replaces segments, or removes them because all their rows were deleted or expired.
    Compact {
        /// The removed segments.
        removed: Vec<SegmentId>,
        /// Segments, and the slices of each that remain.
        sliced: Vec<(SegmentId, Vec<Slice>)>,
        /// The segments that now hold their rows.
        added: Vec<SegmentEntry>,
    },
    /// Records that a generation is in segments.
    Flush {
        /// The generation.
        generation: Generation,
        /// Its last batch.
        sequence: Sequence,
        /// Its segments.
        segments: Vec<SegmentEntry>,
        /// Its deletes, which have not been applied to older segments.
        #[serde(default)]
        deletes: Vec<(TableId, Delete)>,
        /// What the log is known to hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        log: Option<LogMark>,
    },
    /// Records what the log is known to hold.
    Log {
        /// `None` if nothing is known, because lost batches were given up.
        mark: Option<LogMark>,
    },
}

/// Counts the changes of definitions since a database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// 1 for the definitions that were there then, and 1 for each change of tables, columns, views and
    /// reserved numbers.
    pub count: u64,
    /// The count after the last change that also rewrote rows, such as a dropped column or a DELETE
    /// by condition; 0 if there was none. The log before such a change cannot be replayed onto what
    /// follows it.
    pub rewritten: u64,
    /// Where the manifest file ends: its number and its length. A directory whose manifest ends
    /// earlier is an older copy.
    pub manifest_end: (u64, u64),
}

impl Definitions {
    /// Those of a database that was just opened.
    pub(crate) const FIRST: Self = Self { count: 1, rewritten: 0, manifest_end: (0, 0) };
}

impl Edit {
    /// Whether it changes definitions, and not only where rows are.
    pub(crate) fn defines(&self) -> bool {
        match self {
            Self::Flush { .. } | Self::Compact { .. } | Self::Log { .. } => false,
            Self::Several { edits } => edits.iter().any(Self::defines),
            _ => true,
        }
    }
}

impl State {
    /// Takes over the definitions of another state of the same database: all but rows.
    pub fn define(&mut self, other: &Self) {
        self.next_table = other.next_table;
        self.tables.clone_from(&other.tables);
        self.numbers.clone_from(&other.numbers);
        self.stored_queries.clone_from(&other.stored_queries);
        let tables = &self.tables;
        self.segments.retain(|_, segment| tables.contains_key(&segment.table));
        self.deletes.retain(|table, _| tables.contains_key(table));
    }

    /// The state after an edit.
    ///
    /// # Errors
    /// [`ErrorKind::Bug`](crate::ErrorKind::Bug) if the edit breaks an invariant.
    pub fn apply(&self, edit: &Edit) -> Result<Self> {
        let mut state = self.clone();
        state.change(edit)?;
        state.check()?;
        Ok(state)
    }

    fn change(&mut self, edit: &Edit) -> Result<()> {
        let state = self;
        match edit {
            Edit::CreateTable { schema } => {
                state.next_table = state.next_table.max(schema.id.0 + 1);
                if state.tables.insert(schema.id, schema.clone()).is_some() {
                    return Err(broken("E1", format!("table {} is created twice", schema.id)));
                }
            }
            Edit::DropTable { table } => {
                if state.tables.remove(table).is_none() {
                    return Err(broken("E2", format!("dropped table {table} does not exist")));
                }
                state.segments.retain(|_, segment| segment.table != *table);
                state.deletes.remove(table);
                state.numbers.remove(table);
            }
            Edit::AddColumn { table, column } => {
                let Some(schema) = state.tables.get_mut(table) else {
                    return Err(broken("E3", format!("table {table}, which gets a column, does not exist")));
                };
                if column.role == Role::Key {
                    schema.key.push(schema.columns.len());
                }
                schema.next_column = schema.next_column.max(column.id.0 + 1);
                schema.columns.push(column.clone());
            }
            Edit::RenameTable { table, name } => state.table(*table)?.name.clone_from(name),
            Edit::RenameColumn { table, column, name } => {
                let (schema, place) = state.column(*table, *column)?;
                schema.columns[place].name.clone_from(name);
            }
            Edit::DropColumn { table, column } => {
                let (schema, place) = state.column(*table, *column)?;
                if schema.columns[place].role != Role::Field {
                    return Err(broken("E6", format!("dropped column {column} is part of the key")));
                }
                schema.columns.remove(place);
                schema.remove_constraints_on(*column);
                let moved = |at: &mut usize| *at -= usize::from(*at > place);
                schema.key.iter_mut().for_each(moved);
                schema.time.iter_mut().for_each(moved);
            }
            Edit::WidenColumn { table, column, column_type } => {
                let (schema, place) = state.column(*table, *column)?;
                let column = &mut schema.columns[place];
                if !column.may_become(*column_type) {
                    return Err(broken("E7", format!("column {} cannot be widened to {column_type}", column.id)));
                }
                column.column_type = *column_type;
            }
            Edit::SetRetention { table, seconds } => state.table(*table)?.retention_seconds = *seconds,
            Edit::Compact { removed, sliced, added } => {
                for id in removed {
                    if state.segments.remove(id).is_none() {
                        return Err(broken("E8", format!("removed segment {id} does not exist")));
                    }
                }
                for (id, slices) in sliced {
                    let Some(segment) = state.segments.get_mut(id) else {
                        return Err(broken("E8", format!("sliced segment {id} does not exist")));
                    };
                    if slices.is_empty() || !slices.iter().all(|slice| segment.slices.contains(slice)) {
                        return Err(broken("E9", format!("segment {id} is reduced to slices that it does not have")));
                    }
                    segment.slices.clone_from(slices);
                }
                for segment in added {
                    state.add(segment)?;
                }
                state.settle_deletes();
            }
            Edit::Flush { generation, sequence, segments, deletes, log } => {
                if *generation != Generation(state.flushed.0 + 1) || *sequence < state.flushed_sequence {
                    return Err(broken("E4", format!("generation {generation} is flushed after {}", state.flushed)));
                }
                state.flushed = *generation;
                state.flushed_sequence = *sequence;
                state.log = log.or(state.log);
                for segment in segments {
                    state.add(segment)?;
                }
                for (table, delete) in deletes {
                    state.deletes.entry(*table).or_default().push(delete.clone());
                }
                state.settle_deletes();
            }
            Edit::Log { mark } => state.log = *mark,
            Edit::SetDefault { table, column, default } => {
                let (schema, place) = state.column(*table, *column)?;
                schema.columns[place].default.clone_from(default);
            }
            Edit::SetNullable { table, column, nullable } => {
                let (schema, place) = state.column(*table, *column)?;
                schema.columns[place].nullable = *nullable;
            }
            Edit::SetConstraints { table, checks, foreign_keys } => {
                let schema = state.table(*table)?;
                schema.checks.clone_from(checks);
                schema.foreign_keys.clone_from(foreign_keys);
            }
            Edit::ReserveNumbers { table, to } => {
                state.table(*table)?;
                state.numbers.insert(*table, *to);
            }
            Edit::SetQuery { name, query } => match query {
                Some(query) => {
                    state.stored_queries.insert(name.clone(), query.clone());
                }
                None if state.stored_queries.remove(name).is_some() => {}
                None => return Err(broken("E10", format!("dropped query '{name}' does not exist"))),
            },
            Edit::Several { edits } => edits.iter().try_for_each(|edit| state.change(edit))?,
        }
        Ok(())
    }

    /// What has this name: a table or a view.
    pub(crate) fn named(&self, name: &str) -> Option<&'static str> {
        let is_table = || self.tables.values().any(|table| table.name == name);
        if self.stored_queries.contains_key(name) { Some("view") } else { is_table().then_some("table") }
    }

    /// The segments of a table, by id.
    pub fn segments_of(&self, table: TableId) -> impl Iterator<Item = &SegmentEntry> {
        self.segments.values().filter(move |entry| entry.table == table)
    }

    /// The deletes listed for a table.
    pub(crate) fn deletes_of(&self, table: TableId) -> &[Delete] {
        self.deletes.get(&table).map_or(&[], Vec::as_slice)
    }

    fn table(&mut self, table: TableId) -> Result<&mut TableSchema> {
        let schema = self.tables.get_mut(&table);
        schema.ok_or_else(|| broken("E3", format!("changed table {table} does not exist")))
    }

    /// A column's table, and the column's index in it.
    fn column(&mut self, table: TableId, column: ColumnId) -> Result<(&mut TableSchema, usize)> {
        let schema = self.table(table)?;
        match schema.columns.iter().position(|c| c.id == column) {
            Some(place) => Ok((schema, place)),
            None => Err(broken("E3", format!("changed column {column} of table {table} does not exist"))),
        }
    }

    fn add(&mut self, segment: &SegmentEntry) -> Result<()> {
        self.next_segment = self.next_segment.max(segment.id.0 + 1);
        match self.segments.insert(segment.id, segment.clone()) {
            None => Ok(()),
            Some(_) => Err(broken("E5", format!("segment {} is added twice", segment.id))),
        }
    }

    /// Removes the deletes that affect no remaining segment.
    fn settle_deletes(&mut self) {
        let segments = &self.segments;
        self.deletes.retain(|table, deletes| {
            let concerned = |delete: &Delete| segments.values().any(|s| s.table == *table && delete.concerns(s));
            deletes.retain(concerned);
            !deletes.is_empty()
        });
    }

    /// Checks the invariants of a state.
    ///
    /// # Errors
    /// [`ErrorKind::Bug`](crate::ErrorKind::Bug), naming the violated invariant.
    pub fn check(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for (id, table) in &self.tables {
            if table.id != *id || id.0 >= self.next_table {
                return Err(broken("S1", format!("table {id} has a number that was never allocated")));
            }
            if !names.insert(&table.name) || self.stored_queries.contains_key(&table.name) {
                return Err(broken("S2", format!("two tables or queries are named '{}'", table.name)));
            }
            let ids: BTreeSet<_> = table.columns.iter().map(|column| column.id).collect();
            let columns: BTreeSet<_> = table.columns.iter().map(|column| &column.name).collect();
            if ids.len() != table.columns.len() || columns.len() != table.columns.len() {
                return Err(broken("S3", format!("table '{}' has a duplicate column", table.name)));
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
                return Err(broken("S5", format!("segment {id} has a number that was never allocated")));
            }
            if !self.tables.contains_key(&segment.table) {
                return Err(broken(
                    "S6",
                    format!("segment {id} belongs to table {}, which does not exist", segment.table),
                ));
            }
            if segment.generation > self.flushed {
                return Err(broken(
                    "S7",
                    format!("segment {id} belongs to generation {}, which has not been flushed", segment.generation),
                ));
            }
            if segment.rows == 0 || segment.times.0 > segment.times.1 {
                return Err(broken("S8", format!("segment {id} has no rows or an invalid time range")));
            }
            let ascend = segment.slices.windows(2).all(|pair| pair[0].to < pair[1].from);
            if !ascend || segment.slices.iter().any(|slice| slice.from > slice.to || slice.rows == 0) {
                return Err(broken("S9", format!("segment {id} has slices out of order")));
            }
        }
        for (table, deletes) in &self.deletes {
            if !self.tables.contains_key(table) || deletes.iter().any(|delete| delete.generation > self.flushed) {
                return Err(broken(
                    "S10",
                    format!("a delete of table {table} refers to a table or generation that does not exist"),
                ));
            }
        }
        Ok(())
    }
}

fn broken(invariant: &str, what: String) -> Error {
    Error::bug(format!("manifest invariant {invariant} is violated: {what}"))
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
