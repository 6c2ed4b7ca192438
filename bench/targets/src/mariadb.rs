//! MariaDB: its own server with durable defaults (the log is flushed at each commit).
//!
//! Many rows are one `INSERT` with as many tuples. The statements of a transaction are prepared and
//! sent one after another, as its protocol requires. E1's operation is one call of a [`Procedure`],
//! except in the profile `published`, whose publication had none, and in the variant
//! `mariadb-transactions`. That profile also stores E4's datapoints as its publication did
//! ([`channels`]).

use crate::channels;
use crate::procedure::Procedure;
use crate::process::{AT_URL, Process, free_port, output, program};
use crate::sql::{Dialect, Inserts, cell_of, names, parameters, question, quoted_time, time_of_text, with_literals};
use crate::tsbs::plain_bucket;
use arrow::array::RecordBatch;
use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::statement::{Form, Parameter};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use fleetdb_bench_core::workload::series::Series;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Params, Row, Value};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "mariadb",
    about: "MariaDB",
    missing: Some(missing),
    url: Some("mysql://user:password@host:port/database"),
    start: |start| open(start, start.profile == Profile::Fair),
};

/// The entry of MariaDB without procedures.
pub const TRANSACTIONS: Entry = Entry {
    name: "mariadb-transactions",
    about: "MariaDB, whose transactions are statements and never one call of a procedure",
    missing: Some(missing),
    url: Some("mysql://user:password@host:port/database"),
    start: |start| open(start, false),
};

const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE",
        // A key must have a bounded length.
        ColumnType::Text => "VARCHAR(255)",
        ColumnType::Json => "JSON",
        ColumnType::Time => "DATETIME(6)",
    },
    parameter: question,
    time: question,
    bucket: |seconds| format!("CAST(FLOOR(UNIX_TIMESTAMP(ts) / {seconds}) * {seconds} AS SIGNED) * 1000000000"),
    // A loose index scan finds the newest row of each host by the key.
    last_of_all: |columns| {
        let columns: Vec<String> = columns.split(", ").map(|name| format!("cpu.{name}")).collect();
        format!(
            "SELECT {} FROM cpu JOIN (SELECT hostname, max(ts) AS ts FROM cpu GROUP BY hostname) AS newest \
             ON cpu.hostname = newest.hostname AND cpu.ts = newest.ts",
            columns.join(", ")
        )
    },
    newest: |table, columns, parameter| {
        format!(
            "SELECT {columns}, ts FROM {table} JOIN (SELECT name, max(ts) AS ts FROM {table} WHERE fleet = {parameter} \
             GROUP BY name) AS latest USING (name, ts)"
        )
    },
    // The average of integers is a DECIMAL with four digits more.
    average: |column| format!("avg(CAST({column} AS DOUBLE))"),
    bucket_ns: plain_bucket,
};

const DATABASE: &str = "bench";
/// The table of E4's datapoints.
const DATAPOINTS: &str = Series::Datapoints.name();
/// The buffer in the fair profile; the default is 128 MB.
const BUFFER: &str = "innodb-buffer-pool-size=1G";
const CLOSED: &str = "the connection is closed";
const SETTLE_LIMIT: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

fn missing() -> Option<String> {
    // mariadb-install-db calls my_print_defaults.
    let is_there =
        ["mariadbd", "mariadb-install-db", "my_print_defaults"].iter().all(|name| program(&[name]).is_some());
    (!is_there).then(|| {
        "MariaDB is not installed (Debian: apt-get install mariadb-server-core mariadb-client-core)".to_owned()
    })
}

/// A server started by this program.
struct Server {
    process: Process,
    port: u16,
    data: PathBuf,
}

