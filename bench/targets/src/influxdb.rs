//! InfluxDB 1: its own server with default settings, which sync the log at each request; writes
//! line protocol and queries InfluxQL, both over HTTP. By URL also InfluxDB 2 (a bucket that is
//! mapped to a database) and 3, which support both as well.
//!
//! Key columns, and text columns before the time, are tags, as its users would define them; the
//! rows of a table without a time are all at 1970. The rows of a request are not one transaction,
//! since InfluxDB has none. E4's publication wrote over UDP, and so does the profile `published`:
//! nothing is acknowledged, and losses on the way are found by reading back.

use crate::http::{agent, json, push, send_lines};
use crate::lines::{Style, add, is_tag};
use crate::process::{Instance, Process, free_port, program};
use crate::tsbs::NO_TEXT;
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::AnswerBuilder;
use fleetdb_bench_core::query::{Key, Query};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use fleetdb_bench_core::workload::cpu::FIELDS;
use fleetdb_bench_core::workload::series::Series;
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;
use ureq::Agent;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "influxdb",
    about: "InfluxDB 1, and 2 and 3 by URL",
    missing: Some(missing),
    url: Some("http://user:password@host:port/database"),
    start: open,
};

const DATABASE: &str = "bench";
/// Largest datagram, so that it fits into one Ethernet packet.
const DATAGRAM_BYTES: usize = 1_400;
/// InfluxDB's longest delay before it writes what arrived over UDP (`batch-timeout`), and the same
/// time again for writing it.
const UDP_SETTLE: Duration = Duration::from_secs(2);
const STYLE: Style = Style { has_integer_tags: true, time_suffix: 'i' };

fn missing() -> Option<String> {
    program(&["influxd"]).is_none().then(|| "InfluxDB 1 is not installed (Debian: apt-get install influxdb)".to_owned())
}

struct InfluxDb {
    instance: Instance,
    address: Address,
    version: String,
    tables: Vec<Table>,
    /// The address for datapoints in E4, if they are sent over UDP.
    udp: Option<SocketAddr>,
}

/// The address of a server, and the database in it.
#[derive(Clone)]
struct Address {
    /// For example `http://127.0.0.1:8086`.
    server: String,
    /// The parameters of every request: database, time unit and credentials.
    parameters: String,
}

