//! InfluxDB 1: a server of its own with its defaults, which sync the log at each request; lines in and InfluxQL over HTTP.
//!
//! Key columns, and texts in front of the time, are tags, as its users would have them; a table without a time has all its
//! rows at 1970. Rows of one request are not one transaction: that is what it has.

use crate::process::{Process, free_port, output, program};
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{Cell, Gather, cells};
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Start, Target, Tier};
use fleetdb_bench_core::workload::cpu::FIELDS;
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use ureq::Agent;

/// Its line in the list.
pub const ENTRY: Entry = Entry { name: "influxdb", about: "InfluxDB 1, started here", missing, start: open };

const DATABASE: &str = "bench";

fn missing() -> Option<String> {
    program(&["influxd"]).is_none().then(|| "InfluxDB 1 is not installed (Debian: apt-get install influxdb)".to_owned())
}

struct InfluxDb {
    process: Process,
    port: u16,
    directory: PathBuf,
    version: String,
    tables: Vec<Table>,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let directory = start.directory.canonicalize()?;
    let version = output(Command::new("influxd").arg("version"))?;
    let (port, backup_port) = (free_port()?, free_port()?);
    let path = |name: &str| directory.join(name).display().to_string();
    let config = format!(
        "reporting-disabled = true\nbind-address = \"127.0.0.1:{backup_port}\"\n[meta]\ndir = {:?}\n[data]\ndir = {:?}\n\
         wal-dir = {:?}\nmax-series-per-database = 0\nquery-log-enabled = false\n[monitor]\nstore-enabled = false\n\
         [http]\nbind-address = \"127.0.0.1:{port}\"\nlog-enabled = false\n",
        path("meta"),
        path("data"),
        path("wal")
    );
    std::fs::write(directory.join("config"), config)?;
    let mut command = Command::new("influxd");
    command.args(["run", "-config"]).arg(directory.join("config"));
    let (process, ()) = Process::start(&mut command, &directory.join("log"), || {
        Client::new(port, Vec::new()).ask(&format!("CREATE DATABASE {DATABASE}")).map(|_| ())
    })?;
    let version = version.split_whitespace().nth(1).unwrap_or_default().to_owned();
    Ok(Box::new(InfluxDb { process, port, directory, version, tables: Vec::new() }))
}

impl Target for InfluxDb {
    fn info(&self) -> Info {
        let settings = ["max-series-per-database = 0", "rows of a request are no transaction", "not settled"];
        Info { version: self.version.clone(), tier: Tier::T3, settings: settings.map(str::to_owned).to_vec() }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        self.tables.extend_from_slice(tables);
        Ok(())
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(Client::new(self.port, self.tables.clone())))
    }

    /// It flushes and merges in its own time, which nothing can shorten.
    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        Ok(disk_bytes(&self.directory.join("data"))? + disk_bytes(&self.directory.join("wal"))?)
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.process.id()]
    }
}

/// Whether a column is a tag.
fn is_tag(table: &Table, column: &Column) -> bool {
    let place = |wanted: &dyn Fn(&Column) -> bool| table.columns.iter().position(wanted);
    let time = place(&|column| column.1 == ColumnType::Time && table.key.contains(&column.0));
    let is_before = time.is_some_and(|time| place(&|known| known == column) < Some(time));
    column.1 != ColumnType::Time && (table.key.contains(&column.0) || column.1 == ColumnType::Text && is_before)
}

struct Client {
    agent: Agent,
    port: u16,
    tables: Vec<Table>,
    lines: String,
}

/// One series of an answer.
struct Series<'a> {
    tags: &'a Value,
    columns: Vec<&'a str>,
    rows: &'a [Value],
}

impl Client {
    fn new(port: u16, tables: Vec<Table>) -> Self {
        // Answers of any status are read, for what they say.
        let agent = Agent::config_builder().http_status_as_error(false).build().into();
        Self { agent, port, tables, lines: String::new() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}?db={DATABASE}&epoch=ns&precision=n", self.port)
    }

    fn ask(&self, query: &str) -> Outcome<Value> {
        let mut answer = self.agent.post(self.url("query")).send_form([("q", query)])?;
        let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string()?;
        let answer: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        let error = answer["error"].as_str().or(answer["results"][0]["error"].as_str());
        if let Some(error) = error {
            return Err(error.into());
        }
        Ok(answer)
    }

