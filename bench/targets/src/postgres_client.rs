//! The client of PostgreSQL's protocol, for PostgreSQL and for FleetDB's server.
//!
//! Single rows are upserts; those of several tables form one statement (`WITH a AS (INSERT ...)
//! INSERT ...`). Many rows are one `INSERT` from arrays (`unnest`), as PostgreSQL's documentation
//! recommends where COPY cannot upsert; or COPY. Where COPY can upsert, few rows are one `INSERT ...
//! VALUES` with a parameter for each cell, because COPY waits for the server once more.

use crate::sql::{Dialect, cell_of, names, parameters, quoted_time, time_of_text, upsert, with_literals};
use arrow::array::RecordBatch;
use fleetdb_bench_core::Outcome;
use fleetdb_bench_core::answer::{AnswerBuilder, Cell, cells};
use fleetdb_bench_core::query::Query;
use fleetdb_bench_core::statement::{Form, Parameter as FormParameter};
use fleetdb_bench_core::table::{Column, ColumnType, Table};
use fleetdb_bench_core::target::Connection;
use std::collections::HashMap;
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls, Row, SimpleQueryMessage, Statement};

/// How many rows are written at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BulkInsert {
    /// `INSERT ... SELECT * FROM unnest(...) ON CONFLICT`.
    Arrays,
    /// `COPY ... (FORMAT binary)`, for a server that replaces rows with existing keys; up to
    /// [`MAX_ROWS_OF_INSERT`] rows by `INSERT ... VALUES ... ON CONFLICT`.
    Copy,
}

/// See [`BulkInsert::Copy`].
const MAX_ROWS_OF_INSERT: usize = 100;
/// The most parameters that the protocol can count.
const MAX_PARAMETERS: usize = u16::MAX as usize;

/// A connection over the PostgreSQL protocol, with a runtime for its thread.
pub(crate) struct Wire {
    client: Client,
    statements: HashMap<String, Statement>,
    /// Statements that write one row to each table, by the tables.
    single: HashMap<Vec<&'static str>, Statement>,
    /// Statements that write many rows from arrays, by table.
    arrays: HashMap<&'static str, Statement>,
    /// Statements that write this many rows from parameters, by table.
    rows: HashMap<(&'static str, usize), Statement>,
    dialect: &'static Dialect,
    bulk: BulkInsert,
    // Dropped after the client, which lives in it.
    runtime: Runtime,
}

impl Wire {
    /// Connects to an address in libpq's form: a URL, or pairs of names and values.
    pub(crate) fn connect(address: &str, dialect: &'static Dialect, bulk: BulkInsert) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        })?;
        Ok(Self {
            client,
            statements: HashMap::new(),
            single: HashMap::new(),
            arrays: HashMap::new(),
            rows: HashMap::new(),
            dialect,
            bulk,
            runtime,
        })
    }

    /// Runs a statement.
    pub(crate) fn run(&mut self, text: &str) -> Outcome<()> {
        self.runtime.block_on(self.client.batch_execute(text)).map_err(|e| said(&e))
    }

    /// The first cell of a query's answer.
    pub(crate) fn text(&mut self, query: &str) -> Outcome<String> {
        Ok(self.runtime.block_on(self.client.query_one(query, &[]))?.get(0))
    }

    fn statement(&mut self, text: String) -> Outcome<Statement> {
        if let Some(known) = self.statements.get(&text) {
            return Ok(known.clone());
        }
        let statement = self.runtime.block_on(self.client.prepare(&text)).map_err(|e| said(&e))?;
        self.statements.insert(text, statement.clone());
        Ok(statement)
    }

    /// Runs a prepared statement.
    fn ask<'c>(
        &mut self,
        text: String,
        values: impl IntoIterator<Item = Cell<'c>>,
        columns: &[Column],
    ) -> Outcome<RecordBatch> {
        let statement = self.statement(text)?;
        let values: Vec<Parameter<'_>> = values.into_iter().map(Parameter).collect();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let rows = self.runtime.block_on(self.client.query(&statement, &values)).map_err(|e| said(&e))?;
        let mut answer = AnswerBuilder::new(columns);
        for row in &rows {
            for (place, (_, kind)) in columns.iter().enumerate() {
                push(&mut answer, row, place, *kind)?;
            }
        }
        answer.finish()
    }

