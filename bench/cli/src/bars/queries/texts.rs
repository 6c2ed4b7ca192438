//! The texts of the queries in each target's dialect.
//!
//! Windows end at the newest row and lie within the data: where E2 and TSBS use 8, 12 or 24 hours
//! of cpu rows, they use six here. TSBS's queries follow its form for TimescaleDB, over tables with
//! the tags in the rows. Those for trucks are corrected where the definition contradicts the name;
//! see `docs/benchmarks.md`.

use fleetdb_bench_core::workload::cpu::{FIELDS, HOSTS, START_NS, STEP_NS, TAGS};
use fleetdb_bench_core::workload::trucks;

pub const SECOND_NS: i64 = 1_000_000_000;
const HOUR_NS: i64 = 3600 * SECOND_NS;

/// A query in one target's dialect.
pub struct Query {
    pub name: &'static str,
    pub text: String,
    /// Whether the order of the rows is part of the answer.
    pub ordered: bool,
}

/// The SQL dialect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    FleetDb,
    DuckDb,
    /// Times are integers that count nanoseconds.
    Sqlite,
}

impl Dialect {
    pub fn time(self, ns: i64) -> String {
        match self {
            Self::FleetDb => format!("to_timestamp_nanos({ns})"),
            Self::DuckDb => format!("make_timestamp_ns({ns})"),
            Self::Sqlite => ns.to_string(),
        }
    }

    /// The start of a row's bucket; an integer in DuckDB and SQLite.
    fn bucket(self, seconds: i64) -> String {
        match self {
            Self::FleetDb => format!("time_bucket('{seconds} seconds', ts)"),
            Self::DuckDb => format!("epoch_ns(ts) // {0} * {0}", seconds * SECOND_NS),
            Self::Sqlite => format!("ts / {0} * {0}", seconds * SECOND_NS),
        }
    }

    /// The day of a bucket.
    fn day(self, bucket: &str) -> String {
        match self {
            Self::FleetDb => format!("time_bucket('1 day', {bucket})"),
            Self::DuckDb => format!("{bucket} // {0} * {0}", 24 * HOUR_NS),
            Self::Sqlite => format!("{bucket} / {0} * {0}", 24 * HOUR_NS),
        }
    }

    /// The start of a bucket in nanoseconds.
    fn ns(self, bucket: &str) -> String {
        match self {
            Self::FleetDb => format!("CAST({bucket} AS BIGINT)"),
            _ => bucket.to_owned(),
        }
    }

    fn within(self, from: i64, to: i64) -> String {
        format!("ts >= {} AND ts < {}", self.time(from), self.time(to))
    }

    /// The newest row of each truck: `columns` and the time.
    fn newest(self, table: &str, columns: &str, fleet: &str) -> String {
        match self {
            // SQLite's documented extension: bare columns take their values from the row with the
            // maximum.
            Self::Sqlite => {
                format!("SELECT {columns}, max(ts) AS ts FROM {table} WHERE fleet = '{fleet}' GROUP BY name")
            }
            _ => format!(
                "SELECT DISTINCT ON (name) {columns}, ts FROM {table} WHERE fleet = '{fleet}' ORDER BY name, ts DESC"
            ),
        }
    }
}

/// The start of a window of `seconds` seconds that ends with `rows` cpu rows, and its end.
pub fn window(rows: usize, seconds: i64) -> (i64, i64) {
    let end = START_NS + (rows / HOSTS) as i64 * STEP_NS;
    ((end - seconds * SECOND_NS).max(START_NS), end)
}

fn maxima(fields: usize) -> String {
    FIELDS[..fields].iter().map(|field| format!("max({field})")).collect::<Vec<_>>().join(", ")
}

fn hosts(count: usize) -> String {
    if count == 1 {
        return "hostname = 'host_7'".to_owned();
    }
    let hosts: Vec<String> = (0..count).map(|number| format!("'host_{}'", (number * 487 + 7) % HOSTS)).collect();
    format!("hostname IN ({})", hosts.join(", "))
}

fn ordered(name: &'static str, text: String) -> Query {
    Query { name, text, ordered: true }
}

