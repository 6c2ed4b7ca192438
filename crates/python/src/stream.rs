//! Rows that are read once: of a result, of an IPC stream, or of columns of Python objects.
//!
//! [`Stream`] gives them as Python objects, as Arrow batches ([`Batch`]), or all at once in Arrow's
//! C stream interface. That interface has only texts for errors, so the stream keeps the exception
//! of a failure; `Stream.check` raises it.

use crate::errors::{plain, raised, read_before, unreadable};
use crate::rows::rows_of;
use crate::state::{Number, State};
use crate::worker::{Failure, Progress, Ticket, Worker};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use fleetdb_engine::{ColumnType, Error, Result};
use fleetdb_query::distinct_names;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule};
use pyo3_arrow::input::AnyRecordBatch;
use std::collections::VecDeque;
use std::sync::Arc;

/// The name that Python's libraries have for the zone of the engine's instants.
const UTC: &str = "UTC";

/// Where the rows come from.
enum Source {
    Worker(Arc<Worker>, Number),
    Reader(Box<dyn RecordBatchReader + Send>),
    Ended,
}

/// A stream's rows, and what is known about them.
struct Reading {
    source: Source,
    schema: SchemaRef,
    /// Rows that were looked at, but not taken.
    held: VecDeque<RecordBatch>,
    progress: Option<Progress>,
    /// The statement, for positions of errors.
    text: Option<Arc<str>>,
}

impl Reading {
    /// The next rows, as [`Iterator::next`] has them.
    fn next(&mut self, py: Option<Python<'_>>) -> Option<std::result::Result<RecordBatch, Failure>> {
        if let Some(held) = self.held.pop_front() {
            return Some(Ok(held));
        }
        let next = match &mut self.source {
            Source::Ended => return None,
            Source::Worker(worker, number) => {
                let number = *number;
                let progress = self.progress.as_ref();
                let job = move |state: &mut State, _: &Ticket| state.next(number);
                match py {
                    Some(py) => worker.run(py, progress, job).map_err(Failure::Python),
                    None => worker.run_outside(progress, job),
                }
            }
            Source::Reader(reader) => {
                let next = match py {
                    Some(py) => py.detach(|| reader.next()),
                    None => reader.next(),
                };
                next.transpose().map_err(failure_of)
            }
        };
        match next {
            Ok(Some(rows)) => Some(with_schema(&rows, &self.schema).map_err(Failure::Engine)),
            Ok(None) => {
                self.source = Source::Ended;
                None
            }
            Err(failure) => {
                self.source = Source::Ended;
                Some(Err(failure))
            }
        }
    }

