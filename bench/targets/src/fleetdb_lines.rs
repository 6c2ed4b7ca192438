//! FleetDB's server, written to in line protocol over HTTP and asked over the PostgreSQL protocol.
//!
//! Key columns, and text columns before the time, are tags, as users of line protocol define them;
//! the tags and the time are the key.

use crate::fleetdb::DIALECT;
use crate::fleetdb_server::{http_port, open as open_server};
use crate::http::{agent, send_lines};
use crate::lines::{Style, add, is_tag};
use crate::postgres::Server;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Start, Target};
use ureq::Agent;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "fleetdb-lines",
    about: "FleetDB, served, written to in line protocol (tables with texts as keys)",
    missing: Some(crate::nothing),
    url: None,
    start: open,
};

const STYLE: Style = Style { has_integer_tags: false, time_suffix: 'i' };

struct Lines {
    server: Server,
    /// Where lines are sent.
    url: String,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let server = open_server(start, Server::driver)?;
    let url = format!("http://127.0.0.1:{}/write?precision=ns", http_port(start.directory)?);
    Ok(Box::new(Lines { server, url }))
}

/// The table with its tags and its time as the key.
///
/// # Errors
/// A column of the key is neither a tag nor a time.
fn create(table: &Table) -> Outcome<String> {
    let mut key: Vec<&str> =
        table.columns.iter().filter(|column| is_tag(table, column, STYLE)).map(|(name, _)| *name).collect();
    let time = table.columns.iter().find(|(name, kind)| *kind == ColumnType::Time && table.key.contains(name));
    key.extend(time.map(|(name, _)| *name));
    if !table.key.iter().all(|name| key.contains(name)) || time.is_none() {
        return Err(format!("{}: in line protocol, a key is texts and a time, as in edge and own", table.name).into());
    }
    let columns = table.columns.iter().map(|(name, kind)| format!("{name} {}", (DIALECT.types)(*kind)));
    let columns = columns.collect::<Vec<_>>().join(", ");
    Ok(format!("CREATE TABLE IF NOT EXISTS {} ({columns}, PRIMARY KEY ({}))", table.name, key.join(", ")))
}

impl Target for Lines {
    fn info(&self) -> Info {
        self.server.info()
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let mut wire = self.server.wire()?;
        tables.iter().try_for_each(|table| wire.run(&create(table)?))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        let queries = self.server.driver()?;
        Ok(Box::new(Client { queries, agent: agent(), url: self.url.clone(), lines: String::new() }))
    }

    fn settle(&mut self) -> Outcome<()> {
        self.server.settle()
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.server.disk_bytes()
    }

    fn processes(&self) -> Vec<u32> {
        self.server.processes()
    }
}

struct Client {
    queries: Box<dyn Connection>,
    agent: Agent,
    url: String,
    lines: String,
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        self.lines.clear();
        writes.iter().try_for_each(|(table, rows)| add(&mut self.lines, table, rows, STYLE))?;
        send_lines(&self.agent, &self.url, &self.lines)
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        self.queries.query(query)
    }
}

#[cfg(test)]
#[path = "fleetdb_lines_tests.rs"]
mod tests;
