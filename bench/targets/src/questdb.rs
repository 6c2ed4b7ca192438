//! QuestDB: its own server, started from its jar, or one at a URL; writes line protocol and queries
//! SQL, both over HTTP.
//!
//! Text columns before the time are symbols, and rows are deduplicated by the key. The rows of a
//! request are one transaction per table. Acknowledged rows become visible only when they have been
//! merged from its log; settling waits for that.

use crate::http::{agent, gathered, json, send_lines};
use crate::lines::{Style, add, is_tag};
use crate::process::{Instance, Process, free_port, program};
use crate::tsbs::NO_TEXT;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::query::{Key, Query};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use fleetdb_bench_core::workload::cpu::FIELDS;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use ureq::Agent;

/// The entry in the list of targets.
pub const ENTRY: Entry =
    Entry { name: "questdb", about: "QuestDB", missing: Some(missing), url: Some("http://host:port"), start: open };

/// The environment variable with the path of its jar.
const JAR: &str = "QUESTDB_JAR";
const STYLE: Style = Style { has_integer_tags: false, time_suffix: 'n' };
/// It merges its log in steps; after this long without one, it is stuck.
const STALL_LIMIT: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

fn missing() -> Option<String> {
    let jar = std::env::var_os(JAR).map(PathBuf::from).filter(|jar| jar.is_file());
    let is_there = jar.is_some() && program(&["java"]).is_some();
    (!is_there).then(|| {
        format!(
            "it requires Java 17 and a questdb.jar (Maven Central: org.questdb:questdb), whose path is set in {JAR}"
        )
    })
}

struct QuestDb {
    instance: Instance,
    version: String,
    tier: Tier,
    /// The tables to remove at a URL.
    tables: Vec<&'static str>,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let mut instance = start.url.map_or_else(|| started(start), |url| Ok(Instance::at(url.trim_end_matches('/'))))?;
    instance.settings.push("a transaction a table".to_owned());
    let tier = if start.profile == Profile::Fair { Tier::T3 } else { Tier::T1 };
    let build = Client::new(&instance.address).ask("SELECT build()")?;
    let version = build[0][0].as_str().unwrap_or_default();
    let version = version.split(',').next().unwrap_or_default().replace("Build Information: ", "");
    Ok(Box::new(QuestDb { instance, version, tier, tables: Vec::new() }))
}

fn started(start: &Start<'_>) -> Outcome<Instance> {
    let directory = start.directory.canonicalize()?.join("root");
    std::fs::create_dir_all(&directory)?;
    let (http, postgres) = (free_port()?, free_port()?);
    let mode = if start.profile == Profile::Fair { "sync" } else { "nosync" };
    let mut command = Command::new("java");
    command.arg("-p").arg(std::env::var_os(JAR).unwrap_or_default());
    command.args(["-m", "io.questdb/io.questdb.ServerMain", "-d"]).arg(&directory);
    command.env("QDB_HTTP_BIND_TO", format!("127.0.0.1:{http}"));
    command.env("QDB_PG_NET_BIND_TO", format!("127.0.0.1:{postgres}"));
    command.env("QDB_CAIRO_COMMIT_MODE", mode);
    for off in ["QDB_LINE_TCP_ENABLED", "QDB_HTTP_MIN_ENABLED", "QDB_TELEMETRY_ENABLED"] {
        command.env(off, "false");
    }
    let server = format!("http://127.0.0.1:{http}");
    let (process, ()) = Process::start(&mut command, &start.directory.join("log"), || {
        Client::new(&server).ask("SELECT 1").map(|_| ())
    })?;
    Ok(Instance::started(server, process, directory.join("db"), vec![format!("cairo.commit.mode = {mode}")]))
}

/// The type of a column; see [`is_tag`].
fn column_type(table: &Table, column: &Column) -> &'static str {
    match column.1 {
        ColumnType::Int => "LONG",
        ColumnType::Float => "DOUBLE",
        ColumnType::Text if is_tag(table, column, STYLE) => "SYMBOL",
        ColumnType::Text | ColumnType::Json => "VARCHAR",
        ColumnType::Time => "TIMESTAMP_NS",
    }
}

/// The statement that creates a table. A table without a time in its key gets the column `at`,
/// which is always 1970.
fn create(table: &Table, is_ours: bool) -> String {
    let unless = if is_ours { "IF NOT EXISTS " } else { "" };
    let columns = table.columns.iter().map(|column| format!("{} {}", column.0, column_type(table, column)));
    let mut columns: Vec<String> = columns.collect();
    let mut key: Vec<&str> = table.key.to_vec();
    if !key.contains(&"ts") {
        columns.push("at TIMESTAMP_NS".to_owned());
        key.push("at");
    }
    let time = key[key.len() - 1];
    format!(
        "CREATE TABLE {unless}{} ({}) TIMESTAMP({time}) PARTITION BY DAY WAL DEDUP UPSERT KEYS({})",
        table.name,
        columns.join(", "),
        key.join(", ")
    )
}

