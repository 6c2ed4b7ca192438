//! Arrow's IPC streams, as a server gives and takes them over HTTP.

use crate::errors::{plain, unreadable};
use crate::stream::{Stream, reader_of};
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

/// Bytes that are read of a Python file at a time.
const READ_BYTES: usize = 1 << 20;

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
    Ok(Stream::of_reader(Box::new(reader)))
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

/// Yields the bodies for a server: one IPC stream each, with about `batch_rows` rows. The metadata of
/// their schemas names the table.
#[pyclass(frozen, module = "fleetdb._native")]
pub(crate) struct IpcBodies {
    batch_rows: usize,
    schema: SchemaRef,
    rows: Mutex<Rows>,
}

struct Rows {
    reader: Box<dyn RecordBatchReader + Send>,
    /// The rest of the reader's last batch.
    rest: Option<RecordBatch>,
}

#[pymethods]
impl IpcBodies {
    #[new]
    fn new(table: String, rows: &Bound<'_, PyAny>, batch_rows: usize) -> PyResult<Self> {
        let reader = reader_of(rows)?;
        let metadata = HashMap::from([("fleetdb.table".to_owned(), table)]);
        let schema = Arc::new(Schema::clone(&reader.schema()).with_metadata(metadata));
        Ok(Self { batch_rows: batch_rows.max(1), schema, rows: Mutex::new(Rows { reader, rest: None }) })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// The next body, and the number of its rows.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, usize)>> {
        let body = py.detach(|| self.rows.lock().body(&self.schema, self.batch_rows));
        let body = body.map_err(|error| raised(py, error))?;
        Ok(body.map(|(body, rows)| (PyBytes::new(py, &body), rows)))
    }
}

impl Rows {
    /// The next body, and the number of its rows; `None` if no rows are left.
    fn body(&mut self, schema: &SchemaRef, batch_rows: usize) -> Result<Option<(Vec<u8>, usize)>, ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
        let mut count = 0;
        while count < batch_rows {
            let Some(rows) = self.rest.take().map(Ok).or_else(|| self.reader.next()).transpose()? else { break };
            let part = rows.num_rows().min(batch_rows - count);
            if part < rows.num_rows() {
                self.rest = Some(rows.slice(part, rows.num_rows() - part));
            }
            let part = RecordBatch::try_new(Arc::clone(schema), rows.slice(0, part).columns().to_vec())?;
            count += part.num_rows();
            writer.write(&part)?;
        }
        if count == 0 { Ok(None) } else { Ok(Some((writer.into_inner()?, count))) }
    }
}
