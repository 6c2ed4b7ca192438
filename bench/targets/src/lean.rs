//! A lean client of the PostgreSQL protocol, so that the client takes only a small share of the
//! cores: statements are prepared once, and all runs of a write are sent together.
//!
//! A single row of each table is one statement, or one of each table ([`Form`]). Many rows are as many
//! runs of a statement. One Sync follows, which makes them one transaction.

use crate::sql::{Dialect, parameters};
use arrow::array::RecordBatch;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::Connection;
use postgres_protocol::message::backend::{DataRowBody, Message};
use postgres_protocol::message::frontend;
use postgres_protocol::{IsNull, types};
use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_postgres::config::Host;

/// 2000-01-01, PostgreSQL's epoch, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;
/// Bytes to read at a time.
const READ_BYTES: usize = 16 << 10;
/// Rows of a write. Their acknowledgements fit into the buffers of a socket, so that the server
/// never waits for a client that is still sending.
const MAX_ROWS: usize = 5_000;

/// How a single row of each of several tables is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One statement that names all columns: `WITH row1 AS (INSERT ...) INSERT ...`.
    Whole,
    /// A statement for each table, which names all columns, in one pipeline.
    Pipeline,
    /// The same, but an upsert changes only the times of a row that exists.
    Partial,
}

/// Messages to send, and the statements that are prepared so far.
pub(crate) struct Messages {
    dialect: &'static Dialect,
    form: Form,
    /// The names of the statements, by their texts.
    names: HashMap<String, String>,
    /// The names of the statements that write one row to each table, by the tables.
    writes: HashMap<Vec<&'static str>, String>,
    /// The bytes to send.
    pub(crate) out: BytesMut,
}

impl Messages {
    /// No messages and no statements.
    pub(crate) fn new(dialect: &'static Dialect, form: Form) -> Self {
        Self { dialect, form, names: HashMap::new(), writes: HashMap::new(), out: BytesMut::new() }
    }

    /// Adds a write. Returns the number of runs of statements that it takes.
    ///
    /// # Errors
    /// It has too many rows.
    pub(crate) fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<usize> {
        let count: usize = writes.iter().map(|(_, rows)| rows.num_rows()).sum();
        if count > MAX_ROWS {
            return Err(format!("{count} rows in a write, but the lean client sends at most {MAX_ROWS}").into());
        }
        let is_single = writes.iter().all(|(_, rows)| rows.num_rows() == 1);
        let runs = if is_single && self.form == Form::Whole {
            let tables: Vec<&Table> = writes.iter().map(|(table, _)| *table).collect();
            self.row(&tables, writes.iter().flat_map(|(_, rows)| cells(rows, 0)))?;
            1
        } else {
            for (table, rows) in writes {
                for row in 0..rows.num_rows() {
                    self.row(&[table], cells(rows, row))?;
                }
            }
            count
        };
        frontend::sync(&mut self.out);
        Ok(runs)
    }

    /// Adds a row of each table.
    fn row<'a>(&mut self, tables: &[&Table], values: impl Iterator<Item = Cell<'a>>) -> Outcome<()> {
        let key: Vec<&'static str> = tables.iter().map(|table| table.name).collect();
        let name = match self.writes.get(&key) {
            Some(name) => name.clone(),
            None => {
                let text = match (self.form, tables) {
                    (Form::Partial, [table]) => self.dialect.partial_upsert(table),
                    _ => self.dialect.row_of_each(tables.iter().copied())?,
                };
                let name = self.prepare(text)?;
                self.writes.insert(key, name.clone());
                name
            }
        };
        self.run(&name, values)
    }

    /// Adds a query.
    fn query(&mut self, query: &Query) -> Outcome<()> {
        let name = self.prepare(self.dialect.query(query))?;
        self.run(&name, parameters(query).into_iter())?;
        frontend::sync(&mut self.out);
        Ok(())
    }

    /// The name of a statement, whose preparation is added if it is new.
    fn prepare(&mut self, text: String) -> Outcome<String> {
        if let Some(name) = self.names.get(&text) {
            return Ok(name.clone());
        }
        let name = format!("s{}", self.names.len());
        frontend::parse(&name, &text, [], &mut self.out)?;
        self.names.insert(text, name.clone());
        Ok(name)
    }

    /// Adds a run of a prepared statement.
    fn run<'a>(&mut self, name: &str, values: impl Iterator<Item = Cell<'a>>) -> Outcome<()> {
        frontend::bind("", name, [1], values, write_value, [1], &mut self.out)
            .map_err(|_| "a parameter cannot be sent")?;
        Ok(frontend::execute("", 0, &mut self.out)?)
    }
}

