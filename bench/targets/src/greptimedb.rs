//! GreptimeDB at a URL: writes line protocol and queries SQL, both over HTTP.
//!
//! Keys are tags, so an integer key becomes text. A row with an existing key and time replaces the
//! old row; the rows of a table without a time are all at 1970. Its log is synced at each write
//! only if configured so, which cannot be seen from here. The rows of an HTTP request are not one
//! transaction.

use crate::http::{agent, gathered, json, send_lines};
use crate::lines::{Style, add, is_tag};
use crate::process::AT_URL;
use crate::sql::{Dialect, distinct_on, parameters, question};
use crate::tsbs::{NO_TEXT, newest_distinct, plain_average};
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::Cell;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Start, Target, Tier};
use serde_json::Value;
use ureq::Agent;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "greptimedb",
    about: "GreptimeDB",
    missing: None,
    url: Some("http://user:password@host:4000/database"),
    start: open,
};

const STYLE: Style = Style { has_integer_tags: true, time_suffix: 'i' };
const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE",
        ColumnType::Text | ColumnType::Json => "STRING",
        // A time in a field is sent as an integer.
        ColumnType::Time => "BIGINT",
    },
    parameter: question,
    time: |_| "to_timestamp_nanos(?)".to_owned(),
    bucket: |seconds| format!("date_bin(INTERVAL '{seconds} seconds', ts)"),
    last_of_all: distinct_on,
    newest: newest_distinct,
    average: plain_average,
    bucket_ns: |bucket| format!("CAST({bucket} AS BIGINT)"),
};

struct GreptimeDb {
    address: Address,
    version: String,
    /// The tables to remove at the end.
    tables: Vec<&'static str>,
}

/// The address of a server, and the database in it.
#[derive(Clone)]
struct Address {
    /// For example `http://127.0.0.1:4000`.
    server: String,
    database: String,
}

impl Address {
    fn of(url: &str) -> Outcome<Self> {
        match url.rsplit_once('/').filter(|(server, database)| server.contains("://") && !database.is_empty()) {
            Some((server, database)) => Ok(Self { server: server.to_owned(), database: database.to_owned() }),
            None => Err(format!("{url}: a GreptimeDB URL has the form http://host:4000/database").into()),
        }
    }
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let address = Address::of(start.url.ok_or("it is available by URL only")?)?;
    let version = Client::new(&address).ask("SELECT version()")?;
    let version = version[0][0].as_str().unwrap_or_default().to_owned();
    Ok(Box::new(GreptimeDb { address, version, tables: Vec::new() }))
}

/// The statement that creates a table. A table without a time in its key gets the column `ts`,
/// which is always 1970.
fn create(table: &Table) -> String {
    let mut tags = Vec::new();
    let mut columns = vec!["ts TIMESTAMP(9) TIME INDEX".to_owned()];
    for column in table.columns.iter().filter(|(name, _)| *name != "ts") {
        let is_tag = is_tag(table, column, STYLE);
        columns.push(format!("{} {}", column.0, if is_tag { "STRING" } else { (DIALECT.types)(column.1) }));
        tags.extend(is_tag.then_some(column.0));
    }
    format!("CREATE TABLE {} ({}, PRIMARY KEY ({}))", table.name, columns.join(", "), tags.join(", "))
}

impl Target for GreptimeDb {
    fn info(&self) -> Info {
        let settings = [AT_URL, "its log synced as it is configured", "rows of a request are no transaction"];
        Info { version: self.version.clone(), tier: Tier::T1, settings: settings.map(str::to_owned).to_vec() }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let client = Client::new(&self.address);
        for table in tables {
            client.ask(&create(table))?;
            self.tables.push(table.name);
        }
        Ok(())
    }

    fn remove(&mut self) -> Outcome<()> {
        let client = Client::new(&self.address);
        self.tables.iter().try_for_each(|table| client.ask(&format!("DROP TABLE {table}")).map(|_| ()))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(Client::new(&self.address)))
    }

    fn settle(&mut self) -> Outcome<()> {
        let client = Client::new(&self.address);
        for table in &self.tables {
            client.ask(&format!("ADMIN FLUSH_TABLE('{table}')"))?;
            client.ask(&format!("ADMIN COMPACT_TABLE('{table}')"))?;
        }
        Ok(())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        Ok(0)
    }

    fn unsupported(&self, query: &Query) -> Option<&'static str> {
        matches!(query, Query::Tsbs(_)).then_some(NO_TEXT)
    }
}

struct Client {
    agent: Agent,
    address: Address,
    lines: String,
}

impl Client {
    fn new(address: &Address) -> Self {
        Self { agent: agent(), address: address.clone(), lines: String::new() }
    }

    /// The rows of an answer, if it has any.
    fn ask(&self, statement: &str) -> Outcome<Value> {
        let url = format!("{}/v1/sql?db={}", self.address.server, self.address.database);
        let mut answer = json(self.agent.post(url).send_form([("sql", statement)])?)?;
        match answer["error"].as_str() {
            Some(error) => Err(error.into()),
            None => Ok(answer["output"][0]["records"]["rows"].take()),
        }
    }
}

/// A query with its values inserted.
fn text(query: &Query) -> String {
    let statement = DIALECT.query(query);
    let mut parts = statement.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (value, part) in parameters(query).into_iter().zip(parts) {
        text += &literal(value);
        text += part;
    }
    text
}

fn literal(value: Cell<'_>) -> String {
    match value {
        Cell::Time(ns) => ns.to_string(),
        // Integers in queries are keys.
        Cell::Int(key) => format!("'{key}'"),
        Cell::Text(key) => format!("'{}'", key.replace('\'', "''")),
        Cell::Float(value) => value.to_string(),
        Cell::Null => "NULL".to_owned(),
    }
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        self.lines.clear();
        writes.iter().try_for_each(|(table, rows)| add(&mut self.lines, table, rows, STYLE))?;
        let Address { server, database } = &self.address;
        send_lines(&self.agent, &format!("{server}/v1/influxdb/write?db={database}&precision=ns"), &self.lines)
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        gathered(query, &self.ask(&text(query))?)
    }
}

#[cfg(test)]
#[path = "greptimedb_tests.rs"]
mod tests;
