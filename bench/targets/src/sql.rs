//! SQL texts for tables, writes and queries, by dialect, and the values of their parameters.

use crate::tsbs::{self, Newest};
use arrow::array::RecordBatch;
use arrow::compute::{cast, concat_batches};
use chrono::{DateTime, NaiveDateTime};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::Cell;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::statement::Parameter;
use fleetdb_bench_core::table::{Column, ColumnType, Table, schema};
use fleetdb_bench_core::workload::cpu::FIELDS;
use std::collections::HashMap;

const HOUR_S: i64 = 3_600;
const MINUTE_S: i64 = 60;

/// How a database writes SQL.
pub(crate) struct Dialect {
    /// The name of a type.
    pub(crate) types: fn(ColumnType) -> &'static str,
    /// A parameter, numbered from 1.
    pub(crate) parameter: fn(usize) -> String,
    /// A parameter for a time.
    pub(crate) time: fn(usize) -> String,
    /// The start of a row's bucket, given its width in seconds.
    pub(crate) bucket: fn(i64) -> String,
    /// The newest row of each host, with the given columns.
    pub(crate) last_of_all: fn(&str) -> String,
    /// The newest row of each truck of a fleet.
    pub(crate) newest: Newest,
    /// The average of an integer column, as a float.
    pub(crate) average: fn(&str) -> String,
    /// The start of a bucket in nanoseconds since 1970, as an integer.
    pub(crate) bucket_ns: fn(&str) -> String,
}

/// `$1`.
pub(crate) fn dollar(number: usize) -> String {
    format!("${number}")
}

/// `?`.
pub(crate) fn question(_: usize) -> String {
    "?".to_owned()
}

/// The form for PostgreSQL, FleetDB and DuckDB.
pub(crate) fn distinct_on(columns: &str) -> String {
    format!("SELECT DISTINCT ON (hostname) {columns} FROM cpu ORDER BY hostname, ts DESC")
}

/// The names of columns, separated by commas.
pub(crate) fn names<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    columns.into_iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// An INSERT of rows that replace those with the same keys, in PostgreSQL's form.
pub(crate) fn upsert(table: &Table, rows: &str) -> String {
    upsert_of(table, rows, |_| true)
}

/// The same, but of a row with the same key only these fields are replaced.
fn upsert_of(table: &Table, rows: &str, is_replaced: fn(ColumnType) -> bool) -> String {
    let set = table.fields().filter(|(_, kind)| is_replaced(*kind));
    let set: Vec<String> = set.map(|(name, _)| format!("{name} = excluded.{name}")).collect();
    let insert = format!("INSERT INTO {} ({}) {rows}", table.name, names(&table.columns));
    match set.is_empty() {
        true => insert,
        false => format!("{insert} ON CONFLICT ({}) DO UPDATE SET {}", table.key.join(", "), set.join(", ")),
    }
}

