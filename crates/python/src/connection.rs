//! A connection to a database that is open in this process.

use crate::batches::Batches;
use crate::container::{Container, last_rows};
use crate::errors::{after, closed, plain};
use crate::state::{Done, Number, State};
use crate::stream::{Stream, stream};
use crate::values::values_of;
use crate::worker::{Progress, Ticket, Worker};
use fleetdb_engine::backup::BackupReport;
use fleetdb_engine::io::{Io, MemoryStorage};
use fleetdb_engine::{
    Acknowledged, Batch, Code, Database, Durability, Error, LineParser, Precision, Reader, Result, Settings, body_lines,
};
use fleetdb_postgres::Postgres;
use fleetdb_query::{Refresh, Session, Store};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most bytes of rows in a batch. One of wide rows has fewer rows than asked for.
const BATCH_BYTES: usize = 64 << 20;

/// The most wrong lines that are named one by one.
const MAX_NAMED: usize = 100;

/// What a write says: rows, sequence and durability. The last two are `None` if there were no rows.
type Written = (u64, Option<u64>, Option<String>);

/// What a statement says: command tag, warning, rows, and the sequence and durability of what it committed.
type Told = (Option<String>, Option<String>, Option<Stream>, Option<u64>, Option<String>);

/// A line that was left out: its number, what is wrong with it, and its text.
type WrongLine = (usize, String, String);

/// A database that is open in this process, with a session.
#[pyclass(frozen, module = "fleetdb._native")]
pub(crate) struct Connection {
    worker: Arc<Worker>,
    /// `None` once it is closed.
    store: Mutex<Option<Store>>,
    /// The directory; `None` for a database in memory.
    path: Option<PathBuf>,
}

impl Connection {
    fn new(store: Store, path: Option<PathBuf>) -> Result<Self> {
        let session = Arc::new(Session::on_store(store.clone(), Postgres::new())?);
        let worker = Worker::start(State::new(store.clone(), session))?;
        Ok(Self { worker, store: Mutex::new(Some(store)), path })
    }

    /// What a statement says.
    fn told(&self, done: Done, progress: Option<Progress>, text: &str) -> Told {
        let rows = done
            .rows
            .map(|(number, schema)| Stream::of_worker(&self.worker, number, &schema, progress, Some(Arc::from(text))));
        let (sequence, durability) = sequence_and_level(done.acknowledged);
        (done.tag, done.warning, rows, sequence, durability)
    }

    /// What is open here.
    fn opened(&self) -> Result<Store> {
        self.worker.check_process()?;
        self.store.lock().clone().ok_or_else(closed)
    }

    /// Refuses a connection that cannot write, before rows are read for it.
    fn check_writes(&self, py: Python<'_>) -> PyResult<()> {
        let writer = || self.store.lock().as_ref().ok_or_else(closed)?.writer().map(|_| ());
        let checked = self.worker.check_process().and_then(|()| writer());
        checked.map_err(|error| plain(py, &error))
    }

    /// Writes a batch.
    fn write(&self, py: Python<'_>, batch: Batch) -> PyResult<Acknowledged> {
        let job = move |state: &mut State, _: &Ticket| state.store.writer().and_then(|db| db.commit(batch));
        self.worker.run(py, None, job)
    }
}