impl Server {
    /// Starts a server with its data in this directory.
    fn start(directory: &Path, settings: &[&str]) -> Outcome<Self> {
        let directory = directory.canonicalize()?;
        let data = directory.join("data");
        if !data.exists() {
            let mut install = Command::new("mariadb-install-db");
            install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
            install.args(["--skip-test-db", "--user=root"]).arg(format!("--datadir={}", data.display()));
            output(&mut install)?;
        }
        let port = free_port()?;
        let mut command = Command::new("mariadbd");
        command.args(["--no-defaults", "--user=root", "--bind-address=127.0.0.1", "--skip-grant-tables"]);
        command.args(["--max-connections=400", "--max-allowed-packet=64M", "--default-time-zone=+00:00"]);
        command.args(settings.iter().map(|setting| format!("--{setting}")));
        command.arg(format!("--port={port}")).arg(format!("--datadir={}", data.display()));
        command.arg(format!("--socket={}", directory.join("socket").display()));
        let (process, ()) = Process::start(&mut command, &directory.join("log"), || {
            let mut root = Client::connect(&url(port, "mysql"))?;
            root.run(&format!("CREATE DATABASE IF NOT EXISTS {DATABASE}"))
        })?;
        Ok(Self { process, port, data })
    }
}

/// The URL of a database in a server started by this program.
fn url(port: u16, database: &str) -> String {
    format!("mysql://root@127.0.0.1:{port}/{database}")
}

/// Opens a connection over TCP that keeps its prepared statements.
async fn connect(url: &str) -> Outcome<Conn> {
    let options = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false).stmt_cache_size(64);
    Ok(Conn::new(options).await?)
}

struct MariaDb {
    /// The URL of the database.
    url: String,
    started: Option<Server>,
    profile: Profile,
    /// Whether a row of each table is written by a procedure.
    has_procedure: bool,
    settings: Vec<String>,
    /// The tables to remove at a URL.
    tables: Vec<&'static str>,
    /// The procedure that writes to all tables, if there are several.
    procedure: Option<Procedure>,
}

fn open(start: &Start<'_>, has_procedure: bool) -> Outcome<Box<dyn Target>> {
    let settings: &[&str] = if start.profile == Profile::Fair { &[BUFFER] } else { &[] };
    let (url, started, settings) = match start.url {
        Some(url) => (url.to_owned(), None, [AT_URL].as_slice()),
        None => {
            let server = Server::start(start.directory, settings)?;
            (url(server.port, DATABASE), Some(server), settings)
        }
    };
    let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let (profile, tables, procedure) = (start.profile, Vec::new(), None);
    Ok(Box::new(MariaDb { url, started, profile, has_procedure, settings, tables, procedure }))
}

impl Target for MariaDb {
    fn info(&self) -> Info {
        let version = Client::connect(&self.url).and_then(|mut client| client.text("SELECT version()"));
        Info { version: version.unwrap_or_default(), tier: Tier::T3, settings: self.settings.clone() }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let mut client = Client::connect(&self.url)?;
        for table in tables {
            let is_ours = self.started.is_some();
            client.run(&match (self.profile, table.name) {
                // As published: an index on the meter alone, so all of its readings are read.
                (Profile::Published, "meter_reads") => {
                    DIALECT.create(table, is_ours).replace("PRIMARY KEY (meter_id, ts)", "KEY (meter_id)")
                }
                (Profile::Published, DATAPOINTS) => {
                    DIALECT.create(&channels::table(), is_ours).replace("PRIMARY KEY", "KEY")
                }
                _ => DIALECT.create(table, is_ours),
            })?;
            self.tables.push(table.name);
        }
        if self.has_procedure && tables.len() > 1 {
            client.run(&Procedure::create(tables, &DIALECT, insert_text))?;
            self.procedure = Some(Procedure::of(tables));
        }
        Ok(())
    }

    fn remove(&mut self) -> Outcome<()> {
        let mut client = Client::connect(&self.url)?;
        if self.procedure.is_some() {
            client.run(&Procedure::remove())?;
        }
        self.tables.iter().try_for_each(|table| client.run(&format!("DROP TABLE {table}")))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        let mut client = Client::connect(&self.url)?;
        client.has_channels = self.profile == Profile::Published;
        client.procedure.clone_from(&self.procedure);
        Ok(Box::new(client))
    }

