//! The newest row of each container, without a scan.
//!
//! The container index of a segment holds each container's last row; a memtable knows it by its order. Only where
//! deletes or slices cut a container's end off, or an index block says nothing of fields because its containers are
//! short, is one row read from its pages.

use super::containers::public;
use super::merge::{self, Merge, Wanted};
use super::rows::BATCH_TEXT_BYTES;
use super::source::{Memo, Run};
use super::{ScanRequest, Sources, TableView};
use crate::column::ColumnBuilder;
use crate::error::Result;
use crate::key;
use crate::schema::{ColumnType, Role, TableSchema};
use crate::segment::index::LastValue;
use crate::write::batch::Value;
use arrow::array::{ArrayRef, RecordBatch};
use std::sync::Arc;

/// Yields the last rows of a table's containers as Arrow batches, in key order.
pub struct LastRows {
    schema: Arc<TableSchema>,
    sources: Sources,
    merge: Merge,
    wanted: Wanted,
    memos: Vec<Memo>,
    batch_rows: usize,
}

impl TableView {
    /// The newest row of every container among those that a request asks for (its columns and limit play no part), all
    /// columns, in key order. Reads the container indexes, and rows only where a bound cuts.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
    /// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let reads = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second);
    /// db.create_table(&reads.field("kwh", ColumnType::Float64)).unwrap();
    /// for meter in 0..3 {
    ///     let meter = db.container("reads", &[Value::Int(meter)]).unwrap();
    ///     meter.append(0, &[("kwh", Value::Float(0.5))]).unwrap();
    ///     meter.append(3600, &[("kwh", Value::Float(1.5))]).unwrap();
    /// }
    /// let view = db.view();
    /// let rows: usize = view.table("reads").unwrap().last_rows(&ScanRequest::all()).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    /// assert_eq!(rows, 3);
    /// ```
    ///
    /// # Errors
    /// See [`scan`](Self::scan). Errors of reading come from the iterator.
    pub fn last_rows(&self, request: &ScanRequest) -> Result<LastRows> {
        let wanted = self.wanted(request)?;
        let sources = self.sources(&wanted, 0)?;
        Ok(LastRows {
            schema: Arc::clone(&self.schema),
            merge: Merge::new(&sources.list, wanted.clone()),
            memos: sources.list.iter().map(|_| Memo::default()).collect(),
            sources,
            wanted,
            batch_rows: self.batch_rows,
        })
    }
}

/// A container's newest row.
struct Newest {
    source: usize,
    run: Run,
    /// The row's number in the source.
    row: u64,
    time: i64,
}

impl LastRows {
    /// The next container's newest row, as values in the order of the table's columns.
    pub(super) fn next_row(&mut self) -> Result<Option<Vec<Value>>> {
        let Some(newest) = self.next_newest()? else { return Ok(None) };
        let schema = Arc::clone(&self.schema);
        let keys = key::decode(&newest.run.key, &self.wanted.key_types)?;
        let mut row = Vec::with_capacity(schema.columns.len());
        for (place, column) in schema.columns.iter().enumerate() {
            row.push(match column.role {
                Role::Key => public(&keys[schema.key_place(place)], column.column_type),
                Role::Time => Value::Int(newest.time),
                Role::Field => match self.known(&newest, place) {
                    Some(LastValue::Null) => Value::Null,
                    Some(LastValue::Raw(raw)) => Value::of_raw(raw, column.column_type),
                    Some(LastValue::Bytes(bytes)) => Value::of_bytes(bytes, column.column_type),
                    None => {
                        let mut out = ColumnBuilder::new(column.column_type);
                        self.read(&newest, place, &mut out)?;
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
            let Some(newest) = self.next_newest()? else { break };
            let keys = key::decode(&newest.run.key, &self.wanted.key_types)?;
            for (place, out) in columns.iter_mut().enumerate() {
                match schema.columns[place].role {
                    Role::Key => out.push(keys[schema.key_place(place)].part()),
                    Role::Time => out.push_raw(Some(newest.time as u64), 1),
                    Role::Field => match (self.known(&newest, place), out) {
                        (None, out) => self.read(&newest, place, out)?,
                        (Some(LastValue::Bytes(bytes)), ColumnBuilder::Bytes(out)) => out.push(Some(bytes)),
                        (Some(LastValue::Raw(raw)), out) => out.push_raw(Some(raw), 1),
                        (Some(_), out) => out.push_raw(None, 1),
                    },
                }
            }
            rows += 1;
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

    fn next_newest(&mut self) -> Result<Option<Newest>> {
        while let Some(mut runs) = self.merge.next()? {
            let parts = merge::parts(&self.sources.list, &runs, &self.wanted, &mut self.memos)?;
            // Of equal times the newest source counts; it comes last.
            let Some(newest) = parts.iter().max_by_key(|part| (part.times.1, part.pick.source)) else { continue };
            let (source, row) = (newest.pick.source, newest.pick.start + newest.pick.rows as u64 - 1);
            let Some(place) = runs.iter().position(|(of, _)| *of == source) else { continue };
            return Ok(Some(Newest { source, run: runs.swap_remove(place).1, row, time: newest.times.1 }));
        }
        Ok(None)
    }

    /// A field of the newest row, if that is known without reading the row.
    fn known<'a>(&self, newest: &'a Newest, place: usize) -> Option<LastValue<&'a [u8]>> {
        let Newest { source, run, row, .. } = newest;
        let column = &self.schema.columns[place];
        let ends_run = *row + 1 == run.start + run.rows as u64;
        self.sources.list[*source].known_last(run, (column.id, column.column_type)).filter(|_| ends_run)
    }

    /// Reads a field of the newest row.
    fn read(&mut self, newest: &Newest, place: usize, out: &mut ColumnBuilder) -> Result<()> {
        let column = &self.schema.columns[place];
        let memo = &mut self.memos[newest.source];
        self.sources.list[newest.source].read((column.id, column.column_type), newest.row, 1, memo, out)
    }
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
