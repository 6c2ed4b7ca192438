//! DELETE and TRUNCATE.
//!
//! 1. A DELETE whose conditions the scan can evaluate becomes a delete by container and time,
//!    whatever the number of rows.
//! 2. Any other DELETE deletes row by row in one batch of the WAL, up to a maximum number of rows.
//! 3. Beyond this maximum, it rewrites the segments that hold the rows
//!    ([`Database::delete_rows`](fleetdb_engine::Database::delete_rows)), in bounded memory. The
//!    condition is evaluated again under the engine's locks, and the keys of its rows are streamed
//!    to the engine. This is atomic, like the other ways. It is not available with RETURNING, or in
//!    a transaction block, whose changes are kept in memory.

use crate::session::Session;
use crate::write::dml::Change;
use crate::write::returning::{Returning, WriteOutcome};
use crate::write::rows::{key_of, named, typed_column};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Delete, Expr as SqlExpr, FromTable, ObjectName, Query, Statement as SqlStatement, TableFactor, TableWithJoins,
};
use fleetdb_direct::primary_key::{primary_key, primary_key_names};
use fleetdb_engine::{Batch, Code, Error, Result, ScanRequest, TableSchema, TableView, View};
use fleetdb_functions::errors::engine_error;
use fleetdb_plan::pushdown::request;
use fleetdb_statement::built;
use std::sync::Arc;

/// The maximum number of rows deleted one by one in a batch. Readers check each of these deletes
/// until compaction rewrites the rows.
pub(super) const MAX_SINGLE_DELETES: usize = 100_000;
/// The maximum number of containers that a DELETE by key names in a batch.
const MAX_CONTAINERS: usize = 100_000;

/// The rows or containers to delete.
enum Found {
    /// Few enough to fit in one batch.
    Few(Change),
    /// Too many for one batch.
    Many,
}

impl Session {
    /// Runs a DELETE.
    pub(crate) fn delete(&self, delete: Delete, returning: Option<&Returning>) -> Result<WriteOutcome> {
        let joined = joined(&delete);
        let (delete, rows) = with_rows(delete);
        // Cases in which rows can be deleted only in one batch.
        let must_be_few = returning.is_some() || self.is_in_transaction();
        let mut many = None;
        let done = self.write_after(returning, |view| {
            if let Some(joined) = &joined {
                self.plan_query(joined.clone())?;
            }
            let (schema, input) = self.to_delete(&delete, rows.as_ref())?;
            match self.found(view, &schema, input, returning.is_some())? {
                Found::Few(change) => Ok(change),
                Found::Many if must_be_few => Err(too_many(&schema)),
                Found::Many => {
                    many = Some(Arc::clone(&schema));
                    Ok(Change::nothing(schema))
                }
            }
        })?;
        match many {
            None => Ok(done),
            Some(schema) => {
                let count = self.delete_many(&schema, &delete, rows.as_ref())?;
                // It writes segments and no batch.
                Ok(WriteOutcome { count, returned: None, acknowledged: None })
            }
        }
    }

    /// Deletes all rows of tables, all or none.
    pub(crate) fn truncate(&self, tables: &[&ObjectName]) -> Result<WriteOutcome> {
        self.write_after(None, |view| {
            let mut all: Option<Change> = None;
            for table in tables {
                let (schema, input) = self.to_delete(&built::delete_all((*table).clone()), None)?;
                let Found::Few(change) = self.found(view, &schema, input, false)? else {
                    return Err(Error::bug("a TRUNCATE names rows"));
                };
                all = Some(match all {
                    None => change,
                    Some(all) => Change { batch: all.batch.append(change.batch), ..all },
                });
            }
            all.ok_or_else(|| Error::invalid("TRUNCATE names no table"))
        })
    }

