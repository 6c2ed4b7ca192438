//! One container: its newest row, a range, what a range amounts to, and adding to it.

use super::merge::{self, Merge, Wanted};
use super::source::{Memo, Source};
use super::{Projection, Scan, ScanRequest, TableView, encode_key};
use crate::error::{Error, Result};
use crate::schema::ColumnType;
use crate::segment::index::{Amounts, Sum, as_float, as_integer};
use crate::write::batch::Value;
use arrow::array::RecordBatch;

/// A container of a [`TableView`]: all rows that share the key before the time.
///
/// ```
/// use fleetdb_engine::{Batch, ColumnType, Database, Rows, Settings, TableDefinition, Unit, Value, io::{Io, MemoryStorage}};
/// let db = Database::open(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
/// let table = TableDefinition::new("reads").key("meter", ColumnType::Int64).time("ts", Unit::Second).field("usage", ColumnType::Float64);
/// let mut rows = Rows::new(&db.create_table(&table).unwrap());
/// for hour in 0..24 {
///     rows.push(&[Value::Int(7), Value::Int(hour * 3600), Value::Float(0.5)]).unwrap();
/// }
/// db.commit(Batch::new().with("reads", rows.finish().unwrap())).unwrap();
/// let view = db.view();
/// let meter = view.table("reads").unwrap().container(&[Value::Int(7)]).unwrap();
/// assert_eq!(meter.aggregate("usage", 0, 11 * 3600).unwrap().sum, Some(6.0));
/// assert_eq!(meter.last().unwrap().unwrap().num_rows(), 1);
/// ```
pub struct Container<'a> {
    table: &'a TableView,
    values: Vec<Value>,
    key: Vec<u8>,
}

/// What a column's values over a range of times amount to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aggregate {
    /// Values that are not NULL.
    pub count: u64,
    /// The least value; `None` if there is no value.
    pub min: Option<f64>,
    /// The largest value; NaN counts as larger than any number.
    pub max: Option<f64>,
    /// The sum.
    pub sum: Option<f64>,
}

impl Aggregate {
    /// The mean; `None` if there is no value.
    pub fn avg(&self) -> Option<f64> {
        self.sum.map(|sum| sum / self.count as f64)
    }
}

impl TableView {
    /// The container with these key values, in key order; it may hold no rows.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the values do not fit the key.
    pub fn container(&self, key: &[Value]) -> Result<Container<'_>> {
        Ok(Container { table: self, values: key.to_vec(), key: encode_key(&self.schema, key)? })
    }
}

impl Container<'_> {
    /// The rows from time `from` to time `to`, both included, in order of time.
    ///
    /// # Errors
    /// See [`TableView::scan`].
    pub fn range(&self, from: i64, to: i64, projection: Projection) -> Result<Scan> {
        let request = ScanRequest::all().container(&self.values).columns(projection);
        self.table.scan(&request.from_time(from).to_time(to))
    }

    /// The newest row, all columns; `None` if the container has no rows.
    ///
    /// # Errors
    /// Reading failed.
    pub fn last(&self) -> Result<Option<RecordBatch>> {
        let wanted = Wanted { keys: Some(vec![self.key.clone()]), ..self.table.wanted_from(None) };
        self.table.last_rows_of(wanted)?.next().transpose()
    }

    /// Count, least, largest and sum of a numeric column from time `from` to time `to`, both
    /// included. Parts of segments that the range covers whole are not read.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the column is not numeric; or reading failed.
    pub fn aggregate(&self, column: &str, from: i64, to: i64) -> Result<Aggregate> {
        let column = &self.table.schema.columns[self.table.schema.column_index(column)?];
        if !column.column_type.is_numeric() || column.role != crate::schema::Role::Field {
            return Err(Error::input(format!(
                "column '{}' of type {} cannot be added up: name a numeric column outside the key",
                column.name, column.column_type
            )));
        }
        let column = (column.id, column.column_type);
        let keys = Some(vec![self.key.clone()]);
        let wanted = Wanted { keys, to: Some(to), ..self.table.wanted_from(Some(from)) };
        let sources = self.table.sources(&wanted, 1)?;
        let sources = &sources.list;
        let mut memos: Vec<Memo> = sources.iter().map(|_| Memo::default()).collect();
        let mut total = Amounts::none(column.1);
        let mut merge = Merge::new(sources, wanted.clone());
        while let Some(runs) = merge.next()? {
            for pick in merge::pick(sources, &runs, &wanted, &mut memos)? {
                let source: &Source = &sources[pick.source];
                let whole = runs
                    .iter()
                    .find(|(number, run)| *number == pick.source && run.start == pick.start && run.rows == pick.rows);
                match whole.and_then(|(_, run)| source.known_amounts(run, column)) {
                    Some(known) => total.merge(&known, column.1),
                    None => {
                        source.add_up(column, pick.start, pick.rows, &mut memos[pick.source], &mut total)?;
                    }
                }
            }
        }
        Ok(public(&total, column.1))
    }
}

fn public(total: &Amounts, column_type: ColumnType) -> Aggregate {
    if total.count == 0 {
        return Aggregate { count: 0, min: None, max: None, sum: None };
    }
    let number = |raw: u64| {
        if column_type.is_float() { as_float(raw, column_type) } else { as_integer(raw, column_type) as f64 }
    };
    let sum = match total.sum {
        Sum::Float(sum) => sum,
        Sum::Integer(sum) => sum as f64,
    };
    Aggregate { count: total.count, min: Some(number(total.least)), max: Some(number(total.most)), sum: Some(sum) }
}
