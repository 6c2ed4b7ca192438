//! DuckDB in its own process (see `duckdb.py`). Rows and answers are exchanged as Arrow. All
//! connections share the one of that process, which handles one request at a time.

use crate::process::{output, program};
use crate::sql::{Dialect, conform, distinct_on, parameters, question};
use crate::tsbs::{newest_distinct, plain_average, plain_bucket};
use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::Cell;
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Start, Target, Tier};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// The entry in the list of targets.
pub const ENTRY: Entry =
    Entry { name: "duckdb", about: "DuckDB, from its Python package", missing: Some(missing), url: None, start: open };

const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE",
        ColumnType::Text | ColumnType::Json => "VARCHAR",
        ColumnType::Time => "TIMESTAMP_NS",
    },
    parameter: question,
    time: |_| "make_timestamp_ns(?)".to_owned(),
    bucket: |seconds| format!("epoch_ns(ts) // {0} * {0}", seconds * 1_000_000_000),
    last_of_all: distinct_on,
    newest: newest_distinct,
    average: plain_average,
    bucket_ns: plain_bucket,
};

fn missing() -> Option<String> {
    let is_there = program(&["python3"]).is_some()
        && output(Command::new("python3").args(["-c", "import duckdb, pyarrow"])).is_ok();
    (!is_there).then(|| "DuckDB's Python package is not installed (pip install duckdb pyarrow)".to_owned())
}

struct DuckDb {
    process: Arc<Mutex<Process>>,
    id: u32,
    version: String,
    directory: PathBuf,
}

struct Process {
    child: Child,
    take: ChildStdin,
    give: ChildStdout,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let mut child = Command::new("python3")
        .args(["-c", include_str!("duckdb.py")])
        .arg(start.directory.join("duckdb"))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (take, give) = (child.stdin.take(), child.stdout.take());
    let (take, give) = (take.ok_or("it has no input")?, give.ok_or("it has no output")?);
    let id = child.id();
    let mut process = Process { child, take, give };
    let version = process.receive()?.0["version"].as_str().unwrap_or_default().to_owned();
    let process = Arc::new(Mutex::new(process));
    Ok(Box::new(DuckDb { process, id, version, directory: start.directory.to_owned() }))
}

impl Process {
    fn ask(&mut self, header: &Value, body: &[u8]) -> Outcome<Vec<u8>> {
        let text = header.to_string();
        self.take.write_all(&(text.len() as u32).to_le_bytes())?;
        self.take.write_all(text.as_bytes())?;
        self.take.write_all(body)?;
        self.take.flush()?;
        let (header, body) = self.receive()?;
        match header["error"].as_str() {
            Some(error) => Err(error.into()),
            None => Ok(body),
        }
    }

    fn receive(&mut self) -> Outcome<(Value, Vec<u8>)> {
        let mut length = [0; 4];
        self.give.read_exact(&mut length).map_err(|_| "DuckDB's process has exited")?;
        let mut text = vec![0; u32::from_le_bytes(length) as usize];
        self.give.read_exact(&mut text)?;
        let header: Value = serde_json::from_slice(&text)?;
        let mut body = vec![0; header["bytes"].as_u64().unwrap_or(0) as usize];
        self.give.read_exact(&mut body)?;
        Ok((header, body))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its data is removed anyway.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The connection that all share.
struct Shared(Arc<Mutex<Process>>);

impl Shared {
    fn run(&self, text: &str) -> Outcome<()> {
        self.ask(&json!({ "run": text }), &[]).map(|_| ())
    }

    fn ask(&self, header: &Value, body: &[u8]) -> Outcome<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ask(header, body)
    }
}

impl Target for DuckDb {
    fn info(&self) -> Info {
        Info { version: self.version.clone(), tier: Tier::T3, settings: Vec::new() }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let shared = Shared(Arc::clone(&self.process));
        tables.iter().try_for_each(|table| shared.run(&DIALECT.create(table, true)))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(Shared(Arc::clone(&self.process))))
    }

    fn settle(&mut self) -> Outcome<()> {
        Shared(Arc::clone(&self.process)).run("CHECKPOINT")
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        disk_bytes(&self.directory)
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.id]
    }
}

impl Connection for Shared {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        // Hold the lock, so that no other request comes between the statements of a transaction.
        let mut process = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ask = |header: Value, body: &[u8]| process.ask(&header, body).map(|_| ());
        ask(json!({ "run": "BEGIN" }), &[])?;
        for (table, rows) in writes {
            let mut body = Vec::new();
            let mut writer = StreamWriter::try_new(&mut body, rows.schema_ref())?;
            writer.write(rows)?;
            writer.finish()?;
            let insert = ask(json!({ "insert": table.name, "bytes": body.len() }), &body);
            if let Err(error) = insert {
                ask(json!({ "run": "ROLLBACK" }), &[]).ok();
                return Err(error);
            }
        }
        ask(json!({ "run": "COMMIT" }), &[])
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let values: Vec<Value> = parameters(query)
            .into_iter()
            .map(|cell| match cell {
                Cell::Null => Value::Null,
                Cell::Int(value) | Cell::Time(value) => value.into(),
                Cell::Float(value) => value.into(),
                Cell::Text(text) => text.into(),
            })
            .collect();
        let body = self.ask(&json!({ "query": DIALECT.query(query), "values": values }), &[])?;
        let batches: Vec<RecordBatch> = StreamReader::try_new(body.as_slice(), None)?.collect::<Result<_, _>>()?;
        conform(query, &batches)
    }
}