    /// The exception for a failure.
    fn raised(&self, py: Python<'_>, failure: Failure) -> PyErr {
        match failure {
            Failure::Engine(error) => raised(py, &error, self.text.as_deref()),
            Failure::Python(error) => error,
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Source::Worker(worker, number) = &self.source {
            let number = *number;
            worker.leave(move |state| state.forget(number));
        }
    }
}

/// The failure behind an error of Arrow: an exception that came through one of its readers, or a
/// text.
fn failure_of(error: ArrowError) -> Failure {
    let inner = match error {
        ArrowError::ExternalError(inner) => inner,
        ArrowError::IoError(message, error) => match error.into_inner() {
            Some(inner) => inner,
            None => return Failure::Engine(unreadable(message)),
        },
        other => return Failure::Engine(unreadable(other)),
    };
    match inner.downcast::<PyErr>() {
        Ok(exception) => Failure::Python(*exception),
        Err(other) => Failure::Engine(unreadable(other)),
    }
}

/// A field whose zone is called as Python's libraries call it, and which is known as a UUID if it
/// is one.
fn in_python(field: &Field) -> Field {
    match field.data_type() {
        data_type if *data_type == ColumnType::UUID => ColumnType::Uuid.mark(field.clone()),
        DataType::Timestamp(unit, Some(zone)) if &**zone == ColumnType::UTC => {
            field.clone().with_data_type(DataType::Timestamp(*unit, Some(UTC.into())))
        }
        _ => field.clone(),
    }
}

fn schema_in_python(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema.fields().iter().map(|field| in_python(field)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The same rows with this schema, whose zones may have other names.
fn with_schema(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let wrong = |e| Error::bug(format!("rows do not have the schema of their result: {e}"));
    // Another name of a zone changes no value.
    let column = |(array, field): (&ArrayRef, &FieldRef)| match array.data_type() == field.data_type() {
        true => Ok(Arc::clone(array)),
        false => cast(array, field.data_type()),
    };
    let columns = rows.columns().iter().zip(schema.fields()).map(column).collect::<std::result::Result<_, _>>();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.map_err(wrong)?, &options).map_err(wrong)
}

/// Rows that are read once.
#[pyclass(frozen, module = "fleetdb._native")]
pub(crate) struct Stream {
    schema: SchemaRef,
    /// `None` while someone reads, and once they were given away.
    reading: Mutex<Option<Reading>>,
    /// Why the rows ended.
    failure: Arc<Mutex<Option<PyErr>>>,
}

impl Stream {
    /// The rows of a result that a connection's thread computes.
    pub(crate) fn of_worker(
        worker: &Arc<Worker>,
        number: Number,
        schema: &SchemaRef,
        progress: Option<Progress>,
        text: Option<Arc<str>>,
    ) -> Self {
        // Python's libraries find columns by their names.
        Self::of(Source::Worker(Arc::clone(worker), number), &distinct_names(schema), progress, text)
    }

    /// The rows of a reader.
    pub(crate) fn of_reader(reader: Box<dyn RecordBatchReader + Send>) -> Self {
        let schema = reader.schema();
        Self::of(Source::Reader(reader), &schema, None, None)
    }

    fn of(source: Source, schema: &Schema, progress: Option<Progress>, text: Option<Arc<str>>) -> Self {
        let schema = schema_in_python(schema);
        let reading = Reading { source, schema: Arc::clone(&schema), held: VecDeque::new(), progress, text };
        Self { schema, reading: Mutex::new(Some(reading)), failure: Arc::default() }
    }

    /// The schema of the rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Takes the rows, so that nobody else reads them meanwhile.
    fn take(&self, py: Python<'_>) -> PyResult<Reading> {
        self.reading.lock().take().ok_or_else(|| plain(py, &read_before()))
    }

    /// The next rows; `None` at the end. The calling thread reads them: a connection's thread may be
    /// the one that computes them.
    ///
    /// # Errors
    /// Those of the rows, or they were read before.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let mut reading = self.take(py)?;
        match reading.next(Some(py)).transpose() {
            Ok(next) => {
                *self.reading.lock() = Some(reading);
                Ok(next)
            }
            // Nobody may take the end after a failure for the end of the rows.
            Err(failure) => Err(reading.raised(py, failure)),
        }
    }
}

#[pymethods]
impl Stream {
    /// The names of the columns.
    fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The types of the columns, as CREATE TABLE takes them, or Arrow's names of others.
    fn types(&self) -> Vec<String> {
        let name = |field: &FieldRef| {
            ColumnType::of_field(field).map_or_else(|_| field.data_type().to_string(), ColumnType::to_sql)
        };
        self.schema.fields().iter().map(name).collect()
    }

    /// The types of the columns, as CREATE TABLE takes them. Raises an error for those that it does
    /// not.
    fn sql_types(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let name = |field: &FieldRef| {
            let column_type = ColumnType::of_field(field).map(ColumnType::to_sql);
            column_type.map_err(|error| plain(py, &error.context(format_args!("column '{}'", field.name()))))
        };
        self.schema.fields().iter().map(name).collect()
    }

    /// The next rows as tuples; `None` at the end.
    fn next_rows<'py>(&self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyTuple>>>> {
        self.next(py)?.map(|rows| rows_of(py, &rows)).transpose()
    }

