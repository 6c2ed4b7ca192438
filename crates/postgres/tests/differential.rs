//! Random queries, answered by FleetDB and by DuckDB over FleetDB's Parquet files: filters,
//! groupings, buckets with and without gaps, joins, newest rows, subqueries. `FLEETDB_SEED=<seed>`
//! repeats a run; `FLEETDB_QUERIES=<n>` sets the number of queries.
//!
//! FleetDB answers while the rows are spread over overlapping segments and a memtable, with rows
//! replaced and deleted. DuckDB reads the files after everything has been merged. Values are
//! multiples of a quarter, so that sums do not depend on the order of addition.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, with DuckDB in a process of its own")]

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Code, Database, Settings};
use fleetdb_query::Session;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

const QUERIES: usize = 400;
const START_S: i64 = 1_767_225_600;
const ROWS: i64 = 400;
const HOSTS: i64 = 6;

struct Generator(Xoshiro256PlusPlus);

impl Generator {
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of.choose(&mut self.0).unwrap()
    }

    fn some(&mut self, of: &[&str], most: usize) -> Vec<String> {
        let count = self.0.random_range(1..=most);
        of.choose_multiple(&mut self.0, count).map(|one| (*one).to_owned()).collect()
    }

    fn time(&mut self) -> String {
        let seconds = START_S + self.0.random_range(-50..ROWS * 60 + 50) / 10 * 10;
        let time = arrow::temporal_conversions::timestamp_s_to_datetime(seconds).unwrap();
        format!("TIMESTAMP '{}'", time.format("%Y-%m-%d %H:%M:%S"))
    }

    fn host(&mut self) -> String {
        format!("'h{}'", self.0.random_range(0..=HOSTS))
    }

    /// A condition on a column of `cpu`.
    fn condition(&mut self) -> String {
        let number: i32 = self.0.random_range(-10..110);
        match self.0.random_range(0..14) {
            0 | 1 => format!("host = {}", self.host()),
            2 => format!("host IN ({}, {}, {})", self.host(), self.host(), self.host()),
            3 => format!("host {} {}", self.pick(&["<", ">=", "<>"]), self.host()),
            4 | 5 => format!("ts {} {}", self.pick(&["<", "<=", ">", ">=", "="]), self.time()),
            6 => format!("ts BETWEEN {} AND {}", self.time(), self.time()),
            7 => format!("usage {} {number}", self.pick(&["<", "<=", ">", "=", "<>"])),
            8 => format!("load {} {}.25", self.pick(&["<", ">"]), number.abs()),
            9 => format!("note {} NULL", self.pick(&["IS", "IS NOT"])),
            10 => format!("note LIKE '{}%'", self.pick(&["a", "b", "ab"])),
            11 => format!("({} OR {})", self.condition(), self.condition()),
            12 => format!("NOT ({})", self.condition()),
            _ => format!("usage % 7 = {}", number.rem_euclid(7)),
        }
    }

    fn conditions(&mut self) -> String {
        let count = self.0.random_range(0..4);
        let conditions: Vec<String> = (0..count).map(|_| self.condition()).collect();
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
    }

    fn aggregates(&mut self) -> Vec<String> {
        let functions = [
            "count(*)",
            "count(load)",
            "count(note)",
            "sum(usage)",
            "sum(load)",
            "min(usage)",
            "max(usage)",
            "min(load)",
            "max(load)",
            "avg(usage)",
            "avg(load)",
            "min(ts)",
            "max(ts)",
            "min(note)",
            "max(note)",
            "count(DISTINCT usage)",
            "count(DISTINCT host)",
            "sum(usage * 2 + 1)",
        ];
        self.some(&functions, 5)
    }

    /// A query in FleetDB's form and in DuckDB's.
    fn query(&mut self) -> (String, String) {
        match self.0.random_range(0..9) {
            0 => self.gapfill(),
            1 => self.asof_join(),
            _ => {
                let query = self.common_query();
                (query.clone(), query)
            }
        }
    }

    /// Buckets with gaps filled; for DuckDB, the groups are joined with a list of all buckets.
    fn gapfill(&mut self) -> (String, String) {
        let width = self.pick(&["7 minutes", "20 minutes", "1 hour", "3 hours", "1 day", "1 month"]);
        let (from, to) = (self.time(), self.time());
        let value = self.pick(&["avg(load)", "sum(usage)", "max(load)", "min(usage)"]);
        let other = self.condition();
        // A condition on the time would be a bound of the window.
        let other = if other.contains("ts ") { String::new() } else { format!(" AND {other}") };
        let others = format!("WHERE ts >= {from} AND ts < {to}{other}");
        let ours = format!(
            "SELECT host, time_bucket_gapfill('{width}', ts) AS bucket, count(*), locf({value}), interpolate({value}) \
             FROM cpu {others} GROUP BY host, bucket ORDER BY host, bucket"
        );
        let known = |function: &str, what: &str, frame: &str| {
            format!("{function}({what} IGNORE NULLS) OVER (PARTITION BY host ORDER BY bucket ROWS BETWEEN {frame})")
        };
        let (until, since) = ("UNBOUNDED PRECEDING AND CURRENT ROW", "CURRENT ROW AND UNBOUNDED FOLLOWING");
        let at = "CASE WHEN v IS NOT NULL THEN epoch(bucket) END";
        let theirs = format!(
            "WITH groups AS (SELECT host, time_bucket(INTERVAL '{width}', ts) AS bucket, count(*) AS n, {value} AS v \
             FROM cpu {others} GROUP BY ALL), \
             steps AS (SELECT unnest(generate_series({from}, {to} - INTERVAL '1 second', INTERVAL '1 minute') || [{to} - INTERVAL '1 second']) AS t), \
             buckets AS (SELECT DISTINCT time_bucket(INTERVAL '{width}', t) AS bucket FROM steps WHERE {from} < {to}), \
             filled AS (SELECT host, bucket, n, v FROM (SELECT DISTINCT host FROM groups) CROSS JOIN buckets LEFT JOIN groups USING (host, bucket)), \
             known AS (SELECT *, {} AS v0, {} AS v1, {} AS t0, {} AS t1 FROM filled) \
             SELECT host, bucket, n, v0, CASE WHEN t1 = t0 THEN v0 ELSE v0 + (v1 - v0) * ((epoch(bucket) - t0) / (t1 - t0)) END::DOUBLE \
             FROM known ORDER BY host, bucket",
            known("last_value", "v", until),
            known("first_value", "v", since),
            known("last_value", at, until),
            known("first_value", at, since),
        );
        (ours, theirs)
    }

    /// The newest row of another series at or before each row, or the first one after it.
    fn asof_join(&mut self) -> (String, String) {
        let sign = self.pick(&[">=", ">", "<=", "<"]);
        let of_left = self.conditions().replace("host", "a.host").replace("ts ", "a.ts ");
        let of_left =
            ["usage", "load", "note"].iter().fold(of_left, |text, name| text.replace(name, &format!("a.{name}")));
        let minutes = self.0.random_range(2..9);
        let other = format!("(SELECT * FROM cpu WHERE usage % {minutes} = 1)");
        let other = if self.0.random_bool(0.5) { "cpu".to_owned() } else { other };
        let select = "SELECT a.host, a.ts, a.usage, b.ts, b.load";
        let keys = "a.host = b.host";
        let order = "ORDER BY a.host, a.ts";
        (
            format!(
                "{select} FROM cpu AS a ASOF JOIN {other} AS b MATCH_CONDITION (a.ts {sign} b.ts) ON {keys}{of_left} {order}"
            ),
            format!(
                "{select} FROM cpu AS a ASOF LEFT JOIN {other} AS b ON {keys} AND a.ts {sign} b.ts{of_left} {order}"
            ),
        )
    }

    /// A query with a subquery over the same table without an alias, so that inner and outer
    /// columns have the same names.
    fn with_subquery(&mut self) -> String {
        let (column, conditions) = (self.pick(&["usage", "load", "host", "ts"]), self.conditions());
        let subquery = format!("(SELECT {column} FROM cpu{conditions})");
        let by_name = self.pick(&["cpu.", ""]);
        let compared = match self.0.random_range(0..5) {
            0 => format!("{column} {}IN {subquery}", self.pick(&["", "NOT "])),
            1 => format!("{by_name}{column} = ANY {subquery}"),
            2 => format!("{by_name}{column} <> ALL {subquery}"),
            3 => {
                let (op, quantifier) = (self.pick(&["<", "<=", ">", ">="]), self.pick(&["ANY", "ALL"]));
                format!("{by_name}{column} {op} {quantifier} {subquery}")
            }
            _ => {
                let aggregate = self.pick(&["min", "max"]);
                format!("{column} >= (SELECT {aggregate}({column}) FROM cpu{conditions})")
            }
        };
        format!("SELECT host, ts, usage FROM cpu WHERE {compared} AND {} ORDER BY host, ts", self.condition())
    }

    /// A condition with a subquery over `cpu` without an alias; it may be correlated with the outer
    /// table `a`.
    fn subquery_condition(&mut self) -> String {
        let column = self.pick(&["usage", "load", "host", "note", "ts"]);
        let mut inner: Vec<String> = (0..self.0.random_range(0..3)).map(|_| self.condition()).collect();
        if self.0.random_bool(0.6) {
            let correlations = [
                "host = a.host",
                "a.host = cpu.host",
                "usage = a.usage",
                "ts = a.ts",
                "cpu.ts::date = a.ts::date",
                "a.usage % 10 = usage % 5",
            ];
            inner.push(self.pick(&correlations).to_owned());
        }
        let inner = if inner.is_empty() { String::new() } else { format!(" WHERE {}", inner.join(" AND ")) };
        let value = format!("{}{column}", self.pick(&["a.", ""]));
        let not = self.pick(&["", "NOT "]);
        match self.0.random_range(0..9) {
            0 | 1 => format!("{value} {not}IN (SELECT {column} FROM cpu{inner})"),
            2 => format!("{not}EXISTS (SELECT {} FROM cpu{inner})", self.pick(&["1", "*", "host"])),
            3 => {
                format!("{not}EXISTS (SELECT {} FROM cpu{inner})", self.pick(&["max(usage)", "count(*)", "min(note)"]))
            }
            4 => {
                let (op, quantifier) = (self.pick(&["=", "<>", "<", "<=", ">", ">="]), self.pick(&["ANY", "ALL"]));
                format!("{value} {op} {quantifier} (SELECT {column} FROM cpu{inner})")
            }
            5 => {
                let (op, aggregate) = (self.pick(&["=", "<>", "<", ">="]), self.pick(&["min", "max"]));
                format!("{value} {op} (SELECT {aggregate}({column}) FROM cpu{inner})")
            }
            6 => {
                let op = self.pick(&["=", "<", ">"]);
                format!("{} {op} (SELECT count({column}) FROM cpu{inner})", self.0.random_range(0..20))
            }
            7 => format!("0 {not}IN (SELECT count(*) FROM cpu{inner})"),
            _ => {
                let quantifier = self.pick(&["= ANY", "> ALL", "<> ALL", ">= ANY"]);
                format!("a.usage {quantifier} (SELECT max(usage) FROM cpu{inner})")
            }
        }
    }

    /// A query with a subquery over its own table in WHERE, HAVING or the SELECT list.
    fn around_subquery(&mut self) -> String {
        let compared = self.subquery_condition();
        let (other, limit) = (self.condition(), self.condition());
        let condition = match self.0.random_range(0..6) {
            0 | 1 => compared,
            2 => format!("({compared} OR {other})"),
            3 => format!("NOT ({compared} AND {other})"),
            4 => format!("CASE WHEN {other} THEN {compared} ELSE {} END", self.pick(&["true", "false"])),
            _ => format!("({compared}) IS {}", self.pick(&["NULL", "NOT TRUE", "FALSE"])),
        };
        // DataFusion rejects ANY and ALL in the SELECT list.
        let is_quantified = condition.contains(" ANY (") || condition.contains(" ALL (");
        match self.0.random_range(0..6) {
            0 if !is_quantified => format!(
                "SELECT host, ts, CASE WHEN {condition} THEN 1 WHEN NOT ({condition}) THEN 0 END FROM cpu AS a \
                 WHERE {limit} ORDER BY host, ts"
            ),
            1 => {
                let (op, conditions) = (self.pick(&["<", ">="]), self.conditions());
                format!(
                    "SELECT host, max(usage) FROM cpu GROUP BY host HAVING max(usage) {op} \
                     (SELECT avg(usage) FROM cpu{conditions}) ORDER BY host"
                )
            }
            2 => {
                let (not, conditions) = (self.pick(&["", "NOT "]), self.conditions());
                let value = self.pick(&["host", "max(note)", "max(load)"]);
                let column = value.trim_start_matches("max(").trim_end_matches(')');
                format!(
                    "SELECT host, count(*) FROM cpu GROUP BY host HAVING {value} {not}IN \
                     (SELECT {column} FROM cpu{conditions}) ORDER BY host"
                )
            }
            3 => {
                let (not, conditions) = (self.pick(&["", "NOT "]), self.conditions());
                let more = if conditions.is_empty() { " WHERE" } else { " AND" };
                let asked = match self.0.random_range(0..4) {
                    0 => format!("{not}EXISTS (SELECT max(usage) FROM cpu{conditions}{more} host = id)"),
                    1 => format!("0 {not}IN (SELECT count(*) FROM cpu{conditions}{more} host = id)"),
                    2 => format!(
                        "region {not}IN (SELECT region FROM hosts) OR id {not}IN (SELECT host FROM cpu{conditions})"
                    ),
                    _ => format!("id {not}IN (SELECT note FROM cpu{conditions}{more} host = hosts.id)"),
                };
                format!("SELECT id, region FROM hosts WHERE {asked} ORDER BY id")
            }
            _ => format!("SELECT host, ts, usage FROM cpu AS a WHERE {condition} AND {limit} ORDER BY host, ts"),
        }
    }

    /// A query that both accept unchanged.
    fn common_query(&mut self) -> String {
        let conditions = self.conditions();
        match self.0.random_range(0..11) {
            7 => self.with_subquery(),
            8..=10 => self.around_subquery(),
            0 => {
                let columns = self.some(&["host", "ts", "usage", "load", "note", "usage + 1"], 4).join(", ");
                let limit = if self.0.random_bool(0.5) {
                    format!(" LIMIT {}", self.0.random_range(0..30))
                } else {
                    String::new()
                };
                format!("SELECT {columns} FROM cpu{conditions} ORDER BY host, ts{limit}")
            }
            1 => format!("SELECT {} FROM cpu{conditions}", self.aggregates().join(", ")),
            2 => format!(
                "SELECT host, {} FROM cpu{conditions} GROUP BY host ORDER BY host",
                self.aggregates().join(", ")
            ),
            3 => {
                let width = self.pick(&["1 minute", "7 minutes", "1 hour", "1 day", "1 week", "1 month"]);
                let by_host = self.0.random_bool(0.5);
                let (select, group) = if by_host { ("host, ", "host, bucket") } else { ("", "bucket") };
                let aggregates = self.aggregates().join(", ");
                format!(
                    "SELECT {select}time_bucket(INTERVAL '{width}', ts) AS bucket, {aggregates} FROM cpu{conditions} \
                     GROUP BY {group} ORDER BY {group}"
                )
            }
            4 => {
                let aggregates = self.aggregates().join(", ");
                let kind = self.pick(&["JOIN", "LEFT JOIN"]);
                format!(
                    "SELECT region, {aggregates} FROM cpu {kind} hosts ON host = id{conditions} \
                     GROUP BY region ORDER BY region NULLS FIRST"
                )
            }
            5 => format!("SELECT DISTINCT ON (host) host, ts, usage, load FROM cpu{conditions} ORDER BY host, ts DESC"),
            _ => format!(
                "SELECT ts, usage, note FROM cpu WHERE host = {}{} ORDER BY ts DESC LIMIT {}",
                self.host(),
                if self.0.random_bool(0.5) { format!(" AND {}", self.condition()) } else { String::new() },
                self.0.random_range(1..5)
            ),
        }
    }
}

