//! TSBS' queries in SQL, by dialect. They follow TSBS' form for TimescaleDB, over tables with the
//! tags in the rows.

use crate::sql::Dialect;
use fleetdb_bench_core::answer::Cell;
use fleetdb_bench_core::table::ColumnType;
use fleetdb_bench_core::tsbs::Question;
use fleetdb_bench_core::tsbs::hosts::{BUSY_ABOVE, HOUR_S, HostQuestion, LAST_MINUTES, MINUTE_S};
use fleetdb_bench_core::tsbs::trucks::{BUCKET_S, BUCKETS_A_DAY, BUCKETS_AN_HOUR, DAY_S, TruckQuestion};
use fleetdb_bench_core::workload::cpu::{FIELDS, cpu_columns};

/// Why a target without these texts cannot answer.
pub(crate) const NO_TEXT: &str = "the suite has no texts of TSBS' queries for it";

/// The newest row of each truck of a fleet: these columns of a table, and the time. Its parameter is
/// the fleet.
pub(crate) type Newest = fn(table: &str, columns: &str, parameter: &str) -> String;

/// The form for PostgreSQL, FleetDB and DuckDB.
pub(crate) fn newest_distinct(table: &str, columns: &str, parameter: &str) -> String {
    format!("SELECT DISTINCT ON (name) {columns}, ts FROM {table} WHERE fleet = {parameter} ORDER BY name, ts DESC")
}

/// The average of integers as a float, where `avg` returns one.
pub(crate) fn plain_average(column: &str) -> String {
    format!("avg({column})")
}

/// A bucket in nanoseconds, where it is a number.
pub(crate) fn plain_bucket(bucket: &str) -> String {
    bucket.to_owned()
}

/// The values of a question's parameters.
pub(crate) fn parameters(question: &Question) -> Vec<Cell<'_>> {
    let times = |window_ns: &(i64, i64)| [Cell::Time(window_ns.0), Cell::Time(window_ns.1)];
    match question {
        Question::Hosts(question) => match question {
            HostQuestion::Maxima { hosts, window_ns, .. } => {
                hosts.iter().map(|host| Cell::Text(host)).chain(times(window_ns)).collect()
            }
            HostQuestion::Averages { window_ns, .. } => times(window_ns).to_vec(),
            HostQuestion::Busy { host, window_ns } => {
                host.iter().map(|host| Cell::Text(host)).chain(times(window_ns)).collect()
            }
            HostQuestion::LastMinutes { before_ns } => vec![Cell::Time(*before_ns)],
        },
        Question::Trucks(question) => match question {
            TruckQuestion::LastLocations { fleet }
            | TruckQuestion::LowFuel { fleet }
            | TruckQuestion::HighLoad { fleet } => vec![Cell::Text(fleet)],
            TruckQuestion::LastLocation { truck } => vec![Cell::Text(truck)],
            TruckQuestion::Stationary { fleet, window_ns } | TruckQuestion::LongSessions { fleet, window_ns, .. } => {
                std::iter::once(Cell::Text(fleet)).chain(times(window_ns)).collect()
            }
            TruckQuestion::Consumption
            | TruckQuestion::DailyDuration
            | TruckQuestion::DailySession
            | TruckQuestion::Load
            | TruckQuestion::DailyActivity
            | TruckQuestion::Breakdowns => Vec::new(),
        },
    }
}

impl Dialect {
    /// The text of a question; [`parameters`] has its values.
    pub(crate) fn tsbs(&self, question: &Question) -> String {
        match question {
            Question::Hosts(question) => self.of_hosts(question),
            Question::Trucks(question) => self.of_trucks(question),
        }
    }

    fn of_hosts(&self, question: &HostQuestion) -> String {
        let called = |calls: Vec<String>| calls.join(", ");
        match question {
            HostQuestion::Maxima { fields, hosts, width_s, .. } => {
                let places: Vec<String> = (1..=hosts.len()).map(self.parameter).collect();
                format!(
                    "SELECT {} AS bucket, {} FROM cpu WHERE hostname IN ({}) AND {} GROUP BY 1 ORDER BY 1",
                    (self.bucket)(*width_s),
                    called(FIELDS[..*fields].iter().map(|field| format!("max({field})")).collect()),
                    places.join(", "),
                    self.window(hosts.len() + 1)
                )
            }
            HostQuestion::Averages { fields, .. } => format!(
                "SELECT {} AS hour, hostname, {} FROM cpu WHERE {} GROUP BY 1, 2 ORDER BY 1, 2",
                (self.bucket)(HOUR_S),
                called(FIELDS[..*fields].iter().map(|field| (self.average)(field)).collect()),
                self.window(1)
            ),
            HostQuestion::Busy { host, .. } => {
                let of_host = host.as_ref().map(|_| format!("hostname = {} AND ", (self.parameter)(1)));
                format!(
                    "SELECT {} FROM cpu WHERE {}usage_user > {BUSY_ABOVE} AND {}",
                    crate::sql::names(&cpu_columns()),
                    of_host.unwrap_or_default(),
                    self.window(1 + usize::from(host.is_some()))
                )
            }
            HostQuestion::LastMinutes { .. } => format!(
                "SELECT {} AS minute, max({}) FROM cpu WHERE ts < {} GROUP BY 1 ORDER BY 1 DESC LIMIT {LAST_MINUTES}",
                (self.bucket)(MINUTE_S),
                FIELDS[0],
                (self.time)(1)
            ),
        }
    }

