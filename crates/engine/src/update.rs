//! Read-modify-write: writes that depend on existing rows.
//!
//! The commit lock is held from the first read on, so no other write can come between. The result
//! is stored as an ordinary batch.

use crate::column::ColumnBuilder;
use crate::commit::{Acknowledged, TryCommit, completion};
use crate::db::Database;
use crate::error::{Code, Error, Result};
use crate::scan::{Projection, ScanRequest, View};
use crate::schema::Role;
use crate::wal::log::Waiting;
use crate::write::batch::{Batch, MAX_BATCH_ROWS};
use crate::write::value::{Value, misfit};
use arrow::array::{RecordBatch, UInt64Array};

impl Database {
    /// Reads and writes atomically: writes the batch that `change` builds from everything written
    /// so far. Other writers wait meanwhile, so `change` must be short and must not write to the
    /// database.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{Batch, ColumnType, Database, Rows, Settings, TableDefinition, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let table = TableDefinition::new("counts").key("id", ColumnType::Int64).field("n", ColumnType::Int64);
    /// let schema = db.create_table(&table).unwrap();
    /// db.transact(|view| {
    ///     let mut rows = Rows::new(&schema);
    ///     rows.push(&[Value::Int(1), Value::Int(view.table("counts")?.count()? as i64)])?;
    ///     Ok(Batch::new().with_rows(rows))
    /// }).unwrap();
    /// ```
    ///
    /// # Errors
    /// What `change` returns; nothing is then written. Otherwise as [`commit`](Self::commit).
    pub fn transact(&self, change: impl FnOnce(&View) -> Result<Batch>) -> Result<Acknowledged> {
        let (done, outcome) = completion();
        self.shared.transact(change, Waiting::ForOutcome, done)?;
        self.shared.step_without_threads();
        outcome.wait()
    }

    /// Reads and writes atomically as [`transact`](Self::transact) does, without waiting for the
    /// outcome. `done` is as for [`commit_async`](Self::commit_async).
    ///
    /// # Errors
    /// As [`transact`](Self::transact); `done` is then not called.
    pub fn transact_async(
        &self,
        change: impl FnOnce(&View) -> Result<Batch>,
        done: impl FnOnce(Result<Acknowledged>) + Send + 'static,
    ) -> Result<()> {
        self.shared.transact(change, Waiting::ForRoom, Box::new(done))?;
        self.shared.step_without_threads();
        Ok(())
    }

    /// Reads and writes atomically as [`transact_async`](Self::transact_async) does, but never waits
    /// for other writers or for room, as [`try_commit`](Self::try_commit). `change` is not called if
    /// the outcome is [`TryCommit::Full`].
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{Batch, Database, Settings, TryCommit};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let outcome = db.try_transact(|_| Ok(Batch::new()), |result| assert!(result.is_ok())).unwrap();
    /// assert!(matches!(outcome, TryCommit::Queued));
    /// ```
    ///
    /// # Errors
    /// As [`transact`](Self::transact); `done` is then not called.
    pub fn try_transact(
        &self,
        change: impl FnOnce(&View) -> Result<Batch>,
        done: impl FnOnce(Result<Acknowledged>) + Send + 'static,
    ) -> Result<TryCommit<'_>> {
        let outcome = self.shared.transact(change, Waiting::Never, Box::new(done))?;
        self.shared.step_without_threads();
        Ok(outcome)
    }

    /// Sets columns of the rows that a request selects (by container, key and time), with the
    /// database's default durability. Returns the number of rows.
    ///
    /// ```
    /// use fleetdb_engine::io::{Io, MemoryStorage};
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value};
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    /// db.create_table(&table.field("a", ColumnType::Int64).field("b", ColumnType::Int64)).unwrap();
    /// let seven = db.container("t", &[Value::Int(7)]).unwrap();
    /// seven.append(0, &[("a", Value::Int(1)), ("b", Value::Int(2))]).unwrap();
    /// let rows = ScanRequest::all().container(&[Value::Int(7)]);
    /// assert_eq!(db.update("t", &rows, &[("b", Value::Int(3))]).unwrap().0, 1);
    /// assert_eq!(seven.aggregate("a", 0, 0).unwrap().sum, Some(1.0));
    /// assert_eq!(seven.aggregate("b", 0, 0).unwrap().sum, Some(3.0));
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if a column is part of the key, a value does
    /// not fit its column, or there are more rows than a batch may hold; otherwise as
    /// [`commit`](Self::commit).
    pub fn update(&self, table: &str, rows: &ScanRequest, values: &[(&str, Value)]) -> Result<(u64, Acknowledged)> {
        let mut count = 0;
        let acknowledged = self.transact(|view| {
            let changed = changed(view, table, rows, values)?;
            count = changed.rows() as u64;
            Ok(changed)
        })?;
        Ok((count, acknowledged))
    }
}

/// The rows that a request selects, with the new values set.
fn changed(view: &View, table: &str, rows: &ScanRequest, values: &[(&str, Value)]) -> Result<Batch> {
    let found = view.table(table)?;
    let schema = found.schema();
    let mut places = Vec::with_capacity(values.len());
    for (name, value) in values {
        let place = schema.column_index(name)?;
        if schema.columns[place].role != Role::Field {
            return Err(Error::invalid(format!(
                "column '{name}' is part of the key of table '{table}' and cannot be updated: delete the rows and \
                 insert new ones"
            )));
        }
        let of_column = |e: Error| e.context(format_args!("column '{name}'"));
        let column_type = schema.columns[place].column_type;
        let mut column = ColumnBuilder::new(column_type);
        column.push(value.part(column_type).ok_or_else(|| of_column(misfit(0, value, column_type)))?);
        places.push((place, column.finish(column_type)?));
    }
    let mut changed = Batch::new();
    for batch in found.scan(&ScanRequest { projection: Projection::All, ..rows.clone() })? {
        let batch = batch?;
        let same = UInt64Array::from_value(0, batch.num_rows());
        let mut columns = batch.columns().to_vec();
        for (place, value) in &places {
            columns[*place] = arrow::compute::take(value, &same, None)?;
        }
        // Admission checks nullability, with a better message than Arrow's.
        let fields = batch.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
        let rows = RecordBatch::try_new(arrow::datatypes::Schema::new(fields).into(), columns)?;
        let set: Vec<usize> = places.iter().map(|(place, _)| *place).collect();
        changed = changed.with_replacing_rows(schema, rows, &set)?;
        if changed.rows() > MAX_BATCH_ROWS {
            return Err(Error::new(
                Code::LimitExceeded,
                format!(
                    "the update affects more than {MAX_BATCH_ROWS} rows: restrict the key or the time range and update \
                     in parts"
                ),
            ));
        }
    }
    Ok(changed)
}
