//! One container, and the newest rows of all: reads that need no SQL.

use crate::errors::plain;
use crate::state::{Scanned, State};
use crate::stream::Stream;
use crate::values::{for_column, time_of, value_of};
use crate::worker::{Ticket, Worker};
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use fleetdb_engine::{
    Aggregate, ColumnType, Error, Projection, Result, ScanRequest, TableSchema, TableView, Unit, Value, View,
};
use pyo3::prelude::*;
use std::sync::Arc;

/// Count, minimum, maximum and sum.
type Totals = (u64, Option<f64>, Option<f64>, Option<f64>);

/// All rows of a table that share a key.
#[pyclass(frozen, module = "fleetdb._native")]
pub(crate) struct Container {
    worker: Arc<Worker>,
    schema: Arc<TableSchema>,
    key: Vec<Value>,
}

impl State {
    /// The tables as they are now.
    fn view(&self) -> Result<View> {
        self.store.refresh()?;
        Ok(self.store.view())
    }
}

impl Container {
    pub(crate) fn new(py: Python<'_>, worker: &Arc<Worker>, table: String, key: Vec<Value>) -> PyResult<Self> {
        let job = move |state: &mut State, _: &Ticket| {
            let view = state.view()?;
            let table = view.table(&table)?;
            let schema = Arc::clone(table.schema());
            if key.len() != schema.key.len() {
                return Err(wrong_key(&schema, key.len()));
            }
            let columns = schema.key.iter().map(|&place| schema.columns[place].column_type);
            let key = key.into_iter().zip(columns).map(|(value, column_type)| for_column(value, column_type));
            let key = key.collect::<Result<Vec<_>>>()?;
            table.container(&key)?;
            Ok((schema, key))
        };
        let (schema, key) = worker.run(py, None, job)?;
        Ok(Self { worker: Arc::clone(worker), schema, key })
    }

    /// The type of the time column. Bounds of a collection are refused when they are used.
    fn time_type(&self) -> ColumnType {
        let time = self.schema.time.map(|place| self.schema.columns[place].column_type);
        time.unwrap_or(ColumnType::Timestamp(Unit::Nanosecond))
    }

    /// The first and the last time of a range, whose end is outside of it.
    fn range_of(
        &self,
        from: Option<Bound<'_, PyAny>>,
        to: Option<Bound<'_, PyAny>>,
    ) -> PyResult<(Option<i64>, Option<i64>)> {
        let time = |bound: Option<Bound<'_, PyAny>>| bound.map(|bound| time_of(&bound, self.time_type())).transpose();
        Ok((time(from)?, time(to)?))
    }

    /// Rows of the container that a function chooses.
    fn stream(
        &self,
        py: Python<'_>,
        schema: SchemaRef,
        scan: impl FnOnce(&TableView, &[Value]) -> Result<Scanned> + Send + 'static,
    ) -> PyResult<Stream> {
        let (name, key) = (self.schema.name.clone(), self.key.clone());
        let job = move |state: &mut State, _: &Ticket| {
            let view = state.view()?;
            let rows = scan(view.table(&name)?, &key)?;
            Ok(state.keep_scanned(rows))
        };
        let number = self.worker.run(py, None, job)?;
        Ok(Stream::of_worker(&self.worker, number, &schema, None, None))
    }
}

fn wrong_key(schema: &TableSchema, count: usize) -> Error {
    let names: Vec<_> = schema.key.iter().map(|&place| schema.columns[place].name.as_str()).collect();
    Error::invalid(format!(
        "the key has {count} values, but table '{}' has {} key columns: {}",
        schema.name,
        names.len(),
        names.join(", ")
    ))
}

/// The request for a range of times; `None` if no time is in it.
fn request(key: &[Value], from: Option<i64>, to: Option<i64>) -> Option<ScanRequest> {
    let mut request = ScanRequest::all().container(key);
    request.from = from;
    request.to = match to {
        Some(to) => Some(to.checked_sub(1)?),
        None => None,
    };
    Some(request)
}

