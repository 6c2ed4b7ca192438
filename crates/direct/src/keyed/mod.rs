//! Writes that depend on the rows with given primary keys: `INSERT ... ON CONFLICT`, UPDATE and
//! DELETE. They are analyzed once ([`KeyedWrite::of`]) and then run without planning.
//!
//! 1. [`keys`] is a condition that names rows or containers, [`program`] an expression or a condition
//!    over an old and a new row, which [`compile`] makes.
//! 2. [`KeyedWrite::push`] reads the old rows and makes the batch to write. The caller holds the commit
//!    lock ([`Database::transact`](fleetdb_engine::Database::transact)) or is in a transaction.
//!
//! Everything else is left to the planner.

mod compile;
mod keys;
mod program;

use crate::cells::{Cell, Generated, ParameterTypes, canonical};
use crate::conflict::{Conflict, check_assignments, conflict};
use crate::primary_key::primary_key;
use crate::values::{Cells, cells_of, table_of};
use compile::Scope;
use datafusion::sql::sqlparser::ast::{
    Assignment, Delete, FromTable, Insert, OnConflictAction, OnInsert, Statement as SqlStatement, TableFactor,
    TableWithJoins, Update,
};
use fleetdb_engine::{
    Batch, Column, ColumnType, Container, Database, Result, ScanRequest, TableSchema, TableView, Value, View,
};
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::Statement;
use fleetdb_statement::names::{called, identifier, object_name};
use keys::{Keys, Span};
use program::{Condition, Inputs, Program};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

/// The most rows that one write reads under the commit lock. With more, it is planned.
const MAX_READ_ROWS: usize = 10_000;

/// A write by primary keys that needs no planning. See the module documentation.
///
/// ```
/// use fleetdb_engine::{Database, Settings, Value, io::{Io, MemoryStorage}};
/// use fleetdb_query::{KeyedWrite, Session, Zone};
/// let db = std::sync::Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
/// let session = Session::new(db.clone(), fleetdb_query::Plain::new()).unwrap();
/// session.sql("CREATE TABLE t (id BIGINT, n BIGINT, PRIMARY KEY (id))").unwrap();
/// let text = "INSERT INTO t VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1";
/// let statement = session.parse_one(text).unwrap();
/// let write = KeyedWrite::of(&statement, &db, Zone::Utc).unwrap();
/// for _ in 0..3 {
///     assert_eq!(session.run_keyed(&write, &[Value::Int(7)]).unwrap(), Some(1));
/// }
/// let row = db.container("t", &[Value::Int(7)]).unwrap().last_row().unwrap();
/// assert_eq!(row, Some(vec![Value::Int(7), Value::Int(3)]));
/// ```
pub struct KeyedWrite {
    schema: Arc<TableSchema>,
    /// The zone in which times are read from text.
    zone: Zone,
    /// The types of the parameters, in order.
    types: Vec<ColumnType>,
    action: Action,
}

enum Action {
    /// Inserts rows; the change is made to a row that exists, which stays without one.
    Insert { cells: Cells, change: Option<RowChange> },
    /// Changes rows that are named by their primary keys.
    Update { keys: Keys, change: RowChange },
    /// Deletes containers, or spans of time in them, or only the rows that meet a condition.
    Delete { keys: Keys, condition: Option<Condition> },
}

/// What becomes of a row that exists.
struct RowChange {
    /// One for each column.
    programs: Vec<Program>,
    /// The condition under which the row is changed.
    condition: Option<Condition>,
}

/// What a keyed write does to the tables of a view.
pub struct KeyedChange {
    /// The changes.
    pub batch: Batch,
    /// The number of affected rows.
    pub count: u64,
    /// Rows with the keys of the rows whose values the change depends on.
    pub read: Vec<Vec<Value>>,
    /// The rows as they are written; none for a DELETE.
    pub written: Vec<Vec<Value>>,
}

impl KeyedWrite {
    /// Analyzes a statement in a session with this zone; `None` if it is not such a write or must be
    /// planned.
    pub fn of(statement: &Statement, db: &Database, zone: Zone) -> Option<Self> {
        statement.with_stack(|| Self::of_sql(statement.sql()?, db, zone))
    }