    /// See [`Dialect::row_of_each`].
    fn single(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<Statement> {
        let tables: Vec<&str> = writes.iter().map(|(table, _)| table.name).collect();
        if let Some(known) = self.single.get(&tables) {
            return Ok(known.clone());
        }
        let statement = self.statement(self.dialect.row_of_each(writes.iter().map(|(table, _)| *table))?)?;
        self.single.insert(tables, statement.clone());
        Ok(statement)
    }

    fn write_single(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        let statement = self.single(writes)?;
        let values: Vec<Parameter<'_>> = writes.iter().flat_map(|(_, rows)| cells(rows, 0)).map(Parameter).collect();
        self.runtime.block_on(self.client.execute_raw(&statement, values)).map_err(|e| said(&e))?;
        Ok(())
    }

    /// The statement that upserts rows from arrays.
    fn array_insert(&mut self, table: &Table) -> Outcome<Statement> {
        if let Some(known) = self.arrays.get(table.name) {
            return Ok(known.clone());
        }
        let columns = table.columns.iter().enumerate();
        let arrays = columns.map(|(place, (_, kind))| format!("${}::{}[]", place + 1, (self.dialect.types)(*kind)));
        let rows = format!("SELECT * FROM unnest({})", arrays.collect::<Vec<_>>().join(", "));
        let statement = self.statement(upsert(table, &rows))?;
        self.arrays.insert(table.name, statement.clone());
        Ok(statement)
    }

    /// The statement that upserts this many rows of parameters.
    fn row_insert(&mut self, table: &Table, rows: usize) -> Outcome<Statement> {
        if let Some(known) = self.rows.get(&(table.name, rows)) {
            return Ok(known.clone());
        }
        let row = |number| self.dialect.row(table, 1 + number * table.columns.len());
        let values = (0..rows).map(row).collect::<Vec<_>>().join(", ");
        let statement = self.statement(upsert(table, &format!("VALUES {values}")))?;
        self.rows.insert((table.name, rows), statement.clone());
        Ok(statement)
    }

    fn write_many(&mut self, table: &Table, rows: &RecordBatch) -> Outcome<()> {
        match self.bulk {
            BulkInsert::Copy
                if rows.num_rows() <= MAX_ROWS_OF_INSERT && rows.num_rows() * table.columns.len() <= MAX_PARAMETERS =>
            {
                let statement = self.row_insert(table, rows.num_rows())?;
                let values = (0..rows.num_rows()).flat_map(|row| cells(rows, row)).map(Parameter);
                let values: Vec<Parameter<'_>> = values.collect();
                self.runtime.block_on(self.client.execute_raw(&statement, values)).map_err(|e| said(&e))?;
            }
            BulkInsert::Arrays => {
                let statement = self.array_insert(table)?;
                let mut values: Vec<Vec<Parameter<'_>>> =
                    vec![Vec::with_capacity(rows.num_rows()); table.columns.len()];
                for row in 0..rows.num_rows() {
                    values.iter_mut().zip(cells(rows, row)).for_each(|(column, cell)| column.push(Parameter(cell)));
                }
                self.runtime.block_on(self.client.execute_raw(&statement, values)).map_err(|e| said(&e))?;
            }
            BulkInsert::Copy => {
                let columns = names(&table.columns);
                let copy = self.statement(format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", table.name))?;
                let types: Vec<Type> = table.columns.iter().map(|(_, kind)| wire_type(*kind)).collect();
                let written = self.runtime.block_on(async {
                    let writer = BinaryCopyInWriter::new(self.client.copy_in(&copy).await?, &types);
                    let mut writer = std::pin::pin!(writer);
                    for row in 0..rows.num_rows() {
                        let values: Vec<Parameter<'_>> = cells(rows, row).map(Parameter).collect();
                        writer.as_mut().write_raw(values).await?;
                    }
                    writer.finish().await
                });
                written.map_err(|e| said(&e))?;
            }
        }
        Ok(())
    }
}

fn wire_type(kind: ColumnType) -> Type {
    match kind {
        ColumnType::Int => Type::INT8,
        ColumnType::Float => Type::FLOAT8,
        ColumnType::Text | ColumnType::Json => Type::TEXT,
        ColumnType::Time => Type::TIMESTAMP,
    }
}

/// The server's message, which the error's own text omits.
fn said(error: &tokio_postgres::Error) -> Box<dyn Error + Send + Sync> {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()).into(),
        None => error.to_string().into(),
    }
}