impl Address {
    /// Parses a URL: `http://host:8086/database`, with `user:password@` or `any:token@` before the
    /// host if needed.
    fn of(url: &str) -> Outcome<Self> {
        let wrong = || format!("{url}: an InfluxDB URL has the form http://host:port/database");
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (rest, database) = rest.split_once('/').ok_or_else(wrong)?;
        let (user, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        let user = user.split_once(':').map(|(user, password)| format!("&u={user}&p={password}")).unwrap_or_default();
        let parameters = format!("db={database}&epoch=ns&precision=n{user}");
        Ok(Self { server: format!("{scheme}://{host}"), parameters })
    }
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let udp = match (start.profile, start.url) {
        (Profile::Published, None) => Some(SocketAddr::from(([127, 0, 0, 1], free_port()?))),
        _ => None,
    };
    let mut instance = start.url.map_or_else(|| started(start, udp), |url| Ok(Instance::at(url)))?;
    instance.settings.extend(["rows of a request are no transaction", "not settled"].map(str::to_owned));
    let address = Address::of(&instance.address)?;
    let version = Client::new(&address, &[]).version()?;
    Ok(Box::new(InfluxDb { instance, address, version, tables: Vec::new(), udp }))
}

fn started(start: &Start<'_>, udp: Option<SocketAddr>) -> Outcome<Instance> {
    let directory = start.directory.canonicalize()?;
    let (port, backup_port) = (free_port()?, free_port()?);
    let data = directory.join("data");
    let path = |name: &str| data.join(name).display().to_string();
    let mut config = format!(
        "reporting-disabled = true\nbind-address = \"127.0.0.1:{backup_port}\"\n[meta]\ndir = {:?}\n[data]\ndir = {:?}\n\
         wal-dir = {:?}\nmax-series-per-database = 0\nquery-log-enabled = false\n[monitor]\nstore-enabled = false\n\
         [http]\nbind-address = \"127.0.0.1:{port}\"\nlog-enabled = false\n",
        path("meta"),
        path("tsm"),
        path("wal")
    );
    if let Some(address) = udp {
        config += &format!("[[udp]]\nenabled = true\nbind-address = \"{address}\"\ndatabase = \"{DATABASE}\"\n");
    }
    std::fs::write(directory.join("config"), config)?;
    let mut command = Command::new("influxd");
    command.args(["run", "-config"]).arg(directory.join("config"));
    let url = format!("http://127.0.0.1:{port}/{DATABASE}");
    let address = Address::of(&url)?;
    let (process, ()) = Process::start(&mut command, &directory.join("log"), || {
        Client::new(&address, &[]).ask(&format!("CREATE DATABASE {DATABASE}")).map(|_| ())
    })?;
    Ok(Instance::started(url, process, data, vec!["max-series-per-database = 0".to_owned()]))
}

impl InfluxDb {
    /// The address for datapoints, if there are any and they go over UDP.
    fn datagrams(&self) -> Option<SocketAddr> {
        self.udp.filter(|_| self.tables.iter().any(|table| table.name == Series::Datapoints.name()))
    }
}

impl Target for InfluxDb {
    fn info(&self) -> Info {
        let mut settings = self.instance.settings.clone();
        let tier = match self.datagrams() {
            Some(_) => {
                settings.push("datapoints over UDP".to_owned());
                Tier::T0
            }
            None => Tier::T3,
        };
        Info { version: self.version.clone(), tier, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let client = Client::new(&self.address, &[]);
        for table in tables {
            let first = client.ask(&format!("SELECT * FROM \"{}\" LIMIT 1", table.name))?;
            if !self.instance.is_ours() && first["results"][0]["series"].is_array() {
                return Err(format!("{} already contains rows; use a database without them", table.name).into());
            }
            self.tables.push(table.clone());
        }
        Ok(())
    }

    fn remove(&mut self) -> Outcome<()> {
        let client = Client::new(&self.address, &[]);
        self.tables.iter().try_for_each(|table| client.ask(&format!("DROP MEASUREMENT \"{}\"", table.name)).map(|_| ()))
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        let mut client = Client::new(&self.address, &self.tables);
        if let Some(address) = self.datagrams() {
            let socket = UdpSocket::bind((address.ip(), 0))?;
            socket.connect(address)?;
            client.datagrams = Some(socket);
        }
        Ok(Box::new(client))
    }

    /// It flushes and merges on its own schedule, which cannot be shortened.
    fn settle(&mut self) -> Outcome<()> {
        if self.datagrams().is_some() {
            std::thread::sleep(UDP_SETTLE);
        }
        Ok(())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        self.instance.disk_bytes()
    }

    fn processes(&self) -> Vec<u32> {
        self.instance.processes()
    }

    fn unsupported(&self, query: &Query) -> Option<&'static str> {
        match query {
            Query::Rows { of, .. } if self.udp.is_some() && of.name == Series::Seconds.name() => {
                Some("a second's document does not fit into a datagram")
            }
            Query::Tsbs(_) => Some(NO_TEXT),
            _ => None,
        }
    }
}

struct Client {
    agent: Agent,
    address: Address,
    tables: Vec<Table>,
    lines: String,
    /// The socket for lines that do not go into a request.
    datagrams: Option<UdpSocket>,
}

impl Client {
    fn new(address: &Address, tables: &[Table]) -> Self {
        Self {
            agent: agent(),
            address: address.clone(),
            tables: tables.to_vec(),
            lines: String::new(),
            datagrams: None,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}?{}", self.address.server, self.address.parameters)
    }

