//! What a statement's handle stands for: a prepared statement, a scan, or rows to be written.

use super::database::Database;
use super::fault::{Fault, c_text};
use super::reads::{Container, Which};
use super::types::{
    FLEETDB_BLOB, FLEETDB_BOOLEAN, FLEETDB_DONE, FLEETDB_INTEGER, FLEETDB_NONE, FLEETDB_NULL, FLEETDB_ROW,
    FLEETDB_TEXT, FleetdbValue,
};
use crate::values::{Cell, cell, for_column};
use crate::work::{PreparedStatement, Results, Work};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use fleetdb_engine::{Batch, Code, Error, MAX_BATCH_BYTES, MAX_VALUE_BYTES, MemoryReservation, Result, Value};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

/// A statement. It keeps its database open.
pub(crate) struct Statement {
    // Dropped before the database, whose session it may use.
    state: Mutex<State>,
    db: Arc<Database>,
}

impl Statement {
    pub(crate) fn new(db: &Arc<Database>, state: State) -> Self {
        db.add_statement();
        Self { db: Arc::clone(db), state: Mutex::new(state) }
    }

    pub(crate) fn database(&self) -> &Database {
        &self.db
    }

    /// The state, for one call. The caller has the database's session.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        self.db.remove_statement();
    }
}

/// What a statement does, and the row that it is at.
pub(crate) struct State {
    kind: Kind,
    results: Option<Results>,
    batch: Option<RecordBatch>,
    row: usize,
    names: Vec<CString>,
    /// The texts and bytes of the row that C has asked for, with a NUL behind each; by column.
    given: Vec<Option<Vec<u8>>>,
}

enum Kind {
    Prepared(PreparedStatement, Vec<Value>),
    Scan(Container, Which),
    Rows(Gathered),
}

impl State {
    fn new(kind: Kind) -> Self {
        Self { kind, results: None, batch: None, row: 0, names: Vec::new(), given: Vec::new() }
    }

    /// A prepared statement, whose parameters are NULL at first.
    pub(crate) fn prepared(prepared: PreparedStatement) -> Self {
        let (schema, values) = (prepared.schema(), vec![Value::Null; prepared.parameters()]);
        let mut state = Self::new(Kind::Prepared(prepared, values));
        if let Some(schema) = schema {
            state.set_names(&schema);
        }
        state
    }

    /// A scan, which has begun.
    ///
    /// # Errors
    /// Those of [`Container::rows`].
    pub(crate) fn scan(work: &Work, container: Container, which: Which) -> Result<Self> {
        let results = container.rows(work, which)?;
        let mut state = Self::new(Kind::Scan(container, which));
        state.set_names(results.schema());
        state.results = Some(results);
        Ok(state)
    }

    /// Rows to be written.
    pub(crate) fn rows(work: &Work) -> Self {
        Self::new(Kind::Rows(Gathered::new(work)))
    }

    fn set_names(&mut self, schema: &SchemaRef) {
        self.names = schema.fields().iter().map(|field| c_text(field.name())).collect();
    }

    /// Ends the run that is under way.
    fn reset(&mut self) {
        (self.results, self.batch, self.row) = (None, None, 0);
        self.given.clear();
    }

    /// Sets the value of a parameter, counted from 1. A run that is under way ends.
    ///
    /// # Errors
    /// There is no such parameter.
    pub(crate) fn bind(&mut self, parameter: c_int, value: Value) -> std::result::Result<(), Fault> {
        self.reset();
        let Kind::Prepared(_, values) = &mut self.kind else {
            return Err(Fault::misuse("only statements of fleetdb_prepare have parameters"));
        };
        let count = values.len();
        let place = usize::try_from(parameter).ok().and_then(|number| number.checked_sub(1));
        let bound = match place {
            Some(place) => values.get_mut(place),
            None => None,
        };
        let Some(bound) = bound else {
            let message = format!("there is no parameter ${parameter}: the statement has {count}, counted from 1");
            return Err(Error::new(Code::UndefinedParameter, message).into());
        };
        *bound = value;
        Ok(())
    }

    /// Goes to the next row: [`FLEETDB_ROW`], or [`FLEETDB_DONE`] behind the last one. The next step then
    /// begins again.
    ///
    /// # Errors
    /// The statement fails; the next step begins again.
    pub(crate) fn step(&mut self, work: &mut Work) -> std::result::Result<c_int, Fault> {
        self.given.clear();
        if let Some(results) = &self.results
            && let Err(stopped) = work.check(results)
        {
            self.reset();
            return Err(stopped.into());
        }
        if let Some(batch) = &self.batch
            && self.row + 1 < batch.num_rows()
        {
            self.row += 1;
            return Ok(FLEETDB_ROW);
        }
        self.batch = None;
        let mut results = match self.results.take() {
            Some(results) => results,
            None => match self.start(work)? {
                Some(results) => results,
                None => return Ok(FLEETDB_DONE),
            },
        };
        let Some(batch) = work.next(&mut results)? else { return Ok(FLEETDB_DONE) };
        (self.results, self.batch, self.row) = (Some(results), Some(batch), 0);
        Ok(FLEETDB_ROW)
    }

