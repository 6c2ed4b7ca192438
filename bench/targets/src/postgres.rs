//! PostgreSQL: its own server with durable defaults and a gigabyte of buffers, or one at a URL
//! (such as TimescaleDB); and the client of its protocol, which is also used for FleetDB's server.
//!
//! Single rows are upserts; those of several tables form one statement (`WITH a AS (INSERT ...)
//! INSERT ...`). Many rows are one `INSERT` from arrays (`unnest`), as PostgreSQL's documentation
//! recommends where COPY cannot upsert.

use crate::process::{Instance, Process, free_port, output, program};
use crate::sql::{Dialect, dollar, names, parameters, upsert};
use crate::tsbs::newest_distinct;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, Row, Statement};

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "postgres",
    about: "PostgreSQL, and TimescaleDB by URL",
    missing: Some(missing),
    url: Some("postgres://user:password@host:port/database"),
    start: open,
};

const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE PRECISION",
        ColumnType::Text | ColumnType::Json => "TEXT",
        ColumnType::Time => "TIMESTAMP",
    },
    parameter: dollar,
    time: dollar,
    bucket: |seconds| format!("date_bin('{seconds} seconds', ts, TIMESTAMP '1970-01-01')"),
    // DISTINCT ON reads all rows; this is the loose index scan from PostgreSQL's wiki.
    last_of_all: |columns| {
        format!(
            "WITH RECURSIVE hosts AS ((SELECT hostname FROM cpu ORDER BY hostname LIMIT 1) UNION ALL \
             SELECT (SELECT cpu.hostname FROM cpu WHERE cpu.hostname > hosts.hostname ORDER BY cpu.hostname LIMIT 1) \
             FROM hosts WHERE hosts.hostname IS NOT NULL) \
             SELECT {} FROM hosts CROSS JOIN LATERAL (SELECT * FROM cpu WHERE cpu.hostname = hosts.hostname \
             ORDER BY ts DESC LIMIT 1) AS newest",
            columns.split(", ").map(|name| format!("newest.{name}")).collect::<Vec<_>>().join(", ")
        )
    },
    newest: newest_distinct,
    // The average of integers is NUMERIC.
    average: |column| format!("CAST(avg({column}) AS DOUBLE PRECISION)"),
    bucket_ns: |bucket| format!("CAST(extract(epoch FROM {bucket}) * 1000000000 AS BIGINT)"),
};

/// Where Debian installs programs that are not in the path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder of PostgreSQL's programs.
fn folder() -> Option<PathBuf> {
    if let Some(initdb) = program(&["initdb"]) {
        return Some(initdb.parent()?.to_owned());
    }
    let mut versions: Vec<_> =
        std::fs::read_dir(DEBIAN).ok()?.flatten().map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    versions.into_iter().rev().find(|folder| folder.join("initdb").is_file())
}

fn missing() -> Option<String> {
    folder().is_none().then(|| "PostgreSQL is not installed (Debian: apt-get install postgresql)".to_owned())
}

/// A command for programs of PostgreSQL, which refuse to run as root: root runs them in a user
/// namespace with another user id.
fn not_as_root(program: &Path) -> Command {
    use std::os::unix::fs::MetadataExt;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-user=1000", "--map-group=1000"]).arg(program);
    command
}

