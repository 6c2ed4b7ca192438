//! A statement: SQL with parameters, or rows that are written to a table.
//!
//! Bound rows are parameters of SQL, one run for each row. With a target table they are rows for it.
//! Executing takes the bound rows.

use super::bound::Bound;
use super::errors::{call, not_implemented};
use super::ingest::{Ingest, ingest};
use super::options::{optionable, truth, unknown};
use super::reader::{Reader, Runs};
use super::session::{Cancel, Session, State};
use crate::stop::{Begun, Stop};
use crate::work::{Done, PreparedStatement};
use adbc_core::error::Result as AdbcResult;
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, PartitionedResult};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{DataType, Field, Schema};
use fleetdb_engine::{Error, Result, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// The option that Python's driver manager sets. Parameters have numbers, so it can only be false.
const BIND_BY_NAME: &str = "adbc.statement.bind_by_name";

/// Rows of a program, or for one.
type Rows = Box<dyn RecordBatchReader + Send>;

/// A statement.
pub struct Statement {
    text: Option<String>,
    /// The statement of the text, once it is prepared.
    prepared: Option<Arc<PreparedStatement>>,
    bound: Option<Rows>,
    ingest: Ingest,
    stop: Arc<Stop>,
    // Dropped after what uses it: the last one closes the database.
    session: Arc<Session>,
}

/// What an execution gave.
struct Executed {
    changed: Option<i64>,
    rows: Option<Reader>,
}

impl Statement {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        let (text, prepared, bound) = (None, None, None);
        let stop = session.stop().of_part();
        Self { text, prepared, bound, ingest: Ingest::default(), stop, session: Arc::clone(session) }
    }

    fn set(&mut self, key: &OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        if name == BIND_BY_NAME && !truth(&name, value.clone())? {
            return Ok(());
        }
        if self.ingest.set(key, value)? { Ok(()) } else { Err(unknown(&name)) }
    }

    fn get(&self, key: &OptionStatement) -> Option<String> {
        self.ingest.get(key)
    }

    /// The statement of the text, prepared in a call; `None` if the text has several.
    fn prepare(&mut self, begun: &Begun) -> Result<Option<Arc<PreparedStatement>>> {
        if let Some(prepared) = &self.prepared {
            return Ok(Some(Arc::clone(prepared)));
        }
        let mut state = self.session.lock();
        let mut statements = state.work.session().parse(text_of(&self.text)?)?;
        if statements.len() > 1 {
            return Ok(None);
        }
        let statement = statements.pop().ok_or_else(|| Error::invalid("there is no statement in the text"))?;
        let prepared = Arc::new(state.work.prepare_parsed(statement, begun)?);
        self.prepared = Some(Arc::clone(&prepared));
        Ok(Some(prepared))
    }

    /// The bound rows as values of parameters; `None` if nothing is bound.
    fn bound_values(&mut self) -> Result<Option<Bound>> {
        let Some(bound) = self.bound.take() else { return Ok(None) };
        let memory = self.session.lock().work.store().query_memory();
        Bound::read(bound, &memory).map(Some)
    }

    fn run(&mut self) -> Result<Executed> {
        let begun = &self.stop.begin();
        if self.ingest.has_table() {
            let rows = self.bound.take().ok_or_else(|| Error::invalid("no rows are bound for the table"))?;
            let written = ingest(&self.session, &self.ingest, rows, begun)?;
            return Ok(Executed { changed: Some(written), rows: None });
        }
        let bound = self.bound_values()?;
        let Some(prepared) = self.prepare(begun)? else {
            return match bound {
                Some(_) => Err(Error::invalid("a text of several statements takes no parameters")),
                None => self.run_several(begun),
            };
        };
        let schema = prepared.schema();
        match (bound, schema) {
            (None, _) => self.run_once(&prepared, &[], begun),
            (Some(mut bound), Some(schema)) => match bound.rows.pop_front() {
                None => Ok(Executed { changed: None, rows: Some(Reader::new(&self.session, schema, None, None)) }),
                Some(first) => {
                    let done = self.session.lock().start(&prepared, &first, begun)?;
                    Ok(self.executed(done, Some(Runs { prepared, bound, begun: begun.clone() })))
                }
            },
            (Some(bound), None) if bound.rows.len() == 1 => self.run_once(&prepared, &bound.rows[0], begun),
            (Some(bound), None) => self.run_for_each(&prepared, &bound.rows, begun),
        }
    }

    fn executed(&self, done: Done, runs: Option<Runs>) -> Executed {
        let rows = done.results.map(|results| {
            let schema = Arc::clone(results.schema());
            Reader::new(&self.session, schema, Some(results), runs)
        });
        Executed { changed: done.changed, rows }
    }

    fn run_once(&self, prepared: &PreparedStatement, values: &[Value], begun: &Begun) -> Result<Executed> {
        let done = self.session.lock().start(prepared, values, begun)?;
        Ok(self.executed(done, None))
    }

    /// Runs a statement that writes once for each row of values, all in one transaction. Rows that it
    /// returns are dropped.
    fn run_for_each(
        &self,
        prepared: &PreparedStatement,
        rows: &VecDeque<Vec<Value>>,
        begun: &Begun,
    ) -> Result<Executed> {
        let each = |state: &mut State| -> Result<Option<i64>> {
            let mut changed = Some(0);
            for values in rows {
                let done = state.start(prepared, values, begun)?;
                let rows = state.work.drained(done)?;
                changed = changed.zip(rows).map(|(before, rows)| before + rows);
            }
            Ok(changed)
        };
        let mut state = self.session.lock();
        let changed = if prepared.writes_rows() { state.as_one(begun, each) } else { each(&mut state) };
        Ok(Executed { changed: changed?, rows: None })
    }

    /// Runs a text of several statements; gives what the last one gave.
    fn run_several(&self, begun: &Begun) -> Result<Executed> {
        let mut state = self.session.lock();
        let statements = state.work.session().parse(text_of(&self.text)?)?;
        let mut last = None;
        for statement in statements {
            if let Some(done) = last.take() {
                state.work.drained(done)?;
            }
            last = Some(state.execute(statement, begun)?);
        }
        let last = last.ok_or_else(|| Error::invalid("there is no statement in the text"))?;
        Ok(self.executed(last, None))
    }
}