    /// Begins a run; `None` if it has no rows and is done.
    fn start(&mut self, work: &mut Work) -> std::result::Result<Option<Results>, Fault> {
        let results = match &self.kind {
            Kind::Prepared(prepared, values) => {
                let begun = work.stop().begin();
                work.start(prepared, values, &begun)?.results
            }
            Kind::Scan(container, which) => Some(container.rows(work, *which)?),
            Kind::Rows(_) => return Err(Fault::misuse("rows are pushed and committed, not stepped")),
        };
        if let Some(results) = &results {
            self.set_names(results.schema());
        }
        Ok(results)
    }

    /// The value of a column of the row, counted from 0, and the column's name; NULL if there is no such
    /// column.
    ///
    /// # Errors
    /// The value has no text form.
    pub(crate) fn column(&mut self, column: c_int) -> Result<(FleetdbValue, *const c_char)> {
        let none = FleetdbValue::empty(FLEETDB_NONE);
        let Ok(place) = usize::try_from(column) else { return Ok((none, ptr::null())) };
        let name = self.names.get(place).map_or(ptr::null(), |name| name.as_ptr());
        let Some(array) = self.batch.as_ref().and_then(|batch| batch.columns().get(place)) else {
            return Ok((none, name));
        };
        let value = match cell(array, self.row)? {
            Cell::Null => FleetdbValue::empty(FLEETDB_NULL),
            Cell::Boolean(value) => FleetdbValue::integer(FLEETDB_BOOLEAN, value.into()),
            Cell::Integer(value) => FleetdbValue::integer(FLEETDB_INTEGER, value),
            Cell::Real(value) => FleetdbValue::real(value),
            Cell::Text(text) => self.give(place, FLEETDB_TEXT, text.into_bytes()),
            Cell::Blob(bytes) => self.give(place, FLEETDB_BLOB, bytes),
        };
        Ok((value, name))
    }

    /// Keeps bytes for C until the next step. Those that C has of this column already stay.
    fn give(&mut self, place: usize, of: c_int, mut bytes: Vec<u8>) -> FleetdbValue {
        if self.given.len() <= place {
            self.given.resize(place + 1, None);
        }
        let given = self.given[place].get_or_insert_with(|| {
            bytes.push(0);
            bytes
        });
        FleetdbValue::bytes(of, given.as_ptr().cast(), given.len() as i64 - 1)
    }

    /// The rows to be written.
    ///
    /// # Errors
    /// The statement is another.
    pub(crate) fn gathered(&mut self) -> std::result::Result<&mut Gathered, Fault> {
        match &mut self.kind {
            Kind::Rows(gathered) => Ok(gathered),
            _ => Err(Fault::misuse("only statements of fleetdb_rows_begin take rows")),
        }
    }
}

/// A batch that has this many bytes takes no more rows. The next row may double its memory, and a commit
/// must still take it.
const FULL_BYTES: usize = MAX_BATCH_BYTES / 2 - MAX_VALUE_BYTES;

/// Rows that are written as one batch.
pub(crate) struct Gathered {
    batch: Batch,
    /// The memory of the batch, twice: what is full doubles, and a transaction takes a copy.
    memory: MemoryReservation,
}

impl Gathered {
    fn new(work: &Work) -> Self {
        Self { batch: Batch::new(), memory: work.store().query_memory().reservation() }
    }

    /// Adds a row: the values of the table's columns, in their order. Columns without a value are NULL.
    ///
    /// # Errors
    /// The table does not exist, a value does not fit, or there is no memory. The row is not added.
    pub(crate) fn push(&mut self, work: &Work, table: &str, mut values: Vec<Value>) -> Result<()> {
        // The table may have changed since the row before.
        let schema = work.store().writer()?.table(table)?;
        let (count, columns) = (values.len(), schema.columns.len());
        if count > columns {
            return Err(Error::invalid(format!(
                "the row has {count} values, but table '{table}' has {columns} columns"
            )));
        }
        if self.batch.bytes() >= FULL_BYTES {
            let message = format!("the rows have {} bytes: commit them first", self.batch.bytes());
            return Err(Error::new(Code::LimitExceeded, message));
        }
        values.resize(columns, Value::Null);
        for (value, column) in values.iter_mut().zip(&schema.columns) {
            let given = std::mem::replace(value, Value::Null);
            let in_form = for_column(given, column.column_type);
            *value = in_form.map_err(|error| error.context(format_args!("column '{}'", column.name)))?;
        }
        let row_bytes: usize = values.iter().map(Value::bytes).sum();
        let charged = self.memory.grow_to("this batch of rows", 2 * (self.batch.bytes() + row_bytes));
        charged.map_err(|error| error.with_hint("Commit the rows that are pushed already."))?;
        self.batch.push(&schema, &values)
    }

    /// Writes the rows as one batch, or adds them to the open transaction. After an error they are still
    /// there.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn commit(&mut self, work: &Work) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        work.write(&mut self.batch)?;
        self.memory.release();
        Ok(())
    }
}
