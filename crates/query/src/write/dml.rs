//! INSERT and UPDATE, and what they share with DELETE ([`delete`](crate::write::delete)).
//!
//! 1. Writes that depend on existing rows (UPDATE, DELETE, ON CONFLICT) read and write in one step
//!    ([`Database::transact`](fleetdb_engine::Database::transact)): the session reads tables under
//!    the commit lock, DataFusion computes the rows, and no other write intervenes. In a
//!    transaction, the changes are collected, and COMMIT compares the rows that were read
//!    ([`guard`](crate::write::guard)).
//! 2. In a table that merges fields, a row that receives a NULL is deleted and rewritten in one
//!    batch.

use crate::session::{Session, TEMPORARY};
use crate::tables::ddl::write_words;
use crate::write::casts::{cast_assigned, cast_inserted};
use crate::write::defaults::{fill_defaults, fill_defaults_of_assignments};
use crate::write::returning::{Returning, WriteOutcome};
use crate::write::rows::{named, rows_with_keys_of};
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt64Type;
use arrow::row::{RowConverter, SortField};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    Insert, ObjectName, OnInsert, Query, SelectItem, SetExpr, Statement as SqlStatement, TableFactor, TableObject,
    Update,
};
use fleetdb_direct::conflict::{Conflict, after_conflict, check_assignments, conflict};
use fleetdb_direct::primary_key::primary_key;
use fleetdb_direct::values::InsertValues;
use fleetdb_engine::{Acknowledged, Batch, Code, Error, MAX_BATCH_ROWS, Result, TableSchema, View};
use fleetdb_functions::errors::{engine_error, unsupported};
use fleetdb_plan::insert::without_nulls;
use fleetdb_plan::table::FleetTable;
use fleetdb_statement::built::quoted;
use fleetdb_statement::names::{called, object_name};
use futures::StreamExt;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An INSERT of values needs no plan up to this number of rows.
const FEW_ROWS: usize = 10_000;

/// The changes of a statement that depends on existing rows.
pub(crate) struct Change {
    pub(crate) table: Arc<TableSchema>,
    pub(crate) batch: Batch,
    /// The number of affected rows.
    pub(crate) count: u64,
    /// The affected rows, for a RETURNING clause.
    pub(crate) rows: Vec<RecordBatch>,
    /// Rows with the keys of the rows that were read. Those must be unchanged when the transaction
    /// commits.
    pub(crate) read: Vec<RecordBatch>,
}

impl Change {
    /// A change that writes nothing.
    pub(crate) fn nothing(table: Arc<TableSchema>) -> Self {
        Self { table, batch: Batch::new(), count: 0, rows: Vec::new(), read: Vec::new() }
    }
}

impl Session {
    /// Runs an INSERT.
    pub(crate) fn insert(&self, mut insert: Insert, returning: Option<&Returning>) -> Result<WriteOutcome> {
        self.complete(&mut insert)?;
        let clause = match insert.on.take() {
            None => None,
            Some(OnInsert::OnConflict(clause)) => Some(clause),
            Some(other) => return Err(unsupported(&other.to_string())),
        };
        let called = called(&insert)?;
        insert.table_alias = None;
        let plan = self.plan_of(ParsedStatement::Statement(Box::new(SqlStatement::Insert(insert))))?;
        let LogicalPlan::Dml(dml) = &plan else { return Err(Error::bug("an INSERT became something else")) };
        if dml.op != WriteOp::Insert(InsertOp::Append) {
            return Err(unsupported(write_words(&dml.op)));
        }
        self.store.writer()?;
        let schema = self.schema_of(dml)?;
        let conflict = clause.map(|clause| conflict(&schema, &called, &clause)).transpose()?.flatten();
        if conflict.is_none() && returning.is_none() && !self.is_in_transaction() {
            return self.write_streaming(plan);
        }
        let rows = self.rows_of(dml.input.as_ref().clone())?;
        if let Some(conflict) = conflict {
            return self.insert_on_conflict(&schema, rows, &conflict, returning);
        }
        let Change { batch, count, rows, .. } = upsert(&schema, rows, &[])?;
        let returned = self.returned(returning, &schema, rows)?;
        Ok(WriteOutcome { count, returned, acknowledged: self.write(batch)? })
    }

