//! `RETURNING`: a query over the rows that a statement writes or deletes. It is evaluated before
//! anything is written, so if it fails, nothing has changed.

use crate::answer::Answer;
use crate::clauses::{returning_clause, returning_clause_mut};
use crate::names::{called, identifier, object_name, quote};
use crate::rows::unchecked;
use crate::session::Session;
use crate::statement::Statement;
use crate::walk::visit_expressions_mut;
use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, ObjectName, SelectItem, SelectItemQualifiedWildcardKind, Statement as SqlStatement, TableFactor,
    TableObject,
};
use fleetdb_engine::{Code, Error, Result, TableSchema};
use fleetdb_plan::errors::engine_error;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The result of a statement that writes.
pub(crate) struct WriteOutcome {
    /// The number of affected rows.
    pub(crate) count: u64,
    /// The rows of the RETURNING clause, if there is one.
    pub(crate) returned: Option<Returned>,
}

/// The rows of a RETURNING clause.
pub(crate) struct Returned {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
}

/// A RETURNING clause.
pub(crate) struct Returning {
    /// The table written to, and its alias in the statement.
    table: String,
    called: String,
    items: Vec<SelectItem>,
    /// The columns the client was told about, if it was.
    described: Option<SchemaRef>,
}

impl Returning {
    /// Removes the clause from a statement; `None` if it has none. `described` holds the columns
    /// the client was told about.
    pub(crate) fn take(sql: &mut SqlStatement, described: Option<&SchemaRef>) -> Result<Option<Self>> {
        let Some(mut items) = returning_clause_mut(sql).and_then(Option::take) else { return Ok(None) };
        without_schema(&mut items);
        let (table, called) = match sql {
            SqlStatement::Insert(insert) => {
                let TableObject::TableName(table) = &insert.table else { return Ok(None) };
                (object_name(table)?, called(insert)?)
            }
            SqlStatement::Update(update) => factor(&update.table.relation)?,
            SqlStatement::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                let [from] = from.as_slice() else { return Ok(None) };
                factor(&from.relation)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { table, called, items, described: described.cloned() }))
    }

    /// The clause as a query over a table.
    fn of(&self, table: &str) -> String {
        let items: Vec<_> = self.items.iter().map(ToString::to_string).collect();
        format!("SELECT {} FROM {table} AS {}", items.join(", "), quote(&self.called))
    }

    /// Fails if the columns differ from those the client was told about.
    fn check(&self, schema: &SchemaRef) -> Result<()> {
        match &self.described {
            Some(described) => check_described(described, schema),
            None => Ok(()),
        }
    }
}

/// The table of an UPDATE or DELETE, and the name by which the statement refers to it.
fn factor(relation: &TableFactor) -> Result<(String, String)> {
    let TableFactor::Table { name, alias, .. } = relation else {
        return Err(Error::invalid(format!("{relation} is no table")));
    };
    let table = object_name(name)?;
    let called = alias.as_ref().map_or_else(|| table.clone(), |alias| identifier(&alias.name));
    Ok((table, called))
}

/// Rewrites `public.t.v` as `t.v`, because the rows belong to no schema.
fn without_schema(items: &mut Vec<SelectItem>) {
    for item in items.iter_mut() {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)), _) = item
            && parts.len() == 2
        {
            parts.remove(0);
        }
    }
    let _ = visit_expressions_mut(items, |expr: &mut Expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 3
        {
            parts.remove(0);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Fails if the columns differ from those the client was told about, since the client decodes
/// values by them.
///
/// # Errors
/// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if the number or the types of the columns
/// differ.
pub fn check_described(described: &Schema, now: &Schema) -> Result<()> {
    fn types(schema: &Schema) -> impl Iterator<Item = &arrow::datatypes::DataType> {
        schema.fields().iter().map(|field| field.data_type())
    }
    if types(described).eq(types(now)) {
        return Ok(());
    }
    Err(Error::new(
        Code::PlanChanged,
        "cached plan must not change result type: a table has changed, prepare the statement again",
    ))
}

impl Statement {
    /// Whether the statement writes and returns rows.
    pub fn has_returning(&self) -> bool {
        self.sql().and_then(returning_clause).is_some()
    }
}

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
        let ParsedStatement::Statement(sql) = &mut *statement.0 else { return Ok(None) };
        let Some(returning) = Returning::take(sql, None)? else { return Ok(None) };
        let plan = self.refresh().and_then(|()| self.plan(&returning.of(&quote(&returning.table))));
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
        let rows = MemTable::try_new(unchecked(schema), vec![rows]).map_err(engine_error)?;
        self.with_temporary("returned", Arc::new(rows), |name| {
            let plan = self.plan(&returning.of(name))?;
            let schema = Arc::new(plan.schema().as_arrow().clone());
            returning.check(&schema)?;
            Ok(Some(Returned { schema, rows: self.rows_of(plan)? }))
        })
    }

    /// The answer of a statement that wrote; its tag is `what` and the count.
    pub(crate) fn done(&self, what: &str, done: WriteOutcome) -> Answer {
        let tag = format!("{what} {}", done.count);
        let Some(Returned { schema, rows }) = done.returned else { return Answer::done(tag) };
        let rows = futures::stream::iter(rows.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        Answer::rows(stream, Arc::clone(&self.runtime), self.limits.watch()).tagged(tag)
    }
}