    /// The next rows as an Arrow batch; `None` at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.next(py)?.map(Batch))
    }

    /// The first rows that were not read yet, at most `rows` of them, and whether there are more. They
    /// stay to be read.
    fn peek<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<(Vec<Bound<'py, PyTuple>>, bool)> {
        let mut reading = self.take(py)?;
        let (mut looked_at, mut count) = (VecDeque::new(), 0);
        while count <= rows
            && let Some(next) = reading.next(Some(py))
        {
            let batch = next.map_err(|failure| reading.raised(py, failure))?;
            count += batch.num_rows();
            looked_at.push_back(batch);
        }
        looked_at.append(&mut reading.held);
        let (mut shown, mut left) = (Vec::new(), rows);
        for batch in &looked_at {
            let part = batch.slice(0, batch.num_rows().min(left));
            left -= part.num_rows();
            shown.extend(rows_of(py, &part)?);
        }
        reading.held = looked_at;
        *self.reading.lock() = Some(reading);
        Ok((shown, count > rows))
    }

    /// Raises the exception that ended the rows, if one did.
    fn check(&self) -> PyResult<()> {
        self.failure.lock().take().map_or(Ok(()), Err)
    }

    /// Forgets the rows that were not read.
    fn close(&self) {
        drop(self.reading.lock().take());
    }

    /// Arrow's C schema interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// Arrow's C stream interface. It takes the rows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let mut reading = self.take(py)?;
        let failure = Arc::clone(&self.failure);
        let arrays = std::iter::from_fn(move || {
            Some(match reading.next(None)? {
                Ok(rows) => Ok(Arc::new(StructArray::from(rows)) as ArrayRef),
                Err(failed) => Err(kept(&reading, failed, &failure)),
            })
        });
        let field = Field::new_struct("", self.schema.fields().clone(), false);
        let field = field.with_metadata(self.schema.metadata().clone());
        let arrays = Box::new(ArrayIterator::new(arrays, Arc::new(field)));
        Ok(to_stream_pycapsule(py, arrays, requested_schema)?)
    }
}

/// Keeps the exception for a failure; returns what Arrow's interface can say of it.
fn kept(reading: &Reading, failed: Failure, failure: &Mutex<Option<PyErr>>) -> ArrowError {
    let said = match &failed {
        Failure::Engine(error) => error.to_string(),
        Failure::Python(_) => "interrupted".to_owned(),
    };
    // Without Python there is nobody to raise it.
    let exception = Python::try_attach(|py| reading.raised(py, failed));
    *failure.lock() = exception;
    ArrowError::ComputeError(said)
}

/// The stream that an object is, or that is read from its C stream or C array interface of Arrow.
///
/// # Errors
/// It has neither, or its rows are not a table.
#[pyfunction]
pub(crate) fn stream(rows: &Bound<'_, PyAny>) -> PyResult<Py<Stream>> {
    match rows.cast::<Stream>() {
        Ok(stream) => Ok(stream.clone().unbind()),
        Err(_) => Py::new(rows.py(), Stream::of_reader(rows.extract::<AnyRecordBatch>()?.into_reader()?)),
    }
}

/// Rows in Arrow's form.
#[pyclass(frozen, module = "fleetdb._native")]
pub(crate) struct Batch(RecordBatch);

#[pymethods]
impl Batch {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The rows as tuples.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        rows_of(py, &self.0)
    }

    /// Arrow's C schema interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.0.schema_ref().as_ref())?)
    }

    /// Arrow's C array interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let schema = self.0.schema_ref();
        let field = Field::new_struct("", schema.fields().clone(), false).with_metadata(schema.metadata().clone());
        let array = StructArray::from(self.0.clone());
        Ok(to_array_pycapsules(py, Arc::new(field), &array, requested_schema)?)
    }

    fn __repr__(&self) -> String {
        format!("<fleetdb.Batch: {} rows of {}>", self.0.num_rows(), self.names().join(", "))
    }
}