    /// Like [`of`](Self::of).
    pub fn of_sql(statement: &SqlStatement, db: &Database, zone: Zone) -> Option<Self> {
        let mut types = ParameterTypes::default();
        let (schema, action) = match statement {
            SqlStatement::Insert(insert) => insert_of(insert, db, zone, &mut types)?,
            SqlStatement::Update(update) => update_of(update, db, zone, &mut types)?,
            SqlStatement::Delete(delete) => delete_of(delete, db, zone, &mut types)?,
            _ => return None,
        };
        // In a table that merges fields, a NULL does not replace a value by itself.
        if schema.merges_fields() {
            return None;
        }
        Some(Self { schema, zone, types: types.known()?, action })
    }

    /// The types of the parameters `$1`, `$2`, ...
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.types
    }

    /// The table that is written.
    pub fn table(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Whether the table and the session's zone are unchanged since the statement was analyzed.
    pub fn fits(&self, db: &Database, zone: Zone) -> bool {
        self.zone == zone && db.table(&self.schema.name).is_ok_and(|now| Arc::ptr_eq(&now, &self.schema))
    }

    /// The command tag's verb.
    pub fn verb(&self) -> &'static str {
        match self.action {
            Action::Insert { .. } => "INSERT",
            Action::Update { .. } => "UPDATE",
            Action::Delete { .. } => "DELETE",
        }
    }

    /// The number of affected rows if it does not depend on existing rows: that of an INSERT whose
    /// rows update those with their keys.
    pub fn known_count(&self) -> Option<u64> {
        match &self.action {
            Action::Insert { cells, change: Some(RowChange { condition: None, .. }) } => Some(cells.rows.len() as u64),
            _ => None,
        }
    }

    /// The values as its columns have them; `None` if the statement must be planned with them, because
    /// one is of another type or out of range, or because rows of an INSERT have one key or a NULL in it.
    pub fn fitted(&self, values: Vec<Value>) -> Option<Vec<Value>> {
        if values.len() != self.types.len() {
            return None;
        }
        let fitted = values.into_iter().zip(&self.types).map(|(value, column_type)| fit(value, *column_type));
        let fitted = fitted.collect::<Option<Vec<_>>>()?;
        let keys = self.inserted_keys(&fitted)?;
        let count = keys.len();
        (count < 2 || keys.into_iter().collect::<HashSet<_>>().len() == count).then_some(fitted)
    }

    /// The primary keys of an INSERT's rows, each as bytes that only equal keys share; none for other
    /// writes. `None` if a key has a NULL.
    pub fn inserted_keys(&self, values: &[Value]) -> Option<Vec<Vec<u8>>> {
        let Action::Insert { cells, .. } = &self.action else { return Some(Vec::new()) };
        let places = primary_key(&self.schema);
        let key = |cells: &Vec<Cell>| {
            let mut key = Vec::new();
            for place in &places {
                push_key(&mut key, cells[*place].value(values, &[]))?;
            }
            Some(key)
        };
        cells.rows.iter().map(key).collect()
    }

    /// Whether it names single rows, which are read in no time.
    pub fn is_of_rows(&self) -> bool {
        let has_time = self.schema.time.is_some();
        match &self.action {
            Action::Insert { .. } => true,
            Action::Update { keys, .. } | Action::Delete { keys, .. } => keys.are_rows(has_time),
        }
    }

    /// Whether it knows the rows that a RETURNING clause is about. A DELETE does not read its rows.
    pub fn knows_rows(&self) -> bool {
        !matches!(self.action, Action::Delete { .. })
    }

    /// Memory of the literals of an INSERT, in bytes. Those of other writes are few.
    pub fn bytes(&self) -> usize {
        let Action::Insert { cells, .. } = &self.action else { return 0 };
        let of_cell = |cell: &Cell| match cell {
            Cell::Value(value) => value.bytes(),
            Cell::Parameter(_) | Cell::Generated(_) => size_of::<Cell>(),
        };
        cells.rows.iter().flatten().map(of_cell).sum()
    }

    /// Appends the changes to a batch, given the tables as they are when the batch is written. The
    /// values are [fitted](Self::fitted). Returns the number of affected rows; `None` if the statement
    /// must be planned, because the table has changed or because it reads too many rows.
    ///
    /// # Errors
    /// A value is out of range, a value that must not be NULL is, or reading failed.
    pub fn push(&self, view: &View, values: &[Value], batch: &mut Batch) -> Result<Option<u64>> {
        let Some(change) = self.change(view, values)? else { return Ok(None) };
        *batch = std::mem::take(batch).append(change.batch);
        Ok(Some(change.count))
    }

    /// Like [`push`](Self::push), with the rows that were read.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn change(&self, view: &View, values: &[Value]) -> Result<Option<KeyedChange>> {
        let table = view.table(&self.schema.name)?;
        if !Arc::ptr_eq(table.schema(), &self.schema) {
            return Ok(None);
        }
        let made = KeyedChange { batch: Batch::new(), count: 0, read: Vec::new(), written: Vec::new() };
        let mut run = Run { write: self, table, values, now: SystemTime::now(), made };
        let is_done = match &self.action {
            Action::Insert { cells, change } => run.insert(cells, change.as_ref())?,
            Action::Update { keys, change } => run.update(keys, change)?,
            Action::Delete { keys, condition: Some(condition) } => run.delete_rows(keys, condition)?,
            Action::Delete { keys, condition: None } => run.delete(keys)?,
        };
        Ok(is_done.then_some(run.made))
    }
}