    /// Runs an INSERT of values without planning it; `None` if it must be planned, as one of many rows is:
    /// its plan counts their memory and writes them batch by batch.
    pub(crate) fn run_as_values(
        &self,
        statement: &SqlStatement,
        returning: Option<&Returning>,
    ) -> Result<Option<WriteOutcome>> {
        let SqlStatement::Insert(insert) = statement else { return Ok(None) };
        let is_of_few = |query: &Query| match query.body.as_ref() {
            SetExpr::Values(values) => values.rows.len() <= FEW_ROWS,
            _ => false,
        };
        if !insert.source.as_deref().is_some_and(is_of_few) {
            return Ok(None);
        }
        let Ok(db) = self.store.writer() else { return Ok(None) };
        // The planner says what is wrong with a statement.
        let Ok(Some(insert)) = InsertValues::of_sql(statement, db, self.zone()) else { return Ok(None) };
        if !insert.parameter_types().is_empty() {
            return Ok(None);
        }
        self.transaction().check()?;
        let Some(rows) = insert.rows(db)? else { return Ok(None) };
        let count = rows.len() as u64;
        let returned = match returning {
            Some(_) => self.returned(returning, &Arc::clone(rows.schema()), vec![rows.clone().finish()?])?,
            None => None,
        };
        Ok(Some(WriteOutcome { count, returned, acknowledged: self.write(Batch::new().with_rows(rows))? }))
    }

    /// Runs `WITH a AS (INSERT ...) INSERT ...`, with all rows in one batch.
    pub(crate) fn insert_several(&self, statement: &SqlStatement) -> Result<WriteOutcome> {
        let db = self.store.writer()?;
        let insert = InsertValues::of_sql(statement, db, self.zone())?.ok_or_else(|| {
            Error::invalid(
                "WITH around statements that write: each is an INSERT of literal VALUES whose rows replace those with \
                 their keys, without RETURNING, and so is the last statement",
            )
        })?;
        let mut rows = Batch::new();
        let count = insert.push(db, &[], &mut rows)?;
        Ok(WriteOutcome { count: count as u64, returned: None, acknowledged: self.write(rows)? })
    }

    /// Runs an INSERT that replaces existing rows, in several batches if necessary.
    pub(crate) fn write_streaming(&self, plan: LogicalPlan) -> Result<WriteOutcome> {
        let counts = self.start(plan)?.collect()?;
        let counts = counts.iter().filter_map(|batch| batch.columns().first()?.as_primitive_opt::<UInt64Type>());
        let count = counts.flat_map(|column| column.iter().flatten()).sum();
        // Its batches have the durability of the database.
        let acknowledged = self.store.writer()?.make_durable(self.durability())?;
        Ok(WriteOutcome::of_rows(count, acknowledged))
    }

    /// Writes rows that do not depend on existing ones, or collects them in a transaction.
    fn write(&self, rows: Batch) -> Result<Option<Acknowledged>> {
        if self.is_in_transaction() {
            return self.gather(rows).map(|()| None);
        }
        let is_empty = rows.is_empty();
        let acknowledged = self.store.writer()?.commit(rows.with_durability(self.durability()))?;
        Ok((!is_empty).then_some(acknowledged))
    }

    /// Names the columns of an INSERT with fewer values than the table has columns: the values are
    /// for the first columns, but DataFusion needs their names. Adds the values of columns with defaults.
    pub(crate) fn complete(&self, insert: &mut Insert) -> Result<()> {
        let TableObject::TableName(name) = &insert.table else { return Ok(()) };
        let schema = match self.temporary_named(name) {
            Some(temporary) => Arc::clone(&temporary.schema),
            None => {
                let name = object_name(name)?;
                // If the table does not exist, the planner reports it.
                let Ok(schema) = self.store.writer().and_then(|db| db.table(&name)) else { return Ok(()) };
                schema
            }
        };
        if let Some(count) = insert.source.as_deref().and_then(|query| values_in(&query.body))
            && insert.columns.is_empty()
            && count < schema.columns.len()
        {
            let first = schema.columns.iter().take(count);
            insert.columns = first.map(|column| quoted(&column.name).into()).collect();
        }
        fill_defaults(insert, &schema)?;
        cast_inserted(insert, &schema)
    }

