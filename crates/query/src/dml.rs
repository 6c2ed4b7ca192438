//! INSERT, UPDATE and DELETE.
//!
//! 1. What depends on rows that are there (UPDATE, DELETE, ON CONFLICT) is read and written in one step
//!    ([`Database::transact`](fleetdb_engine::Database::transact)): the session's tables show what the commit lock
//!    guards, DataFusion computes the rows, and no other write comes between. In a transaction they are gathered, and what was
//!    read is compared at COMMIT ([`guard`](crate::guard)).
//!    Where a table merges fields, a row that gets a NULL is deleted and written anew in one batch.
//! 2. A DELETE whose conditions the scan takes over is a delete by container and time, whatever the number of rows; any
//!    other one deletes row by row, and only so many.

use crate::ddl::{identifier, object_name};
use crate::errors::engine_error;
use crate::insert::without_nulls;
use crate::pushdown::{key_value, request};
use crate::returning::{Done, Returning, called};
use crate::session::{Session, unsupported};
use crate::table::FleetTable;
use crate::values::InsertValues;
use arrow::array::{AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch};
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::catalog::TableProvider;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, Expr, FromTable, Ident, Insert, ObjectName, OnConflict,
    OnConflictAction, OnInsert, SetExpr, Statement as SqlStatement, TableFactor, TableObject, TableWithJoins, Update,
};
use fleetdb_engine::{
    Batch, Code, Column, Error, MAX_BATCH_ROWS, Result, Role, ScanRequest, TableSchema, TableView, Value, View,
};
use futures::StreamExt;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A DELETE that goes row by row deletes at most so many: readers look at each until a compaction has written the rows anew.
const MOST_SINGLE_DELETES: usize = 100_000;
/// A DELETE by key deletes from at most so many containers at once.
const MOST_CONTAINERS: usize = 100_000;
/// The name of the rows that an INSERT brings, in its ON CONFLICT clause.
const EXCLUDED: &str = "excluded";

/// The columns that are set, with what they are set to; none may be part of the key, but to be set to what it is anyway.
fn check_assignments<'a>(schema: &TableSchema, assignments: &'a [Assignment]) -> Result<Vec<(String, &'a Expr)>> {
    let mut columns = Vec::new();
    for assignment in assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(Error::coded(
                Code::NotSupported,
                "SET (a, b) = ... is not supported: set each column by itself",
            ));
        };
        let column = match name.0.last().and_then(|part| part.as_ident()) {
            Some(name) => identifier(name),
            None => object_name(name)?,
        };
        let place = schema.column_index(&column)?;
        match schema.columns[place].role {
            Role::Field => columns.push((column, &assignment.value)),
            // Some programs set all columns of the row that is in the way.
            _ if is_new(&column, &assignment.value) => {}
            _ => {
                return Err(Error::input(format!(
                    "column '{column}' is part of the primary key: delete the row and insert another"
                )));
            }
        }
    }
    Ok(columns)
}

/// Whether a value is a column's of the row that an INSERT brings.
fn is_new(column: &str, value: &Expr) -> bool {
    match value {
        Expr::CompoundIdentifier(parts) => {
            parts.len() == 2 && identifier(&parts[0]) == EXCLUDED && identifier(&parts[1]) == column
        }
        _ => false,
    }
}

/// What an ON CONFLICT clause asks for that an INSERT does not do anyway.
pub(crate) enum Conflict {
    /// The new row is left out.
    Nothing,
    /// What is written: for each of the table's columns an expression over the new row, called `excluded`, and the old
    /// one, called as here; and the condition under which a row that is there is changed.
    Update {
        called: String,
        columns: Vec<String>,
        condition: Option<String>,
        /// The places of the columns that are set.
        set: Vec<usize>,
    },
}

/// The column by which the query of an ON CONFLICT clause knows that there is an old row.
const THERE: &str = "fleetdb_there";

