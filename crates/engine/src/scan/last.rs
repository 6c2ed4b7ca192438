//! The newest row of each container, without a scan.
//!
//! The container index of a segment holds each container's last row; a memtable knows it by its order. Only where
//! deletes or slices cut a container's end off, or an index block says nothing of fields because its containers are
//! short, is one row read from its pages.

use super::merge::{self, Merge, Wanted};
use super::rows::repeat;
use super::source::{Memo, Run};
use super::{ScanRequest, Sources, TableView};
use crate::column::ColumnBuilder;
use crate::error::Result;
use crate::key;
use crate::schema::{Role, TableSchema};
use crate::segment::index::LastValue;
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

impl LastRows {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let schema = Arc::clone(&self.schema);
        let types = schema.key_types();
        let mut columns: Vec<ColumnBuilder> =
            schema.columns.iter().map(|column| ColumnBuilder::new(column.column_type)).collect();
        let mut rows = 0;
        while rows < self.batch_rows {
            let Some(runs) = self.merge.next()? else { break };
            let parts = merge::parts(&self.sources.list, &runs, &self.wanted, &mut self.memos)?;
            // Of equal times the newest source counts; it comes last.
            let Some(newest) = parts.iter().max_by_key(|part| (part.times.1, part.pick.source)) else { continue };
            let Some((_, run)) = runs.iter().find(|(source, _)| *source == newest.pick.source) else { continue };
            let values = key::decode(&run.key, &types)?;
            let row = newest.pick.start + newest.pick.rows as u64 - 1;
            let ends_run = row + 1 == run.start + run.rows as u64;
            for (place, out) in columns.iter_mut().enumerate() {
                match schema.columns[place].role {
                    Role::Key => repeat(&values[schema.key_place(place)], 1, out),
                    Role::Time => out.push_raw(Some(newest.times.1 as u64), 1),
                    Role::Field => self.field(place, newest.pick.source, run, row, ends_run, out)?,
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

    fn field(
        &mut self,
        place: usize,
        source: usize,
        run: &Run,
        row: u64,
        ends_run: bool,
        out: &mut ColumnBuilder,
    ) -> Result<()> {
        let column = (self.schema.columns[place].id, self.schema.columns[place].column_type);
        let known = self.sources.list[source].known_last(run, column);
        match (known.filter(|_| ends_run), out) {
            (None, out) => self.sources.list[source].read(column, row, 1, &mut self.memos[source], out)?,
            (Some(LastValue::Bytes(bytes)), ColumnBuilder::Bytes(out)) => out.push(Some(bytes)),
            (Some(LastValue::Raw(raw)), out) => out.push_raw(Some(raw), 1),
            (Some(_), out) => out.push_raw(None, 1),
        }
        Ok(())
    }
}

impl Iterator for LastRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}