/// Cached texts of inserts, by table and number of rows: for some targets, building one takes
/// longer than running it.
#[derive(Default)]
pub(crate) struct Inserts(HashMap<(&'static str, usize), String>);

impl Inserts {
    /// The text for a table and a number of rows; `make` is called once.
    pub(crate) fn text(&mut self, table: &Table, rows: usize, make: impl FnOnce() -> String) -> &str {
        self.0.entry((table.name, rows)).or_insert_with(make)
    }
}

impl Dialect {
    /// The statement that creates a table. In a database started here the table may exist from an
    /// earlier start; at a URL it must not exist.
    pub(crate) fn create(&self, table: &Table, is_ours: bool) -> String {
        let unless = if is_ours { "IF NOT EXISTS " } else { "" };
        format!("CREATE TABLE {unless}{} ({})", table.name, self.columns(table))
    }

    /// The columns of a table with their types, and its key.
    pub(crate) fn columns(&self, table: &Table) -> String {
        let columns = table.columns.iter().map(|(name, kind)| {
            let not_null = if table.key.contains(name) { " NOT NULL" } else { "" };
            format!("{name} {}{not_null}", (self.types)(*kind))
        });
        format!("{}, PRIMARY KEY ({})", columns.collect::<Vec<_>>().join(", "), table.key.join(", "))
    }

    /// The parameters for a row, numbered from `first`.
    pub(crate) fn row(&self, table: &Table, first: usize) -> String {
        let parameters = table.columns.iter().enumerate().map(|(place, (_, kind))| match kind {
            ColumnType::Time => (self.time)(first + place),
            _ => (self.parameter)(first + place),
        });
        format!("({})", parameters.collect::<Vec<_>>().join(", "))
    }

    /// The statement that upserts one row in each table; it is a transaction without BEGIN and
    /// COMMIT.
    ///
    /// # Errors
    /// There is no table.
    pub(crate) fn row_of_each<'a>(&self, tables: impl Iterator<Item = &'a Table>) -> Outcome<String> {
        let mut first = 1;
        let inserts = tables.map(|table| {
            let row = self.row(table, first);
            first += table.columns.len();
            upsert(table, &format!("VALUES {row}"))
        });
        let mut inserts: Vec<String> = inserts.collect();
        let last = inserts.pop().ok_or("a row of no table")?;
        let before = (1..).zip(&inserts).map(|(row, insert)| format!("row{row} AS ({insert})"));
        let before = before.collect::<Vec<_>>().join(", ");
        Ok(if before.is_empty() { last } else { format!("WITH {before} {last}") })
    }

    /// The statement that adds a row, or changes only the times of the one with its key.
    pub(crate) fn partial_upsert(&self, table: &Table) -> String {
        upsert_of(table, &format!("VALUES {}", self.row(table, 1)), |kind| kind == ColumnType::Time)
    }

    /// The condition for a window, whose parameters are numbered from `first`.
    pub(crate) fn window(&self, first: usize) -> String {
        format!("ts >= {} AND ts < {}", (self.time)(first), (self.time)(first + 1))
    }

    /// A form's text with this dialect's parameters.
    pub(crate) fn prepared(&self, text: &str, values: &[Parameter]) -> String {
        replaced(text, values, |number, value| match value {
            Parameter::Time(_) => (self.time)(number),
            _ => (self.parameter)(number),
        })
    }

    /// The text of a query; [`parameters`] has its values.
    pub(crate) fn query(&self, query: &Query) -> String {
        let columns = query.columns();
        let window = |first: usize| self.window(first);
        let one = (self.parameter)(1);
        match query {
            Query::Count(table) => format!("SELECT count(*) FROM {table}"),
            Query::Bill { .. } => {
                format!("SELECT sum(usage_since_read) FROM meter_reads WHERE meter_id = {one} AND {}", window(2))
            }
            Query::Rows { of, .. } => {
                let (columns, table, key) = (names(&columns), of.name, of.key[0]);
                format!("SELECT {columns} FROM {table} WHERE {key} = {one} AND {} ORDER BY ts", window(2))
            }
            Query::HourlyMaxima { hosts, .. } => {
                let maxima: Vec<String> = FIELDS.iter().map(|field| format!("max({field})")).collect();
                let places: Vec<String> = (1..=hosts.len()).map(self.parameter).collect();
                format!(
                    "SELECT {} AS bucket, {} FROM cpu WHERE hostname IN ({}) AND {} GROUP BY 1 ORDER BY 1",
                    (self.bucket)(HOUR_S),
                    maxima.join(", "),
                    places.join(", "),
                    window(hosts.len() + 1)
                )
            }
            Query::MinuteMaxima { .. } => format!(
                "SELECT {} AS bucket, max({}) FROM cpu WHERE hostname = {one} AND {} GROUP BY 1 ORDER BY 1",
                (self.bucket)(MINUTE_S),
                FIELDS[0],
                window(2)
            ),
            Query::LastOfAll => (self.last_of_all)(&names(&columns)),
            Query::Last { of, .. } => {
                let (columns, table, key) = (names(&columns), of.name, of.key[0]);
                format!("SELECT {columns} FROM {table} WHERE {key} = {one} ORDER BY ts DESC LIMIT 1")
            }
            Query::Tsbs(question) => self.tsbs(question),
        }
    }
}

/// The values of a query's parameters.
pub(crate) fn parameters(query: &Query) -> Vec<Cell<'_>> {
    match query {
        Query::Count(_) | Query::LastOfAll => Vec::new(),
        Query::Bill { meter, window_ns } => vec![Cell::Int(*meter), Cell::Time(window_ns.0), Cell::Time(window_ns.1)],
        Query::Rows { key, window_ns, .. } => vec![key.cell(), Cell::Time(window_ns.0), Cell::Time(window_ns.1)],
        Query::MinuteMaxima { host, window_ns } => {
            vec![Cell::Text(host), Cell::Time(window_ns.0), Cell::Time(window_ns.1)]
        }
        Query::HourlyMaxima { hosts, window_ns } => {
            let hosts = hosts.iter().map(|host| Cell::Text(host));
            hosts.chain([Cell::Time(window_ns.0), Cell::Time(window_ns.1)]).collect()
        }
        Query::Last { key, .. } => vec![key.cell()],
        Query::Tsbs(question) => tsbs::parameters(question),
    }
}

