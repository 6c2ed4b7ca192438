//! The newest row of each container, without a scan.
//!
//! A segment's container index holds each container's last row, and a memtable knows it from its
//! order. A row is read from its pages only where deletes or slices cut off a container's end, or
//! where an index block has no fields because its containers are short.

use super::bounds::ScanBounds;
use super::merge::{self, Merge};
use super::rows::BATCH_TEXT_BYTES;
use super::source::{PageMemo, Run};
use super::{COLUMNS_OF_RUNS, ScanRequest, Sources, TableView};
use crate::column::ColumnBuilder;
use crate::column_type::ColumnType;
use crate::error::Result;
use crate::ids::ColumnId;
use crate::key;
use crate::schema::{Role, TableSchema};
use crate::segment::index::{BLOCK_CONTAINERS, IndexBlock, LastValue};
use crate::write::value::Value;
use arrow::array::{ArrayRef, RecordBatch};
use std::collections::VecDeque;
use std::sync::Arc;

/// Yields the newest rows of a table's containers as Arrow batches, in key order.
pub struct LastRows {
    schema: Arc<TableSchema>,
    sources: Sources,
    merge: Merge,
    memos: Vec<PageMemo>,
    batch_rows: usize,
    /// The next rows, which are not in a batch yet.
    found: VecDeque<Newest>,
}

impl TableView {
    /// The newest row of every container that matches a request, with all columns, in key order.
    /// The request's columns and limit are ignored. Reads the container indexes, and rows only
    /// where a bound cuts a container.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let reads = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second);
    /// db.create_table(&reads.field("kwh", ColumnType::Float64)).unwrap();
    /// for meter in 0..3 {
    ///     let meter = db.container("reads", &[Value::Int(meter)]).unwrap();
    ///     meter.append(0, &[("kwh", Value::Float(0.5))]).unwrap();
    ///     meter.append(3600, &[("kwh", Value::Float(1.5))]).unwrap();
    /// }
    /// let view = db.view();
    /// let last = view.table("reads").unwrap().last_rows(&ScanRequest::all()).unwrap();
    /// let rows: usize = last.map(|batch| batch.unwrap().num_rows()).sum();
    /// assert_eq!(rows, 3);
    /// ```
    ///
    /// # Errors
    /// See [`scan`](Self::scan). Read errors come from the iterator.
    pub fn last_rows(&self, request: &ScanRequest) -> Result<LastRows> {
        let bounds = ScanBounds { newest: Some(1), ..self.bounds(request)? };
        // The rows that were found keep blocks of the index.
        let sources = self.sources(&bounds, COLUMNS_OF_RUNS)?;
        Ok(LastRows {
            schema: Arc::clone(&self.schema),
            merge: Merge::new(&sources.list, bounds),
            memos: PageMemo::of_each(&sources.list),
            sources,
            batch_rows: self.scans.batch_rows,
            found: VecDeque::new(),
        })
    }
}

/// A container's newest row.
struct Newest {
    time: i64,
    version: Version,
    /// Older rows with its primary key, newest first, if they can supply fields that it lacks.
    older: Vec<Version>,
}

/// A row in one source.
struct Version {
    source: usize,
    run: Run,
    /// The row's number in the source.
    row: u64,
}

impl Newest {
    /// The index block that has all fields of the row, and the container's position in it.
    fn index_entry(&self) -> Option<(&Arc<IndexBlock>, usize)> {
        self.version.index_entry().filter(|_| self.older.is_empty())
    }

    /// Whether an index block has all fields of both, and `other` is of its next container.
    fn adjoins(&self, other: &Self) -> bool {
        let entries = self.index_entry().zip(other.index_entry());
        entries.is_some_and(|((block, place), (of_other, next))| Arc::ptr_eq(block, of_other) && place + 1 == next)
    }
}

impl Version {
    /// The index block that has the row, and the container's position in it.
    fn index_entry(&self) -> Option<(&Arc<IndexBlock>, usize)> {
        let ends_run = self.row + 1 == self.run.start + self.run.rows as u64;
        self.run.last_in_index().filter(|_| ends_run)
    }
}