    /// The table of a DELETE and the plan for its rows. The plan comes from the DELETE itself, or
    /// from `rows` if DataFusion cannot plan the DELETE.
    fn to_delete(&self, delete: &Delete, rows: Option<&Query>) -> Result<(Arc<TableSchema>, LogicalPlan)> {
        let dml = self.plan_write(SqlStatement::Delete(delete.clone()))?;
        let schema = self.schema_of(&dml)?;
        let input = rows.map_or_else(|| Ok(dml.input.as_ref().clone()), |rows| self.plan_query(rows.clone()))?;
        Ok((schema, input))
    }

    /// Finds what to delete. Rows are read only if necessary, or if `gives_rows` is set.
    fn found(&self, view: &View, schema: &Arc<TableSchema>, input: LogicalPlan, gives_rows: bool) -> Result<Found> {
        let plan = self.optimized(input.clone())?;
        let table = view.table(&schema.name)?;
        let by_container = match condition(&plan) {
            Condition::Nothing => Some((Batch::new(), 0)),
            Condition::Scan(filters) => match request(schema, filters) {
                None => None,
                Some(request) => match delete_containers(table, &request)? {
                    None => return Ok(Found::Many),
                    some => some,
                },
            },
            Condition::Other => None,
        };
        let rows = match &by_container {
            Some(_) if !gives_rows => Vec::new(),
            // The rows for RETURNING are in memory anyway.
            Some(_) => named(schema, self.rows_of(input)?)?,
            None => {
                let mut rows = Vec::new();
                let few = self.each_batch(input, |batch| {
                    rows.push(batch);
                    Ok(rows.iter().map(RecordBatch::num_rows).sum::<usize>() <= MAX_SINGLE_DELETES)
                })?;
                if !few {
                    return Ok(Found::Many);
                }
                named(schema, rows)?
            }
        };
        // Deletes of whole containers and time ranges do not need the rows.
        let read = if by_container.is_some() { Vec::new() } else { rows.clone() };
        let (batch, count) = by_container.map_or_else(|| delete_rows(schema, &rows), Ok)?;
        Ok(Found::Few(Change { table: Arc::clone(schema), batch, count, rows, read }))
    }

    /// Deletes rows by rewriting the segments that hold them; returns the number of rows.
    fn delete_many(&self, schema: &TableSchema, delete_rows: &Delete, rows: Option<&Query>) -> Result<u64> {
        let watch = self.limits.watch();
        let find = |view: &View, delete: &mut dyn FnMut(&RecordBatch) -> Result<()>| {
            self.tables.show(view.clone());
            let (schema, input) = self.to_delete(delete_rows, rows)?;
            let keys = sorted_keys(&schema, input)?;
            let all = self.each_batch(keys, |keys| {
                delete(&named_keys(&schema, &keys)?)?;
                Ok(true)
            });
            all.map(|_| ())
        };
        let go_on = || watch.stopped().map_or(Ok(()), Err);
        self.store.writer()?.delete_rows(&schema.name, find, go_on)
    }
}

fn too_many(schema: &TableSchema) -> Error {
    Error::new(
        Code::LimitExceeded,
        format!(
            "this DELETE is not by key and time only, and is of more than {MAX_SINGLE_DELETES} rows: outside a transaction block, \
             and without RETURNING, it may be of any number. Else give conditions on ({}) that name the rows",
            primary_key_names(schema).join(", ")
        ),
    )
}

/// The primary keys of the rows, in key order.
fn sorted_keys(schema: &TableSchema, rows: LogicalPlan) -> Result<LogicalPlan> {
    let columns = rows.schema().columns();
    let keys: Option<Vec<Expr>> =
        primary_key(schema).iter().map(|&place| columns.get(place).cloned().map(Expr::Column)).collect();
    let keys = keys.ok_or_else(|| Error::bug("a DELETE reads fewer columns than its table has"))?;
    let order = keys.iter().map(|key| key.clone().sort(true, true)).collect::<Vec<_>>();
    let plan = LogicalPlanBuilder::from(rows).project(keys).and_then(|plan| plan.sort(order));
    plan.and_then(LogicalPlanBuilder::build).map_err(engine_error)
}

