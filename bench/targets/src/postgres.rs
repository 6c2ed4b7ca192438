//! PostgreSQL: a server of its own with durable defaults and a gigabyte of buffers; and the client of its protocol, which
//! FleetDB's server is asked through, too.
//!
//! Single rows are upserts in a transaction, all of whose statements are sent at once; many rows are one `INSERT` from
//! arrays (`unnest`), the way that PostgreSQL's own documentation advises when COPY cannot upsert.

use crate::process::{Process, free_port, output, program};
use crate::sql::{Dialect, dollar, names, parameters};
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{Cell, Gather, cells};
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use futures::future::try_join_all;
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

/// Its line in the list.
pub const ENTRY: Entry = Entry { name: "postgres", about: "PostgreSQL, started here", missing, start: open };

const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE PRECISION",
        ColumnType::Text => "TEXT",
        ColumnType::Time => "TIMESTAMP",
    },
    parameter: dollar,
    time: dollar,
    bucket: |seconds| format!("date_bin('{seconds} seconds', ts, TIMESTAMP '1970-01-01')"),
    // DISTINCT ON reads all rows; this is the loose index scan of PostgreSQL's wiki.
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
};

/// Where Debian keeps what is not on the path.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The folder of its programs.
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

/// A command that root may give though PostgreSQL refuses root: in a namespace of its own root has another number.
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

struct Postgres {
    process: Process,
    version: String,
    data: PathBuf,
    settings: Vec<String>,
    port: u16,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let folder = folder().ok_or_else(|| missing().unwrap_or_default())?;
    let data = start.directory.canonicalize()?.join("data");
    let mut initdb = not_as_root(&folder.join("initdb"));
    output(
        initdb.args(["--auth=trust", "--username=bench", "--no-sync", "--encoding=UTF8", "--no-locale"]).arg(&data),
    )?;
    let buffers = if start.profile == Profile::Fair { "1GB" } else { "128MB" };
    let settings = vec![format!("shared_buffers={buffers}"), "max_connections=300".to_owned()];
    let port = free_port()?;
    let mut server = not_as_root(&folder.join("postgres"));
    server.arg("-D").arg(&data).args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
    server.args(["-c", "unix_socket_directories="]);
    settings.iter().for_each(|setting| {
        server.args(["-c", setting]);
    });
    let log = start.directory.join("log");
    let (process, version) = Process::start(&mut server, &log, || {
        let mut client = Wire::connect(port, "postgres", &DIALECT, Many::Arrays)?;
        client.text("SHOW server_version")
    })?;
    Ok(Box::new(Postgres { process, version, data, settings, port }))
}

impl Target for Postgres {
    fn info(&self) -> Info {
        Info { version: self.version.clone(), tier: Tier::T3, settings: self.settings.clone() }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let mut client = Wire::connect(self.port, "postgres", &DIALECT, Many::Arrays)?;
        tables
            .iter()
            .try_for_each(|table| client.run(&format!("CREATE TABLE {} ({})", table.name, DIALECT.columns(table))))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(Wire::connect(self.port, "postgres", &DIALECT, Many::Arrays)?))
    }

    /// What autovacuum and the checkpointer would do in their time.
    fn settle(&mut self) -> Outcome<()> {
        let mut client = Wire::connect(self.port, "postgres", &DIALECT, Many::Arrays)?;
        client.run("VACUUM (ANALYZE)")?;
        client.run("CHECKPOINT")
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        disk_bytes(&self.data)
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }
}

/// How many rows are written at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Many {
    /// `INSERT ... SELECT * FROM unnest(...) ON CONFLICT`.
    Arrays,
    /// `COPY ... (FORMAT binary)`, where a known key is replaced anyway.
    Copy,
}

/// A connection over PostgreSQL's protocol, with a thread's own runtime.
pub(crate) struct Wire {
    client: Client,
    statements: HashMap<String, Statement>,
    dialect: &'static Dialect,
    many: Many,
    // Dropped behind the client, which lives in it.
    runtime: Runtime,
}

impl Wire {
    pub(crate) fn connect(port: u16, database: &str, dialect: &'static Dialect, many: Many) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let config = format!("host=127.0.0.1 port={port} user=bench dbname={database}");
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        })?;
        Ok(Self { client, statements: HashMap::new(), dialect, many, runtime })
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

    /// `ON CONFLICT` for a table.
    fn upsert(table: &Table) -> String {
        let set = table.fields().map(|(name, _)| format!("{name} = excluded.{name}")).collect::<Vec<_>>();
        format!("ON CONFLICT ({}) DO UPDATE SET {}", table.key.join(", "), set.join(", "))
    }

    /// One row of each table, all statements sent at once.
    fn write_single(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        let mut statements = Vec::new();
        for (table, rows) in writes {
            let row = self.dialect.row(table, 1);
            let columns = names(&table.columns);
            let text = format!("INSERT INTO {} ({columns}) VALUES {row} {}", table.name, Self::upsert(table));
            let values: Vec<Parameter<'_>> = cells(rows, 0).map(Parameter).collect();
            statements.push((self.statement(text)?, values));
        }
        if statements.len() > 1 {
            statements.insert(0, (self.statement("BEGIN".to_owned())?, Vec::new()));
            statements.push((self.statement("COMMIT".to_owned())?, Vec::new()));
        }
        let runs = statements.iter().map(|(statement, values)| self.client.execute_raw(statement, values));
        self.runtime.block_on(try_join_all(runs)).map_err(|e| said(&e))?;
        Ok(())
    }

    fn write_many(&mut self, table: &Table, rows: &RecordBatch) -> Outcome<()> {
        let columns = names(&table.columns);
        match self.many {
            Many::Arrays => {
                let arrays = table
                    .columns
                    .iter()
                    .enumerate()
                    .map(|(place, (_, kind))| format!("${}::{}[]", place + 1, (self.dialect.types)(*kind)));
                let arrays = arrays.collect::<Vec<_>>().join(", ");
                let upsert = Self::upsert(table);
                let text = format!("INSERT INTO {} ({columns}) SELECT * FROM unnest({arrays}) {upsert}", table.name);
                let statement = self.statement(text)?;
                let mut values: Vec<Vec<Parameter<'_>>> =
                    vec![Vec::with_capacity(rows.num_rows()); table.columns.len()];
                for row in 0..rows.num_rows() {
                    values.iter_mut().zip(cells(rows, row)).for_each(|(column, cell)| column.push(Parameter(cell)));
                }
                self.runtime.block_on(self.client.execute_raw(&statement, values)).map_err(|e| said(&e))?;
            }
            Many::Copy => self
                .runtime
                .block_on(async {
                    let types: Vec<Type> = table.columns.iter().map(|(_, kind)| wire_type(*kind)).collect();
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
        ColumnType::Text => Type::TEXT,
        ColumnType::Time => Type::TIMESTAMP,
    }
}

/// What the server said, which the error itself does not print.
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
        let mut answer = Gather::new(&columns);
        for row in &rows {
            for (place, (_, kind)) in columns.iter().enumerate() {
                push(&mut answer, row, place, *kind)?;
            }
        }
        answer.finish()
    }
}

fn push(answer: &mut Gather, row: &Row, place: usize, kind: ColumnType) -> Outcome<()> {
    let time_ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
    let cell = match kind {
        ColumnType::Int => row.try_get::<_, Option<i64>>(place)?.map(Cell::Int),
        ColumnType::Float => row.try_get::<_, Option<f64>>(place)?.map(Cell::Float),
        ColumnType::Text => row.try_get::<_, Option<&str>>(place)?.map(Cell::Text),
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