/// A server that speaks the PostgreSQL protocol.
pub(crate) struct Server {
    pub(crate) instance: Instance,
    pub(crate) version: String,
    pub(crate) tier: Tier,
    pub(crate) dialect: &'static Dialect,
    pub(crate) bulk: BulkInsert,
    /// Makes the server finish its background work; receives the tables, and whether the server was
    /// started here.
    pub(crate) settle: fn(&mut Wire, &[&str], bool) -> Outcome<()>,
    /// Opens the connections that are measured.
    pub(crate) connect: fn(&Self) -> Outcome<Box<dyn Connection>>,
    /// The tables to remove at a URL.
    pub(crate) tables: Vec<&'static str>,
    /// Whether TimescaleDB is installed; tables with a time then become hypertables.
    pub(crate) has_hypertables: bool,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let mut instance = start.url.map_or_else(|| started(start), |url| Ok(Instance::at(url)))?;
    let (dialect, bulk, tables, tier) = (&DIALECT, BulkInsert::Arrays, Vec::new(), Tier::T3);
    let mut wire = Wire::connect(&instance.address, dialect, bulk)?;
    let version = wire.text("SHOW server_version")?;
    let extension = "SELECT coalesce(max(extversion), '') FROM pg_extension WHERE extname = 'timescaledb'";
    let timescale = wire.text(extension)?;
    let has_hypertables = !timescale.is_empty();
    if has_hypertables {
        instance.settings.push(format!("hypertables of TimescaleDB {timescale}"));
    }
    let connect = Server::driver;
    Ok(Box::new(Server { instance, version, tier, dialect, bulk, settle, connect, tables, has_hypertables }))
}

fn started(start: &Start<'_>) -> Outcome<Instance> {
    let folder = folder().ok_or_else(|| missing().unwrap_or_default())?;
    let data = start.directory.canonicalize()?.join("data");
    if !data.exists() {
        let mut initdb = not_as_root(&folder.join("initdb"));
        initdb.args(["--auth=trust", "--username=bench", "--no-sync", "--encoding=UTF8", "--no-locale"]);
        output(initdb.arg(&data))?;
    }
    let buffers = if start.profile == Profile::Fair { "1GB" } else { "128MB" };
    let settings = vec![format!("shared_buffers={buffers}"), "max_connections=300".to_owned()];
    let port = free_port()?;
    let mut server = not_as_root(&folder.join("postgres"));
    server.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    server.args(["-c", "unix_socket_directories="]);
    settings.iter().for_each(|setting| {
        server.args(["-c", setting]);
    });
    let address = format!("postgres://bench@127.0.0.1:{port}/postgres");
    let (process, ()) = Process::start(&mut server, &start.directory.join("log"), || {
        Wire::connect(&address, &DIALECT, BulkInsert::Arrays).map(|_| ())
    })?;
    Ok(Instance::started(address, process, data, settings))
}

/// Does what autovacuum and the checkpointer would do in their own time.
fn settle(wire: &mut Wire, tables: &[&str], is_ours: bool) -> Outcome<()> {
    tables.iter().try_for_each(|table| wire.run(&format!("VACUUM (ANALYZE) {table}")))?;
    // On a server that was not started here, the checkpoint may be refused.
    wire.run("CHECKPOINT").or_else(|error| if is_ours { Err(error) } else { Ok(()) })
}

impl Server {
    /// Opens a connection with the usual driver.
    pub(crate) fn driver(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(self.wire()?))
    }

    /// Like [`driver`](Self::driver), for statements of the suite itself.
    pub(crate) fn wire(&self) -> Outcome<Wire> {
        Wire::connect(&self.instance.address, self.dialect, self.bulk)
    }
}

impl Target for Server {
    fn info(&self) -> Info {
        let (version, settings) = (self.version.clone(), self.instance.settings.clone());
        Info { version, tier: self.tier, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let mut wire = self.wire()?;
        for table in tables {
            wire.run(&self.dialect.create(table, self.instance.is_ours()))?;
            self.tables.push(table.name);
            let time = table.columns.iter().find(|(name, kind)| *kind == ColumnType::Time && table.key.contains(name));
            if let Some((time, _)) = time.filter(|_| self.has_hypertables) {
                wire.run(&format!("SELECT create_hypertable('{}', '{time}')", table.name))?;
            }
        }
        Ok(())
    }

    fn remove(&mut self) -> Outcome<()> {
        let mut wire = self.wire()?;
        self.tables.iter().try_for_each(|table| wire.run(&format!("DROP TABLE {table}")))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        (self.connect)(self)
    }

    fn settle(&mut self) -> Outcome<()> {
        (self.settle)(&mut self.wire()?, &self.tables, self.instance.is_ours())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.instance.disk_bytes()
    }

    fn processes(&self) -> Vec<u32> {
        self.instance.processes()
    }
}

/// How many rows are written at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BulkInsert {
    /// `INSERT ... SELECT * FROM unnest(...) ON CONFLICT`.
    Arrays,
    /// `COPY ... (FORMAT binary)`, for a server that replaces rows with existing keys.
    Copy,
}