fn write_value(value: Cell<'_>, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
    match value {
        Cell::Null => return Ok(IsNull::Yes),
        Cell::Int(value) => types::int8_to_sql(value, out),
        Cell::Float(value) => types::float8_to_sql(value, out),
        Cell::Text(value) => types::text_to_sql(value, out),
        Cell::Time(ns) => types::timestamp_to_sql(ns.div_euclid(1_000) - EPOCH_US, out),
    }
    Ok(IsNull::No)
}

/// A connection.
struct Lean {
    stream: TcpStream,
    messages: Messages,
    /// Bytes received and not yet parsed.
    received: BytesMut,
}

/// Connects to a URL of PostgreSQL's form. The server must not ask for a password.
///
/// # Errors
/// The URL is not one, or no server answers there.
pub(crate) fn connect(url: &str, dialect: &'static Dialect, form: Form) -> Outcome<Box<dyn Connection>> {
    let config: tokio_postgres::Config = url.parse()?;
    let (Some(Host::Tcp(host)), Some(port)) = (config.get_hosts().first(), config.get_ports().first()) else {
        return Err(format!("{url}: the URL has no host and port").into());
    };
    let stream = TcpStream::connect((host.as_str(), *port))?;
    stream.set_nodelay(true)?;
    let mut lean = Lean { stream, messages: Messages::new(dialect, form), received: BytesMut::new() };
    let (user, database) = (config.get_user().unwrap_or("bench"), config.get_dbname().unwrap_or("fleetdb"));
    frontend::startup_message([("user", user), ("database", database)], &mut lean.messages.out)?;
    lean.exchange(&mut |_| Ok(()))?;
    Ok(Box::new(lean))
}

impl Lean {
    /// Sends the messages and receives the answers, up to the end of the last one.
    fn exchange(&mut self, take: &mut dyn FnMut(&DataRowBody) -> Outcome<()>) -> Outcome<()> {
        self.stream.write_all(&self.messages.out)?;
        self.messages.out.clear();
        let mut failed: Option<Box<dyn Error + Send + Sync>> = None;
        let mut part = [0; READ_BYTES];
        loop {
            match Message::parse(&mut self.received)? {
                Some(Message::ReadyForQuery(_)) => return failed.map_or(Ok(()), Err),
                Some(Message::ErrorResponse(error)) => {
                    let said = error.fields().find(|field| Ok(field.type_() == b'M'))?;
                    let said = said.map(|field| String::from_utf8_lossy(field.value_bytes()).into_owned());
                    failed = Some(said.unwrap_or_default().into());
                }
                Some(Message::DataRow(row)) => take(&row)?,
                Some(_) => {}
                None => match self.stream.read(&mut part)? {
                    0 => return Err(failed.unwrap_or_else(|| "the server closed the connection".into())),
                    count => self.received.extend_from_slice(&part[..count]),
                },
            }
        }
    }
}

impl Connection for Lean {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        self.messages.write(writes)?;
        self.exchange(&mut |_| Ok(()))
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        self.messages.query(query)?;
        let columns = query.columns();
        let mut answer = AnswerBuilder::new(&columns);
        self.exchange(&mut |row| {
            let mut ranges = row.ranges();
            for (_, kind) in &columns {
                let range = ranges.next()?.ok_or("an answer lacks a column")?;
                answer.push(match range {
                    None => Cell::Null,
                    Some(range) => value(*kind, &row.buffer()[range])?,
                })?;
            }
            Ok(())
        })?;
        answer.finish()
    }
}

fn value(kind: ColumnType, bytes: &[u8]) -> Outcome<Cell<'_>> {
    Ok(match kind {
        ColumnType::Int => Cell::Int(types::int8_from_sql(bytes)?),
        ColumnType::Float => Cell::Float(types::float8_from_sql(bytes)?),
        ColumnType::Text | ColumnType::Json => Cell::Text(types::text_from_sql(bytes)?),
        ColumnType::Time => Cell::Time((types::timestamp_from_sql(bytes)? + EPOCH_US) * 1_000),
    })
}
