//! GridDB at a URL, through its own Java client, which a Java program calls for the suite. That
//! program's process counts as part of the client.
//!
//! A table whose key ends with a time is a time series for each value of the key's other column,
//! named after the table and the value; any other table is a collection. A time series has
//! milliseconds only, so tables with microseconds are collections whose row key is the time. A
//! transaction is of one container: a meter and its reading are two, each synced on its own. TQL
//! does not group: a bucket, a host or a container is a query of its own, and all of them are one
//! request.
//!
//! Its client does not tell its version and how durable writes are. The URL says both
//! (`?version=5.9.0&log_write_mode=0`); otherwise GridDB's default is assumed. GridDB's system service
//! is not asked: it accepts the header `Authorization` only as spelled here, and `ureq` writes it in
//! small letters.

use crate::griddb_program::{Cells, Program, Request, Speaker};
use crate::process::AT_URL;
use crate::tsbs::NO_TEXT;
use arrow::array::RecordBatch;
use chrono::DateTime;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::query::{Key, Query};
use fleetdb_bench_core::table::{ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Start, Target, Tier};
use fleetdb_bench_core::workload::cpu::FIELDS;
use fleetdb_bench_core::workload::series::Series;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The entry in the list of targets.
pub const ENTRY: Entry =
    Entry { name: "griddb", about: "GridDB, through its Java client", missing: None, url: Some(FORM), start: open };

const FORM: &str = "griddb://user:password@host:port/cluster";
/// Seconds after which its client gives up connecting; its default is two minutes.
const CONNECT_LIMIT_S: &str = "20";
/// Seconds between syncs of its log, by default.
const DEFAULT_LOG_WRITE_MODE: i64 = 1;
/// The tables with microseconds: E4's datapoints, and a user's own rows.
const WITH_MICROSECONDS: [&str; 2] = [Series::Datapoints.name(), "own"];
const MICROSECOND_NS: i64 = 1_000;
const MILLISECOND_NS: i64 = 1_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;
const NEWEST: &str = "SELECT * ORDER BY ts DESC LIMIT 1";

/// The address of a cluster, and what its URL says about it.
#[derive(Clone, Debug, PartialEq)]
struct Address {
    user: String,
    password: String,
    host: String,
    port: String,
    cluster: String,
    database: String,
    version: Option<String>,
    log_write_mode: Option<i64>,
}

impl Address {
    fn of(url: &str) -> Outcome<Self> {
        let wrong = || format!("{url}: a GridDB URL has the form {FORM}");
        let rest = url.strip_prefix("griddb://").ok_or_else(wrong)?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, place) = rest.rsplit_once('@').ok_or_else(wrong)?;
        let (user, password) = user.split_once(':').ok_or_else(wrong)?;
        let (host, cluster) = place.split_once('/').filter(|(_, cluster)| !cluster.is_empty()).ok_or_else(wrong)?;
        let (host, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let [user, password, host, port, cluster, database] =
            [user, password, host, port, cluster, "public"].map(str::to_owned);
        let mut address = Self { user, password, host, port, cluster, database, version: None, log_write_mode: None };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let wrong =
                || format!("{url}: {parameter:?} is none of database=NAME, log_write_mode=SECONDS and version=TEXT");
            match parameter.split_once('=').ok_or_else(wrong)? {
                ("database", name) => address.database = name.to_owned(),
                ("log_write_mode", mode) => address.log_write_mode = Some(mode.parse().map_err(|_| wrong())?),
                ("version", version) => address.version = Some(version.to_owned()),
                _ => return Err(wrong().into()),
            }
        }
        Ok(address)
    }

    /// Its version.
    fn version(&self) -> String {
        self.version.clone().unwrap_or_else(|| "version unknown".to_owned())
    }

    /// Its `logWriteMode`, with where it comes from.
    fn log_write_mode(&self) -> (i64, &'static str) {
        match self.log_write_mode {
            Some(mode) => (mode, "as its URL says"),
            None => (DEFAULT_LOG_WRITE_MODE, "its default, which was not checked"),
        }
    }
}

