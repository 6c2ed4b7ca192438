//! One container: its newest row, a range of its rows, and the totals of a range.

use super::containers::{ColumnSum, ColumnTotals};
use super::rows::Scan;
use super::{Projection, ScanRequest, TableView, encode_key};
use crate::error::Result;
use crate::write::from_arrow::rows_of;
use crate::write::value::Value;
use arrow::array::RecordBatch;

/// A container of a [`TableView`]: all rows that share the key before the time.
///
/// ```
/// use fleetdb_engine::io::{Io, MemoryStorage};
/// use fleetdb_engine::{Batch, ColumnType, Database, Rows, Settings, TableDefinition, Unit, Value};
/// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let table = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second);
/// let table = table.field("usage", ColumnType::Float64);
/// let mut rows = Rows::new(&db.create_table(&table).unwrap());
/// for hour in 0..24 {
///     rows.push(&[Value::Int(7), Value::Int(hour * 3600), Value::Float(0.5)]).unwrap();
/// }
/// db.commit(Batch::new().with_rows(rows)).unwrap();
/// let view = db.view();
/// let meter = view.table("reads").unwrap().container(&[Value::Int(7)]).unwrap();
/// assert_eq!(meter.aggregate("usage", 0, 11 * 3600).unwrap().sum, Some(6.0));
/// assert_eq!(meter.row(3600).unwrap().unwrap(), [Value::Int(7), Value::Int(3600), Value::Float(0.5)]);
/// assert_eq!(meter.last_row().unwrap().unwrap(), [Value::Int(7), Value::Int(23 * 3600), Value::Float(0.5)]);
/// ```
pub struct Container<'a> {
    table: &'a TableView,
    values: Vec<Value>,
    /// The values as the engine writes them.
    key: Vec<u8>,
}

/// The totals of a column's values over a time range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    /// Number of non-NULL values.
    pub count: u64,
    /// The minimum; `None` if there are no values.
    pub min: Option<f64>,
    /// The maximum; NaN counts as larger than any number.
    pub max: Option<f64>,
    /// The sum; `None` if there are no values.
    pub sum: Option<f64>,
}

impl Aggregate {
    /// The mean; `None` if there are no values.
    pub fn avg(&self) -> Option<f64> {
        self.sum.map(|sum| sum / self.count as f64)
    }
}

impl TableView {
    /// The container with these key values, in key order. It may have no rows.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the values do not fit the key.
    pub fn container(&self, key: &[Value]) -> Result<Container<'_>> {
        Ok(Container { table: self, values: key.to_vec(), key: encode_key(&self.schema, key)? })
    }
}

impl Container<'_> {
    /// The rows from time `from` to time `to`, both inclusive, in time order.
    ///
    /// # Errors
    /// See [`TableView::scan`].
    pub fn range(&self, from: i64, to: i64, projection: Projection) -> Result<Scan> {
        let request = ScanRequest::all().container(&self.values).columns(projection);
        self.table.scan(&request.from_time(from).to_time(to))
    }

    /// The newest row with all columns; `None` if the container has no rows.
    ///
    /// # Errors
    /// Reading failed.
    pub fn last(&self) -> Result<Option<RecordBatch>> {
        self.table.last_rows(&ScanRequest::all().container(&self.values))?.next().transpose()
    }

    /// The newest row as values in the table's column order; `None` if the container has no rows.
    /// Cheaper than [`last`](Self::last), which creates an Arrow array for each value.
    ///
    /// # Errors
    /// Reading failed.
    pub fn last_row(&self) -> Result<Option<Vec<Value>>> {
        if let Some(row) = self.table.row_in_memory(&self.key)? {
            return Ok(Some(row));
        }
        self.table.last_rows(&ScanRequest::all().container(&self.values))?.next_row()
    }

    /// The row at a time, as values in the table's column order; `None` if there is none.
    ///
    /// # Errors
    /// Reading failed.
    pub fn row(&self, time: i64) -> Result<Option<Vec<Value>>> {
        let request = ScanRequest::all().container(&self.values).from_time(time).to_time(time);
        self.table.last_rows(&request)?.next_row()
    }

    /// The rows from time `from` to time `to`, both inclusive, as values in the table's column order;
    /// `None` if there are more than `most`.
    ///
    /// # Errors
    /// Reading failed.
    pub fn rows(&self, from: i64, to: i64, most: usize) -> Result<Option<Vec<Vec<Value>>>> {
        let mut rows = Vec::new();
        for batch in self.range(from, to, Projection::All)? {
            let batch = batch?;
            if rows.len() + batch.num_rows() > most {
                return Ok(None);
            }
            rows.extend(rows_of(&self.table.schema, &batch)?);
        }
        Ok(Some(rows))
    }

    /// Count, minimum, maximum and sum of a numeric column from time `from` to time `to`, both
    /// inclusive. Segment parts that the range covers whole are not read.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the column is not numeric; or the read
    /// failed.
    pub fn aggregate(&self, column: &str, from: i64, to: i64) -> Result<Aggregate> {
        let place = self.table.schema.column_index(column)?;
        let request = ScanRequest::all().container(&self.values).from_time(from).to_time(to);
        let mut containers = self.table.containers(&request, &[place])?;
        let amount = containers.next().transpose()?.and_then(|mut container| container.amounts.pop());
        let nothing = Aggregate { count: 0, min: None, max: None, sum: None };
        Ok(amount.map_or(nothing, |amount| public(&amount)))
    }
}

fn public(amount: &ColumnTotals) -> Aggregate {
    let number = |value: &Value| match value {
        Value::Int(value) => Some(*value as f64),
        Value::UInt(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Decimal(value) => Some(value.to_f64()),
        _ => None,
    };
    let sum = match amount.sum {
        ColumnSum::Float(sum) => sum,
        ColumnSum::Integer(sum) => sum as f64,
        ColumnSum::Decimal { unscaled, scale } => unscaled as f64 / 10f64.powi(i32::from(scale)),
    };
    let sum = (amount.count > 0).then_some(sum);
    Aggregate { count: amount.count, min: number(&amount.min), max: number(&amount.max), sum }
}