/// E2's seven queries.
pub fn e2(rows: usize, dialect: Dialect) -> Vec<Query> {
    let within = |seconds: i64| {
        let (from, to) = window(rows, seconds);
        dialect.within(from, to)
    };
    let newest_all = match dialect {
        Dialect::Sqlite => {
            format!(
                "SELECT {}, max(ts) AS ts, {} FROM cpu GROUP BY hostname ORDER BY hostname",
                TAGS.join(", "),
                FIELDS.join(", ")
            )
        }
        _ => "SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, ts DESC".to_owned(),
    };
    let grouped = |seconds: i64, fields: usize, which: usize, window: i64| {
        format!(
            "SELECT {} AS bucket, {} FROM cpu WHERE {} AND {} GROUP BY bucket ORDER BY bucket",
            dialect.bucket(seconds),
            maxima(fields),
            hosts(which),
            within(window)
        )
    };
    vec![
        ordered(
            "FIVE_MINUTE_1",
            format!("SELECT * FROM cpu WHERE hostname = 'host_7' AND {} ORDER BY ts", within(300)),
        ),
        ordered("COUNT", "SELECT count(*) FROM cpu".to_owned()),
        ordered("CPU_MAX_ALL_1", grouped(3600, 10, 1, 6 * 3600)),
        ordered("CPU_MAX_ALL_8", grouped(3600, 10, 8, 6 * 3600)),
        ordered("SINGLE_GROUP_BY_1_1_1", grouped(60, 1, 1, 3600)),
        ordered("LAST_POINT_ALL", newest_all),
        ordered("LAST_POINT_ONE", "SELECT * FROM cpu WHERE hostname = 'host_7' ORDER BY ts DESC LIMIT 1".to_owned()),
    ]
}

/// TSBS's queries on cpu rows that are not among E2's.
pub fn cpu(rows: usize, dialect: Dialect) -> Vec<Query> {
    let (from, to) = window(rows, 6 * 3600);
    let within = dialect.within(from, to);
    let maxima = |name, fields: usize, which: usize, seconds: i64, window_s: i64| {
        let (from, to) = window(rows, window_s);
        let (bucket, maxima, hosts, within) =
            (dialect.bucket(seconds), maxima(fields), hosts(which), dialect.within(from, to));
        ordered(
            name,
            format!(
                "SELECT {bucket} AS bucket, {maxima} FROM cpu WHERE {hosts} AND {within} GROUP BY bucket ORDER BY bucket"
            ),
        )
    };
    let averages = |name, fields: usize| {
        let averages = FIELDS[..fields].iter().map(|field| format!("avg({field})")).collect::<Vec<_>>().join(", ");
        let bucket = dialect.bucket(3600);
        ordered(
            name,
            format!(
                "SELECT {bucket} AS hour, hostname, {averages} FROM cpu WHERE {within} GROUP BY hour, hostname ORDER BY hour, hostname"
            ),
        )
    };
    let high = |name, of: &str| Query {
        name,
        text: format!("SELECT * FROM cpu WHERE {of}usage_user > 90 AND {within}"),
        ordered: false,
    };
    vec![
        maxima("single-groupby-1-1-12", 1, 1, 60, 6 * 3600),
        maxima("single-groupby-1-8-1", 1, 8, 60, 3600),
        maxima("single-groupby-5-1-1", 5, 1, 60, 3600),
        maxima("single-groupby-5-1-12", 5, 1, 60, 6 * 3600),
        maxima("single-groupby-5-8-1", 5, 8, 60, 3600),
        maxima("cpu-max-all-32-24", 10, 32, 3600, 6 * 3600),
        averages("double-groupby-1", 1),
        averages("double-groupby-5", 5),
        averages("double-groupby-all", 10),
        high("high-cpu-1", "hostname = 'host_7' AND "),
        high("high-cpu-all", ""),
        ordered(
            "groupby-orderby-limit",
            format!(
                "SELECT {} AS minute, max(usage_user) FROM cpu WHERE ts < {} GROUP BY minute ORDER BY minute DESC LIMIT 5",
                dialect.bucket(60),
                dialect.time(window(rows, 3600).0)
            ),
        ),
    ]
}