    fn of_trucks(&self, question: &TruckQuestion) -> String {
        let (ten, day, one) = ((self.bucket)(BUCKET_S), (self.bucket)(DAY_S), (self.parameter)(1));
        let float = |value: &str| format!("CAST({value} AS {})", (self.types)(ColumnType::Float));
        let newest = |table: &str, columns: &str| (self.newest)(table, columns, &one);
        match question {
            TruckQuestion::LastLocations { .. } => format!(
                "SELECT name, driver, latitude, longitude, ts FROM ({}) AS newest ORDER BY name",
                newest("readings", "name, driver, latitude, longitude")
            ),
            TruckQuestion::LastLocation { .. } => format!(
                "SELECT name, driver, latitude, longitude, ts FROM readings WHERE name = {one} ORDER BY ts DESC LIMIT 1"
            ),
            TruckQuestion::LowFuel { .. } => format!(
                "SELECT name, driver, fuel_state FROM ({}) AS newest WHERE fuel_state < 0.1 ORDER BY name",
                newest("diagnostics", "name, driver, fuel_state")
            ),
            TruckQuestion::HighLoad { .. } => format!(
                "SELECT name, driver, current_load FROM ({}) AS newest WHERE current_load / load_capacity > 0.9 \
                 ORDER BY name",
                newest("diagnostics", "name, driver, current_load, load_capacity")
            ),
            TruckQuestion::Stationary { .. } => format!(
                "SELECT name, driver FROM readings WHERE fleet = {one} AND {} GROUP BY name, driver \
                 HAVING avg(velocity) < 1 ORDER BY name",
                self.window(2)
            ),
            TruckQuestion::LongSessions { more_than, .. } => format!(
                "SELECT name, driver FROM (SELECT name, driver, {ten} AS ten FROM readings WHERE fleet = {one} AND {} \
                 GROUP BY name, driver, ten HAVING avg(velocity) > 1) AS driven GROUP BY name, driver \
                 HAVING count(*) > {more_than} ORDER BY name",
                self.window(2)
            ),
            TruckQuestion::Consumption => "SELECT fleet, avg(fuel_consumption), avg(nominal_fuel_consumption) \
                                           FROM readings WHERE velocity > 1 GROUP BY fleet ORDER BY fleet"
                .to_owned(),
            TruckQuestion::DailyDuration => format!(
                "SELECT fleet, name, driver, avg(hours) FROM \
                 (SELECT fleet, name, driver, day, {} / {BUCKETS_AN_HOUR} AS hours FROM \
                 (SELECT fleet, name, driver, {day} AS day, {ten} AS ten FROM readings \
                 GROUP BY fleet, name, driver, day, ten HAVING avg(velocity) > 1) AS driven \
                 GROUP BY fleet, name, driver, day) AS days GROUP BY fleet, name, driver ORDER BY name",
                float("count(*)")
            ),
            TruckQuestion::DailySession => {
                let [until, since] = ["until_ten", "ten"].map(self.bucket_ns);
                format!(
                    "WITH buckets AS (SELECT name, {day} AS day, {ten} AS ten, avg(velocity) > 5 AS drives \
                     FROM readings \
                     GROUP BY name, day, ten), \
                     changes AS (SELECT name, day, ten, drives, \
                     lag(drives) OVER (PARTITION BY name ORDER BY ten) AS drove FROM buckets), \
                     runs AS (SELECT name, day, ten, lead(ten) OVER (PARTITION BY name ORDER BY ten) AS until_ten, \
                     drives FROM changes WHERE drove IS NULL OR drives <> drove) \
                     SELECT name, day, avg({}) FROM runs WHERE drives AND until_ten IS NOT NULL \
                     GROUP BY name, day ORDER BY name, day",
                    float(&format!("{until} - {since}"))
                )
            }
            TruckQuestion::Load => "SELECT fleet, model, load_capacity, avg(share) FROM \
                 (SELECT fleet, model, load_capacity, name, avg(current_load) / load_capacity AS share \
                 FROM diagnostics GROUP BY fleet, model, load_capacity, name) AS loads \
                 GROUP BY fleet, model, load_capacity ORDER BY fleet, model"
                .to_owned(),
            TruckQuestion::DailyActivity => format!(
                "SELECT fleet, model, day, {} / {BUCKETS_A_DAY} FROM \
                 (SELECT fleet, model, name, {day} AS day, {ten} AS ten FROM diagnostics \
                 GROUP BY fleet, model, name, day, ten HAVING avg(status) < 1) AS active \
                 GROUP BY fleet, model, day ORDER BY fleet, model, day",
                float("count(*)")
            ),
            TruckQuestion::Breakdowns => format!(
                "WITH buckets AS (SELECT model, name, {ten} AS ten, \
                 sum(CASE WHEN status = 0 THEN 1 ELSE 0 END) * 2 >= count(*) AS broken \
                 FROM diagnostics GROUP BY model, name, ten), \
                 changes AS (SELECT model, broken, lag(broken) OVER (PARTITION BY name ORDER BY ten) AS before_it \
                 FROM buckets) \
                 SELECT model, count(*) FROM changes WHERE broken AND NOT before_it GROUP BY model ORDER BY model"
            ),
        }
    }
}
