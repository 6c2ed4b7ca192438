//! Updates: single columns of rows that are there.
//!
//! The rows are read and written again, whole, while the commit lock is held: no other write comes between, and what
//! is stored is an upsert like any other.

use crate::db::{Acknowledged, Database};
use crate::error::{Error, Result};
use crate::scan::{Projection, ScanRequest};
use crate::schema::Role;
use crate::write::admit::{MAX_BATCH_ROWS, admit};
use crate::write::batch::{Value, array_of};
use arrow::array::{RecordBatch, UInt64Array};

impl Database {
    /// Sets columns of the rows that a request names (by container, key and time), with the database's default
    /// durability. Gives how many rows there were; `None` if there were none, and nothing was written.
    ///
    /// ```
    /// use fleetdb_engine::{ColumnType, Database, ScanRequest, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
    /// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let table = TableDefinition::new("t").key("id", ColumnType::Int64).time("ts", Unit::Second);
    /// db.create_table(&table.field("a", ColumnType::Int64).field("b", ColumnType::Int64)).unwrap();
    /// let seven = db.container("t", &[Value::Int(7)]).unwrap();
    /// seven.append(0, &[("a", Value::Int(1)), ("b", Value::Int(2))]).unwrap();
    /// let rows = ScanRequest::all().container(&[Value::Int(7)]);
    /// assert_eq!(db.update("t", &rows, &[("b", Value::Int(3))]).unwrap().unwrap().0, 1);
    /// assert_eq!(seven.aggregate("a", 0, 0).unwrap().sum, Some(1.0));
    /// assert_eq!(seven.aggregate("b", 0, 0).unwrap().sum, Some(3.0));
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if a column is part of the key or a value does not fit it, or if
    /// there are more rows than one batch may have; else as [`commit_with`](Self::commit_with).
    pub fn update(
        &self,
        table: &str,
        rows: &ScanRequest,
        values: &[(&str, Value)],
    ) -> Result<Option<(u64, Acknowledged)>> {
        let shared = &self.shared;
        shared.log.check()?;
        let mut commit = shared.wait_for_room()?;
        let view = shared.view();
        let found = view.table(table)?;
        let schema = found.schema();
        let mut places = Vec::with_capacity(values.len());
        for (name, value) in values {
            let place = schema.column_index(name)?;
            if schema.columns[place].role != Role::Field {
                return Err(Error::input(format!(
                    "column '{name}' is part of the key of '{table}': delete the rows and write others"
                )));
            }
            let of_column = |e: Error| e.context(format_args!("column '{name}'"));
            let value = array_of(schema.columns[place].column_type, std::slice::from_ref(value)).map_err(of_column)?;
            places.push((place, value));
        }
        let (mut admitted, mut count) = (Vec::new(), 0);
        for batch in found.scan(&ScanRequest { projection: Projection::All, ..rows.clone() })? {
            let batch = batch?;
            count += batch.num_rows();
            if count > MAX_BATCH_ROWS {
                return Err(Error::input(format!(
                    "an update of more than {MAX_BATCH_ROWS} rows: narrow the key or the time and update part by part"
                )));
            }
            let same = UInt64Array::from_value(0, batch.num_rows());
            let mut columns = batch.columns().to_vec();
            for (place, value) in &places {
                columns[*place] = arrow::compute::take(value, &same, None)?;
            }
            // Nullability is checked at admission, with a better message than Arrow's.
            let fields =
                batch.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
            let changed = RecordBatch::try_new(arrow::datatypes::Schema::new(fields).into(), columns)?;
            admitted.push(admit(schema, &changed)?);
        }
        if count == 0 {
            return Ok(None);
        }
        let (done, outcome) = crate::db::completion();
        shared.apply(&mut commit, admitted, Vec::new(), shared.settings.durability, done);
        drop(commit);
        shared.step_without_threads();
        Ok(Some((count as u64, outcome.wait()?)))
    }
}