    /// All rows of an INSERT, in the table's own columns.
    pub(crate) fn rows_of(&self, plan: LogicalPlan) -> Result<Vec<RecordBatch>> {
        let (mut gathered, mut rows) = (Vec::new(), 0);
        let all = self.each_batch(plan, |batch| {
            rows += batch.num_rows();
            gathered.push(batch);
            Ok(rows <= MAX_BATCH_ROWS)
        })?;
        if !all {
            return Err(Error::new(
                Code::LimitExceeded,
                format!("the statement writes more than {MAX_BATCH_ROWS} rows at once: write part by part"),
            ));
        }
        Ok(gathered)
    }

    /// Passes a query's batches to `take` until it declines more. Returns whether all were taken.
    pub(crate) fn each_batch(
        &self,
        plan: LogicalPlan,
        mut take: impl FnMut(RecordBatch) -> Result<bool>,
    ) -> Result<bool> {
        let rows = async {
            let mut stream = self.rows_of_plan(plan).await?;
            while let Some(batch) = stream.next().await {
                match take(batch?) {
                    Ok(true) => {}
                    stopped => return Ok(stopped),
                }
            }
            Ok(Ok(true))
        };
        let watch = self.limits.watch();
        self.runtime.block_on(watch.until_stopped(rows))?.map_err(engine_error)?
    }

    /// Inserts rows, and applies the clause to those whose keys already exist.
    fn insert_on_conflict(
        &self,
        schema: &Arc<TableSchema>,
        rows: Vec<RecordBatch>,
        conflict: &Conflict,
        returning: Option<&Returning>,
    ) -> Result<WriteOutcome> {
        let twice: Option<&dyn Fn() -> Error> = match conflict {
            Conflict::Nothing => None,
            Conflict::Update { .. } => Some(&conflicts_twice),
        };
        let rows = distinct(schema, rows, twice)?;
        if rows.is_empty() {
            return Ok(WriteOutcome {
                count: 0,
                returned: self.returned(returning, schema, rows)?,
                acknowledged: None,
            });
        }
        let old_rows = rows_with_keys_of(schema, &rows)?;
        let new_rows = MemTable::try_new(schema.to_nullable_arrow(), vec![rows.clone()]).map_err(engine_error)?;
        self.with_temporary("new", Arc::new(new_rows), |new| {
            self.write_after(returning, |view| {
                let old_rows = FleetTable::within(&self.store, view.table(&schema.name)?.clone(), old_rows);
                let written = self.with_temporary("old", Arc::new(old_rows), |old| {
                    self.rows_of(self.plan_query(after_conflict(schema, conflict, new, old))?)
                })?;
                let set = match conflict {
                    Conflict::Nothing => &[][..],
                    Conflict::Update { set, .. } => set,
                };
                Ok(Change { read: rows.clone(), ..upsert(schema, written, set)? })
            })
        })
    }

    /// Runs an UPDATE.
    pub(crate) fn update(&self, mut update: Update, returning: Option<&Returning>) -> Result<WriteOutcome> {
        // If the table does not exist, the planner reports it.
        if let TableFactor::Table { name, .. } = &update.table.relation
            && let Ok(schema) = self.store.writer()?.table(&object_name(name)?)
        {
            fill_defaults_of_assignments(&mut update.assignments, &schema)?;
            cast_assigned(&mut update.assignments, &schema);
        }
        self.write_after(returning, |_| {
            let dml = self.plan_write(SqlStatement::Update(update.clone()))?;
            let schema = self.schema_of(&dml)?;
            let set = check_assignments(&schema, &update.assignments)?;
            let set = set.iter().map(|(name, _)| schema.column_index(name)).collect::<Result<Vec<_>>>()?;
            let mut rows = self.rows_of(dml.input.as_ref().clone())?;
            // Joined with the rows of FROM, a row may occur several times; as in PostgreSQL, any
            // one of them updates it.
            if !update.table.joins.is_empty() {
                rows = distinct(&schema, rows, None)?;
            }
            // The rows to change are exactly those that were read.
            Ok(Change { read: rows.clone(), ..upsert(&schema, rows, &set)? })
        })
    }

    /// Plans an UPDATE or DELETE over the current view.
    pub(crate) fn plan_write(&self, statement: SqlStatement) -> Result<DmlStatement> {
        match self.plan_tree(statement)? {
            LogicalPlan::Dml(dml) => Ok(dml),
            _ => Err(Error::bug("a statement that writes became something else")),
        }
    }