/// What to do with rows of `schema`, which the INSERT calls so, whose key is there already; `None` if the new row replaces
/// the old one, as without the clause.
pub(crate) fn conflict(schema: &TableSchema, called: &str, clause: &OnConflict) -> Result<Option<Conflict>> {
    let key = primary_key_names(schema);
    match &clause.conflict_target {
        None => {}
        Some(ConflictTarget::Columns(columns))
            if columns.len() == key.len()
                && columns.iter().all(|column| key.contains(&identifier(column).as_str())) => {}
        Some(_) => {
            return Err(Error::input(format!("ON CONFLICT is about the primary key: ({})", key.join(", "))));
        }
    }
    let OnConflictAction::DoUpdate(update) = &clause.action else { return Ok(Some(Conflict::Nothing)) };
    let set = check_assignments(schema, &update.assignments)?;
    let new = |name: &str| format!("{EXCLUDED}.{}", quote(name));
    let mut fields = schema.columns.iter().filter(|column| column.role == Role::Field);
    let all_new = fields.all(|column| set.iter().any(|(name, value)| *name == column.name && is_new(name, value)));
    // Where fields merge, a new NULL does not replace an old value by itself.
    if all_new && update.selection.is_none() && !schema.merges_fields() {
        return Ok(None);
    }
    let column = |column: &Column| {
        let old = match set.iter().find(|(name, _)| *name == column.name) {
            _ if column.role != Role::Field => return new(&column.name),
            Some((_, value)) => format!("({value})"),
            None => format!("{}.{}", quote(called), quote(&column.name)),
        };
        format!("CASE WHEN {THERE} THEN {old} ELSE {} END", new(&column.name))
    };
    let columns = schema.columns.iter().map(column).collect();
    let condition = update.selection.as_ref().map(ToString::to_string);
    let set = set.iter().map(|(name, _)| schema.column_index(name)).collect::<Result<_>>()?;
    Ok(Some(Conflict::Update { called: called.to_owned(), columns, condition, set }))
}

/// The places of the primary key's columns.
pub(crate) fn primary_key(schema: &TableSchema) -> Vec<usize> {
    schema.key.iter().chain(&schema.time).copied().collect()
}

fn primary_key_names(schema: &TableSchema) -> Vec<&str> {
    primary_key(schema).into_iter().map(|place| schema.columns[place].name.as_str()).collect()
}

/// What a statement writes that depends on rows that are there.
pub(crate) struct Change {
    pub(crate) table: Arc<TableSchema>,
    pub(crate) batch: Batch,
    /// How many rows it is about.
    pub(crate) count: u64,
    /// These rows, for a RETURNING clause.
    pub(crate) rows: Vec<RecordBatch>,
    /// Rows with the keys of those that were read: they must be the same when the transaction is committed.
    pub(crate) read: Vec<RecordBatch>,
}

impl Session {
    /// Runs an INSERT.
    pub(crate) fn insert(&self, mut insert: Insert, returning: Option<&Returning>) -> Result<Done> {
        let clause = match insert.on.take() {
            None => None,
            Some(OnInsert::OnConflict(clause)) => Some(clause),
            Some(other) => return Err(unsupported(&other.to_string())),
        };
        let called = called(&insert)?;
        insert.table_alias = None;
        self.name_columns(&mut insert)?;
        let plan = self.plan_of(ParsedStatement::Statement(Box::new(SqlStatement::Insert(insert))))?;
        let LogicalPlan::Dml(dml) = &plan else { return Err(Error::bug("an INSERT became something else")) };
        if dml.op != WriteOp::Insert(InsertOp::Append) {
            return Err(unsupported(dml.op.name()));
        }
        self.store.writer()?;
        let schema = self.schema_of(dml)?;
        let conflict = clause.map(|clause| conflict(&schema, &called, &clause)).transpose()?.flatten();
        if conflict.is_none() && returning.is_none() && !self.is_in_transaction() {
            return Ok(Done { count: self.write_streaming(plan)?, returned: None });
        }
        let rows = self.rows_of(dml.input.as_ref().clone())?;
        if let Some(conflict) = conflict {
            return self.insert_on_conflict(&schema, rows, &conflict, returning);
        }
        let Change { batch, count, rows, .. } = upsert(&schema, rows, &[])?;
        let returned = self.returned(returning, &schema, rows)?;
        self.write(batch)?;
        Ok(Done { count, returned })
    }