/// A form's text with its values as literals, given how a time is written.
pub(crate) fn with_literals(text: &str, values: &[Parameter], time: fn(i64) -> String) -> String {
    replaced(text, values, |_, value| match value {
        Parameter::Int(value) => value.to_string(),
        Parameter::Float(value) => format!("{value:?}"),
        Parameter::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Parameter::Time(ns) => time(*ns),
    })
}

/// A time as a literal in quotes, in UTC.
pub(crate) fn quoted_time(ns: i64) -> String {
    format!("'{}'", DateTime::from_timestamp_nanos(ns).format("%Y-%m-%d %H:%M:%S"))
}

/// Parses a time without a zone, as databases write it, in UTC.
pub(crate) fn time_of_text(text: &str) -> Outcome<i64> {
    let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f")?;
    Ok(time.and_utc().timestamp_nanos_opt().ok_or("a time is out of range")?)
}

/// Replaces each `?` of a text, given its number from 1 and its value.
fn replaced(text: &str, values: &[Parameter], mut with: impl FnMut(usize, &Parameter) -> String) -> String {
    let mut parts = text.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.zip(values).enumerate();
    rest.fold(first, |text, (place, (part, value))| text + &with(place + 1, value) + part)
}

/// A parameter as a cell.
pub(crate) fn cell_of(parameter: &Parameter) -> Cell<'_> {
    match parameter {
        Parameter::Int(value) => Cell::Int(*value),
        Parameter::Float(value) => Cell::Float(*value),
        Parameter::Text(text) => Cell::Text(text),
        Parameter::Time(ns) => Cell::Time(*ns),
    }
}

/// Casts an answer that arrived as Arrow to the query's own types.
pub(crate) fn conform(query: &Query, batches: &[RecordBatch]) -> Outcome<RecordBatch> {
    conform_to(&query.columns(), batches)
}

/// Casts an answer that arrived as Arrow to the types of these columns.
pub(crate) fn conform_to(columns: &[Column], batches: &[RecordBatch]) -> Outcome<RecordBatch> {
    let schema = schema(columns);
    let Some(first) = batches.first() else { return Ok(RecordBatch::new_empty(schema)) };
    let all = concat_batches(first.schema_ref(), batches)?;
    if all.num_columns() != schema.fields().len() {
        return Err(format!("received {} columns instead of {}", all.num_columns(), schema.fields().len()).into());
    }
    let columns = all.columns().iter().zip(schema.fields()).map(|(column, field)| cast(column, field.data_type()));
    Ok(RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)?)
}