/// The tier of a `logWriteMode`: the seconds between syncs of the log. 0 and -1 sync it at each
/// commit.
fn tier(log_write_mode: i64) -> Tier {
    if log_write_mode > 0 { Tier::T2 } else { Tier::T3 }
}

struct GridDb {
    program: Program,
    address: Address,
    version: String,
    log_write_mode: i64,
    settings: Vec<String>,
    tables: Vec<Stored>,
    containers: Arc<Containers>,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    let address = Address::of(start.url.ok_or("it is available by URL only")?)?;
    let program = Program::start(start.directory)?;
    let (version, (log_write_mode, source)) = (address.version(), address.log_write_mode());
    let mode = format!("logWriteMode = {log_write_mode}, {source}");
    let settings =
        [AT_URL, mode.as_str(), "a transaction is of one container", "not settled"].map(str::to_owned).to_vec();
    let (tables, containers) = (Vec::new(), Arc::default());
    Ok(Box::new(GridDb { program, address, version, log_write_mode, settings, tables, containers }))
}

impl GridDb {
    fn client(&self) -> Outcome<Client> {
        Client::open(Speaker::new(self.program.connect()?), &self.address, &self.tables, &self.containers)
    }
}

impl Target for GridDb {
    fn info(&self) -> Info {
        let (version, settings) = (self.version.clone(), self.settings.clone());
        Info { version, tier: tier(self.log_write_mode), settings }
    }

    /// Makes sure that there are no such containers. Those of a table are created when their first
    /// row comes.
    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        self.tables = tables.iter().map(Stored::of).collect::<Outcome<_>>()?;
        self.client()?.make_sure_of_none()
    }

    fn remove(&mut self) -> Outcome<()> {
        self.client()?.drop_all()
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        Ok(Box::new(self.client()?))
    }

    /// It writes checkpoints on its own schedule, which its client cannot change.
    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        Ok(0)
    }

    fn client_processes(&self) -> Vec<u32> {
        vec![self.program.id()]
    }

    fn unsupported(&self, query: &Query) -> Option<&'static str> {
        match query {
            Query::Tsbs(_) => Some(NO_TEXT),
            Query::Rows { of, .. } if of.name == Series::Seconds.name() => {
                Some("a second's document is longer than its texts may be, 31 KB by default")
            }
            _ => None,
        }
    }
}

/// How a table is stored.
#[derive(Clone)]
struct Stored {
    table: Table,
    /// The place of the column whose values have a container each, which lacks it; `None` if all
    /// rows are in one.
    naming: Option<usize>,
    /// The places of a container's columns, its row key first.
    places: Vec<usize>,
}

impl Stored {
    fn of(table: &Table) -> Outcome<Self> {
        let wrong = || {
            let (name, key) = (table.name, table.key.join(", "));
            format!("{name}: its key ({key}) is neither one column nor one and the time, as a target of GridDB needs")
        };
        let (naming, row_key) = match table.key {
            [row_key] => (None, *row_key),
            [naming, "ts"] => (Some(*naming), "ts"),
            _ => return Err(wrong().into()),
        };
        let place = |name: &str| table.columns.iter().position(|column| column.0 == name);
        let (naming, row_key) = (naming.and_then(place), place(row_key).ok_or_else(wrong)?);
        let others = (0..table.columns.len()).filter(|place| *place != row_key && Some(*place) != naming);
        let places = std::iter::once(row_key).chain(others).collect();
        Ok(Self { table: table.clone(), naming, places })
    }

    fn has_microseconds(&self) -> bool {
        WITH_MICROSECONDS.contains(&self.table.name)
    }

    /// The request that tells how its containers look.
    fn description(&self) -> Request {
        let kind = if self.naming.is_some() && !self.has_microseconds() { "TIME_SERIES" } else { "COLLECTION" };
        let mut request = Request::of(&["table", self.table.name, kind]);
        for place in &self.places {
            let (name, kind) = self.table.columns[*place];
            let kind = match kind {
                ColumnType::Int => "LONG",
                ColumnType::Float => "DOUBLE",
                ColumnType::Text | ColumnType::Json => "STRING",
                ColumnType::Time if self.has_microseconds() => "MICROSECONDS",
                ColumnType::Time => "MILLISECONDS",
            };
            request.add([name, kind].map(Cell::Text));
        }
        request
    }