/// A connection over the PostgreSQL protocol, with a runtime for its thread.
pub(crate) struct Wire {
    client: Client,
    statements: HashMap<String, Statement>,
    /// Statements that write one row to each table, by the tables.
    single: HashMap<Vec<&'static str>, Statement>,
    /// Statements that write many rows, by table.
    arrays: HashMap<&'static str, Statement>,
    dialect: &'static Dialect,
    bulk: BulkInsert,
    // Dropped after the client, which lives in it.
    runtime: Runtime,
}

impl Wire {
    /// Connects to an address in libpq's form: a URL, or pairs of names and values.
    pub(crate) fn connect(address: &str, dialect: &'static Dialect, bulk: BulkInsert) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        })?;
        Ok(Self {
            client,
            statements: HashMap::new(),
            single: HashMap::new(),
            arrays: HashMap::new(),
            dialect,
            bulk,
            runtime,
        })
    }

    /// Runs a statement.
    pub(crate) fn run(&mut self, text: &str) -> Outcome<()> {
        self.runtime.block_on(self.client.batch_execute(text)).map_err(|e| said(&e))
    }

    /// The first cell of a query's answer.
    pub(crate) fn text(&mut self, query: &str) -> Outcome<String> {
        Ok(self.runtime.block_on(self.client.query_one(query, &[]))?.get(0))
    }

    fn statement(&mut self, text: String) -> Outcome<Statement> {
        if let Some(known) = self.statements.get(&text) {
            return Ok(known.clone());
        }
        let statement = self.runtime.block_on(self.client.prepare(&text)).map_err(|e| said(&e))?;
        self.statements.insert(text, statement.clone());
        Ok(statement)
    }