#[pymethods]
impl Container {
    /// The newest row.
    fn last(&self, py: Python<'_>) -> PyResult<Stream> {
        self.stream(py, self.schema.to_arrow(), |table, key| {
            Ok(Box::new(table.last_rows(&ScanRequest::all().container(key))?))
        })
    }

    /// The rows from a time on and before another, in time order.
    #[pyo3(signature = (from_time=None, to_time=None, columns=None))]
    fn range(
        &self,
        py: Python<'_>,
        from_time: Option<Bound<'_, PyAny>>,
        to_time: Option<Bound<'_, PyAny>>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Stream> {
        let (from, to) = self.range_of(from_time, to_time)?;
        let schema = self.schema.to_arrow();
        let schema = match &columns {
            None => schema,
            Some(names) => {
                let field = |name: &String| Ok(Arc::clone(&schema.fields()[self.schema.column_index(name)?]));
                let fields = names.iter().map(field).collect::<Result<Vec<_>>>();
                Arc::new(Schema::new(fields.map_err(|error| plain(py, &error))?))
            }
        };
        let projection = columns.map_or(Projection::All, Projection::Names);
        self.stream(py, schema, move |table, key| match request(key, from, to) {
            Some(request) => Ok(Box::new(table.scan(&request.columns(projection))?)),
            None => Ok(Box::new(std::iter::empty::<Result<RecordBatch>>())),
        })
    }

    /// Count, minimum, maximum and sum of a column from a time on and before another.
    #[pyo3(signature = (column, from_time=None, to_time=None))]
    fn aggregate(
        &self,
        py: Python<'_>,
        column: String,
        from_time: Option<Bound<'_, PyAny>>,
        to_time: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Totals> {
        let (from, to) = self.range_of(from_time, to_time)?;
        let (name, key) = (self.schema.name.clone(), self.key.clone());
        let job = move |state: &mut State, _: &Ticket| {
            let view = state.view()?;
            let container = view.table(&name)?.container(&key)?;
            let (first, last) = (from.unwrap_or(i64::MIN), to.map_or(Some(i64::MAX), |to| to.checked_sub(1)));
            let Aggregate { count, min, max, sum } = match last {
                Some(last) => container.aggregate(&column, first, last)?,
                None => Aggregate { count: 0, min: None, max: None, sum: None },
            };
            Ok((count, min, max, sum))
        };
        self.worker.run(py, None, job)
    }

    /// Writes a row at a time; gives its sequence and its durability.
    fn append(
        &self,
        py: Python<'_>,
        time: Bound<'_, PyAny>,
        fields: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<(u64, String)> {
        let time = time_of(&time, self.time_type())?;
        let field = |(name, value): &(String, Bound<'_, PyAny>)| {
            let value = value_of(value)?;
            let place = self.schema.column_index(name);
            let value = place.and_then(|place| for_column(value, self.schema.columns[place].column_type));
            Ok((name.clone(), value.map_err(|error| plain(py, &error))?))
        };
        let fields = fields.iter().map(field).collect::<PyResult<Vec<_>>>()?;
        let (name, key) = (self.schema.name.clone(), self.key.clone());
        let job = move |state: &mut State, _: &Ticket| {
            let fields: Vec<(&str, Value)> =
                fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            let done = state.store.writer()?.container(&name, &key)?.append(time, &fields)?;
            Ok((done.sequence.0, done.durability.to_string()))
        };
        self.worker.run(py, None, job)
    }
}

/// The newest row of every container of a table.
///
/// # Errors
/// The table does not exist.
pub(crate) fn last_rows(py: Python<'_>, worker: &Arc<Worker>, table: String) -> PyResult<Stream> {
    let job = move |state: &mut State, _: &Ticket| {
        let view = state.view()?;
        let table = view.table(&table)?;
        let (schema, rows) = (table.schema().to_arrow(), table.last_rows(&ScanRequest::all())?);
        Ok((state.keep_scanned(Box::new(rows)), schema))
    };
    let (number, schema) = worker.run(py, None, job)?;
    Ok(Stream::of_worker(worker, number, &schema, None, None))
}