    /// The name of the container for a value of the key. Names differ in more than the case of
    /// letters, and have no characters that GridDB refuses.
    fn container(&self, key: Cell<'_>) -> Outcome<String> {
        let table = self.table.name;
        let name = match key {
            Cell::Int(number) => number.to_string(),
            Cell::Text(text) => text.bytes().fold(String::new(), |mut name, byte| {
                match byte {
                    b'a'..=b'z' | b'0'..=b'9' | b'_' => name.push(char::from(byte)),
                    other => name += &format!("-{other:02x}"),
                }
                name
            }),
            other => return Err(format!("{table}: {other:?} is no key of a row").into()),
        };
        Ok(format!("{table}_{name}"))
    }

    /// The condition for a window of times.
    fn window(&self, (from, to): (i64, i64)) -> String {
        // The same rows lie in a window whose times are rounded up to what is stored.
        let time = |ns: i64| {
            let up = |unit: i64| DateTime::from_timestamp_nanos(-(-ns).div_euclid(unit) * unit);
            if self.has_microseconds() {
                format!("TIMESTAMP_US('{}')", up(MICROSECOND_NS).format("%Y-%m-%dT%H:%M:%S%.6fZ"))
            } else {
                format!("TIMESTAMP('{}')", up(MILLISECOND_NS).format("%Y-%m-%dT%H:%M:%S%.3fZ"))
            }
        };
        format!("ts >= {} AND ts < {}", time(from), time(to))
    }
}

/// The containers written to, by table, with the keys that they are named after.
type Containers = Mutex<BTreeMap<&'static str, BTreeMap<String, Option<Key>>>>;

struct Client {
    program: Speaker,
    tables: Vec<Stored>,
    containers: Arc<Containers>,
    /// The containers that this connection knows to exist.
    known: HashSet<String>,
}

/// A query of a container.
type Asked = (String, String);

impl Client {
    fn open(mut program: Speaker, address: &Address, tables: &[Stored], containers: &Arc<Containers>) -> Outcome<Self> {
        let Address { user, password, host, port, cluster, database, .. } = address;
        let mut request = Request::of(&["open"]);
        let properties = [("host", host), ("port", port), ("clusterName", cluster), ("database", database)];
        for (name, value) in properties.into_iter().chain([("user", user), ("password", password)]) {
            request.add([Cell::Text(name), Cell::Text(value)]);
        }
        request.add(["failoverTimeout", CONNECT_LIMIT_S].map(Cell::Text));
        program.ask(&request)?;
        for table in tables {
            program.ask(&table.description())?;
        }
        Ok(Self { program, tables: tables.to_vec(), containers: Arc::clone(containers), known: HashSet::new() })
    }

    fn make_sure_of_none(&mut self) -> Outcome<()> {
        for name in self.program.ask(&Request::of(&["list"]))?.into_iter().flatten().flatten() {
            let lower = name.to_lowercase();
            let is_of = |stored: &&Stored| match lower.strip_prefix(stored.table.name) {
                Some(rest) if stored.naming.is_some() => rest.starts_with('_'),
                rest => rest == Some(""),
            };
            if let Some(stored) = self.tables.iter().find(is_of) {
                let table = stored.table.name;
                return Err(format!("the container {name} of {table} already exists; use a database without it").into());
            }
        }
        Ok(())
    }

    /// Creates containers of a table, unless they exist.
    fn create(&mut self, table: &'static str, new: BTreeMap<String, Option<Key>>) -> Outcome<()> {
        let mut request = Request::of(&["create", table]);
        new.keys().for_each(|container| request.add([Cell::Text(container)]));
        self.program.ask(&request)?;
        self.known.extend(new.keys().cloned());
        let mut containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.entry(table).or_default().extend(new);
        Ok(())
    }

