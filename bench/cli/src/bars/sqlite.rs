//! SQLite: as published in E2 (no log, 32 rows per statement, text times), and durable.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef};
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{Cell, cells};
use fleetdb_bench_core::workload::cpu::{FIELDS, TAGS};
use fleetdb_bench_targets::sqlite::value;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::path::Path;

/// Rows per INSERT statement, as published.
const PUBLISHED_ROWS: usize = 32;

/// An SQLite database with E2's table.
pub struct Sqlite {
    connection: Connection,
    mode: Mode,
}

/// How SQLite is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As published in E2.
    Published,
    /// Integer times, no rowid, a durable transaction for each batch.
    Durable,
    /// The same table loaded in one transaction without durability, for queries.
    Queries,
}

impl Sqlite {
    pub fn open(directory: &Path, mode: Mode) -> Outcome<Self> {
        let connection = Connection::open(directory.join("cpu.sqlite"))?;
        let published = mode == Mode::Published;
        let (journal, synchronous) = if mode == Mode::Durable { ("WAL", "FULL") } else { ("OFF", "OFF") };
        connection.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(()))?;
        connection.execute_batch(&format!("PRAGMA synchronous = {synchronous}"))?;
        let time = if published { "TEXT" } else { "INTEGER" };
        let tags: String = TAGS.iter().map(|tag| format!("{tag} TEXT, ")).collect();
        let fields: String = FIELDS.iter().map(|field| format!("{field} INTEGER, ")).collect();
        let without_rowid = if published { "" } else { " WITHOUT ROWID" };
        connection.execute_batch(&format!(
            "CREATE TABLE cpu ({tags}ts {time}, {fields}PRIMARY KEY (hostname, ts)){without_rowid}"
        ))?;
        connection.set_prepared_statement_cache_capacity(4);
        if mode == Mode::Queries {
            connection.execute_batch("PRAGMA cache_size = -1000000; BEGIN")?;
        }
        Ok(Self { connection, mode })
    }

    /// Ends the load.
    pub fn finish(&self) -> Outcome<()> {
        self.connection.execute_batch("COMMIT; ANALYZE")?;
        Ok(())
    }

    /// Opens a loaded database.
    pub fn reopen(directory: &Path) -> Outcome<Self> {
        let connection = Connection::open(directory.join("cpu.sqlite"))?;
        connection.execute_batch("PRAGMA cache_size = -1000000")?;
        Ok(Self { connection, mode: Mode::Queries })
    }

    /// Runs a prepared query to its end and passes the values of each row to `each`.
    pub fn each(&self, sql: &str, mut each: impl FnMut(&[ValueRef<'_>])) -> Outcome<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let count = statement.column_count();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let mut values = Vec::with_capacity(count);
            for column in 0..count {
                values.push(row.get_ref(column)?);
            }
            each(&values);
        }
        Ok(())
    }

    /// Writes a batch to a table, which the first batch creates; its first column and `ts` are the
    /// key.
    pub fn add_to(&self, table: &str, rows: &RecordBatch) -> Outcome<()> {
        let schema = rows.schema();
        let column = |field: &FieldRef| format!("{} {}", field.name(), sqlite_type(field.data_type()));
        let columns: Vec<String> = schema.fields().iter().map(column).collect();
        let key = schema.field(0).name();
        self.connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {table} ({}, PRIMARY KEY ({key}, ts)) WITHOUT ROWID",
            columns.join(", ")
        ))?;
        let places = vec!["?"; rows.num_columns()].join(",");
        let mut statement = self.connection.prepare_cached(&format!("INSERT INTO {table} VALUES ({places})"))?;
        for row in 0..rows.num_rows() {
            for (place, cell) in cells(rows, row).enumerate() {
                statement.raw_bind_parameter(place + 1, value(cell))?;
            }
            statement.raw_execute()?;
        }
        Ok(())
    }

    /// Writes a batch: in one durable transaction, or as published with 32 rows per statement.
    pub fn write(&mut self, rows: &RecordBatch) -> Outcome<()> {
        let per_statement = if self.mode == Mode::Published { PUBLISHED_ROWS } else { 1 };
        if self.mode == Mode::Durable {
            self.connection.execute_batch("BEGIN")?;
        }
        for start in (0..rows.num_rows()).step_by(per_statement) {
            self.insert(rows, start, per_statement.min(rows.num_rows() - start))?;
        }
        if self.mode == Mode::Durable {
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    fn insert(&self, rows: &RecordBatch, start: usize, len: usize) -> Outcome<()> {
        let row = format!("({})", vec!["?"; rows.num_columns()].join(","));
        let sql = format!("INSERT OR REPLACE INTO cpu VALUES {}", vec![row; len].join(","));
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut place = 1;
        for row in start..start + len {
            for cell in cells(rows, row) {
                match cell {
                    Cell::Time(ns) if self.mode == Mode::Published => {
                        statement.raw_bind_parameter(place, time_text(ns))?;
                    }
                    cell => statement.raw_bind_parameter(place, value(cell))?,
                }
                place += 1;
            }
        }
        statement.raw_execute()?;
        Ok(())
    }

    /// The number of rows.
    pub fn count(&self) -> Outcome<u64> {
        Ok(self.connection.query_row("SELECT count(*) FROM cpu", [], |row| row.get(0))?)
    }
}

/// A time in the published form.
fn time_text(ns: i64) -> String {
    let time = arrow::temporal_conversions::timestamp_ns_to_datetime(ns);
    time.map(|time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}

fn sqlite_type(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Utf8 => "TEXT",
        DataType::Float64 => "REAL",
        _ => "INTEGER",
    }
}