    /// Adds a row as a line.
    fn line(&mut self, table: &Table, rows: &RecordBatch, row: usize) -> Outcome<()> {
        let escaped = |text: &str| text.replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ");
        let lines = &mut self.lines;
        *lines += table.name;
        let cells: Vec<(&Column, Cell<'_>)> = table.columns.iter().zip(cells(rows, row)).collect();
        for (column, cell) in cells.iter().filter(|(column, _)| is_tag(table, column)) {
            match cell {
                Cell::Int(value) => write!(lines, ",{}={value}", column.0)?,
                Cell::Text(text) => write!(lines, ",{}={}", column.0, escaped(text))?,
                other => return Err(format!("{other:?} is no tag").into()),
            }
        }
        let (mut separator, mut time_ns) = (' ', 0);
        for (column, cell) in cells.iter().filter(|(column, _)| !is_tag(table, column)) {
            let name = column.0;
            match cell {
                Cell::Time(ns) if table.key.contains(&name) => {
                    time_ns = *ns;
                    continue;
                }
                Cell::Null => continue,
                Cell::Int(value) | Cell::Time(value) => write!(lines, "{separator}{name}={value}i")?,
                Cell::Float(value) => write!(lines, "{separator}{name}={value}")?,
                Cell::Text(text) => {
                    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                    write!(lines, "{separator}{name}=\"{text}\"")?;
                }
            }
            separator = ',';
        }
        Ok(writeln!(lines, " {time_ns}")?)
    }
}

/// A query in InfluxQL.
fn text(query: &Query, tables: &[Table]) -> Outcome<String> {
    let within = |(from, to): &(i64, i64)| format!("time >= {from} AND time < {to}");
    let names = |columns: Vec<Column>| {
        let names = columns.iter().filter(|(_, kind)| *kind != ColumnType::Time).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    let columns = names(query.columns());
    Ok(match query {
        Query::Count(table) => {
            let table = tables.iter().find(|known| known.name == *table).ok_or("no such table")?;
            let field = table.columns.iter().find(|column| !is_tag(table, column) && column.1 != ColumnType::Time);
            format!("SELECT count({}) FROM \"{}\"", field.ok_or("a table has no field")?.0, table.name)
        }
        Query::Bill { meter, window_ns } => {
            format!(
                "SELECT sum(usage_since_read) FROM meter_reads WHERE meter_id = '{meter}' AND {}",
                within(window_ns)
            )
        }
        Query::HostRows { host, window_ns } => {
            format!("SELECT {columns} FROM cpu WHERE hostname = '{host}' AND {}", within(window_ns))
        }
        Query::HourlyMaxima { hosts, window_ns } => {
            let maxima: Vec<String> = FIELDS.iter().map(|field| format!("max({field})")).collect();
            let hosts: Vec<String> = hosts.iter().map(|host| format!("hostname = '{host}'")).collect();
            format!(
                "SELECT {} FROM cpu WHERE ({}) AND {} GROUP BY time(1h) fill(none)",
                maxima.join(", "),
                hosts.join(" OR "),
                within(window_ns)
            )
        }
        Query::MinuteMaxima { host, window_ns } => format!(
            "SELECT max({}) FROM cpu WHERE hostname = '{host}' AND {} GROUP BY time(1m) fill(none)",
            FIELDS[0],
            within(window_ns)
        ),
        Query::LastOfAll => format!("SELECT {columns} FROM cpu GROUP BY hostname ORDER BY time DESC LIMIT 1"),
        Query::LastOf(host) => {
            format!("SELECT {columns} FROM cpu WHERE hostname = '{host}' ORDER BY time DESC LIMIT 1")
        }
        Query::Series { of, key, window_ns } => {
            let table = of.table();
            // `measurements` is a word of its own in InfluxQL.
            format!(
                "SELECT {columns} FROM \"{}\" WHERE {} = '{key}' AND {}",
                table.name,
                table.key[0],
                within(window_ns)
            )
        }
    })
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        self.lines.clear();
        for (table, rows) in writes {
            for row in 0..rows.num_rows() {
                self.line(table, rows, row)?;
            }
        }
        let mut answer = self.agent.post(self.url("write")).send(self.lines.as_bytes())?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(answer.body_mut().read_to_string()?.into())
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let answer = self.ask(&text(query, &self.tables)?)?;
        let columns = query.columns();
        // Aggregates are named by their functions: they are taken by their place.
        let is_aggregate = matches!(
            query,
            Query::Count(_) | Query::Bill { .. } | Query::HourlyMaxima { .. } | Query::MinuteMaxima { .. }
        );
        let has_time = columns[0].1 == ColumnType::Time;
        let mut gather = Gather::new(&columns);
        for series in answer["results"][0]["series"].as_array().into_iter().flatten() {
            let names = series["columns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let rows = series["values"].as_array().map_or(&[][..], Vec::as_slice);
            let series = Series { tags: &series["tags"], columns: names, rows };
            for row in series.rows {
                for (place, (name, kind)) in columns.iter().enumerate() {
                    let value = match (is_aggregate, kind) {
                        (true, _) => &row[place + usize::from(!has_time)],
                        (false, ColumnType::Time) => &row[0],
                        (false, _) => match series.columns.iter().position(|known| known == name) {
                            Some(place) => &row[place],
                            None => &series.tags[*name],
                        },
                    };
                    push(&mut gather, value)?;
                }
            }
        }
        gather.finish()
    }
}

fn push(gather: &mut Gather, value: &Value) -> Outcome<()> {
    match (gather.expects(), value) {
        (_, Value::Null) => gather.push(Cell::Null),
        (ColumnType::Text, Value::String(text)) => gather.push(Cell::Text(text)),
        // An integer key is a tag, which is a text.
        (_, Value::String(text)) => gather.push(Cell::Int(text.parse()?)),
        (_, Value::Number(number)) => match number.as_i64() {
            Some(value) => gather.push(Cell::Int(value)),
            None => gather.push(Cell::Float(number.as_f64().ok_or("a number is out of range")?)),
        },
        (_, other) => Err(format!("{other} is not expected").into()),
    }
}
