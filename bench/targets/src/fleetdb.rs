//! FleetDB inside the client's process: batches go to the engine, and queries are prepared SQL.

use crate::sql::{Dialect, cell_of, conform_to, distinct_on, dollar, parameters, quoted_time, with_literals};
use crate::tsbs::{newest_distinct, plain_average};
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::Cell;
use fleetdb_bench_core::meters::disk_bytes;
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::statement::{Form, Parameter};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::{Connection, Entry, Info, Profile, Start, Target, Tier};
use fleetdb_engine::io::Io;
use fleetdb_engine::{Batch, Database, Durability, Settings, TableDefinition, Unit, Value};
use fleetdb_postgres::Postgres;
use fleetdb_query::{InsertValues, KeyedWrite, Prepared, Session, Zone};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The entry in the list of targets.
pub const ENTRY: Entry = Entry {
    name: "fleetdb",
    about: "FleetDB, embedded",
    missing: Some(crate::nothing),
    url: None,
    start: |start| open(start, Settings::default()),
};

/// The entry of FleetDB as a device with little memory uses it.
pub const EDGE: Entry = Entry {
    name: "fleetdb-edge",
    about: "FleetDB, embedded, with the settings for little memory",
    missing: Some(crate::nothing),
    url: None,
    start: |start| open(start, Settings::edge()),
};

/// FleetDB's SQL.
pub(crate) const DIALECT: Dialect = Dialect {
    types: |kind| match kind {
        ColumnType::Int => "BIGINT",
        ColumnType::Float => "DOUBLE",
        ColumnType::Text | ColumnType::Json => "TEXT",
        ColumnType::Time => "TIMESTAMP",
    },
    parameter: dollar,
    time: dollar,
    bucket: |seconds| format!("time_bucket('{seconds} seconds', ts)"),
    last_of_all: distinct_on,
    newest: newest_distinct,
    average: plain_average,
    bucket_ns: |bucket| format!("CAST({bucket} AS BIGINT)"),
};

/// Converts a table to the engine's definition.
pub fn definition(table: &Table) -> TableDefinition {
    table.columns.iter().fold(TableDefinition::new(table.name), |definition, (name, kind)| {
        let is_key = table.key.contains(name);
        let column_type = match kind {
            ColumnType::Int => fleetdb_engine::ColumnType::Int64,
            ColumnType::Float => fleetdb_engine::ColumnType::Float64,
            ColumnType::Text | ColumnType::Json => fleetdb_engine::ColumnType::Utf8,
            ColumnType::Time if is_key => return definition.time(name, Unit::Nanosecond),
            ColumnType::Time => fleetdb_engine::ColumnType::Timestamp(Unit::Nanosecond),
        };
        if is_key { definition.key(name, column_type) } else { definition.field(name, column_type) }
    })
}

/// How queries reach the engine.
pub(crate) struct Access {
    /// Opens a connection.
    pub(crate) connect: fn(&Arc<Database>) -> Outcome<Box<dyn Connection>>,
    /// See [`Target::unsupported`].
    pub(crate) unsupported: fn(&Query) -> Option<&'static str>,
    /// See [`Target::takes_statements`].
    pub(crate) takes_statements: bool,
}

struct FleetDb {
    db: Arc<Database>,
    directory: PathBuf,
    access: Access,
}

fn open(start: &Start<'_>, settings: Settings) -> Outcome<Box<dyn Target>> {
    opened(start, settings, Access { connect, unsupported: |_| None, takes_statements: true })
}

fn connect(db: &Arc<Database>) -> Outcome<Box<dyn Connection>> {
    Ok(Box::new(Embedded { db: Arc::clone(db), session: None, prepared: HashMap::new(), writes: HashMap::new() }))
}

/// Opens the database.
pub(crate) fn opened(start: &Start<'_>, settings: Settings, access: Access) -> Outcome<Box<dyn Target>> {
    let durability = match start.profile {
        Profile::Fair => Durability::Sync,
        Profile::Published => Durability::Os,
    };
    let db = Arc::new(Database::open_with(Io::files(start.directory), Settings { durability, ..settings })?);
    Ok(Box::new(FleetDb { db, directory: start.directory.to_owned(), access }))
}

/// Writes rows as one batch.
pub(crate) fn write(db: &Database, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
    db.commit(writes.iter().fold(Batch::new(), |batch, (table, rows)| batch.with(table.name, rows.clone())))?;
    Ok(())
}

