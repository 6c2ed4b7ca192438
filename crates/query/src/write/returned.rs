//! Evaluates a RETURNING clause.

use super::returning::{Returned, Returning, WriteOutcome};
use crate::answer::Answer;
use crate::session::Session;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as ParsedStatement;
use fleetdb_engine::{Result, TableSchema};
use fleetdb_functions::errors::engine_error;
use fleetdb_statement::Statement;
use std::sync::Arc;

impl Session {
    /// The columns that a statement with RETURNING will return; `None` without the clause. The
    /// statement is not run.
    ///
    /// ```
    /// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
    /// use fleetdb_query::Session;
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    /// session.sql("CREATE TABLE t (id BIGINT, v DOUBLE, PRIMARY KEY (id))").unwrap();
    /// let insert = session.parse_one("INSERT INTO t VALUES ($1, 0.5) RETURNING id, v * 2 AS twice").unwrap();
    /// let columns = session.returned_columns(&insert).unwrap().unwrap();
    /// assert_eq!(columns.field(1).name(), "twice");
    /// ```
    ///
    /// # Errors
    /// The clause does not match the table.
    pub fn returned_columns(&self, statement: &Statement) -> Result<Option<SchemaRef>> {
        self.begin_statement();
        statement.with_stack(|| self.columns_of(statement.clone()))
    }

    fn columns_of(&self, mut statement: Statement) -> Result<Option<SchemaRef>> {
        let ParsedStatement::Statement(sql) = &mut **statement.tree_mut() else { return Ok(None) };
        let Some(returning) = Returning::take(sql, None)? else { return Ok(None) };
        let plan = self.refresh().and_then(|()| self.plan_query(returning.of(returning.table.clone())));
        self.tables.release();
        Ok(Some(Arc::new(plan?.schema().as_arrow().clone())))
    }

    /// Evaluates the clause over these rows, which have the table's own columns.
    pub(crate) fn returned(
        &self,
        returning: Option<&Returning>,
        schema: &TableSchema,
        rows: Vec<RecordBatch>,
    ) -> Result<Option<Returned>> {
        let Some(returning) = returning else { return Ok(None) };
        if let Some(columns) = returning.columns(schema) {
            let all = schema.to_nullable_arrow();
            let field = |(place, name): &(usize, String)| all.field(*place).clone().with_name(name);
            let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
            returning.check(&schema)?;
            let of_columns = |rows: &RecordBatch| {
                let arrays = columns.iter().map(|(place, _)| Arc::clone(rows.column(*place))).collect();
                Ok(RecordBatch::try_new(Arc::clone(&schema), arrays)?)
            };
            let rows = rows.iter().map(of_columns).collect::<Result<_>>()?;
            return Ok(Some(Returned { schema, rows }));
        }
        let rows = MemTable::try_new(schema.to_nullable_arrow(), vec![rows]).map_err(engine_error)?;
        self.with_temporary("returned", Arc::new(rows), |name| {
            let plan = self.plan_query(returning.of(name))?;
            let schema = Arc::new(plan.schema().as_arrow().clone());
            returning.check(&schema)?;
            Ok(Some(Returned { schema, rows: self.rows_of(plan)? }))
        })
    }

    /// The answer of a statement that wrote; its tag is `what` and the count.
    pub(crate) fn done(&self, what: &str, done: WriteOutcome) -> Answer {
        let tag = format!("{what} {}", done.count);
        let Some(Returned { schema, rows }) = done.returned else {
            return Answer::done(tag).acknowledged_by(done.acknowledged);
        };
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        Answer::rows(stream, Arc::clone(&self.runtime), self.limits.watch())
            .tagged(tag)
            .acknowledged_by(done.acknowledged)
    }
}
