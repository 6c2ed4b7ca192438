//! Writes to temporary tables. Each statement makes a new table of the rows that stay and the new ones
//! ([`TemporaryTable`]), so nothing of one that fails remains.

use crate::answer::Answer;
use crate::session::Session;
use crate::write::defaults::fill_defaults_of_assignments;
use crate::write::merge_query::{ROW, numbered, with_number};
use crate::write::returning::{Returning, WriteOutcome};
use crate::write::rows::named;
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::Int64Type;
use arrow::row::{RowConverter, SortField};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Insert, ObjectName, SelectItem, Statement as SqlStatement, TableFactor, TableObject, Truncate,
    Update,
};
use fleetdb_direct::conflict::check_assignments;
use fleetdb_engine::{Code, Error, Result, TableSchema};
use fleetdb_functions::errors::{engine_error, unsupported};
use fleetdb_plan::temporary::{HeldRows, TemporaryTable};
use fleetdb_statement::Statement;
use fleetdb_statement::built::{self, quoted};
use fleetdb_statement::names::{TEMPORARY_TABLES, bare_name, identifier, temporary_name};
use fleetdb_statement::written::written_tables;
use std::collections::HashSet;
use std::sync::Arc;

/// Fewer rows than this are appended to those before them, so that many small INSERTs do not leave many small
/// batches.
const SMALL_ROWS: usize = 1024;

/// About what a primary key takes while it is compared with the others.
const KEY_BYTES: usize = 64;

/// The name of a temporary table in a statement that the session made.
pub(crate) fn pg_temp(name: &str) -> ObjectName {
    vec![quoted(TEMPORARY_TABLES), quoted(name)].into()
}

impl Session {
    /// Whether a statement writes, alters or drops a temporary table. Such a statement can only be
    /// [executed](Self::execute).
    pub fn writes_temporary(&self, statement: &Statement) -> bool {
        if self.temporaries.is_empty() {
            return false;
        }
        let names = statement.with_stack(|| statement.sql().map(written_tables).unwrap_or_default());
        names.iter().any(|name| self.temporary_named(name).is_some())
    }

    /// The columns of a temporary table; `None` if there is none of this name.
    pub fn temporary_schema(&self, name: &str) -> Option<Arc<TableSchema>> {
        self.temporaries.get(name).map(|table| Arc::clone(&table.schema))
    }

    /// Adds rows to a temporary table, as COPY does.
    ///
    /// # Errors
    /// The table does not exist or does not take the rows, or there is not enough memory.
    pub fn insert_into_temporary(&self, name: &str, rows: RecordBatch) -> Result<()> {
        self.check_transaction()?;
        let table = self.temporaries.get(name).ok_or_else(|| undefined(name))?;
        let rows = named(&table.schema, vec![rows])?;
        rows.iter().try_for_each(|rows| table.schema.check_rows(rows))?;
        let rows = rows.into_iter().map(|rows| self.temporaries.hold(name, rows)).collect::<Result<_>>()?;
        self.add_to(&table, rows)
    }

    /// The temporary table that a statement names.
    pub(crate) fn temporary_named(&self, name: &ObjectName) -> Option<Arc<TemporaryTable>> {
        if self.temporaries.is_empty() {
            return None;
        }
        let bare = if name.0.len() == 1 { bare_name(name) } else { temporary_name(name) };
        self.temporaries.get(&bare?)
    }