    /// See [`Dialect::row_of_each`].
    fn single(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<Statement> {
        let tables: Vec<&str> = writes.iter().map(|(table, _)| table.name).collect();
        if let Some(known) = self.single.get(&tables) {
            return Ok(known.clone());
        }
        let statement = self.statement(self.dialect.row_of_each(writes.iter().map(|(table, _)| *table))?)?;
        self.single.insert(tables, statement.clone());
        Ok(statement)
    }

    fn write_single(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        let statement = self.single(writes)?;
        let values: Vec<Parameter<'_>> = writes.iter().flat_map(|(_, rows)| cells(rows, 0)).map(Parameter).collect();
        self.runtime.block_on(self.client.execute_raw(&statement, values)).map_err(|e| said(&e))?;
        Ok(())
    }

    /// The statement that upserts rows from arrays.
    fn array_insert(&mut self, table: &Table) -> Outcome<Statement> {
        if let Some(known) = self.arrays.get(table.name) {
            return Ok(known.clone());
        }
        let columns = table.columns.iter().enumerate();
        let arrays = columns.map(|(place, (_, kind))| format!("${}::{}[]", place + 1, (self.dialect.types)(*kind)));
        let rows = format!("SELECT * FROM unnest({})", arrays.collect::<Vec<_>>().join(", "));
        let statement = self.statement(upsert(table, &rows))?;
        self.arrays.insert(table.name, statement.clone());
        Ok(statement)
    }

    fn write_many(&mut self, table: &Table, rows: &RecordBatch) -> Outcome<()> {
        match self.bulk {
            BulkInsert::Arrays => {
                let statement = self.array_insert(table)?;
                let mut values: Vec<Vec<Parameter<'_>>> =
                    vec![Vec::with_capacity(rows.num_rows()); table.columns.len()];
                for row in 0..rows.num_rows() {
                    values.iter_mut().zip(cells(rows, row)).for_each(|(column, cell)| column.push(Parameter(cell)));
                }
                self.runtime.block_on(self.client.execute_raw(&statement, values)).map_err(|e| said(&e))?;
            }
            BulkInsert::Copy => self
                .runtime
                .block_on(async {
                    let types: Vec<Type> = table.columns.iter().map(|(_, kind)| wire_type(*kind)).collect();
                    let columns = names(&table.columns);
                    let text = format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", table.name);
                    let writer = BinaryCopyInWriter::new(self.client.copy_in(&text).await?, &types);
                    let mut writer = std::pin::pin!(writer);
                    for row in 0..rows.num_rows() {
                        let values: Vec<Parameter<'_>> = cells(rows, row).map(Parameter).collect();
                        writer.as_mut().write_raw(values).await?;
                    }
                    writer.finish().await
                })
                .map(|_| ())
                .map_err(|e| said(&e))?,
        }
        Ok(())
    }
}

fn wire_type(kind: ColumnType) -> Type {
    match kind {
        ColumnType::Int => Type::INT8,
        ColumnType::Float => Type::FLOAT8,
        ColumnType::Text | ColumnType::Json => Type::TEXT,
        ColumnType::Time => Type::TIMESTAMP,
    }
}

/// The server's message, which the error's own text omits.
fn said(error: &tokio_postgres::Error) -> Box<dyn Error + Send + Sync> {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()).into(),
        None => error.to_string().into(),
    }
}

impl Connection for Wire {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        if writes.iter().all(|(_, rows)| rows.num_rows() == 1) {
            return self.write_single(writes);
        }
        let [(table, rows)] = writes else {
            self.run("BEGIN")?;
            for (table, rows) in writes {
                self.write_many(table, rows)?;
            }
            return self.run("COMMIT");
        };
        self.write_many(table, rows)
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let statement = self.statement(self.dialect.query(query))?;
        let values: Vec<Parameter<'_>> = parameters(query).into_iter().map(Parameter).collect();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let rows = self.runtime.block_on(self.client.query(&statement, &values)).map_err(|e| said(&e))?;
        let columns = query.columns();
        let mut answer = AnswerBuilder::new(&columns);
        for row in &rows {
            for (place, (_, kind)) in columns.iter().enumerate() {
                push(&mut answer, row, place, *kind)?;
            }
        }
        answer.finish()
    }
}

fn push(answer: &mut AnswerBuilder, row: &Row, place: usize, kind: ColumnType) -> Outcome<()> {
    let time_ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
    let cell = match kind {
        ColumnType::Int => row.try_get::<_, Option<i64>>(place)?.map(Cell::Int),
        ColumnType::Float => row.try_get::<_, Option<f64>>(place)?.map(Cell::Float),
        ColumnType::Text | ColumnType::Json => row.try_get::<_, Option<&str>>(place)?.map(Cell::Text),
        ColumnType::Time => row.try_get::<_, Option<SystemTime>>(place)?.map(|time| Cell::Time(time_ns(time))),
    };
    answer.push(cell.unwrap_or(Cell::Null))
}

/// A cell as a parameter.
#[derive(Clone, Debug)]
struct Parameter<'a>(Cell<'a>);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Cell::Null => Ok(IsNull::Yes),
            Cell::Int(value) => value.to_sql(kind, out),
            Cell::Float(value) => value.to_sql(kind, out),
            Cell::Text(value) => value.to_sql(kind, out),
            Cell::Time(ns) => (UNIX_EPOCH + Duration::from_nanos(ns as u64)).to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