#[pymethods]
impl Connection {
    /// Opens a database, or creates one: in a directory, or in memory without a path.
    #[staticmethod]
    #[pyo3(signature = (path, memory_limit=None, durability=None, read_only=false))]
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        memory_limit: Option<usize>,
        durability: Option<String>,
        read_only: bool,
    ) -> PyResult<Self> {
        let opened = py.detach(|| {
            let store = open_store(path.as_deref(), memory_limit, durability.as_deref(), read_only)?;
            Self::new(store, path)
        });
        opened.map_err(|error| plain(py, &error))
    }

    /// Another connection to the same database, with a session of its own.
    fn cursor(&self, py: Python<'_>) -> PyResult<Self> {
        let store = self.opened().map_err(|error| plain(py, &error))?;
        py.detach(|| Self::new(store, self.path.clone())).map_err(|error| plain(py, &error))
    }

    /// The directory of the database.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// Whether the database was opened to read it.
    #[getter]
    fn read_only(&self) -> bool {
        matches!(&*self.store.lock(), Some(Store::Reader(..)))
    }

    /// Runs the statements of a text; gives what the last one says.
    #[pyo3(signature = (text, values, progress=None))]
    fn sql(
        &self,
        py: Python<'_>,
        text: String,
        values: Vec<Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Told> {
        let values = values_of(&values)?;
        let (progress, statements) = (progress.map(Progress::new), text.clone());
        let job = move |state: &mut State, ticket: &Ticket| state.run(&statements, &values, || ticket.is_stopped());
        let done = self.worker.run_text(py, &text, progress.as_ref(), job)?;
        Ok(self.told(done, progress, &text))
    }

    /// Prepares a query; `None` if the text is another statement.
    fn prepare(&self, py: Python<'_>, text: String) -> PyResult<Option<Number>> {
        let query = text.clone();
        self.worker.run_text(py, &text, None, move |state, _| state.prepare(&query))
    }

    /// Runs a prepared query, with the text that it was prepared from.
    #[pyo3(signature = (number, text, values, progress=None))]
    fn run_prepared(
        &self,
        py: Python<'_>,
        number: Number,
        text: String,
        values: Vec<Bound<'_, PyAny>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Told> {
        let (values, progress) = (values_of(&values)?, progress.map(Progress::new));
        let job = move |state: &mut State, _: &Ticket| state.run_prepared(number, &values);
        let done = self.worker.run_text(py, &text, progress.as_ref(), job)?;
        Ok(self.told(done, progress, &text))
    }

    /// Forgets a prepared query.
    fn forget_prepared(&self, number: Number) {
        self.worker.leave(move |state| state.forget_prepared(number));
    }

    /// Writes the rows of an Arrow stream or array to a table, in batches of at most `batch_rows` rows.
    /// Each batch is written as a whole or not at all.
    #[pyo3(signature = (table, rows, durability=None, batch_rows=100_000, progress=None))]
    fn insert(
        &self,
        py: Python<'_>,
        table: String,
        rows: Bound<'_, PyAny>,
        durability: Option<String>,
        batch_rows: usize,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Written> {
        let durability = level(durability.as_deref()).map_err(|error| plain(py, &error))?;
        self.check_writes(py)?;
        let (rows, progress) = (stream(&rows)?, progress.map(Progress::new));
        let (mut batches, cancels) = (Batches::new(batch_rows, BATCH_BYTES), self.worker.cancels());
        let (mut count, mut last) = (0, None);
        loop {
            let failed = |error| after(py, error, count);
            let parts = batches.next(|| rows.get().next(py)).map_err(failed)?;
            if parts.is_empty() {
                return Ok(written(count, last));
            }
            py.check_signals()?;
            if self.worker.cancels() != cancels {
                let error = Error::new(Code::Cancelled, "the rows that are left were not written");
                return Err(failed(plain(py, &error)));
            }
            let batch = Batch::new().with_durability(durability);
            let batch = parts.into_iter().fold(batch, |batch, part| batch.with(&table, part));
            let rows = batch.rows() as u64;
            last = Some(self.write(py, batch).map_err(failed)?);
            count += rows;
            if let Some(progress) = &progress {
                progress.tell(py, count)?;
            }
        }
    }

    /// Writes the rows of several tables as one batch.
    #[pyo3(signature = (parts, durability=None))]
    fn commit(
        &self,
        py: Python<'_>,
        parts: Vec<(String, Bound<'_, PyAny>)>,
        durability: Option<String>,
    ) -> PyResult<Written> {
        let durability = level(durability.as_deref()).map_err(|error| plain(py, &error))?;
        self.check_writes(py)?;
        let mut batch = Batch::new().with_durability(durability);
        for (table, rows) in &parts {
            let rows = stream(rows)?;
            while let Some(rows) = rows.get().next(py)? {
                batch = batch.with(table, rows);
            }
        }
        let rows = batch.rows() as u64;
        let acknowledged = if rows > 0 { Some(self.write(py, batch)?) } else { None };
        Ok(written(rows, acknowledged))
    }

    /// Writes lines of InfluxDB's line protocol as one batch. Wrong lines are left out: their
    /// number comes after what was written, and the first of them.
    #[pyo3(signature = (lines, precision, durability=None))]
    fn write_lines(
        &self,
        py: Python<'_>,
        lines: Vec<u8>,
        precision: &str,
        durability: Option<String>,
    ) -> PyResult<(Written, usize, Vec<WrongLine>)> {
        let precision = precision.parse::<Precision>().map_err(|error| plain(py, &error))?;
        let durability = level(durability.as_deref()).map_err(|error| plain(py, &error))?;
        let job = move |state: &mut State, _: &Ticket| {
            let db = Arc::clone(state.store.writer()?);
            write_lines(&db, &lines, precision, durability)
        };
        self.worker.run(py, None, job)
    }

    /// Adds the rows of an Arrow stream or array to a temporary table.
    fn fill_temporary(&self, py: Python<'_>, table: String, rows: Bound<'_, PyAny>) -> PyResult<()> {
        let rows = stream(&rows)?;
        while let Some(rows) = rows.get().next(py)? {
            let table = table.clone();
            self.worker.run(py, None, move |state, _| state.add_to_temporary(&table, &rows))?;
        }
        Ok(())
    }

    /// The container of a table with this key.
    fn container(&self, py: Python<'_>, table: String, key: Vec<Bound<'_, PyAny>>) -> PyResult<Container> {
        Container::new(py, &self.worker, table, values_of(&key)?)
    }

    /// The newest row of every container of a table.
    fn last(&self, py: Python<'_>, table: String) -> PyResult<Stream> {
        last_rows(py, &self.worker, table)
    }

    /// Backs the database up to a directory; `progress` is called with the bytes that are done.
    #[pyo3(signature = (path, progress=None))]
    fn backup<'py>(&self, py: Python<'py>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyDict>> {
        let progress = progress.map(Progress::new);
        let job = move |state: &mut State, ticket: &Ticket| {
            let mut before = 0;
            let count = |done: u64, _: u64| {
                ticket.add_rows(done.saturating_sub(before) as usize);
                before = done;
            };
            state.store.writer()?.backup(&Io::files(path), count)
        };
        let BackupReport { segments, bytes, kept_bytes, linked_bytes, copied_bytes, sequence } =
            self.worker.run(py, progress.as_ref(), job)?;
        let report = PyDict::new(py);
        report.set_item("segments", segments)?;
        report.set_item("bytes", bytes)?;
        report.set_item("kept_bytes", kept_bytes)?;
        report.set_item("linked_bytes", linked_bytes)?;
        report.set_item("copied_bytes", copied_bytes)?;
        report.set_item("sequence", sequence)?;
        Ok(report)
    }

    /// Whether a transaction is open.
    fn in_transaction(&self, py: Python<'_>) -> PyResult<bool> {
        self.worker.run(py, None, |state: &mut State, _: &Ticket| Ok(state.session.is_in_transaction()))
    }

    /// Cancels the statement that runs in another thread.
    fn cancel(&self) {
        self.worker.cancel();
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.store.lock().is_none()
    }

    /// Ends the session. With its last connection the database is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(store) = self.store.lock().take() else { return Ok(()) };
        if self.worker.is_forked() {
            std::mem::forget(store);
            return Ok(());
        }
        let ended = py.detach(|| {
            self.worker.stop();
            match store {
                // Others keep it open.
                Store::Writer(db) => Arc::into_inner(db).map_or(Ok(()), Database::close),
                Store::Reader(..) => Ok(()),
            }
        });
        ended.map_err(|error| plain(py, &error))
    }
}

/// Opens a database; see [`Connection::open`].
fn open_store(
    path: Option<&std::path::Path>,
    memory_limit: Option<usize>,
    durability: Option<&str>,
    read_only: bool,
) -> Result<Store> {
    let settings = memory_limit.map_or_else(Settings::default, Settings::with_memory_limit);
    let settings = match level(durability)? {
        Some(durability) => Settings { durability, ..settings },
        None => settings,
    };
    let Some(path) = path else {
        if read_only {
            return Err(Error::new(Code::NotSupported, "a database in memory is empty: it cannot be opened read-only"));
        }
        let io = Io { storage: MemoryStorage::new(), ..Io::files("") };
        return Ok(Store::Writer(Arc::new(Database::open_with(io, settings)?)));
    };
    if read_only {
        let reader = Arc::new(Reader::open(Io::files(path), settings)?);
        return Ok(Store::Reader(reader, Refresh::EachStatement));
    }
    fleetdb::refuse_node(path)?;
    Ok(Store::Writer(Arc::new(Database::open_with(Io::files(path), settings)?)))
}

/// The durability that a caller asks for; `None` is the database's.
fn level(name: Option<&str>) -> Result<Option<Durability>> {
    name.map(str::parse).transpose()
}

fn sequence_and_level(acknowledged: Option<Acknowledged>) -> (Option<u64>, Option<String>) {
    acknowledged.map(|done| (done.sequence.0, done.durability.to_string())).unzip()
}

fn written(rows: u64, acknowledged: Option<Acknowledged>) -> Written {
    let (sequence, durability) = sequence_and_level(acknowledged);
    (rows, sequence, durability)
}

fn write_lines(
    db: &Database,
    lines: &[u8],
    precision: Precision,
    durability: Option<Durability>,
) -> Result<(Written, usize, Vec<WrongLine>)> {
    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    let mut parser = LineParser::new(db, precision, now_ns);
    let (mut left_out, mut wrong) = (0, Vec::new());
    for line in body_lines(lines) {
        if let Err(error) = parser.parse_bytes(line.bytes) {
            left_out += 1;
            if wrong.len() < MAX_NAMED {
                let text = String::from_utf8_lossy(line.bytes.trim_ascii_end()).into_owned();
                wrong.push((line.number, error.to_string(), text));
            }
        }
    }
    let rows = parser.rows() as u64;
    let batch = parser.into_batch()?.with_durability(durability);
    let acknowledged = if rows > 0 { Some(db.commit(batch)?) } else { None };
    Ok((written(rows, acknowledged), left_out, wrong))
}