    /// Refuses an EXPLAIN of a statement that writes to a temporary table: DataFusion would not do so.
    pub(crate) fn check_explained(&self, statement: &ParsedStatement) -> Result<()> {
        let mut inner = statement;
        while let ParsedStatement::Explain(explain) = inner {
            inner = &explain.statement;
        }
        match inner {
            ParsedStatement::Statement(sql) if !self.temporaries.is_empty() => {
                match written_tables(sql).iter().any(|name| self.temporary_named(name).is_some()) {
                    true => Err(unsupported("EXPLAIN of a statement that writes to a temporary table")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Runs a statement that writes or drops temporary tables; `None` if it does not.
    pub(crate) fn run_on_temporary(&self, sql: &SqlStatement, returning: Option<&Returning>) -> Result<Option<Answer>> {
        let names = if self.temporaries.is_empty() { Vec::new() } else { written_tables(sql) };
        let Some(table) = names.iter().find_map(|name| self.temporary_named(name)) else { return Ok(None) };
        self.check_transaction()?;
        let done = match sql {
            SqlStatement::Insert(insert) => {
                return self
                    .insert_temporary(&table, insert.clone(), returning)
                    .map(|done| Some(self.done("INSERT 0", done)));
            }
            SqlStatement::Update(update) => {
                self.done("UPDATE", self.update_temporary(&table, update.clone(), returning)?)
            }
            SqlStatement::Delete(delete) => self.done("DELETE", self.delete_temporary(&table, delete, returning)?),
            SqlStatement::Truncate(truncate) => self.truncate_temporary(truncate)?,
            SqlStatement::Drop { names, .. } => {
                let found: Vec<_> = names.iter().filter_map(|name| self.temporary_named(name)).collect();
                if found.len() < names.len() {
                    return Err(unsupported("DROP TABLE of temporary tables and others in one statement"));
                }
                found.iter().for_each(|table| self.temporaries.remove(&table.schema.name));
                Answer::done("DROP TABLE")
            }
            _ => {
                let message = format!(
                    "table \"{}\" is temporary: it takes INSERT, UPDATE, DELETE, TRUNCATE and COPY \
                     FROM STDIN, each as a statement of its own",
                    table.schema.name
                );
                return Err(Error::new(Code::NotSupported, message));
            }
        };
        Ok(Some(done))
    }

    fn insert_temporary(
        &self,
        table: &TemporaryTable,
        mut insert: Insert,
        returning: Option<&Returning>,
    ) -> Result<WriteOutcome> {
        if insert.on.is_some() {
            return Err(unsupported("ON CONFLICT for a temporary table"));
        }
        insert.table = TableObject::TableName(pg_temp(&table.schema.name));
        insert.table_alias = None;
        self.complete(&mut insert)?;
        let plan = self.plan_of(ParsedStatement::Statement(Box::new(SqlStatement::Insert(insert))))?;
        let LogicalPlan::Dml(dml) = plan else { return Err(Error::bug("an INSERT became something else")) };
        let rows = self.held_rows(table, dml.input.as_ref().clone())?;
        let written: Vec<_> = rows.iter().map(|held| held.rows.clone()).collect();
        let count = written.iter().map(|rows| rows.num_rows() as u64).sum();
        let returned = self.returned(returning, &table.schema, written)?;
        self.add_to(table, rows)?;
        Ok(WriteOutcome { count, returned, acknowledged: None })
    }

    /// Adds rows to a table.
    fn add_to(&self, table: &TemporaryTable, mut rows: Vec<Arc<HeldRows>>) -> Result<()> {
        let mut table = table.clone();
        if let ([new], Some(last)) = (rows.as_slice(), table.rows.last())
            && new.rows.num_rows() + last.rows.num_rows() <= SMALL_ROWS
        {
            let both = concat_batches(&new.rows.schema(), [&last.rows, &new.rows])?;
            table.rows.pop();
            rows = vec![self.temporaries.hold(&table.schema.name, both)?];
        }
        table.rows.extend(rows);
        self.replace(table)
    }

    /// Makes a table the one of its name.
    fn replace(&self, table: TemporaryTable) -> Result<()> {
        self.check_keys(&table)?;
        self.temporaries.put(table);
        Ok(())
    }

    /// Runs an UPDATE.
    fn update_temporary(
        &self,
        table: &TemporaryTable,
        mut update: Update,
        returning: Option<&Returning>,
    ) -> Result<WriteOutcome> {
        if update.from.is_some() {
            return Err(unsupported("UPDATE ... FROM"));
        }
        let schema = &table.schema;
        fill_defaults_of_assignments(&mut update.assignments, schema)?;
        let set = check_assignments(schema, &update.assignments)?;
        let called = called(&update.table.relation, schema);
        let value = |name: &String| match set.iter().find(|(set, _)| set == name) {
            Some((_, value)) => (*value).clone(),
            None => built::column(&called, name),
        };
        let names: Vec<&String> = schema.columns.iter().map(|column| &column.name).collect();
        let values = names.iter().map(|name| value(name)).chain([built::column(&called, ROW)]);
        let items = values.map(SelectItem::UnnamedExpr).collect();
        let columns = names.iter().map(|name| quoted(name)).chain([quoted(ROW)]).map(ObjectName::from).collect();
        // Planned as an INSERT, so that the values become the columns' types.
        let changed =
            MemTable::try_new(with_number(&schema.to_nullable_arrow()), vec![Vec::new()]).map_err(engine_error)?;
        let mut from = update.table.clone();
        let checked = names.iter().map(|name| value(name)).collect();
        self.refresh()?;
        self.check_names(checked, vec![from.clone()], update.selection.clone())?;
        let found = self.with_temporary("changed", Arc::new(changed), |changed| {
            self.with_temporary("rows", Arc::new(numbered(&schema.to_nullable_arrow(), table.batches())?), |rows| {
                from.relation = built::table(rows, Some(&called));
                let query = built::select(items, vec![from], update.selection.take());
                self.gathered(table, self.plan_rows_to_insert(built::insert(changed, columns, Some(query)))?)
            })
        })?;
        let mut replaced = HashSet::new();
        let mut new = Vec::new();
        for held in found {
            // Joined with the rows of FROM, a row may occur several times; as in PostgreSQL, any one of
            // them updates it.
            let first: BooleanArray = numbers(&held)?.into_iter().map(|row| Some(replaced.insert(row))).collect();
            new.push(filter_record_batch(&held, &first)?);
        }
        let new = named(schema, new)?;
        new.iter().try_for_each(|rows| schema.check_rows(rows))?;
        let returned = self.returned(returning, schema, new.clone())?;
        let (mut rows, _) = self.split(table, &replaced)?;
        let name = &schema.name;
        for batch in new.into_iter().filter(|rows| rows.num_rows() > 0) {
            rows.push(self.temporaries.hold(name, batch)?);
        }
        self.replace(TemporaryTable { rows, ..table.clone() })?;
        Ok(WriteOutcome { count: replaced.len() as u64, returned, acknowledged: None })
    }

    /// Runs a DELETE.
    fn delete_temporary(
        &self,
        table: &TemporaryTable,
        delete: &Delete,
        returning: Option<&Returning>,
    ) -> Result<WriteOutcome> {
        let schema = &table.schema;
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [from] = from.as_slice() else { return Err(unsupported("DELETE from several tables")) };
        let called = called(&from.relation, schema);
        self.refresh()?;
        let tables = [from.clone()].into_iter().chain(delete.using.iter().flatten().cloned()).collect();
        self.check_names(Vec::new(), tables, delete.selection.clone())?;
        let rows = numbered(&schema.to_nullable_arrow(), table.batches())?;
        let found = self.with_temporary("rows", Arc::new(rows), |rows| {
            let mut tables = vec![built::unjoined(built::table(rows, Some(&called)))];
            tables.extend(delete.using.iter().flatten().cloned());
            let row = SelectItem::UnnamedExpr(built::column(&called, ROW));
            let plan = self.plan_query(built::select(vec![row], tables, delete.selection.clone()))?;
            self.gathered(table, plan)
        })?;
        let mut deleted = HashSet::new();
        for rows in &found {
            deleted.extend(numbers(rows)?);
        }
        let (rows, gone) = self.split(table, &deleted)?;
        let returned = self.returned(returning, schema, gone)?;
        self.temporaries.put(TemporaryTable { rows, ..table.clone() });
        Ok(WriteOutcome { count: deleted.len() as u64, returned, acknowledged: None })
    }

    /// Deletes all rows of temporary and stored tables.
    fn truncate_temporary(&self, truncate: &Truncate) -> Result<Answer> {
        let names = truncate.table_names.iter().map(|table| &table.name);
        let (temporary, stored): (Vec<_>, Vec<_>) = names.partition(|name| self.temporary_named(name).is_some());
        if !stored.is_empty() {
            self.truncate(&stored)?;
        }
        for table in temporary.into_iter().filter_map(|name| self.temporary_named(name)) {
            self.temporaries.put(TemporaryTable { rows: Vec::new(), ..table.as_ref().clone() });
        }
        Ok(Answer::done("TRUNCATE TABLE"))
    }

    /// The rows of a table without those that have these numbers, and the others.
    fn split(&self, table: &TemporaryTable, numbers: &HashSet<i64>) -> Result<(Vec<Arc<HeldRows>>, Vec<RecordBatch>)> {
        let (mut kept, mut others, mut next) = (Vec::new(), Vec::new(), 0_i64);
        for held in &table.rows {
            let first = next;
            next += held.rows.num_rows() as i64;
            let stays: BooleanArray = (first..next).map(|row| Some(!numbers.contains(&row))).collect();
            match stays.false_count() {
                0 => kept.push(Arc::clone(held)),
                gone => {
                    others.push(filter_record_batch(&held.rows, &arrow::compute::not(&stays)?)?);
                    if gone < stays.len() {
                        let rows = filter_record_batch(&held.rows, &stays)?;
                        kept.push(self.temporaries.hold(&table.schema.name, rows)?);
                    }
                }
            }
        }
        Ok((kept, others))
    }

    /// The rows of a query in the columns of a table, charged to memory as they come.
    pub(crate) fn held_rows(&self, table: &TemporaryTable, plan: LogicalPlan) -> Result<Vec<Arc<HeldRows>>> {
        let mut held = Vec::new();
        self.each_batch(plan, |rows| {
            for rows in named(&table.schema, vec![rows])?.into_iter().filter(|rows| rows.num_rows() > 0) {
                table.schema.check_rows(&rows)?;
                held.push(self.temporaries.hold(&table.schema.name, rows)?);
            }
            Ok(true)
        })?;
        Ok(held)
    }

    /// The rows of a query, for which there must be memory.
    fn gathered(&self, table: &TemporaryTable, plan: LogicalPlan) -> Result<Vec<RecordBatch>> {
        let (mut gathered, mut held) = (Vec::new(), Vec::new());
        self.each_batch(plan, |rows| {
            held.push(self.temporaries.hold(&table.schema.name, rows.clone())?);
            gathered.push(rows);
            Ok(true)
        })?;
        Ok(gathered)
    }

    /// Fails if two rows have the same primary key.
    pub(crate) fn check_keys(&self, table: &TemporaryTable) -> Result<()> {
        if table.key.is_empty() {
            return Ok(());
        }
        let schema = &table.schema;
        let field = |place: &usize| SortField::new(schema.columns[*place].column_type.to_arrow());
        let converter = RowConverter::new(table.key.iter().map(field).collect())?;
        let what = format!("the primary keys of temporary table \"{}\"", schema.name);
        let _held = self.store.query_memory().reserve(&what, table.count() as usize * KEY_BYTES)?;
        let mut known = HashSet::new();
        for held in &table.rows {
            let columns: Vec<_> = table.key.iter().map(|place| Arc::clone(held.rows.column(*place))).collect();
            let keys = converter.convert_columns(&columns)?;
            if !keys.iter().all(|key| known.insert(key.as_ref().to_vec())) {
                let message = format!("duplicate key value violates unique constraint \"{}_pkey\"", schema.name);
                return Err(Error::new(Code::DuplicateKey, message));
            }
        }
        Ok(())
    }
}

fn undefined(name: &str) -> Error {
    Error::new(Code::UndefinedTable, format!("relation \"{name}\" does not exist"))
}

/// The name by which an UPDATE or DELETE refers to its table.
fn called(factor: &TableFactor, schema: &TableSchema) -> String {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } => identifier(&alias.name),
        _ => schema.name.clone(),
    }
}

/// The numbers in the last column.
fn numbers(rows: &RecordBatch) -> Result<Vec<i64>> {
    let numbers = rows.columns().last().and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
    let numbers = numbers.ok_or_else(|| Error::bug("the rows of a temporary table have no numbers"))?;
    Ok(numbers.iter().flatten().collect())
}