    fn version(&self) -> Outcome<String> {
        let answer = self.agent.get(self.url("ping")).call()?;
        let version = answer.headers().get("X-Influxdb-Version").and_then(|version| version.to_str().ok());
        Ok(version.unwrap_or_default().to_owned())
    }

    fn ask(&self, query: &str) -> Outcome<Value> {
        let answer = json(self.agent.post(self.url("query")).send_form([("q", query)])?)?;
        let error = answer["error"].as_str().or(answer["results"][0]["error"].as_str());
        if let Some(error) = error {
            return Err(error.into());
        }
        Ok(answer)
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
            let field =
                table.columns.iter().find(|column| !is_tag(table, column, STYLE) && column.1 != ColumnType::Time);
            format!("SELECT count({}) FROM \"{}\"", field.ok_or("a table has no field")?.0, table.name)
        }
        Query::Bill { meter, window_ns } => {
            format!(
                "SELECT sum(usage_since_read) FROM meter_reads WHERE meter_id = '{meter}' AND {}",
                within(window_ns)
            )
        }
        // The key is a tag, and thus text. The table's name is quoted, since `measurements` is an
        // InfluxQL keyword.
        Query::Rows { of, key, window_ns } => {
            let (table, name) = (of.name, of.key[0]);
            format!("SELECT {columns} FROM \"{table}\" WHERE {name} = {} AND {}", literal(key), within(window_ns))
        }
        Query::Last { of, key } => {
            let (table, name) = (of.name, of.key[0]);
            format!("SELECT {columns} FROM \"{table}\" WHERE {name} = {} ORDER BY time DESC LIMIT 1", literal(key))
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
        Query::Tsbs(_) => return Err(NO_TEXT.into()),
    })
}

fn literal(key: &Key) -> String {
    match key {
        Key::Int(number) => format!("'{number}'"),
        Key::Text(name) => format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'")),
    }
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        self.lines.clear();
        writes.iter().try_for_each(|(table, rows)| add(&mut self.lines, table, rows, STYLE))?;
        match &self.datagrams {
            Some(socket) => send_datagrams(socket, &self.lines),
            None => send_lines(&self.agent, &self.url("write"), &self.lines),
        }
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let answer = self.ask(&text(query, &self.tables)?)?;
        let columns = query.columns();
        // Aggregates are named after their functions, so they are taken by position.
        let is_aggregate = matches!(
            query,
            Query::Count(_) | Query::Bill { .. } | Query::HourlyMaxima { .. } | Query::MinuteMaxima { .. }
        );
        let has_time = columns[0].1 == ColumnType::Time;
        let mut builder = AnswerBuilder::new(&columns);
        for series in answer["results"][0]["series"].as_array().into_iter().flatten() {
            let known: Vec<&str> =
                series["columns"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            for row in series["values"].as_array().into_iter().flatten() {
                for (place, (name, kind)) in columns.iter().enumerate() {
                    let value = match (is_aggregate, kind) {
                        (true, _) => &row[place + usize::from(!has_time)],
                        (false, ColumnType::Time) => &row[0],
                        (false, _) => match known.iter().position(|known| known == name) {
                            Some(place) => &row[place],
                            None => &series["tags"][*name],
                        },
                    };
                    push(&mut builder, value)?;
                }
            }
        }
        builder.finish()
    }
}

/// Sends lines, as many per datagram as fit.
fn send_datagrams(socket: &UdpSocket, lines: &str) -> Outcome<()> {
    let mut rest = lines;
    while !rest.is_empty() {
        let whole = rest.get(..DATAGRAM_BYTES.min(rest.len())).and_then(|most| most.rfind('\n'));
        let (datagram, after) = rest.split_at(whole.ok_or("a line does not fit into a datagram")? + 1);
        socket.send(datagram.as_bytes())?;
        rest = after;
    }
    Ok(())
}
