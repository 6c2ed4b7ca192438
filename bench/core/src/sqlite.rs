//! SQLite: as published in E2 (no log, 32-row statements, text times), and durable.

use crate::Outcome;
use crate::workload::{FIELDS, TAGS};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampNanosecondType};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, ToSql};
use std::path::Path;

/// Rows of one INSERT statement as published.
const PUBLISHED_ROWS: usize = 32;

/// An SQLite database with E2's table.
pub struct Sqlite {
    connection: Connection,
    durable: bool,
}

impl Sqlite {
    pub fn open(directory: &Path, durable: bool) -> Outcome<Self> {
        let connection = Connection::open(directory.join("cpu.sqlite"))?;
        let (journal, synchronous) = if durable { ("WAL", "FULL") } else { ("OFF", "OFF") };
        connection.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(()))?;
        connection.execute_batch(&format!("PRAGMA synchronous = {synchronous}"))?;
        let time = if durable { "INTEGER" } else { "TEXT" };
        let tags: String = TAGS.iter().map(|tag| format!("{tag} TEXT, ")).collect();
        let fields: String = FIELDS.iter().map(|field| format!("{field} INTEGER, ")).collect();
        let without_rowid = if durable { " WITHOUT ROWID" } else { "" };
        connection.execute_batch(&format!(
            "CREATE TABLE cpu ({tags}ts {time}, {fields}PRIMARY KEY (hostname, ts)){without_rowid}"
        ))?;
        connection.set_prepared_statement_cache_capacity(4);
        Ok(Self { connection, durable })
    }

    /// Writes a batch: one durable transaction, or 32 rows a statement as published.
    pub fn write(&mut self, rows: &RecordBatch) -> Outcome<()> {
        let per_statement = if self.durable { 1 } else { PUBLISHED_ROWS };
        if self.durable {
            self.connection.execute_batch("BEGIN")?;
        }
        for start in (0..rows.num_rows()).step_by(per_statement) {
            self.insert(rows, start, per_statement.min(rows.num_rows() - start))?;
        }
        if self.durable {
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
            for (number, column) in rows.columns().iter().enumerate() {
                match number {
                    0..10 => statement.raw_bind_parameter(place, column.as_string::<i32>().value(row))?,
                    10 => {
                        let time = column.as_primitive::<TimestampNanosecondType>();
                        statement.raw_bind_parameter(place, Time { ns: time.value(row), text: !self.durable })?;
                    }
                    _ => statement.raw_bind_parameter(place, column.as_primitive::<Int64Type>().value(row))?,
                }
                place += 1;
            }
        }
        statement.raw_execute()?;
        Ok(())
    }

    /// How many rows there are.
    pub fn count(&self) -> Outcome<u64> {
        Ok(self.connection.query_row("SELECT count(*) FROM cpu", [], |row| row.get(0))?)
    }
}

struct Time {
    ns: i64,
    text: bool,
}

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if !self.text {
            return Ok(self.ns.into());
        }
        let seconds = arrow::temporal_conversions::timestamp_ns_to_datetime(self.ns);
        Ok(seconds.map(|time| time.format("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default().into())
    }
}