    /// Waits until changed pages are written, as fast as the disk permits.
    fn settle(&mut self) -> Outcome<()> {
        if self.started.is_none() {
            // Do not change settings of a server that others share.
            return Ok(());
        }
        let mut client = Client::connect(&self.url)?;
        client.run("SET GLOBAL innodb_io_capacity_max = 40000, GLOBAL innodb_io_capacity = 40000")?;
        client.run("SET GLOBAL innodb_max_dirty_pages_pct = 0")?;
        let begin = std::time::Instant::now();
        let dirty = "SELECT variable_value FROM information_schema.global_status \
                     WHERE variable_name = 'Innodb_buffer_pool_pages_dirty'";
        while client.text(dirty)?.parse::<u64>()? > 0 {
            if begin.elapsed() > SETTLE_LIMIT {
                return Err(format!("dirty pages were not written within {SETTLE_LIMIT:?}").into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        client.run("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT, GLOBAL innodb_io_capacity = DEFAULT")
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.started.as_ref().map_or(Ok(0), |server| disk_bytes(&server.data))
    }

    fn takes_statements(&self) -> bool {
        true
    }

    fn processes(&self) -> Vec<u32> {
        self.started.iter().map(|server| server.process.id()).collect()
    }
}

struct Client {
    /// `Some` until this is dropped, which uses the runtime.
    connection: Option<Conn>,
    runtime: Runtime,
    inserts: Inserts,
    /// Whether datapoints are stored as in [`channels`].
    has_channels: bool,
    procedure: Option<Procedure>,
}

impl Client {
    fn connect(url: &str) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(connect(url))?;
        Ok(Self {
            connection: Some(connection),
            runtime,
            inserts: Inserts::default(),
            has_channels: false,
            procedure: None,
        })
    }

    fn parts(&mut self) -> Outcome<(&mut Conn, &Runtime)> {
        Ok((self.connection.as_mut().ok_or(CLOSED)?, &self.runtime))
    }

    fn run(&mut self, text: &str) -> Outcome<()> {
        let (connection, runtime) = self.parts()?;
        Ok(runtime.block_on(connection.query_drop(text))?)
    }

    fn text(&mut self, query: &str) -> Outcome<String> {
        let (connection, runtime) = self.parts()?;
        Ok(runtime.block_on(connection.query_first(query))?.ok_or("no row was returned")?)
    }

    fn insert(&mut self, table: &Table, rows: &RecordBatch) -> Outcome<()> {
        if self.has_channels && table.name == DATAPOINTS {
            return self.insert_as_they_are(&channels::table(), &channels::rows(rows)?);
        }
        self.insert_as_they_are(table, rows)
    }

    fn insert_as_they_are(&mut self, table: &Table, rows: &RecordBatch) -> Outcome<()> {
        let text = self.inserts.text(table, rows.num_rows(), || {
            insert_text(table, &vec![DIALECT.row(table, 1); rows.num_rows()].join(", "))
        });
        let values = (0..rows.num_rows()).flat_map(|row| cells(rows, row)).map(value).collect();
        let connection = self.connection.as_mut().ok_or(CLOSED)?;
        Ok(self.runtime.block_on(connection.exec_drop(text, Params::Positional(values)))?)
    }
}

/// The statement that inserts tuples and replaces rows with the same keys.
fn insert_text(table: &Table, tuples: &str) -> String {
    let set: Vec<String> = table.fields().map(|(name, _)| format!("{name} = VALUES({name})")).collect();
    let (columns, set) = (names(&table.columns), set.join(", "));
    format!("INSERT INTO {} ({columns}) VALUES {tuples} ON DUPLICATE KEY UPDATE {set}", table.name)
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // It is closed in any case.
            self.runtime.block_on(connection.disconnect()).ok();
        }
    }
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        if let [(table, rows)] = writes {
            return self.insert(table, rows);
        }
        if let Some(call) = self.procedure.as_ref().and_then(|procedure| procedure.call(writes)) {
            let values = writes.iter().flat_map(|(_, rows)| cells(rows, 0)).map(value).collect();
            let connection = self.connection.as_mut().ok_or(CLOSED)?;
            return Ok(self.runtime.block_on(connection.exec_drop(call, Params::Positional(values)))?);
        }
        self.run("START TRANSACTION")?;
        for (table, rows) in writes {
            self.insert(table, rows)?;
        }
        self.run("COMMIT")
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let (text, cells) = match query {
            Query::Count(DATAPOINTS) if self.has_channels => (channels::count(), Vec::new()),
            Query::Rows { of, window_ns, .. } if self.has_channels && of.name == DATAPOINTS => {
                (channels::select(), channels::parameters(*window_ns))
            }
            _ => (DIALECT.query(query), parameters(query)),
        };
        let (connection, runtime) = self.parts()?;
        let rows = runtime.block_on(connection.exec(text, positional(cells)))?;
        answer(rows, &query.columns())
    }

    fn execute(&mut self, form: &Form, values: &[Parameter], is_prepared: bool) -> Outcome<RecordBatch> {
        let text = form.mariadb.as_ref().unwrap_or(&form.text);
        let (connection, runtime) = self.parts()?;
        let rows = if is_prepared {
            runtime.block_on(connection.exec(text, positional(values.iter().map(cell_of))))?
        } else {
            runtime.block_on(connection.query(with_literals(text, values, quoted_time)))?
        };
        answer(rows, form.columns)
    }
}