    /// Writes the changes that `change` computes from the tables as they are now, with no other
    /// write in between. In a transaction, the changes are collected.
    pub(crate) fn write_after(
        &self,
        returning: Option<&Returning>,
        change: impl FnOnce(&View) -> Result<Change>,
    ) -> Result<WriteOutcome> {
        let writer = self.store.writer()?;
        let mut transaction = self.transaction();
        transaction.check()?;
        if !transaction.is_none() {
            let base = transaction.base(|| self.settled_view(None))?;
            let view = transaction.over(base.clone())?;
            self.tables.show(view.clone());
            let change = change(&view)?;
            let guard = match change.read.iter().any(|rows| rows.num_rows() > 0) {
                true => Some(self.guard(&base, &change.table, &change.read)?),
                false => None,
            };
            let returned = self.returned(returning, &change.table, change.rows)?;
            writer.check(&change.batch)?;
            transaction.change(change.batch, guard)?;
            return Ok(WriteOutcome { count: change.count, returned, acknowledged: None });
        }
        drop(transaction);
        let mut done = WriteOutcome::default();
        let mut is_empty = true;
        let acknowledged = writer.transact(|view| {
            self.tables.show(view.clone());
            let change = change(view)?;
            let returned = self.returned(returning, &change.table, change.rows)?;
            done = WriteOutcome { count: change.count, returned, acknowledged: None };
            is_empty = change.batch.is_empty();
            Ok(change.batch.with_durability(self.durability()))
        })?;
        done.acknowledged = (!is_empty).then_some(acknowledged);
        Ok(done)
    }

    /// Runs a step with a temporary table visible only to this session. The step receives the
    /// table's name.
    pub(crate) fn with_temporary<T>(
        &self,
        what: &str,
        table: Arc<dyn TableProvider>,
        run: impl FnOnce(ObjectName) -> Result<T>,
    ) -> Result<T> {
        let name = format!("{what}_{}", self.statements.fetch_add(1, Ordering::Relaxed));
        let reference = TableReference::partial(TEMPORARY, name.as_str());
        self.context.register_table(reference.clone(), table).map_err(engine_error)?;
        let done = run(vec![quoted(TEMPORARY), quoted(&name)].into());
        self.context.deregister_table(reference).map_err(engine_error)?;
        done
    }
}

/// Rows that replace those with equal keys, including by NULL in the columns of `set`.
pub(super) fn upsert(schema: &Arc<TableSchema>, rows: Vec<RecordBatch>, set: &[usize]) -> Result<Change> {
    let rows = named(schema, rows)?;
    let batch = rows.iter().try_fold(Batch::new(), |batch, rows| match set {
        [] => Ok(batch.with(&schema.name, without_nulls(schema, rows.clone())?)),
        set => batch.with_replacing_rows(schema, rows.clone(), set),
    })?;
    let count = batch.rows() as u64;
    Ok(Change { table: Arc::clone(schema), batch, count, rows, read: Vec::new() })
}

fn conflicts_twice() -> Error {
    Error::new(
        Code::Cardinality,
        "ON CONFLICT DO UPDATE cannot change a row twice: two rows of the INSERT have one key",
    )
}

/// Removes rows with duplicate keys. The first row of each key is kept; with `twice`, a duplicate is
/// this error.
pub(super) fn distinct(
    schema: &TableSchema,
    rows: Vec<RecordBatch>,
    twice: Option<&dyn Fn() -> Error>,
) -> Result<Vec<RecordBatch>> {
    let rows = named(schema, rows)?;
    let places = primary_key(schema);
    let fields = places.iter().map(|&place| SortField::new(schema.columns[place].column_type.to_arrow()));
    let converter = RowConverter::new(fields.collect())?;
    let mut known: HashSet<Vec<u8>> = HashSet::new();
    let mut kept = Vec::with_capacity(rows.len());
    for rows in rows {
        let columns: Vec<_> = places.iter().map(|&place| Arc::clone(rows.column(place))).collect();
        let keys = converter.convert_columns(&columns)?;
        let new: Vec<bool> = keys.iter().map(|key| known.insert(key.as_ref().to_vec())).collect();
        if let Some(twice) = twice
            && new.contains(&false)
        {
            return Err(twice());
        }
        kept.push(filter_record_batch(&rows, &new.into())?);
    }
    Ok(kept)
}

/// The number of values in a query's rows, if its text determines it.
fn values_in(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => values_in(&query.body),
        SetExpr::SetOperation { left, .. } => values_in(left),
        _ => None,
    }
}
