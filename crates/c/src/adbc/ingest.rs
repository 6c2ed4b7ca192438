//! Writes a stream of rows to a table.
//!
//! 1. The mode says whether the table is created, replaced or must exist. A new table has the columns of the
//!    rows. Its primary key is the key of a device and the time, as the options say.
//! 2. Rows are written in batches, each as a whole; in a transaction, with its COMMIT.
//! 3. If a part of the key was guessed, it must tell all rows apart: otherwise rows would replace each other. A
//!    new table that does not get all of its rows is dropped again.
//! 4. A table that exists keeps its key. Options that name another are an error.

use super::errors::unreadable;
use super::objects::check_place;
use super::options::{text, truth};
use super::session::{Session, State};
use crate::open::wrong;
use crate::stop::Begun;
use adbc_core::options::{IngestMode, OptionStatement, OptionValue};
use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{FieldRef, Int64Type, Schema};
use fleetdb_engine::{
    Batch, Code, ColumnDefinition, ColumnType, Error, Result, TableDefinition, TableSchema, listed, sql_identifier,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: usize = 100_000;
/// Bytes of rows after which a batch is written although it has fewer rows.
const BATCH_BYTES: usize = 64 << 20;
/// A batch takes at most the memory of queries, divided by this.
const MEMORY_SHARES: usize = 4;

/// The option with the columns of a new table that identify a device, with commas between them.
const KEY: &str = "fleetdb.ingest.key";
/// The option with the time column of a new table.
const TIME: &str = "fleetdb.ingest.time";

/// Where rows are written, and how.
#[derive(Default)]
pub(super) struct Ingest {
    table: Option<String>,
    catalog: Option<String>,
    db_schema: Option<String>,
    mode: Option<IngestMode>,
    is_temporary: bool,
    key: Option<String>,
    time: Option<String>,
}

impl Ingest {
    /// Sets an option; `false` if it is not about writing rows.
    ///
    /// # Errors
    /// The value does not fit.
    pub(super) fn set(&mut self, key: &OptionStatement, value: OptionValue) -> Result<bool> {
        let name = key.as_ref().to_owned();
        match key {
            OptionStatement::TargetTable => self.table = Some(text(&name, value)?),
            OptionStatement::TargetCatalog => self.catalog = Some(text(&name, value)?),
            OptionStatement::TargetDbSchema => self.db_schema = Some(text(&name, value)?),
            OptionStatement::Temporary => self.is_temporary = truth(&name, value)?,
            OptionStatement::IngestMode => {
                let mode = text(&name, value)?.parse::<IngestMode>();
                self.mode = Some(mode.map_err(|error| Error::new(Code::InvalidParameter, error.message))?);
            }
            OptionStatement::Other(other) if other == KEY => self.key = Some(text(&name, value)?),
            OptionStatement::Other(other) if other == TIME => self.time = Some(text(&name, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The value of an option.
    pub(super) fn get(&self, key: &OptionStatement) -> Option<String> {
        match key {
            OptionStatement::TargetTable => self.table.clone(),
            OptionStatement::TargetCatalog => self.catalog.clone(),
            OptionStatement::TargetDbSchema => self.db_schema.clone(),
            OptionStatement::Temporary => Some(self.is_temporary.to_string()),
            OptionStatement::IngestMode => Some(self.mode().into()),
            OptionStatement::Other(other) if other == KEY => self.key.clone(),
            OptionStatement::Other(other) if other == TIME => self.time.clone(),
            _ => None,
        }
    }

    /// Whether there is a table to write to.
    pub(super) fn has_table(&self) -> bool {
        self.table.is_some()
    }

    /// The table in SQL. A temporary table hides a stored one of the same name.
    fn name(&self, table: &str) -> String {
        format!("{}.{}", if self.is_temporary { "pg_temp" } else { "public" }, sql_identifier(table))
    }

    fn mode(&self) -> IngestMode {
        self.mode.unwrap_or(IngestMode::Create)
    }

    /// Checks that the options name the key and the time of a table that exists.
    ///
    /// # Errors
    /// They name others.
    fn check_key_of(&self, table: &TableSchema) -> Result<()> {
        let name = |&place: &usize| table.columns[place].name.as_str();
        let (key, time) = (table.key.iter().map(name), table.time.as_ref().map(name));
        if let Some(given) = &self.key {
            let named: BTreeSet<&str> = names(given).filter(|name| Some(*name) != time).collect();
            if named != BTreeSet::from_iter(key.clone()) {
                let key = key.collect::<Vec<_>>().join(",");
                let takes = format!("{key}, the key of table '{}', or leave it out", table.name);
                return Err(wrong(KEY, given, &takes));
            }
        }
        match (&self.time, time) {
            (Some(given), Some(time)) if given != time => {
                Err(wrong(TIME, given, &format!("{time}, the time column of table '{}', or leave it out", table.name)))
            }
            (Some(given), None) if !given.is_empty() => {
                Err(wrong(TIME, given, &format!("an empty text, because table '{}' has no time column", table.name)))
            }
            _ => Ok(()),
        }
    }

    /// The definition of a new table for rows with these columns, and whether a part of its key was guessed.
    fn definition(&self, table: &str, rows: &Schema) -> Result<(TableDefinition, bool)> {
        let column = |field: &FieldRef| {
            let column_type = ColumnType::of_field(field);
            let column_type = column_type.map_err(|e| e.context(format_args!("column '{}'", field.name())))?;
            Ok(ColumnDefinition { name: field.name().clone(), column_type, nullable: true, default: None })
        };
        let columns = rows.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
        let mut definition = TableDefinition { columns, ..TableDefinition::new(table) };
        let is_time = |name: &String| {
            let column = definition.columns.iter().find(|column| column.name == *name);
            column.is_some_and(|column| column.column_type.time_unit().is_some())
        };
        let (times, devices): (Vec<String>, Vec<String>) = definition.likely_key().into_iter().partition(&is_time);
        let time = match &self.time {
            None => times.into_iter().next(),
            Some(name) if name.is_empty() => None,
            Some(name) if is_time(name) => Some(name.clone()),
            Some(name) => {
                let message = format!("{TIME}={name} does not fit: the rows have no timestamps of this name");
                return Err(Error::new(Code::InvalidParameter, message));
            }
        };
        let key: Vec<String> = match &self.key {
            None => devices,
            Some(given) => names(given).map(str::to_owned).collect(),
        };
        let is_time_guessed = self.time.is_none() && time.as_ref().is_some_and(|time| !key.contains(time));
        let known = |name: &&String| definition.columns.iter().any(|column| column.name == **name);
        if let Some(unknown) = key.iter().find(|name| !known(name)) {
            let names = listed(definition.columns.iter().map(|column| column.name.as_str()));
            let message = format!("{KEY} names '{unknown}', which the rows do not have");
            return Err(Error::new(Code::UndefinedColumn, message).with_hint(format!("The columns are: {names}.")));
        }
        let key: Vec<String> = key.into_iter().filter(|name| Some(name) != time.as_ref()).chain(time.clone()).collect();
        if key.is_empty() && !self.is_temporary {
            let message = format!("no column of table '{table}' can be its primary key");
            let hint = format!("Set {KEY} to the columns that identify a row.");
            return Err(Error::new(Code::InvalidDefinition, message).with_hint(hint));
        }
        definition.primary_key = key;
        for column in &mut definition.columns {
            column.nullable = self.is_temporary || !definition.primary_key.contains(&column.name);
        }
        Ok((definition, self.key.is_none() || is_time_guessed))
    }
}

/// The names in a list with commas between them.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Writes rows to the table in a call; returns their number.
///
/// # Errors
/// The rows do not fit the table, or those of the session. A new table is then dropped, and a transaction
/// takes none of the rows.
pub(super) fn ingest(
    session: &Arc<Session>,
    to: &Ingest,
    rows: Box<dyn RecordBatchReader + Send>,
    begun: &Begun,
) -> Result<i64> {
    check_place(to.catalog.as_deref(), to.db_schema.as_deref())?;
    let table = to.table.as_deref().ok_or_else(|| Error::invalid("there is no table to write to"))?;
    let new = session.lock().prepare(to, table, &rows.schema(), begun)?;
    let written = write(session, to, table, rows, begun).and_then(|written| {
        if new.as_ref().is_some_and(|new| new.is_guessed) {
            session.lock().check_key(to, table, written, begun)?;
        }
        Ok(written)
    });
    match (&new, &written) {
        (Some(new), Ok(_)) => session.lock().keep(new, begun)?,
        (Some(new), Err(error)) => session.lock().undo(new, to, table, begun, error),
        (None, Ok(_)) => {}
        // What was gathered in part must not be committed.
        (None, Err(_)) => session.lock().work.session().fail_transaction(),
    }
    written
}

/// A table that was created for the rows.
struct New {
    /// Whether a part of its key was guessed.
    is_guessed: bool,
    /// Whether the rows are in a transaction, which has a savepoint before them.
    is_saved: bool,
}

/// The savepoint before the rows of a new table.
const SAVEPOINT: &str = "fleetdb_ingest";

impl State {
    /// Makes the table ready: what is new about it.
    fn prepare(&mut self, to: &Ingest, table: &str, rows: &Schema, begun: &Begun) -> Result<Option<New>> {
        let name = to.name(table);
        let is_there = match to.is_temporary {
            true => self.work.session().temporary_schema(table).is_some(),
            false => self.work.view()?.table(table).is_ok(),
        };
        match to.mode() {
            // A temporary table has no key.
            IngestMode::Append | IngestMode::CreateAppend if is_there && to.is_temporary => return Ok(None),
            IngestMode::Append | IngestMode::CreateAppend if is_there => {
                return to.check_key_of(self.work.view()?.table(table)?.schema()).map(|()| None);
            }
            IngestMode::Append if to.is_temporary => {
                let message = format!("there is no temporary table called \"{table}\"");
                return Err(Error::new(Code::UndefinedTable, message));
            }
            IngestMode::Append => return self.work.view()?.table(table).map(|_| None),
            IngestMode::Create | IngestMode::CreateAppend | IngestMode::Replace => {}
        }
        let (definition, is_guessed) = to.definition(table, rows)?;
        if is_there && to.mode() == IngestMode::Replace {
            self.work.run_since(&format!("DROP TABLE {name}"), begun)?;
        }
        self.work.run_since(&statement(&definition, to.is_temporary), begun)?;
        let is_saved = self.begin_to_write()?;
        if is_saved {
            self.work.run_since(&format!("SAVEPOINT {SAVEPOINT}"), &begun.beyond_stops())?;
        }
        // Rows of a temporary table do not replace each other.
        Ok(Some(New { is_guessed: is_guessed && !to.is_temporary, is_saved }))
    }

    /// Checks that a guessed key tells the rows of a new table apart.
    fn check_key(&mut self, to: &Ingest, table: &str, written: i64, begun: &Begun) -> Result<()> {
        let count = self.work.query(&format!("SELECT count(*) FROM {}", to.name(table)), begun)?;
        let count = count.first().and_then(|rows| rows.column(0).as_primitive_opt::<Int64Type>()?.values().first());
        let has = count.copied().unwrap_or(0);
        // Others may have written more.
        if has >= written {
            return Ok(());
        }
        let schema = self.work.view()?.table(table)?.schema().clone();
        let names = schema.key.iter().chain(&schema.time).map(|&place| schema.columns[place].name.as_str());
        let message =
            format!("{written} rows have only {has} keys ({}), which would replace each other", listed(names));
        let guessed = if to.key.is_none() { "key" } else { "time in the key" };
        let hint = format!("The {guessed} was guessed. Set {KEY} and {TIME} to the columns that identify a row.");
        Err(Error::new(Code::DuplicateKey, message).with_hint(hint))
    }

    fn keep(&mut self, new: &New, begun: &Begun) -> Result<()> {
        match new.is_saved {
            true => self.work.run_since(&format!("RELEASE SAVEPOINT {SAVEPOINT}"), &begun.beyond_stops()).map(drop),
            false => Ok(()),
        }
    }

    /// Takes back what was written, and the table. The error of the rows is more important than one here.
    fn undo(&mut self, new: &New, to: &Ingest, table: &str, begun: &Begun, error: &Error) {
        if new.is_saved {
            self.work.session().roll_back_to(SAVEPOINT).ok();
        }
        // Where others append as well, the table may have their rows, unless it has too few as it is.
        if to.mode() != IngestMode::CreateAppend || error.code() == Code::DuplicateKey {
            self.work.run_since(&format!("DROP TABLE {}", to.name(table)), &begun.beyond_stops()).ok();
        }
    }
}

/// The definition as SQL.
fn statement(definition: &TableDefinition, is_temporary: bool) -> String {
    let column = |column: &ColumnDefinition| {
        let not_null = if column.nullable { "" } else { " NOT NULL" };
        format!("{} {}{not_null}", sql_identifier(&column.name), column.column_type.to_sql())
    };
    let columns: Vec<String> = definition.columns.iter().map(column).collect();
    let key: Vec<String> = definition.primary_key.iter().map(|name| sql_identifier(name)).collect();
    let (words, key) = match is_temporary {
        true => ("TEMPORARY TABLE", String::new()),
        false => ("TABLE", format!(", PRIMARY KEY ({})", key.join(", "))),
    };
    format!("CREATE {words} {} ({}{key})", sql_identifier(&definition.name), columns.join(", "))
}

/// Writes the rows, without the session's lock while the program gives them.
fn write(
    session: &Session,
    to: &Ingest,
    table: &str,
    rows: Box<dyn RecordBatchReader + Send>,
    begun: &Begun,
) -> Result<i64> {
    let memory = session.lock().work.store().query_memory();
    let batch_bytes = BATCH_BYTES.min(memory.limit_bytes() / MEMORY_SHARES);
    let (mut written, mut batch, mut held) = (0_i64, Batch::new(), memory.reservation());
    for rows in rows {
        let rows = rows.map_err(|error| unreadable(&error))?;
        begun.check()?;
        if to.is_temporary {
            written += rows.num_rows() as i64;
            session.lock().add_to_temporary(table, &rows)?;
            continue;
        }
        let (mut from, row_bytes) = (0, rows.get_array_memory_size() / rows.num_rows().max(1));
        // Wide rows come in smaller parts, so that a batch stays of a size.
        let rows_of_a_part = (batch_bytes / row_bytes.max(1)).max(1);
        while from < rows.num_rows() {
            let part = (BATCH_ROWS - batch.rows()).min(rows.num_rows() - from).min(rows_of_a_part);
            batch = batch.with(table, rows.slice(from, part));
            held.grow_to("this batch of rows", batch.bytes())?;
            from += part;
            if batch.rows() >= BATCH_ROWS || batch.bytes() >= batch_bytes {
                begun.check()?;
                write_batch(session, &mut written, std::mem::take(&mut batch))?;
                held.release();
            }
        }
    }
    write_batch(session, &mut written, batch)?;
    Ok(written)
}

fn write_batch(session: &Session, written: &mut i64, batch: Batch) -> Result<()> {
    let rows = batch.rows() as i64;
    if rows == 0 {
        return Ok(());
    }
    let mut state = session.lock();
    let is_in_transaction = state.begin_to_write()?;
    state.write(batch).map_err(|error| match *written > 0 && !is_in_transaction {
        true => error.context(format_args!("after {written} rows, which are written")),
        false => error,
    })?;
    *written += rows;
    Ok(())
}

impl State {
    fn add_to_temporary(&mut self, table: &str, rows: &RecordBatch) -> Result<()> {
        self.begin_to_write()?;
        let session = self.work.session();
        let schema = session.temporary_schema(table).ok_or_else(|| Error::bug("the temporary table is missing"))?;
        let schema = schema.to_nullable_arrow();
        let in_type = |field: &FieldRef| -> Result<ArrayRef> {
            let array = rows.column_by_name(field.name()).ok_or_else(|| {
                let message = format!("the rows have no column '{}'", field.name());
                Error::new(Code::UndefinedColumn, message)
            })?;
            cast(array, field.data_type()).map_err(|error| unreadable(&error))
        };
        let arrays = schema.fields().iter().map(in_type).collect::<Result<Vec<_>>>()?;
        let rows = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(|error| unreadable(&error))?;
        session.insert_into_temporary(table, rows)
    }
}

#[cfg(test)]
#[path = "ingest_tests.rs"]
mod tests;