/// TSBS's queries on trucks, over `rows` rows of both tables, counted before some are left out.
pub fn iot(rows: usize, dialect: Dialect) -> Vec<Query> {
    let end = START_NS + (rows / 2 / trucks::TRUCKS) as i64 * STEP_NS;
    let within = |seconds: i64| dialect.within(end - seconds * SECOND_NS, end);
    let (ten, day) = (dialect.bucket(600), dialect.bucket(86_400));
    let sessions = |hours: i64, more_than: i64| {
        format!(
            "SELECT name, driver FROM (SELECT name, driver, {ten} AS ten FROM readings WHERE fleet = 'West' AND {} \
             GROUP BY name, driver, ten HAVING avg(velocity) > 1) AS driven GROUP BY name, driver HAVING count(*) > {more_than} ORDER BY name",
            within(hours * 3600)
        )
    };
    let newest = |table, columns| dialect.newest(table, columns, "South");
    let order_of_newest = if dialect == Dialect::Sqlite { " ORDER BY name" } else { "" };
    vec![
        ordered("last-loc", format!("{}{order_of_newest}", newest("readings", "name, driver, latitude, longitude"))),
        ordered(
            "single-last-loc",
            "SELECT name, driver, latitude, longitude, ts FROM readings WHERE name = 'truck_7' ORDER BY ts DESC LIMIT 1".to_owned(),
        ),
        ordered(
            "low-fuel",
            format!(
                "SELECT name, driver, fuel_state FROM ({}) AS newest WHERE fuel_state < 0.1 ORDER BY name",
                newest("diagnostics", "name, driver, fuel_state")
            ),
        ),
        ordered(
            "high-load",
            format!(
                "SELECT name, driver, current_load FROM ({}) AS newest WHERE current_load / load_capacity > 0.9 ORDER BY name",
                newest("diagnostics", "name, driver, current_load, load_capacity")
            ),
        ),
        ordered(
            "stationary-trucks",
            format!(
                "SELECT name, driver FROM readings WHERE fleet = 'West' AND {} GROUP BY name, driver HAVING avg(velocity) < 1 ORDER BY name",
                within(600)
            ),
        ),
        ordered("long-driving-sessions", sessions(4, 22)),
        ordered("long-daily-sessions", sessions(24, 60)),
        ordered(
            "avg-vs-projected-fuel-consumption",
            "SELECT fleet, avg(fuel_consumption), avg(nominal_fuel_consumption) FROM readings WHERE velocity > 1 GROUP BY fleet ORDER BY fleet".to_owned(),
        ),
        ordered(
            "avg-daily-driving-duration",
            format!(
                "SELECT fleet, name, driver, avg(hours) FROM (SELECT fleet, name, driver, day, count(*) / 6.0 AS hours FROM \
                 (SELECT fleet, name, driver, {day} AS day, {ten} AS ten FROM readings GROUP BY fleet, name, driver, day, ten HAVING avg(velocity) > 1) AS driven \
                 GROUP BY fleet, name, driver, day) AS days GROUP BY fleet, name, driver ORDER BY name"
            ),
        ),
        ordered(
            "avg-daily-driving-session",
            format!(
                "WITH status AS (SELECT name, {ten} AS ten, avg(velocity) > 5 AS driving FROM readings GROUP BY name, ten), \
                 changes AS (SELECT name, ten, driving, lag(driving) OVER (PARTITION BY name ORDER BY ten) AS before FROM status), \
                 runs AS (SELECT name, ten, lead(ten) OVER (PARTITION BY name ORDER BY ten) AS until, driving FROM changes WHERE before IS NULL OR driving <> before) \
                 SELECT name, {} AS day, avg({} - {}) FROM runs WHERE driving AND until IS NOT NULL GROUP BY name, day ORDER BY name, day",
                dialect.day("ten"),
                dialect.ns("until"),
                dialect.ns("ten")
            ),
        ),
        ordered(
            "avg-load",
            "SELECT fleet, model, load_capacity, avg(share) FROM (SELECT fleet, model, load_capacity, name, avg(current_load) / load_capacity AS share \
             FROM diagnostics GROUP BY fleet, model, load_capacity, name) AS loads GROUP BY fleet, model, load_capacity ORDER BY fleet, model"
                .to_owned(),
        ),
        ordered(
            "daily-activity",
            format!(
                "SELECT fleet, model, day, count(*) / 144.0 FROM (SELECT fleet, model, name, {day} AS day, {ten} AS ten FROM diagnostics \
                 GROUP BY fleet, model, name, day, ten HAVING avg(status) < 1) AS active GROUP BY fleet, model, day ORDER BY fleet, model, day"
            ),
        ),
        ordered(
            "breakdown-frequency",
            format!(
                "WITH status AS (SELECT model, name, {ten} AS ten, sum(CASE WHEN status = 0 THEN 1 ELSE 0 END) * 2 >= count(*) AS broken \
                 FROM diagnostics GROUP BY model, name, ten), \
                 changes AS (SELECT model, broken, lag(broken) OVER (PARTITION BY name ORDER BY ten) AS before FROM status) \
                 SELECT model, count(*) FROM changes WHERE broken AND NOT before GROUP BY model ORDER BY model"
            ),
        ),
    ]
}