    /// `WITH a AS (INSERT ...) INSERT ...`: all of their rows are one batch.
    pub(crate) fn insert_several(&self, statement: &SqlStatement) -> Result<Done> {
        let db = self.store.writer()?;
        let insert = InsertValues::of_sql(statement, db)?.ok_or_else(|| {
            Error::input(
                "WITH around statements that write: each is an INSERT of literal VALUES whose rows replace those with \
                 their keys, without RETURNING, and the last is one, too",
            )
        })?;
        let mut rows = Batch::new();
        let count = insert.push(&[], &mut rows)?;
        self.write(rows)?;
        Ok(Done { count: count as u64, returned: None })
    }

    /// Runs an INSERT whose rows replace what is there, in batches if it must.
    pub(crate) fn write_streaming(&self, plan: LogicalPlan) -> Result<u64> {
        let counts = self.start(plan)?.collect()?;
        let counts = counts.iter().filter_map(|batch| batch.columns().first()?.as_primitive_opt::<UInt64Type>());
        Ok(counts.flat_map(|column| column.iter().flatten()).sum())
    }

    /// Writes rows that depend on none that are there; in a transaction they are gathered.
    fn write(&self, rows: Batch) -> Result<()> {
        match self.is_in_transaction() {
            true => self.gather(rows),
            false => self.store.writer()?.commit(rows).map(|_| ()),
        }
    }

    /// `INSERT INTO t VALUES (...)` of fewer values than the table has columns is about the first of them, which DataFusion wants
    /// to be named.
    pub(crate) fn name_columns(&self, insert: &mut Insert) -> Result<()> {
        let (TableObject::TableName(name), Some(SetExpr::Values(values))) =
            (&insert.table, insert.source.as_deref().map(|query| query.body.as_ref()))
        else {
            return Ok(());
        };
        let count = values.rows.first().map_or(0, |row| row.len());
        // Where there is no such table the planner says so.
        if let Ok(table) = self.view().table(&object_name(name)?)
            && insert.columns.is_empty()
            && count < table.schema().columns.len()
        {
            let first = table.schema().columns.iter().take(count);
            insert.columns = first.map(|column| Ident::with_quote('"', &column.name).into()).collect();
        }
        Ok(())
    }

    /// The rows of an INSERT in the table's own columns, all at once.
    pub(crate) fn rows_of(&self, plan: LogicalPlan) -> Result<Vec<RecordBatch>> {
        let rows = async {
            let mut stream = self.context.execute_logical_plan(plan).await?.execute_stream().await?;
            let (mut gathered, mut rows) = (Vec::new(), 0);
            while let Some(batch) = stream.next().await {
                let batch = batch?;
                rows += batch.num_rows();
                gathered.push(batch);
                if rows > MAX_BATCH_ROWS {
                    return Ok(Err(Error::coded(
                        Code::LimitExceeded,
                        format!("the statement writes more than {MAX_BATCH_ROWS} rows at once: write part by part"),
                    )));
                }
            }
            Ok(Ok(gathered))
        };
        let watch = self.limits.watch();
        self.runtime.block_on(watch.until_stopped(rows))?.map_err(engine_error)?
    }

