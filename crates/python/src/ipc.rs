//! Arrow's IPC streams, as a server gives and takes them over HTTP.

use crate::batches::Batches;
use crate::errors::{plain, unreadable};
use crate::stream::{Stream, stream};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Bytes that are read of a Python file at a time.
const READ_BYTES: usize = 1 << 20;

/// The most bytes of rows in a body, well below what a server takes (its option `max_body_bytes`).
const BODY_BYTES: usize = 32 << 20;

/// A Python object with a method `read`, as a file or an answer over HTTP.
struct PythonFile(Py<PyAny>);

impl Read for PythonFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = Python::try_attach(|py| -> PyResult<usize> {
            let bytes = self.0.bind(py).call_method1(intern!(py, "read"), (out.len(),))?;
            let bytes = bytes.cast_into::<PyBytes>()?;
            let bytes = bytes.as_bytes();
            match out.get_mut(..bytes.len()) {
                Some(out) => out.copy_from_slice(bytes),
                None => return Err(pyo3::exceptions::PyValueError::new_err("read() gave more than it was asked for")),
            }
            Ok(bytes.len())
        });
        read.unwrap_or(Ok(0)).map_err(io::Error::other)
    }
}

/// The rows of an IPC stream, which is read from an object with a method `read` as they are wanted.
#[pyfunction]
pub(crate) fn read_ipc(file: Py<PyAny>) -> PyResult<Stream> {
    let reader = StreamReader::try_new(BufReader::with_capacity(READ_BYTES, PythonFile(file)), None);
    let reader = reader.map_err(|error| Python::attach(|py| raised(py, error)))?;
    Ok(Stream::of_reader(Box::new(ToTheEnd(reader))))
}

/// Reads the file to its end after the last rows, so that an answer's TCP connection is used again.
struct ToTheEnd(StreamReader<BufReader<PythonFile>>);

impl Iterator for ToTheEnd {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.next();
        if next.is_none() {
            // All rows are there: what fails now only costs the connection.
            io::copy(self.0.get_mut(), &mut io::sink()).ok();
        }
        next
    }
}

impl RecordBatchReader for ToTheEnd {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// The exception for an error of Arrow, which may come from Python.
fn raised(py: Python<'_>, error: ArrowError) -> PyErr {
    match error {
        ArrowError::IoError(message, error) => match error.into_inner().map(|inner| inner.downcast::<PyErr>()) {
            Some(Ok(exception)) => *exception,
            _ => plain(py, &unreadable(message)),
        },
        other => plain(py, &unreadable(other)),
    }
}

/// Yields the bodies for a server: one IPC stream each, with at most `batch_rows` rows and not too many
/// bytes. Without `batch_rows` all rows are in one body. The metadata of their schemas names the table.
#[pyclass(module = "fleetdb._native")]
pub(crate) struct IpcBodies {
    rows: Py<Stream>,
    schema: SchemaRef,
    batches: Batches,
}

#[pymethods]
impl IpcBodies {
    #[new]
    #[pyo3(signature = (table, rows, batch_rows=None))]
    fn new(table: String, rows: &Bound<'_, PyAny>, batch_rows: Option<usize>) -> PyResult<Self> {
        let rows = stream(rows)?;
        let metadata = HashMap::from([("fleetdb.table".to_owned(), table)]);
        let schema = Arc::new(Schema::clone(rows.get().schema()).with_metadata(metadata));
        let batches = match batch_rows {
            Some(batch_rows) => Batches::new(batch_rows, BODY_BYTES),
            None => Batches::new(usize::MAX, usize::MAX),
        };
        Ok(Self { rows, schema, batches })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// The next body, and the number of its rows.
    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, usize)>> {
        let parts = self.batches.next(|| self.rows.get().next(py))?;
        if parts.is_empty() {
            return Ok(None);
        }
        let count = parts.iter().map(RecordBatch::num_rows).sum();
        let body = py.detach(|| body_of(&self.schema, parts)).map_err(|error| plain(py, &unreadable(error)))?;
        Ok(Some((PyBytes::new(py, &body), count)))
    }
}

/// A body with these rows.
fn body_of(schema: &SchemaRef, parts: Vec<RecordBatch>) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for part in parts {
        writer.write(&RecordBatch::try_new(Arc::clone(schema), part.columns().to_vec())?)?;
    }
    writer.into_inner()
}