/// Converts primary keys to the table's own column names and types.
fn named_keys(schema: &TableSchema, keys: &RecordBatch) -> Result<RecordBatch> {
    let arrow = schema.to_arrow();
    let fields: Vec<_> = primary_key(schema).into_iter().map(|place| Arc::clone(&arrow.fields()[place])).collect();
    let columns = keys.columns().iter().zip(&fields).map(|(column, field)| typed_column(column, field));
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields.clone())), columns.collect::<Result<_>>()?)?)
}

/// Deletes rows one by one.
pub(super) fn delete_rows(schema: &TableSchema, rows: &[RecordBatch]) -> Result<(Batch, u64)> {
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let mut batch = Batch::new();
    for rows in rows {
        for row in 0..rows.num_rows() {
            let (key, time) = key_of(schema, rows, row)?;
            let (from, to) = time.map_or((i64::MIN, i64::MAX), |time| (time, time));
            batch = batch.delete(&schema.name, Some(&key), from..=to);
        }
    }
    Ok((batch, count as u64))
}

/// A query over the tables of a DELETE with USING, joined under its condition. It is only planned,
/// to detect ambiguous columns: in the EXISTS of [`with_rows`], these would silently resolve to the
/// inner table.
fn joined(delete: &Delete) -> Option<Query> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let tables = from.iter().chain(delete.using.as_ref()?).cloned().collect();
    Some(built::select(built::any_row(), tables, Some(delete.selection.clone()?)))
}

/// A DELETE that DataFusion plans. If the given one has a table alias or USING, which DataFusion does
/// not support there, also a query for its rows, with USING written as an EXISTS.
pub(crate) fn with_rows(mut delete: Delete) -> (Delete, Option<Query>) {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &mut delete.from;
    let [TableWithJoins { relation: table @ TableFactor::Table { .. }, .. }] = from.as_mut_slice() else {
        return (delete, None);
    };
    let called = built::unjoined(table.clone());
    let TableFactor::Table { alias, .. } = table else { return (delete, None) };
    if alias.take().is_none() && delete.using.is_none() {
        return (delete, None);
    }
    let condition = delete.selection.take();
    let condition = match delete.using.take() {
        Some(others) => {
            let subquery = Box::new(built::select(built::any_row(), others, condition));
            Some(SqlExpr::Exists { subquery, negated: false })
        }
        None => condition,
    };
    (delete, Some(built::select(built::all_columns(), vec![called], condition)))
}

/// What a planned DELETE reads.
enum Condition<'a> {
    Nothing,
    /// A plain scan with these filters.
    Scan(&'a [Expr]),
    Other,
}

fn condition(plan: &LogicalPlan) -> Condition<'_> {
    match plan {
        LogicalPlan::EmptyRelation(_) => Condition::Nothing,
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => Condition::Scan(&scan.filters),
        LogicalPlan::Projection(projection) => condition(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => condition(&alias.input),
        _ => Condition::Other,
    }
}

/// A batch that deletes whole containers, or time ranges of them, and the number of rows they hold;
/// `None` if there are too many for a batch.
fn delete_containers(table: &TableView, request: &ScanRequest) -> Result<Option<(Batch, u64)>> {
    let name = &table.schema().name;
    let times = request.from.unwrap_or(i64::MIN)..=request.to.unwrap_or(i64::MAX);
    let (mut batch, mut count, mut containers) = (Batch::new(), 0, 0);
    for container in table.containers(request, &[])? {
        let container = container?;
        count += container.rows;
        containers += 1;
        if !request.key_predicates.is_empty() {
            if containers > MAX_CONTAINERS {
                return Ok(None);
            }
            batch = batch.delete(name, Some(&container.key), times.clone());
        }
    }
    if request.key_predicates.is_empty() && count > 0 {
        batch = batch.delete(name, None, times);
    }
    Ok(Some((batch, count)))
}