    /// Inserts rows; those whose keys are there already as the clause says.
    fn insert_on_conflict(
        &self,
        schema: &Arc<TableSchema>,
        rows: Vec<RecordBatch>,
        conflict: &Conflict,
        returning: Option<&Returning>,
    ) -> Result<Done> {
        let rows = distinct(schema, rows, matches!(conflict, Conflict::Nothing))?;
        if rows.is_empty() {
            return Ok(Done { count: 0, returned: self.returned(returning, schema, rows)? });
        }
        let old_rows = rows_with_keys_of(schema, &rows)?;
        let new_rows = MemTable::try_new(unchecked(schema), vec![rows.clone()]).map_err(engine_error)?;
        self.with_temporary("new", Arc::new(new_rows), |new| {
            self.write_after(returning, |view| {
                let old_rows = FleetTable::within(&self.store, view.table(&schema.name)?.clone(), old_rows);
                let written = self.with_temporary("old", Arc::new(old_rows), |old| {
                    self.rows_of(self.plan(&after_conflict(schema, conflict, new, old))?)
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
    pub(crate) fn update(&self, update: &Update, returning: Option<&Returning>) -> Result<Done> {
        self.write_after(returning, |_| {
            let dml = self.plan_write(&update.to_string())?;
            let schema = self.schema_of(&dml)?;
            let set = check_assignments(&schema, &update.assignments)?;
            let set = set.iter().map(|(name, _)| schema.column_index(name)).collect::<Result<Vec<_>>>()?;
            let mut rows = self.rows_of(dml.input.as_ref().clone())?;
            // Beside rows of FROM a row may be there more than once: as in PostgreSQL any of these changes it.
            if !update.table.joins.is_empty() {
                rows = distinct(&schema, rows, true)?;
            }
            // Those that are changed are those that were read.
            Ok(Change { read: rows.clone(), ..upsert(&schema, rows, &set)? })
        })
    }

    /// Plans an UPDATE or DELETE over the tables as they are shown.
    fn plan_write(&self, sql: &str) -> Result<DmlStatement> {
        match self.plan(sql)? {
            LogicalPlan::Dml(dml) => Ok(dml),
            _ => Err(Error::bug("a statement that writes became something else")),
        }
    }

    /// Runs a DELETE.
    pub(crate) fn delete(&self, delete: Delete, returning: Option<&Returning>) -> Result<Done> {
        let joined = joined(&delete);
        let (sql, rows) = with_rows(delete);
        self.write_after(returning, |view| {
            if let Some(joined) = &joined {
                self.plan(joined)?;
            }
            self.deletes(view, &sql, rows.as_deref(), returning.is_some())
        })
    }

    /// Deletes all rows of a table.
    pub(crate) fn truncate(&self, table: &ObjectName) -> Result<Done> {
        self.write_after(None, |view| self.deletes(view, &format!("DELETE FROM {table}"), None, false))
    }

    /// What a DELETE does: of the rows of a query, if there is one, which are looked at only if they must be, or `gives_rows`.
    fn deletes(&self, view: &View, sql: &str, rows: Option<&str>, gives_rows: bool) -> Result<Change> {
        let dml = self.plan_write(sql)?;
        let schema = self.schema_of(&dml)?;
        let input = rows.map_or(Ok(dml.input), |rows| self.plan(rows).map(Arc::new))?;
        let plan = self.context.state().optimize(&input).map_err(engine_error)?;
        let table = view.table(&schema.name)?;
        let by_container = match condition(&plan) {
            Condition::Nothing => Some((Batch::new(), 0)),
            Condition::Scan(filters) => {
                request(&schema, filters).map(|request| delete_containers(table, &request)).transpose()?
            }
            Condition::Other => None,
        };
        let rows = match &by_container {
            Some(_) if !gives_rows => Vec::new(),
            _ => named(&schema, self.rows_of(input.as_ref().clone())?)?,
        };
        // Whole containers and stretches of time are deleted whatever their rows are.
        let read = if by_container.is_some() { Vec::new() } else { rows.clone() };
        let (batch, count) = by_container.map_or_else(|| delete_rows(&schema, &rows), Ok)?;
        Ok(Change { table: schema, batch, count, rows, read })
    }

    /// Writes what `change` makes of the tables as they are now, which they show; no other write comes between. In a
    /// transaction it is gathered.
    fn write_after(&self, returning: Option<&Returning>, change: impl FnOnce(&View) -> Result<Change>) -> Result<Done> {
        let writer = self.store.writer()?;
        let mut transaction = self.transaction();
        transaction.check()?;
        if !transaction.is_none() {
            let base = transaction.base(|| self.store.view());
            let view = transaction.over(base.clone())?;
            self.tables.show(view.clone());
            let change = change(&view)?;
            let guard = match change.read.iter().any(|rows| rows.num_rows() > 0) {
                true => Some(self.guard(&base, &change.table, &change.read)?),
                false => None,
            };
            let returned = self.returned(returning, &change.table, change.rows)?;
            transaction.change(change.batch, guard)?;
            return Ok(Done { count: change.count, returned });
        }
        drop(transaction);
        let mut done = Done { count: 0, returned: None };
        writer.transact(|view| {
            self.tables.show(view.clone());
            let change = change(view)?;
            let returned = self.returned(returning, &change.table, change.rows)?;
            done = Done { count: change.count, returned };
            Ok(change.batch)
        })?;
        Ok(done)
    }

    /// Runs something with a table that nobody else sees; it is given the table's name.
    pub(crate) fn with_temporary<T>(
        &self,
        what: &str,
        table: Arc<dyn TableProvider>,
        run: impl FnOnce(&str) -> Result<T>,
    ) -> Result<T> {
        let name = format!("{TEMPORARY}.{what}_{}", self.statements.fetch_add(1, Ordering::Relaxed));
        self.context.register_table(&name, table).map_err(engine_error)?;
        let done = run(&name);
        self.context.deregister_table(&name).map_err(engine_error)?;
        done
    }
}

/// The query that gives what is written of an INSERT's rows, where there are old ones.
fn after_conflict(schema: &TableSchema, conflict: &Conflict, new: &str, old: &str) -> String {
    let called = match conflict {
        Conflict::Nothing => &schema.name,
        Conflict::Update { called, .. } => called,
    };
    let called = quote(called);
    let equal = |name: &&str| format!("({called}.{0} IS NOT DISTINCT FROM {EXCLUDED}.{0})", quote(name));
    let same = primary_key_names(schema).iter().map(equal).collect::<Vec<_>>().join(" AND ");
    match conflict {
        Conflict::Nothing => {
            format!("SELECT * FROM {new} AS {EXCLUDED} WHERE NOT EXISTS (SELECT 1 FROM {old} AS {called} WHERE {same})")
        }
        Conflict::Update { columns, condition, .. } => format!(
            "SELECT {} FROM {new} AS {EXCLUDED} LEFT JOIN (SELECT *, true AS {THERE} FROM {old}) AS {called} ON {same} \
             WHERE {THERE} IS NULL OR ({})",
            columns.join(", "),
            condition.as_deref().unwrap_or("true")
        ),
    }
}

/// The tables of a DELETE with USING side by side, under its condition. It is planned only: a column that several of them have
/// is ambiguous there, and would be the inner one's in the EXISTS of [`with_rows`].
fn joined(delete: &Delete) -> Option<String> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let tables = from.iter().chain(delete.using.as_ref()?).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let condition = delete.selection.as_ref()?;
    Some(format!("SELECT 1 FROM {tables} WHERE {condition}"))
}

/// A DELETE's text, and a query for its rows if it has what DataFusion does not know there: another name for its table, or
/// USING, which is written as an EXISTS.
pub(crate) fn with_rows(mut delete: Delete) -> (String, Option<String>) {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &mut delete.from;
    let [TableWithJoins { relation: table @ TableFactor::Table { .. }, .. }] = from.as_mut_slice() else {
        return (delete.to_string(), None);
    };
    let called = table.to_string();
    let TableFactor::Table { alias, .. } = table else { return (delete.to_string(), None) };
    if alias.take().is_none() && delete.using.is_none() {
        return (delete.to_string(), None);
    }
    let condition = delete.selection.take().map_or_else(|| "true".to_owned(), |condition| condition.to_string());
    let query = match delete.using.take() {
        Some(others) => {
            let others = others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("SELECT * FROM {called} WHERE EXISTS (SELECT 1 FROM {others} WHERE {condition})")
        }
        None => format!("SELECT * FROM {called} WHERE {condition}"),
    };
    (delete.to_string(), Some(query))
}

/// Deletes rows one by one.
fn delete_rows(schema: &TableSchema, rows: &[RecordBatch]) -> Result<(Batch, u64)> {
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    if count > MOST_SINGLE_DELETES {
        return Err(Error::coded(
            Code::LimitExceeded,
            format!(
                "this DELETE is not by key and time only, and would delete {count} rows one by one: the most is \
             {MOST_SINGLE_DELETES}. Give conditions on ({}) that name the rows",
                primary_key_names(schema).join(", ")
            ),
        ));
    }
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

/// Rows that replace those with their keys; NULLs in the columns that are set do, too.
fn upsert(schema: &Arc<TableSchema>, rows: Vec<RecordBatch>, set: &[usize]) -> Result<Change> {
    let rows = named(schema, rows)?;
    let batch = rows.iter().try_fold(Batch::new(), |batch, rows| match set {
        [] => Ok(batch.with(&schema.name, without_nulls(schema, rows.clone())?)),
        set => batch.with_whole(schema, rows.clone(), set),
    })?;
    let count = batch.rows() as u64;
    Ok(Change { table: Arc::clone(schema), batch, count, rows, read: Vec::new() })
}

/// Where tables of one statement are.
pub(crate) const TEMPORARY: &str = "temporary";

/// What a planned DELETE reads.
enum Condition<'a> {
    Nothing,
    /// A scan with these filters, and nothing behind it.
    Scan(&'a [datafusion::logical_expr::Expr]),
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

fn delete_containers(table: &TableView, request: &ScanRequest) -> Result<(Batch, u64)> {
    let name = &table.schema().name;
    let times = request.from.unwrap_or(i64::MIN)..=request.to.unwrap_or(i64::MAX);
    let (mut batch, mut count, mut containers) = (Batch::new(), 0, 0);
    for container in table.containers(request, &[])? {
        let container = container?;
        count += container.rows;
        containers += 1;
        if !request.key_predicates.is_empty() {
            if containers > MOST_CONTAINERS {
                return Err(Error::coded(
                    Code::LimitExceeded,
                    format!("this DELETE is about more than {MOST_CONTAINERS} containers: delete part by part"),
                ));
            }
            batch = batch.delete(name, Some(&container.key), times.clone());
        }
    }
    if request.key_predicates.is_empty() && count > 0 {
        batch = batch.delete(name, None, times);
    }
    Ok((batch, count))
}

/// A row's key, and its time in a time-series table.
fn key_of(schema: &TableSchema, rows: &RecordBatch, row: usize) -> Result<(Vec<Value>, Option<i64>)> {
    let value = |place: usize| {
        let value = ScalarValue::try_from_array(rows.column(place), row).map_err(engine_error)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        let column = &schema.columns[place];
        key_value(column, &value).ok_or_else(|| Error::bug(format!("{value} in column '{}'", column.name)))
    };
    let key = schema.key.iter().map(|&place| value(place)).collect::<Result<_>>()?;
    match schema.time.map(value).transpose()? {
        Some(Value::Int(time)) => Ok((key, Some(time))),
        Some(_) => Err(Error::coded(Code::NotNull, format!("table '{}': the time of a row is NULL", schema.name))),
        None => Ok((key, None)),
    }
}

/// What to read to find the rows that are there with the keys of these.
pub(crate) fn rows_with_keys_of(schema: &TableSchema, rows: &[RecordBatch]) -> Result<ScanRequest> {
    let mut request = ScanRequest { keys: Some(Vec::new()), ..ScanRequest::default() };
    let mut last = None;
    for rows in rows {
        for row in 0..rows.num_rows() {
            let (key, time) = key_of(schema, rows, row)?;
            request.from = time.map(|time| request.from.map_or(time, |from| from.min(time)));
            request.to = time.map(|time| request.to.map_or(time, |to| to.max(time)));
            // The engine sorts keys and takes each once; rows of one container mostly come together.
            if last.as_ref() != Some(&key) {
                request = request.container(&key);
                last = Some(key);
            }
        }
    }
    Ok(request)
}

/// The schema of a table's rows that nobody has checked yet: each value may be NULL.
pub(crate) fn unchecked(schema: &TableSchema) -> SchemaRef {
    let fields = schema.to_arrow();
    let fields = fields.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}

/// The rows under the table's own column names and types ([`unchecked`]); a value that does not fit its type is an error.
pub(crate) fn named(schema: &TableSchema, rows: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let arrow = unchecked(schema);
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let typed = |rows: &RecordBatch| {
        let columns = rows.columns().iter().zip(arrow.fields()).map(|(column, field)| {
            cast_with_options(column, field.data_type(), &options)
                .map_err(|e| Error::from(e).context(format_args!("column '{}'", field.name())))
        });
        Ok(RecordBatch::try_new(Arc::clone(&arrow), columns.collect::<Result<_>>()?)?)
    };
    rows.iter().map(typed).collect()
}

/// Rows whose keys differ. With `first` the first row of a key is kept; else a second one is an error.
fn distinct(schema: &TableSchema, rows: Vec<RecordBatch>, first: bool) -> Result<Vec<RecordBatch>> {
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
        if !first && new.contains(&false) {
            return Err(Error::coded(
                Code::Cardinality,
                "ON CONFLICT DO UPDATE cannot change a row twice: two rows of the INSERT have one key",
            ));
        }
        kept.push(filter_record_batch(&rows, &new.into())?);
    }
    Ok(kept)
}

pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