impl Target for QuestDb {
    fn info(&self) -> Info {
        let (version, settings) = (self.version.clone(), self.instance.settings.clone());
        Info { version, tier: self.tier, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let client = Client::new(&self.instance.address);
        for table in tables {
            client.ask(&create(table, self.instance.is_ours()))?;
            self.tables.push(table.name);
        }
        // Rows acknowledged before an earlier stop become visible when they are merged.
        self.settle()
    }

    fn remove(&mut self) -> Outcome<()> {
        let client = Client::new(&self.instance.address);
        self.tables.iter().try_for_each(|table| client.ask(&format!("DROP TABLE {table}")).map(|_| ()))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(Client::new(&self.instance.address)))
    }

    /// Waits until everything acknowledged is merged into the tables.
    fn settle(&mut self) -> Outcome<()> {
        let client = Client::new(&self.instance.address);
        let (mut merged, mut since) = (Value::Null, Instant::now());
        let behind = "SELECT suspended, name, writerTxn, sequencerTxn, errorTag, errorMessage FROM wal_tables() \
                      WHERE writerTxn < sequencerTxn ORDER BY suspended DESC";
        loop {
            let tables = client.ask(behind)?;
            let Some(table) = tables.get(0) else { return Ok(()) };
            // It merges nothing more into a table whose merge has failed.
            if table[0] == true {
                return Err(format!("it suspended merging its log: {table}").into());
            }
            if tables != merged {
                (merged, since) = (tables, Instant::now());
            } else if since.elapsed() > STALL_LIMIT {
                return Err(format!("it has merged nothing of its log for {STALL_LIMIT:?}: {tables}").into());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.instance.disk_bytes()
    }

    fn processes(&self) -> Vec<u32> {
        self.instance.processes()
    }

    fn unsupported(&self, query: &Query) -> Option<&'static str> {
        matches!(query, Query::Tsbs(_)).then_some(NO_TEXT)
    }
}

struct Client {
    agent: Agent,
    server: String,
    lines: String,
}

impl Client {
    fn new(server: &str) -> Self {
        Self { agent: agent(), server: server.to_owned(), lines: String::new() }
    }

    /// The rows of an answer.
    fn ask(&self, query: &str) -> Outcome<Value> {
        let mut answer = json(self.agent.get(format!("{}/exec", self.server)).query("query", query).call()?)?;
        match answer["error"].as_str() {
            Some(error) => Err(error.into()),
            None => Ok(answer["dataset"].take()),
        }
    }
}

/// A query in QuestDB's SQL, with times as integers.
fn text(query: &Query) -> Outcome<String> {
    let within = |(from, to): &(i64, i64)| format!("ts >= {from} AND ts < {to}");
    let names = query.columns().into_iter().map(|(name, kind)| match kind {
        ColumnType::Time => format!("{name}::LONG AS {name}"),
        _ => name.to_owned(),
    });
    let columns = names.collect::<Vec<_>>().join(", ");
    let maxima = |unit: &str, hosts: &str, fields: &[&str], window_ns: &(i64, i64)| {
        let maxima: Vec<String> = fields.iter().map(|field| format!("max({field}) AS {field}")).collect();
        let inner = format!(
            "SELECT timestamp_floor('{unit}', ts) AS bucket, {} FROM cpu WHERE hostname IN ({hosts}) AND {}",
            maxima.join(", "),
            within(window_ns)
        );
        format!("SELECT bucket::LONG AS bucket, {} FROM ({inner}) ORDER BY bucket", fields.join(", "))
    };
    Ok(match query {
        Query::Count(table) => format!("SELECT count() FROM {table}"),
        Query::Bill { meter, window_ns } => {
            format!("SELECT sum(usage_since_read) FROM meter_reads WHERE meter_id = {meter} AND {}", within(window_ns))
        }
        Query::Rows { of, key, window_ns } => {
            let (table, name) = (of.name, of.key[0]);
            format!(
                "SELECT {columns} FROM {table} WHERE {name} = {} AND {} ORDER BY ts",
                literal(key),
                within(window_ns)
            )
        }
        Query::Last { of, key } => {
            let (table, name) = (of.name, of.key[0]);
            let key = literal(key);
            format!("SELECT {columns} FROM {table} WHERE {name} = {key} LATEST ON ts PARTITION BY {name}")
        }
        Query::HourlyMaxima { hosts, window_ns } => {
            let hosts: Vec<String> = hosts.iter().map(|host| format!("'{host}'")).collect();
            maxima("1h", &hosts.join(", "), &FIELDS, window_ns)
        }
        Query::MinuteMaxima { host, window_ns } => maxima("1m", &format!("'{host}'"), &FIELDS[..1], window_ns),
        Query::LastOfAll => format!("SELECT {columns} FROM cpu LATEST ON ts PARTITION BY hostname"),
        Query::Tsbs(_) => return Err(NO_TEXT.into()),
    })
}

fn literal(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Text(name) => format!("'{}'", name.replace('\'', "''")),
    }
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        self.lines.clear();
        writes.iter().try_for_each(|(table, rows)| add(&mut self.lines, table, rows, STYLE))?;
        send_lines(&self.agent, &format!("{}/write?precision=n", self.server), &self.lines)
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        gathered(query, &self.ask(&text(query)?)?)
    }
}