/// An answer's rows as text, in the format of `differential.py`.
fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayRef> = batch
            .columns()
            .iter()
            .map(|column| match column.data_type() {
                DataType::Timestamp(..) => cast(
                    &cast(column, &DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)).unwrap(),
                    &DataType::Int64,
                )
                .unwrap(),
                DataType::Utf8View => cast(column, &DataType::Utf8).unwrap(),
                other if other.is_integer() => cast(column, &DataType::Int64).unwrap(),
                _ => Arc::clone(column),
            })
            .collect();
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| match column.data_type() {
                _ if column.is_null(row) => "NULL".to_owned(),
                DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
                DataType::Float64 => format!("{:.9}", column.as_primitive::<Float64Type>().value(row)),
                _ => column.as_string::<i32>().value(row).to_owned(),
            };
            rows.push(columns.iter().map(cell).collect());
        }
    }
    rows
}

fn fill(session: &Session, random: &mut Generator) {
    session.sql("CREATE TABLE cpu (host TEXT, ts TIMESTAMP(6), usage BIGINT, load DOUBLE, note TEXT, PRIMARY KEY (host, ts)) WITH (partition = '2 hours')").unwrap();
    session.sql("CREATE TABLE hosts (id TEXT PRIMARY KEY, region TEXT)").unwrap();
    session
        .sql("INSERT INTO hosts VALUES ('h0', 'east'), ('h1', 'west'), ('h2', 'east'), ('h3', NULL), ('h9', 'north')")
        .unwrap();
    for round in 0..6 {
        let (from, step) = (random.0.random_range(0..ROWS / 2), random.0.random_range(1..4));
        session
            .sql(&format!(
                "INSERT INTO cpu SELECT 'h' || h.value, to_timestamp_micros(({START_S} + t.value * 60) * 1000000), \
                 (t.value * 13 + h.value * 7 + {round}) % 100, CASE WHEN t.value % 9 = 0 THEN NULL ELSE (t.value % 50) * 0.25 END, \
                 CASE t.value % 4 WHEN 0 THEN NULL WHEN 1 THEN 'ab' WHEN 2 THEN 'a' ELSE 'b' || {round} END \
                 FROM generate_series(0, {}) AS h(value), generate_series({from}, {}, {step}) AS t(value)",
                HOSTS - 1,
                from + ROWS / 2
            ))
            .unwrap();
        match round {
            1 | 3 => drop(
                session
                    .sql(&format!("DELETE FROM cpu WHERE host = {} AND ts < {}", random.host(), random.time()))
                    .unwrap(),
            ),
            2 => {
                drop(session.sql(&format!("UPDATE cpu SET usage = usage + 100 WHERE {}", random.condition())).unwrap())
            }
            _ => {}
        }
    }
}