    fn drop_all(&mut self) -> Outcome<()> {
        let containers = std::mem::take(&mut *self.containers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut request = Request::of(&["drop"]);
        containers.values().flat_map(BTreeMap::keys).for_each(|container| request.add([Cell::Text(container)]));
        self.program.ask(&request).map(|_| ())
    }

    fn stored(&self, table: &str) -> Outcome<&Stored> {
        let stored = self.tables.iter().find(|stored| stored.table.name == table);
        Ok(stored.ok_or_else(|| format!("the table {table} was not created"))?)
    }

    /// The containers of a table, with their keys.
    fn all(&self, table: &str) -> Vec<(String, Option<Key>)> {
        let containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
        containers.get(table).into_iter().flatten().map(|(name, key)| (name.clone(), key.clone())).collect()
    }

    /// What a request about containers answers: the number of a query, and cells.
    fn ask(&mut self, words: &[&str], asked: &[Asked]) -> Outcome<Vec<(usize, Cells)>> {
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let mut request = Request::of(words);
        asked.iter().for_each(|(container, query)| request.add([container, query].map(|text| Cell::Text(text))));
        let answers = self.program.ask(&request)?.into_iter().map(|cells| -> Outcome<(usize, Cells)> {
            let mut cells = cells.into_iter();
            let number = cells.next().flatten().and_then(|number| number.parse::<usize>().ok());
            let number =
                number.filter(|number| *number < asked.len()).ok_or("an answer of its Java program has no number")?;
            Ok((number, cells.collect()))
        });
        answers.collect()
    }

    /// The aggregate of each query as text, if it has one.
    fn numbers(&mut self, kind: &str, asked: &[Asked]) -> Outcome<Vec<Option<String>>> {
        let mut numbers = vec![None; asked.len()];
        for (number, values) in self.ask(&["numbers", kind], asked)? {
            numbers[number] = values.into_iter().next().flatten();
        }
        Ok(numbers)
    }

    fn integers(&mut self, asked: &[Asked]) -> Outcome<Vec<Option<i64>>> {
        let integer = |number: String| -> Outcome<i64> { Ok(number.parse()?) };
        self.numbers("LONG", asked)?.into_iter().map(|number| number.map(integer).transpose()).collect()
    }

    /// Adds the whole rows that a query finds in each of these containers.
    fn rows(
        &mut self,
        answer: &mut AnswerBuilder,
        table: &str,
        query: &str,
        containers: &[(String, Option<Key>)],
    ) -> Outcome<()> {
        let stored = self.stored(table)?;
        let source = |place: usize| stored.places.iter().position(|known| *known == place);
        let sources: Vec<Option<usize>> = (0..stored.table.columns.len()).map(source).collect();
        let asked: Vec<Asked> = containers.iter().map(|(name, _)| (name.clone(), query.to_owned())).collect();
        for (number, values) in self.ask(&["rows", table], &asked)? {
            for source in &sources {
                let Some(source) = source else {
                    answer.push(containers[number].1.as_ref().map_or(Cell::Null, Key::cell))?;
                    continue;
                };
                push(answer, values.get(*source).ok_or("a row is too short")?.as_deref())?;
            }
        }
        Ok(())
    }

    /// Adds the maxima of fields of hosts in each bucket of a window.
    fn maxima(
        &mut self,
        answer: &mut AnswerBuilder,
        hosts: &[String],
        (from, to): (i64, i64),
        width_ns: i64,
        fields: &[&str],
    ) -> Outcome<()> {
        let stored = self.stored("cpu")?;
        let first = from.div_euclid(width_ns) * width_ns;
        let starts: Vec<i64> = (0..).map(|bucket| first + bucket * width_ns).take_while(|start| *start < to).collect();
        let hosts: Vec<String> = hosts.iter().map(|host| stored.container(Cell::Text(host))).collect::<Outcome<_>>()?;
        let mut asked: Vec<Asked> = Vec::new();
        for start in &starts {
            let window = stored.window((from.max(*start), to.min(start + width_ns)));
            for host in &hosts {
                asked.extend(fields.iter().map(|field| (host.clone(), format!("SELECT MAX({field}) WHERE {window}"))));
            }
        }
        let maxima = self.integers(&asked)?;
        for (start, of_hosts) in starts.iter().zip(maxima.chunks((hosts.len() * fields.len()).max(1))) {
            if of_hosts.iter().all(Option::is_none) {
                continue;
            }
            answer.push(Cell::Time(*start))?;
            for field in 0..fields.len() {
                let maximum = of_hosts.iter().skip(field).step_by(fields.len()).flatten().max();
                answer.push(maximum.map_or(Cell::Null, |maximum| Cell::Int(*maximum)))?;
            }
        }
        Ok(())
    }
}

fn key_of(cell: Cell<'_>) -> Option<Key> {
    match cell {
        Cell::Int(number) => Some(Key::Int(number)),
        Cell::Text(name) => Some(Key::Text(name.to_owned())),
        Cell::Null | Cell::Float(_) | Cell::Time(_) => None,
    }
}

fn push(answer: &mut AnswerBuilder, value: Option<&str>) -> Outcome<()> {
    let Some(value) = value else { return answer.push(Cell::Null) };
    answer.push(match answer.expects() {
        ColumnType::Int | ColumnType::Time => Cell::Int(value.parse()?),
        ColumnType::Float => Cell::Float(value.parse()?),
        ColumnType::Text | ColumnType::Json => Cell::Text(value),
    })
}

impl Connection for Client {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        let mut request = Request::of(&["write"]);
        for (table, rows) in writes {
            let stored = self.stored(table.name)?;
            let mut new = BTreeMap::new();
            for row in 0..rows.num_rows() {
                let cells: Vec<Cell<'_>> = cells(rows, row).collect();
                let container = match stored.naming {
                    Some(place) => stored.container(cells[place])?,
                    None => table.name.to_owned(),
                };
                let place = [Cell::Text(table.name), Cell::Text(&container)];
                request.add(place.into_iter().chain(stored.places.iter().map(|place| cells[*place])));
                if !self.known.contains(&container) {
                    new.insert(container, stored.naming.and_then(|place| key_of(cells[place])));
                }
            }
            if !new.is_empty() {
                self.create(table.name, new)?;
            }
        }
        self.program.ask(&request).map(|_| ())
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let mut answer = AnswerBuilder::new(&query.columns());
        match query {
            Query::Count(table) => {
                let asked: Vec<Asked> =
                    self.all(table).into_iter().map(|(name, _)| (name, "SELECT COUNT(*)".to_owned())).collect();
                answer.push(Cell::Int(self.integers(&asked)?.into_iter().flatten().sum()))?;
            }
            Query::Bill { meter, window_ns } => {
                let stored = self.stored("meter_reads")?;
                let sum = format!("SELECT SUM(usage_since_read) WHERE {}", stored.window(*window_ns));
                let asked = [(stored.container(Cell::Int(*meter))?, sum)];
                push(&mut answer, self.numbers("DOUBLE", &asked)?[0].as_deref())?;
            }
            Query::Rows { of, key, window_ns } => {
                let stored = self.stored(of.name)?;
                let query = format!("SELECT * WHERE {} ORDER BY ts", stored.window(*window_ns));
                let container = (stored.container(key.cell())?, Some(key.clone()));
                self.rows(&mut answer, of.name, &query, &[container])?;
            }
            Query::Last { of, key } => {
                let container = (self.stored(of.name)?.container(key.cell())?, Some(key.clone()));
                self.rows(&mut answer, of.name, NEWEST, &[container])?;
            }
            Query::LastOfAll => {
                let containers = self.all("cpu");
                self.rows(&mut answer, "cpu", NEWEST, &containers)?;
            }
            Query::HourlyMaxima { hosts, window_ns } => {
                self.maxima(&mut answer, hosts, *window_ns, HOUR_NS, &FIELDS)?;
            }
            Query::MinuteMaxima { host, window_ns } => {
                let hosts = std::slice::from_ref(host);
                self.maxima(&mut answer, hosts, *window_ns, MINUTE_NS, &FIELDS[..1])?;
            }
            Query::Tsbs(_) => return Err(NO_TEXT.into()),
        }
        answer.finish()
    }
}

#[cfg(test)]
#[path = "griddb_tests.rs"]
mod tests;