impl Target for FleetDb {
    fn info(&self) -> Info {
        let settings = self.db.settings();
        let tier = match settings.durability {
            Durability::Sync | Durability::Shared => Tier::T3,
            Durability::Interval => Tier::T2,
            Durability::Os => Tier::T1,
        };
        let changed = settings.list().into_iter().zip(Settings::default().list()).filter(|(own, usual)| own != usual);
        let settings = changed.map(|((name, value, ..), _)| format!("{name} = {value}")).collect();
        Info { version: env!("CARGO_PKG_VERSION").to_owned(), tier, settings }
    }

    fn create(&mut self, tables: &[Table]) -> Outcome<()> {
        for table in tables {
            if self.db.table(table.name).is_err() {
                self.db.create_table(&definition(table))?;
            }
        }
        Ok(())
    }

    fn connect(&self) -> Outcome<Box<dyn Connection>> {
        (self.access.connect)(&self.db)
    }

    /// Flushes and merges everything, which is more than the background would do.
    fn settle(&mut self) -> Outcome<()> {
        Ok(self.db.settle()?)
    }

    fn disk_bytes(&self) -> Outcome<u64> {
        disk_bytes(&self.directory)
    }

    fn takes_statements(&self) -> bool {
        self.access.takes_statements
    }

    fn unsupported(&self, query: &Query) -> Option<&'static str> {
        (self.access.unsupported)(query)
    }
}

struct Embedded {
    db: Arc<Database>,
    /// Opened by the first query: the memory of connections that only write is the engine's.
    session: Option<Arc<Session>>,
    prepared: HashMap<String, Prepared<Arc<Session>>>,
    /// Prepared statements that write.
    writes: HashMap<&'static str, Write>,
}

/// A prepared statement that writes.
enum Write {
    Insert(InsertValues),
    Keyed(KeyedWrite),
    /// Sent as text, because the statement must be planned with its values.
    Planned,
}

impl Embedded {
    fn session(&mut self) -> Outcome<Arc<Session>> {
        let session = match &self.session {
            Some(session) => session,
            None => self.session.insert(Arc::new(Session::new(Arc::clone(&self.db), Postgres::new())?)),
        };
        Ok(Arc::clone(session))
    }

    fn ask(&mut self, text: String, values: &[Value], columns: &[Column]) -> Outcome<RecordBatch> {
        if !self.prepared.contains_key(&text) {
            let session = self.session()?;
            let statement = session.parse_one(&text)?;
            self.prepared.insert(text.clone(), Prepared::new(session, statement)?);
        }
        conform_to(columns, &self.prepared[&text].query(values)?)
    }

    fn run_write(&mut self, form: &Form, parameters: &[Parameter]) -> Outcome<()> {
        let session = self.session()?;
        let text = &DIALECT.prepared(&form.text, parameters);
        let values: &Vec<Value> = &parameters.iter().map(|value| value_of(cell_of(value))).collect();
        if !self.writes.contains_key(form.name) {
            let statement = session.parse_one(text)?;
            let write = match InsertValues::of(&statement, &self.db, Zone::Utc)? {
                Some(insert) => Write::Insert(insert),
                None => KeyedWrite::of(&statement, &self.db, Zone::Utc).map_or(Write::Planned, Write::Keyed),
            };
            self.writes.insert(form.name, write);
        }
        match &self.writes[form.name] {
            Write::Insert(insert) => {
                let mut rows = Batch::new();
                insert.push(&self.db, values, &mut rows)?;
                self.db.commit(rows)?;
            }
            Write::Keyed(write) => drop(session.run_keyed(write, values)?.ok_or("it must be planned")?),
            Write::Planned => drop(session.sql(&with_literals(&form.text, parameters, quoted_time))?),
        }
        Ok(())
    }
}

fn value_of(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(value) | Cell::Time(value) => Value::Int(value),
        Cell::Float(value) => Value::Float(value),
        Cell::Text(value) => Value::Text(value.to_owned()),
    }
}

impl Connection for Embedded {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        write(&self.db, writes)
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        let values: Vec<Value> = parameters(query).into_iter().map(value_of).collect();
        self.ask(DIALECT.query(query), &values, &query.columns())
    }

    fn execute(&mut self, form: &Form, values: &[Parameter], is_prepared: bool) -> Outcome<RecordBatch> {
        if !is_prepared {
            let text = with_literals(&form.text, values, quoted_time);
            return conform_to(form.columns, &self.session()?.sql(&text)?.collect()?);
        }
        if form.columns.is_empty() {
            self.run_write(form, values)?;
            return conform_to(&[], &[]);
        }
        let text = DIALECT.prepared(&form.text, values);
        let values: Vec<Value> = values.iter().map(|value| value_of(cell_of(value))).collect();
        self.ask(text, &values, form.columns)
    }
}