impl Connection for Wire {
    fn write(&mut self, writes: &[(&Table, RecordBatch)]) -> Outcome<()> {
        if writes.iter().all(|(_, rows)| rows.num_rows() == 1) {
            return self.write_single(writes);
        }
        let [(table, rows)] = writes else {
            self.run("BEGIN")?;
            for (table, rows) in writes {
                self.write_many(table, rows)?;
            }
            return self.run("COMMIT");
        };
        self.write_many(table, rows)
    }

    fn query(&mut self, query: &Query) -> Outcome<RecordBatch> {
        self.ask(self.dialect.query(query), parameters(query), &query.columns())
    }

    fn execute(&mut self, form: &Form, values: &[FormParameter], is_prepared: bool) -> Outcome<RecordBatch> {
        if is_prepared {
            let text = self.dialect.prepared(&form.text, values);
            return self.ask(text, values.iter().map(cell_of), form.columns);
        }
        let text = with_literals(&form.text, values, quoted_time);
        let messages = self.runtime.block_on(self.client.simple_query(&text)).map_err(|e| said(&e))?;
        let mut answer = AnswerBuilder::new(form.columns);
        for message in messages {
            let SimpleQueryMessage::Row(row) = message else { continue };
            for (place, (_, kind)) in form.columns.iter().enumerate() {
                match row.try_get(place)? {
                    None => answer.push(Cell::Null)?,
                    Some(text) => push_text(&mut answer, text, *kind)?,
                }
            }
        }
        answer.finish()
    }
}

fn push_text(answer: &mut AnswerBuilder, text: &str, kind: ColumnType) -> Outcome<()> {
    answer.push(match kind {
        ColumnType::Int => Cell::Int(text.parse()?),
        ColumnType::Float => Cell::Float(text.parse()?),
        ColumnType::Text | ColumnType::Json => Cell::Text(text),
        ColumnType::Time => Cell::Time(time_of_text(text)?),
    })
}

fn push(answer: &mut AnswerBuilder, row: &Row, place: usize, kind: ColumnType) -> Outcome<()> {
    let time_ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
    let cell = match kind {
        ColumnType::Int => row.try_get::<_, Option<i64>>(place)?.map(Cell::Int),
        ColumnType::Float => row.try_get::<_, Option<f64>>(place)?.map(Cell::Float),
        ColumnType::Text | ColumnType::Json => row.try_get::<_, Option<&str>>(place)?.map(Cell::Text),
        ColumnType::Time => row.try_get::<_, Option<SystemTime>>(place)?.map(|time| Cell::Time(time_ns(time))),
    };
    answer.push(cell.unwrap_or(Cell::Null))
}

/// A cell as a parameter.
#[derive(Clone, Debug)]
struct Parameter<'a>(Cell<'a>);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Cell::Null => Ok(IsNull::Yes),
            Cell::Int(value) => value.to_sql(kind, out),
            Cell::Float(value) => value.to_sql(kind, out),
            Cell::Text(value) => value.to_sql(kind, out),
            Cell::Time(ns) => (UNIX_EPOCH + Duration::from_nanos(ns as u64)).to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