fn positional<'c>(cells: impl IntoIterator<Item = Cell<'c>>) -> Params {
    let values = cells.into_iter().map(value).collect::<Vec<_>>();
    if values.is_empty() { Params::Empty } else { Params::Positional(values) }
}

fn answer(rows: Vec<Row>, columns: &[Column]) -> Outcome<RecordBatch> {
    let mut answer = AnswerBuilder::new(columns);
    for row in rows {
        for value in row.unwrap() {
            push(&mut answer, value)?;
        }
    }
    answer.finish()
}

fn value(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::NULL,
        Cell::Int(value) => Value::Int(value),
        Cell::Float(value) => Value::Double(value),
        Cell::Text(text) => Value::Bytes(text.as_bytes().to_vec()),
        Cell::Time(ns) => {
            let time = DateTime::from_timestamp_nanos(ns).naive_utc();
            let [month, day, hour, minute, second] =
                [time.month(), time.day(), time.hour(), time.minute(), time.second()].map(|part| part as u8);
            Value::Date(time.year() as u16, month, day, hour, minute, second, time.nanosecond() / 1_000)
        }
    }
}

fn push(answer: &mut AnswerBuilder, value: Value) -> Outcome<()> {
    match value {
        Value::NULL => answer.push(Cell::Null),
        Value::Int(value) => answer.push(Cell::Int(value)),
        Value::UInt(value) => answer.push(Cell::Int(value.try_into()?)),
        Value::Float(value) => answer.push(Cell::Float(f64::from(value))),
        Value::Double(value) => answer.push(Cell::Float(value)),
        Value::Date(year, month, day, hour, minute, second, micro) => {
            let date = NaiveDate::from_ymd_opt(year.into(), month.into(), day.into());
            let time = date.and_then(|date| {
                date.and_hms_micro_opt(hour.into(), minute.into(), second.into(), micro)?
                    .and_utc()
                    .timestamp_nanos_opt()
            });
            answer.push(Cell::Time(time.ok_or("a time is out of range")?))
        }
        Value::Bytes(bytes) => {
            let text = String::from_utf8(bytes)?;
            match answer.expects() {
                ColumnType::Text | ColumnType::Json => answer.push(Cell::Text(&text)),
                // Decimals arrive as text, and everything from statements that are not prepared.
                ColumnType::Float => answer.push(Cell::Float(text.parse()?)),
                ColumnType::Time if text.contains('-') => answer.push(Cell::Time(time_of_text(&text)?)),
                ColumnType::Int | ColumnType::Time => answer.push(Cell::Int(text.parse()?)),
            }
        }
        Value::Time(..) => Err("unexpected time of day".into()),
    }
}
