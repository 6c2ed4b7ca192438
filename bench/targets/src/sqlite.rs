//! SQLite inside the client's process, one connection per thread.

use crate::sql::{Dialect, Inserts, cell_of, names, parameters, question, with_literals};
use crate::tsbs::{plain_average, plain_bucket};
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::statement::{Form, Parameter};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The entry in the list of targets.
pub const ENTRY: Entry =
    Entry { name: "sqlite", about: "SQLite, embedded", missing: Some(crate::nothing), url: None, start: open };

/// Rows per statement, as published.
const PUBLISHED_ROWS: usize = 32;
/// How long a writer waits for another one.
const BUSY_LIMIT: Duration = Duration::from_secs(60);

const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int | ColumnType::Time => "INTEGER",
        ColumnType::Float => "REAL",
        ColumnType::Text | ColumnType::Json => "TEXT",
    },
    parameter: question,
    time: question,
    bucket: |seconds| format!("ts / {0} * {0}", seconds * 1_000_000_000),
    // A loose index scan: finds the newest row of each host by the key, one host after another.
    last_of_all: |columns| {
        format!(
            "WITH RECURSIVE hosts(host) AS (SELECT min(hostname) FROM cpu UNION ALL \
             SELECT (SELECT min(hostname) FROM cpu WHERE hostname > host) FROM hosts WHERE host IS NOT NULL) \
             SELECT {columns} FROM hosts JOIN cpu ON hostname = host \
             AND ts = (SELECT max(ts) FROM cpu WHERE hostname = host)"
        )
    },
    // Bare columns take their values from the row with the maximum; see `PUBLISHED`.
    newest: |table, columns, parameter| {
        format!("SELECT {columns}, max(ts) AS ts FROM {table} WHERE fleet = {parameter} GROUP BY name")
    },
    average: plain_average,
    bucket_ns: plain_bucket,
};

/// The usual form, which uses SQLite's documented extension: bare columns take their values from
/// the row with the maximum. It reads all rows.
const PUBLISHED: Dialect = Dialect {
    last_of_all: |columns| format!("SELECT {} FROM cpu GROUP BY hostname", columns.replace(", ts,", ", max(ts),")),
    ..DIALECT
};

struct Sqlite {
    directory: PathBuf,
    profile: Profile,
}

fn open(start: &Start<'_>) -> Outcome<Box<dyn Target>> {
    Ok(Box::new(Sqlite { directory: start.directory.to_owned(), profile: start.profile }))
}

/// Journal and sync settings; the publication used neither.
fn journal(profile: Profile) -> [&'static str; 2] {
    match profile {
        Profile::Fair => ["journal_mode = WAL", "synchronous = FULL"],
        Profile::Published => ["journal_mode = OFF", "synchronous = OFF"],
    }
}

fn connect(directory: &Path, profile: Profile) -> Outcome<rusqlite::Connection> {
    let connection = rusqlite::Connection::open(directory.join("sqlite"))?;
    connection.busy_timeout(BUSY_LIMIT)?;
    let [mode, synchronous] = journal(profile);
    connection.query_row(&format!("PRAGMA {mode}"), [], |_| Ok(()))?;
    connection.execute_batch(&format!("PRAGMA {synchronous}; PRAGMA cache_size = -262144"))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

impl Target for Sqlite {
    fn info(&self) -> Info {
        let mut settings: Vec<String> = journal(self.profile).map(str::to_owned).to_vec();
        settings.push("cache 256 MB".to_owned());
        let tier = if self.profile == Profile::Fair { Tier::T3 } else { Tier::T0 };
        Info { version: rusqlite::version().to_owned(), tier, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        let connection = connect(&self.directory, self.profile)?;
        for table in tables {
            // As published: a rowid in addition to the key.
            let rowid = if self.profile == Profile::Fair { " WITHOUT ROWID" } else { "" };
            connection.execute_batch(&format!("{}{rowid}", DIALECT.create(table, true)))?;
        }
        Ok(())
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        let (per_statement, dialect) =
            if self.profile == Profile::Fair { (1, &DIALECT) } else { (PUBLISHED_ROWS, &PUBLISHED) };
        let connection = connect(&self.directory, self.profile)?;
        Ok(Box::new(Open { connection, per_statement, dialect, inserts: Inserts::default() }))
    }

    fn settle(&mut self) -> Outcome<()> {
        let connection = connect(&self.directory, self.profile)?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        disk_bytes(&self.directory)
    }

    fn takes_statements(&self) -> bool {
        true
    }
}

struct Open {
    connection: rusqlite::Connection,
    per_statement: usize,
    dialect: &'static Dialect,
    inserts: Inserts,
}

impl Open {
    fn insert(&mut self, table: &Table, rows: &RecordBatch) -> Outcome<()> {
        for first in (0..rows.num_rows()).step_by(self.per_statement) {
            let count = self.per_statement.min(rows.num_rows() - first);
            let text = self.inserts.text(table, count, || {
                let values = vec![DIALECT.row(table, 1); count].join(", ");
                format!("INSERT OR REPLACE INTO {} ({}) VALUES {values}", table.name, names(&table.columns))
            });
            let mut statement = self.connection.prepare_cached(text)?;
            let all = (first..first + count).flat_map(|row| cells(rows, row));
            for (place, cell) in all.enumerate() {
                statement.raw_bind_parameter(place + 1, value(cell))?;
            }
            statement.raw_execute()?;
        }
        Ok(())
    }
}

impl Connection for Open {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        // A transaction that starts as a writer never has to give up midway.
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        for (table, rows) in writes {
            self.insert(table, rows)?;
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let mut statement = self.connection.prepare_cached(&self.dialect.query(query))?;
        answer(&mut statement, parameters(query), &query.columns())
    }

    fn execute(&mut self, form: &Form, values: &[Parameter], is_prepared: bool) -> Outcome<RecordBatch> {
        if is_prepared {
            let mut statement = self.connection.prepare_cached(&self.dialect.prepared(&form.text, values))?;
            return answer(&mut statement, values.iter().map(cell_of), form.columns);
        }
        let text = with_literals(&form.text, values, |ns| ns.to_string());
        answer(&mut self.connection.prepare(&text)?, [], form.columns)
    }
}

/// Runs a statement.
fn answer<'c>(
    statement: &mut rusqlite::Statement<'_>,
    values: impl IntoIterator<Item = Cell<'c>>,
    columns: &[Column],
) -> Outcome<RecordBatch> {
    for (place, cell) in values.into_iter().enumerate() {
        statement.raw_bind_parameter(place + 1, value(cell))?;
    }
    let mut answer = AnswerBuilder::new(columns);
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        for place in 0..columns.len() {
            answer.push(match row.get_ref(place)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(value) => Cell::Int(value),
                ValueRef::Real(value) => Cell::Float(value),
                ValueRef::Text(text) => Cell::Text(std::str::from_utf8(text)?),
                ValueRef::Blob(_) => return Err("unexpected blob".into()),
            })?;
        }
    }
    answer.finish()
}

/// A cell as a parameter; times are integers.
fn value(cell: Cell<'_>) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match cell {
        Cell::Null => ValueRef::Null,
        Cell::Int(value) | Cell::Time(value) => ValueRef::Integer(value),
        Cell::Float(value) => ValueRef::Real(value),
        Cell::Text(text) => ValueRef::Text(text.as_bytes()),
    })
}