/// The location of a field's value.
enum Found<'a> {
    Known(LastValue<&'a [u8]>),
    Stored(&'a Version),
}

impl LastRows {
    /// The next container's newest row, as values in the table's column order.
    pub(super) fn next_row(&mut self) -> Result<Option<Vec<Value>>> {
        let Some(newest) = self.next_newest()? else { return Ok(None) };
        let schema = Arc::clone(&self.schema);
        let keys = key::decode(&newest.version.run.key, &self.merge.bounds.key_types)?;
        let mut row = Vec::with_capacity(schema.columns.len());
        for (place, column) in schema.columns.iter().enumerate() {
            row.push(match column.role {
                Role::Key => Value::of_key(&keys[schema.key_place(place)], column.column_type),
                Role::Time => Value::Int(newest.time),
                Role::Field => match self.find(&newest, place)? {
                    Found::Known(LastValue::Null) => Value::Null,
                    Found::Known(LastValue::Raw(raw)) => Value::of_raw(raw, column.column_type),
                    Found::Known(LastValue::Bytes(bytes)) => Value::of_bytes(bytes, column.column_type),
                    Found::Stored(version) => {
                        let mut out = ColumnBuilder::new(column.column_type);
                        self.read(version, place, &mut out)?;
                        first(&out, column.column_type)
                    }
                },
            });
        }
        Ok(Some(row))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let schema = Arc::clone(&self.schema);
        let mut columns: Vec<ColumnBuilder> =
            schema.columns.iter().map(|column| ColumnBuilder::new(column.column_type)).collect();
        let mut rows = 0;
        while rows < self.batch_rows && columns.iter().all(|column| column.bytes() < BATCH_TEXT_BYTES) {
            if self.found.is_empty() {
                let found = std::iter::from_fn(|| self.next_newest().transpose()).take(BLOCK_CONTAINERS);
                self.found = found.collect::<Result<_>>()?;
            }
            let newest = self.take_neighbours(self.batch_rows - rows);
            if newest.is_empty() {
                break;
            }
            for (place, out) in columns.iter_mut().enumerate() {
                self.push(&newest, place, out)?;
            }
            rows += newest.len();
        }
        if rows == 0 {
            return Ok(None);
        }
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (column, builder) in schema.columns.iter().zip(columns) {
            arrays.push(builder.finish(column.column_type)?);
        }
        Ok(Some(RecordBatch::try_new(schema.to_arrow(), arrays)?))
    }

    /// Takes the next rows that were found: one, or up to `most` whose fields follow each other in an
    /// index block and do not take much memory.
    fn take_neighbours(&mut self, most: usize) -> Vec<Newest> {
        let Some(first) = self.found.front() else { return Vec::new() };
        let pairs = self.found.iter().zip(self.found.iter().skip(1));
        let mut rows = 1 + pairs.take(most - 1).take_while(|(one, next)| one.adjoins(next)).count();
        if let Some((block, place)) = first.index_entry() {
            while rows > 1 && block.last_text_bytes(place..place + rows) > BATCH_TEXT_BYTES {
                rows /= 2;
            }
        }
        self.found.drain(..rows).collect()
    }

    /// Appends a column of rows that [`take_neighbours`](Self::take_neighbours) gave.
    fn push(&mut self, newest: &[Newest], place: usize, out: &mut ColumnBuilder) -> Result<()> {
        let schema = Arc::clone(&self.schema);
        let column = &schema.columns[place];
        match column.role {
            Role::Key => {
                let key_place = schema.key_place(place);
                for Newest { version, .. } in newest {
                    out.push(key::decode_column(&version.run.key, &self.merge.bounds.key_types, key_place)?.part());
                }
            }
            Role::Time => newest.iter().for_each(|newest| out.push_raw(Some(newest.time as u64), 1)),
            Role::Field => match newest[0].index_entry() {
                Some((block, first)) => {
                    block.push_last(first..first + newest.len(), column.id, column.column_type, out);
                }
                None => self.push_one(&newest[0], place, out)?,
            },
        }
        Ok(())
    }

    /// Appends a field of a container's newest row.
    fn push_one(&mut self, newest: &Newest, place: usize, out: &mut ColumnBuilder) -> Result<()> {
        match (self.find(newest, place)?, out) {
            (Found::Stored(version), out) => return self.read(version, place, out),
            (Found::Known(LastValue::Bytes(bytes)), ColumnBuilder::Bytes(out)) => out.push(Some(bytes)),
            (Found::Known(LastValue::Raw(raw)), out) => out.push_raw(Some(raw), 1),
            (Found::Known(_), out) => out.push_raw(None, 1),
        }
        Ok(())
    }

    fn next_newest(&mut self) -> Result<Option<Newest>> {
        while let Some(mut runs) = self.merge.next()? {
            let parts = merge::parts(&self.sources.list, &runs, &self.merge.bounds, &mut self.memos)?;
            // For equal times the newest source wins; it comes last.
            let Some(newest) = parts.iter().max_by_key(|part| (part.times.1, part.pick.source)) else { continue };
            let Some(version) = version(&mut runs, newest) else { continue };
            let mut older = Vec::new();
            if self.merge.bounds.merges_fields {
                let others = parts.iter().filter(|part| part.pick.source != version.source);
                let same: Vec<_> = others.filter(|part| part.times.1 == newest.times.1).collect();
                older.extend(same.into_iter().filter_map(|part| self::version(&mut runs, part)));
                older.sort_unstable_by_key(|version| std::cmp::Reverse(version.source));
            }
            return Ok(Some(Newest { time: newest.times.1, version, older }));
        }
        Ok(None)
    }

    /// Finds the value of a field of the newest row.
    #[inline]
    fn find<'a>(&mut self, newest: &'a Newest, place: usize) -> Result<Found<'a>> {
        if !newest.older.is_empty() {
            return self.find_merged(newest, place);
        }
        Ok(self.known(&newest.version, place).map_or(Found::Stored(&newest.version), Found::Known))
    }

    /// Like [`find`](Self::find), where older rows may supply the value.
    fn find_merged<'a>(&mut self, newest: &'a Newest, place: usize) -> Result<Found<'a>> {
        let column = self.schema.columns[place].id;
        let mut versions = std::iter::once(&newest.version).chain(&newest.older).peekable();
        while let Some(version) = versions.next() {
            let is_last = versions.peek().is_none();
            match self.known(version, place) {
                Some(LastValue::Null) if !is_last => {}
                Some(known) => return Ok(Found::Known(known)),
                None if is_last || self.has_value(version, column)? => return Ok(Found::Stored(version)),
                None => {}
            }
        }
        Ok(Found::Known(LastValue::Null))
    }

    fn has_value(&mut self, version: &Version, column: ColumnId) -> Result<bool> {
        let memo = &mut self.memos[version.source];
        self.sources.list[version.source].has_value(column, version.row, memo)
    }

    /// A field of a row, if the index has it.
    fn known<'a>(&self, version: &'a Version, place: usize) -> Option<LastValue<&'a [u8]>> {
        let column = &self.schema.columns[place];
        version.index_entry().map(|(block, container)| block.last(container, column.id, column.column_type))
    }

    /// Reads a field of a row.
    fn read(&mut self, version: &Version, place: usize, out: &mut ColumnBuilder) -> Result<()> {
        let column = &self.schema.columns[place];
        let memo = &mut self.memos[version.source];
        self.sources.list[version.source].read((column.id, column.column_type), version.row, 1, memo, out)
    }
}

/// The last row of a part. Takes the part's run out of `runs`.
fn version(runs: &mut Vec<(usize, Run)>, part: &merge::Part) -> Option<Version> {
    let (source, row) = (part.pick.source, part.pick.start + part.pick.rows as u64 - 1);
    let place = runs.iter().position(|(of, _)| *of == source)?;
    Some(Version { source, run: runs.swap_remove(place).1, row })
}

fn first(column: &ColumnBuilder, column_type: ColumnType) -> Value {
    let value = match column {
        ColumnBuilder::Raw(lane) => lane.get(0).map(|raw| Value::of_raw(raw, column_type)),
        ColumnBuilder::Bytes(bytes) => bytes.get(0).map(|bytes| Value::of_bytes(bytes, column_type)),
    };
    value.unwrap_or(Value::Null)
}

impl Iterator for LastRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