#[test]
fn random_queries_have_duckdbs_answers() {
    let python = |code: &str| Command::new("python3").args(["-c", code]).stderr(Stdio::null()).status();
    if !python("import duckdb").is_ok_and(|status| status.success()) {
        println!("skipped: Python with DuckDB is not there");
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let seed = number("FLEETDB_SEED").unwrap_or(now as u64);
    let queries = number("FLEETDB_QUERIES").map_or(QUERIES, |queries| queries as usize);
    println!("{queries} random queries: repeat with FLEETDB_SEED={seed} FLEETDB_QUERIES={queries}");
    let mut random = Generator(Xoshiro256PlusPlus::seed_from_u64(seed));
    let directory = tempfile::tempdir().unwrap();
    let db = Arc::new(
        Database::open_with(Io::files(directory.path()), Settings { memtable_bytes: 64 << 10, ..Settings::default() })
            .unwrap(),
    );
    let session = Session::new(Arc::clone(&db), fleetdb_postgres::Postgres::new()).unwrap();
    fill(&session, &mut random);
    let mut asked = tempfile::NamedTempFile::new().unwrap();
    let mut refused = 0;
    for _ in 0..queries {
        let (sql, theirs) = random.query();
        let answer = session.sql(&sql).and_then(fleetdb_query::Answer::collect);
        let answer = match answer {
            // Some forms of subqueries are unsupported, but none may give a wrong answer.
            Err(error) if error.code() == Code::NotSupported => {
                refused += 1;
                if std::env::var_os("FLEETDB_REFUSED").is_some() {
                    println!("refused: {sql}: {error}");
                }
                continue;
            }
            other => other.unwrap_or_else(|error| panic!("seed {seed}: {sql}: {error}")),
        };
        let cells = rows(&answer).iter().map(|row| row.join("\t")).collect::<Vec<_>>().join("\n");
        write!(asked, "{theirs}\n{cells}\n;\n").unwrap();
    }
    asked.flush().unwrap();
    println!("{refused} queries are refused");
    assert!(refused * 4 <= queries, "seed {seed}: {refused} of {queries} queries are refused");
    session.sql("VACUUM FULL").unwrap();
    let tables: Vec<String> = db.tables().iter().map(|table| format!("{}={}", table.name, table.id.0)).collect();
    drop((session, db));
    let compared = Command::new("python3")
        .args(["-c", include_str!("differential.py")])
        .arg(directory.path())
        .arg(asked.path())
        .args(&tables)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success(), "seed {seed}: {said}{}", String::from_utf8_lossy(&compared.stderr));
    println!("{said}");
}