/// Appends a value of a key; `None` for NULL. The values of a column have one type: integers take 8 bytes, and
/// texts begin with their length, so only equal keys have equal bytes.
fn push_key(key: &mut Vec<u8>, value: &Value) -> Option<()> {
    match value {
        Value::Null => return None,
        Value::Int(number) => key.extend_from_slice(&number.to_be_bytes()),
        Value::Text(text) => {
            key.extend_from_slice(&text.len().to_be_bytes());
            key.extend_from_slice(text.as_bytes());
        }
        other => push_key(key, &Value::Text(format!("{other:?}")))?,
    }
    Some(())
}

/// A write while it runs. Its methods return `false` if the statement must be planned.
struct Run<'a> {
    write: &'a KeyedWrite,
    table: &'a TableView,
    values: &'a [Value],
    now: SystemTime,
    made: KeyedChange,
}

impl Run<'_> {
    fn insert(&mut self, cells: &Cells, change: Option<&RowChange>) -> Result<bool> {
        let schema = &self.write.schema;
        let generated: Vec<Value> = cells.generated.iter().filter_map(|generated| generated.now(self.now)).collect();
        for cells in &cells.rows {
            let new: Vec<Value> = cells.iter().map(|cell| cell.value(self.values, &generated).clone()).collect();
            let key: Vec<Value> = schema.key.iter().map(|place| new[*place].clone()).collect();
            let time = match schema.time.map(|place| &new[place]) {
                Some(Value::Int(time)) => *time,
                _ => 0,
            };
            let old = self.row(&self.table.container(&key)?, time)?;
            let row = match (old, change) {
                (None, _) => Some(new.clone()),
                (Some(_), None) => None,
                (Some(old), Some(change)) => self.changed(change, &old, &new)?,
            };
            if let Some(row) = row {
                self.write_row(row)?;
            }
            self.made.read.push(new);
        }
        Ok(true)
    }

    fn update(&mut self, keys: &Keys, change: &RowChange) -> Result<bool> {
        let Some(rows) = self.rows(keys)? else { return Ok(false) };
        for old in rows {
            if let Some(row) = self.changed(change, &old, &[])? {
                self.write_row(row)?;
                self.made.read.push(old);
            }
        }
        Ok(true)
    }

    fn delete_rows(&mut self, keys: &Keys, condition: &Condition) -> Result<bool> {
        let schema = &self.write.schema;
        let Some(rows) = self.rows(keys)? else { return Ok(false) };
        for old in rows {
            let inputs = Inputs { old: &old, new: &[], parameters: self.values, now: self.now };
            if condition.holds(&inputs)? == Some(true) {
                let key: Vec<Value> = schema.key.iter().map(|place| old[*place].clone()).collect();
                let (from, to) = match schema.time.map(|place| &old[place]) {
                    Some(Value::Int(time)) => (*time, *time),
                    _ => (i64::MIN, i64::MAX),
                };
                let batch = std::mem::take(&mut self.made.batch);
                self.made.batch = batch.delete(&schema.name, Some(&key), from..=to);
                self.made.count += 1;
                self.made.read.push(old);
            }
        }
        Ok(true)
    }

    fn delete(&mut self, keys: &Keys) -> Result<bool> {
        let schema = &self.write.schema;
        for Span { key, from, to } in keys.spans(self.values) {
            if self.table.container(&key).is_err() {
                continue;
            }
            let mut rows = ScanRequest::all().container(&key);
            if schema.time.is_some() {
                rows = rows.from_time(from).to_time(to);
            }
            let count = self.table.count_of(&rows)?;
            if count > 0 {
                let batch = std::mem::take(&mut self.made.batch);
                self.made.batch = batch.delete(&schema.name, Some(&key), from..=to);
                self.made.count += count;
            }
        }
        Ok(true)
    }

    fn write_row(&mut self, row: Vec<Value>) -> Result<()> {
        self.made.batch.push(&self.write.schema, &row)?;
        self.made.count += 1;
        self.made.written.push(row);
        Ok(())
    }

    /// The rows that keys name; `None` if there are too many.
    fn rows(&self, keys: &Keys) -> Result<Option<Vec<Vec<Value>>>> {
        let mut rows = Vec::new();
        for Span { key, from, to } in keys.spans(self.values) {
            // A value that the column cannot have is in no row.
            let Ok(container) = self.table.container(&key) else { continue };
            if self.write.schema.time.is_none() || from == to {
                rows.extend(self.row(&container, from)?);
            } else {
                match container.rows(from, to, MAX_READ_ROWS)? {
                    Some(found) => rows.extend(found),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(rows))
    }

    /// A row after a change; `None` if it does not meet the condition for it.
    fn changed(&self, change: &RowChange, old: &[Value], new: &[Value]) -> Result<Option<Vec<Value>>> {
        let inputs = Inputs { old, new, parameters: self.values, now: self.now };
        if let Some(condition) = &change.condition
            && condition.holds(&inputs)? != Some(true)
        {
            return Ok(None);
        }
        let of_column = |(program, column): (&Program, &Column)| {
            let value = program.value(&inputs);
            value.map_err(|error| error.context(format_args!("column '{}'", column.name)))
        };
        change.programs.iter().zip(&self.write.schema.columns).map(of_column).collect::<Result<_>>().map(Some)
    }

    /// A container's row at a time, or its only row in a table without times.
    fn row(&self, container: &Container<'_>, time: i64) -> Result<Option<Vec<Value>>> {
        if self.write.schema.time.is_some() { container.row(time) } else { container.last_row() }
    }
}

/// A value as a column has it; `None` if it cannot have it, or only by a cast.
fn fit(value: Value, column_type: ColumnType) -> Option<Value> {
    let value = match value {
        Value::Int(value) if column_type.is_float() => Value::Float(value as f64),
        Value::Decimal(value) if column_type.is_float() => Value::Float(value.to_f64()),
        value => value,
    };
    if let ColumnType::Decimal { precision, scale } = column_type {
        return match value {
            Value::Null => Some(Value::Null),
            value => value.decimal()?.with_scale(precision, scale).map(Value::Decimal),
        };
    }
    let value = canonical(value, column_type).ok()?;
    let is_same = match &value {
        Value::Null => true,
        Value::Float(_) => column_type.is_float(),
        Value::UInt(_) => false,
        value => value.fits(column_type),
    };
    is_same.then_some(value)
}

/// Whether equal values of a key column of this type are the same value, unlike 0.0 and -0.0.
fn is_exact(column_type: ColumnType) -> bool {
    let is_time = column_type.time_unit().is_some() || column_type == ColumnType::Date32;
    is_time
        || matches!(
            column_type,
            ColumnType::Int8
                | ColumnType::Int16
                | ColumnType::Int32
                | ColumnType::Int64
                | ColumnType::Boolean
                | ColumnType::Utf8
                | ColumnType::Uuid
                | ColumnType::Time
        )
}

type Found = Option<(Arc<TableSchema>, Action)>;

fn insert_of(insert: &Insert, db: &Database, zone: Zone, types: &mut ParameterTypes) -> Found {
    let Some(OnInsert::OnConflict(clause)) = &insert.on else { return None };
    let schema = table_of(insert, db).ok()??;
    let called = called(insert).ok()?;
    let conflict = conflict(&schema, &called, clause).ok()??;
    if !primary_key(&schema).into_iter().all(|place| is_exact(schema.columns[place].column_type)) {
        return None;
    }
    let cells = cells_of(insert, &schema, zone, types).ok()??;
    let of_key = primary_key(&schema);
    let is_generated_key = |row: &Vec<Cell>| of_key.iter().any(|place| matches!(row[*place], Cell::Generated(_)));
    // Numbers are made in front of the commit lock.
    if cells.generated.contains(&Generated::Number) || cells.rows.iter().any(is_generated_key) {
        return None;
    }
    // The planner refuses literals that are out of range, even if the row is ignored.
    let fits = |(cell, column): (&Cell, &Column)| match cell {
        Cell::Value(value) => fit(value.clone(), column.column_type).is_some(),
        Cell::Parameter(_) | Cell::Generated(_) => true,
    };
    if !cells.rows.iter().all(|cells| cells.iter().zip(&schema.columns).all(fits)) {
        return None;
    }
    let change = match (conflict, &clause.action) {
        (Conflict::Nothing, _) => None,
        (Conflict::Update { .. }, OnConflictAction::DoUpdate(update)) => {
            let scope = Scope { schema: &schema, called: &called, has_new: true, zone };
            let programs = programs(&update.assignments, &scope, types)?;
            let condition = match &update.selection {
                Some(selection) => Some(scope.condition(selection, types)?),
                None => None,
            };
            Some(RowChange { programs, condition })
        }
        _ => return None,
    };
    Some((schema, Action::Insert { cells, change }))
}

fn update_of(update: &Update, db: &Database, zone: Zone, types: &mut ParameterTypes) -> Found {
    let Update { optimizer_hints, from: None, returning: None, output: None, or: None, order_by, limit: None, .. } =
        update
    else {
        return None;
    };
    if !optimizer_hints.is_empty() || !order_by.is_empty() {
        return None;
    }
    let (name, called) = table_in(&update.table)?;
    let schema = db.table(&name).ok()?;
    let scope = Scope { schema: &schema, called: &called, has_new: false, zone };
    let programs = programs(&update.assignments, &scope, types)?;
    let (keys, condition) = Keys::of(update.selection.as_ref()?, &scope, types)?;
    let is_bounded = keys.are_bounded(schema.time.is_some());
    is_bounded.then_some((schema, Action::Update { keys, change: RowChange { programs, condition } }))
}

fn delete_of(delete: &Delete, db: &Database, zone: Zone, types: &mut ParameterTypes) -> Found {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let Delete { optimizer_hints, tables, using: None, returning: None, output: None, order_by, limit: None, .. } =
        delete
    else {
        return None;
    };
    let ([table], true) = (from.as_slice(), optimizer_hints.is_empty() && tables.is_empty() && order_by.is_empty())
    else {
        return None;
    };
    let (name, called) = table_in(table)?;
    let schema = db.table(&name).ok()?;
    let scope = Scope { schema: &schema, called: &called, has_new: false, zone };
    let (keys, condition) = Keys::of(delete.selection.as_ref()?, &scope, types)?;
    let has_time = schema.time.is_some();
    let is_direct = if condition.is_some() { keys.are_bounded(has_time) } else { !keys.are_long(has_time) };
    is_direct.then_some((schema, Action::Delete { keys, condition }))
}

/// A table and the name by which the statement refers to it; `None` for anything else.
fn table_in(table: &TableWithJoins) -> Option<(String, String)> {
    let TableFactor::Table { name, alias, args: None, .. } = &table.relation else { return None };
    let name = object_name(name).ok().filter(|_| table.joins.is_empty())?;
    if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return None;
    }
    let called = alias.as_ref().map_or_else(|| name.clone(), |alias| identifier(&alias.name));
    Some((name, called))
}

/// The programs for all columns of a row that exists; `None` if one must be planned.
fn programs(assignments: &[Assignment], scope: &Scope<'_>, types: &mut ParameterTypes) -> Option<Vec<Program>> {
    let set = check_assignments(scope.schema, assignments).ok()?;
    if scope
        .schema
        .columns
        .iter()
        .any(|column| column.is_always_numbered() && set.iter().any(|(name, _)| *name == column.name))
    {
        return None;
    }
    let columns = scope.schema.columns.iter().enumerate();
    let program = |(place, column): (usize, &Column)| match set.iter().find(|(name, _)| *name == column.name) {
        Some((_, value)) => scope.compile(value, column.column_type, types),
        None => Some(Program::Old(place)),
    };
    columns.map(program).collect()
}