fn text_of(text: &Option<String>) -> Result<&str> {
    text.as_deref().ok_or_else(|| Error::invalid("no SQL is set"))
}

optionable!(Statement, OptionStatement);

impl adbc_core::Statement for Statement {
    fn bind(&mut self, batch: RecordBatch) -> AdbcResult<()> {
        let schema = batch.schema();
        self.bound = Some(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        Ok(())
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> AdbcResult<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> AdbcResult<Box<dyn RecordBatchReader + Send + 'static>> {
        call(|| {
            let rows = self.run()?.rows;
            let nothing = || Reader::new(&self.session, Arc::new(Schema::empty()), None, None);
            Ok(Box::new(rows.unwrap_or_else(nothing)) as Rows)
        })
    }

    fn execute_update(&mut self) -> AdbcResult<Option<i64>> {
        call(|| {
            let Executed { changed, mut rows } = self.run()?;
            while let Some(rows) = &mut rows
                && rows.advance()?.is_some()
            {}
            Ok(changed)
        })
    }

    fn execute_schema(&mut self) -> AdbcResult<Schema> {
        call(|| {
            let begun = &self.stop.begin();
            let schema = self.prepare(begun)?.and_then(|prepared| prepared.schema());
            Ok(schema.map_or_else(Schema::empty, |schema| schema.as_ref().clone()))
        })
    }

    fn execute_partitions(&mut self) -> AdbcResult<PartitionedResult> {
        not_implemented("ExecutePartitions")
    }

    fn get_parameter_schema(&self) -> AdbcResult<Schema> {
        call(|| {
            let prepared = self.prepared.as_ref().ok_or_else(|| Error::invalid("the statement is not prepared"))?;
            let begun = &self.stop.begin();
            let types = self.session.lock().work.parameter_types(prepared, begun)?;
            // Parameters have numbers, not names.
            let field = |of: Option<DataType>| Field::new("", of.unwrap_or(DataType::Null), true);
            Ok(Schema::new(types.into_iter().map(field).collect::<Vec<_>>()))
        })
    }

    fn prepare(&mut self) -> AdbcResult<()> {
        let begun = &self.stop.begin();
        call(|| Self::prepare(self, begun).map(drop))
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> AdbcResult<()> {
        (self.text, self.prepared, self.ingest) = (Some(query.as_ref().to_owned()), None, Ingest::default());
        Ok(())
    }

    fn set_substrait_plan(&mut self, _plan: impl AsRef<[u8]>) -> AdbcResult<()> {
        not_implemented("Substrait")
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(Cancel(Arc::clone(&self.stop)))
    }
}
