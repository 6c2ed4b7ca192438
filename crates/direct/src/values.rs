//! `INSERT INTO table VALUES (...)` with literals and parameters, run without planning. As in
//! PostgreSQL, one statement may contain several: `WITH a AS (INSERT ...) INSERT ...` is one
//! transaction in one round trip with any driver.
//!
//! A statement is analyzed once ([`InsertValues::of`]); each run supplies its values. Anything more
//! complex (an expression, a query, a clause that depends on existing rows) is left to the planner.

use crate::cells::{Cell, Generated, KnownDefault, ParameterTypes, canonical, default_of, now_for};
use crate::conflict::conflict;
use datafusion::sql::sqlparser::ast::{
    Expr, Insert, OnInsert, Parens, Query, SetExpr, Statement as SqlStatement, TableObject,
};
use fleetdb_engine::{Batch, Column, ColumnType, Database, Error, Result, Rows as EngineRows, TableSchema, Value};
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::Statement;
use fleetdb_statement::names::{called, is_default, object_name};
use std::sync::Arc;
use std::time::SystemTime;

/// An INSERT that needs no planning. See the module documentation.
///
/// ```
/// use fleetdb_engine::{Batch, Database, Settings, Value, io::{Io, MemoryStorage}};
/// use fleetdb_query::{InsertValues, Session, Zone};
/// let db = std::sync::Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
/// let session = Session::new(db.clone(), fleetdb_query::Plain::new()).unwrap();
/// session.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP(0), v DOUBLE, PRIMARY KEY (id, ts))").unwrap();
/// let statement = session.parse_one("INSERT INTO t VALUES ($1, '2026-01-01', $2)").unwrap();
/// let insert = InsertValues::of(&statement, &db, Zone::Utc).unwrap().unwrap();
/// let mut batch = Batch::new();
/// assert_eq!(insert.push(&db, &[Value::Int(7), Value::Float(0.5)], &mut batch).unwrap(), 1);
/// db.commit(batch).unwrap();
/// assert_eq!(db.view().table("t").unwrap().count().unwrap(), 1);
/// ```
pub struct InsertValues {
    /// In order; more than one come from WITH.
    inserts: Vec<Rows>,
    /// The zone in which times are read from text.
    zone: Zone,
    /// The types of the parameters, in order.
    types: Vec<ColumnType>,
}

/// The rows of one INSERT.
struct Rows {
    schema: Arc<TableSchema>,
    cells: Cells,
}

/// A row of an INSERT in one run.
struct NewRow<'a> {
    cells: &'a [Cell],
    parameters: &'a [Value],
    generated: &'a [Value],
}

impl<'a> NewRow<'a> {
    /// The values, in the order of the table's columns.
    fn values(&self) -> impl ExactSizeIterator<Item = &'a Value> + Clone + use<'a> {
        let (parameters, generated) = (self.parameters, self.generated);
        self.cells.iter().map(move |cell| cell.value(parameters, generated))
    }
}

/// The rows of an INSERT of values.
pub(crate) struct Cells {
    /// Each row has a cell for every column of its table.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The values that each row gets anew.
    pub(crate) generated: Vec<Generated>,
}

impl InsertValues {
    /// Analyzes a statement in a session with this zone; `None` if it is not such an INSERT or must
    /// be planned.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if it does not match its table.
    pub fn of(statement: &Statement, db: &Database, zone: Zone) -> Result<Option<Self>> {
        statement.sql().map_or(Ok(None), |sql| statement.with_stack(|| Self::of_sql(sql, db, zone)))
    }

    /// Like [`of`](Self::of).
    pub fn of_sql(statement: &SqlStatement, db: &Database, zone: Zone) -> Result<Option<Self>> {
        let inserts = match statement {
            SqlStatement::Insert(insert) => Some(vec![insert]),
            SqlStatement::Query(query) => inserts_of(query),
            _ => None,
        };
        let Some(inserts) = inserts else { return Ok(None) };
        let mut types = ParameterTypes::default();
        let mut rows = Vec::with_capacity(inserts.len());
        for insert in inserts {
            match Rows::of(insert, db, zone, &mut types)? {
                Some(of_insert) => rows.push(of_insert),
                None => return Ok(None),
            }
        }
        Ok(types.known().map(|types| Self { inserts: rows, zone, types }))
    }

    /// The types of the parameters `$1`, `$2`, ...
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.types
    }

    /// The names of the tables that are written.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.inserts.iter().map(|rows| rows.schema.name.as_str())
    }

    /// Whether the tables and the session's zone are unchanged since the statement was analyzed.
    pub fn fits(&self, db: &Database, zone: Zone) -> bool {
        let is_same = |rows: &Rows| db.table(&rows.schema.name).is_ok_and(|now| Arc::ptr_eq(&now, &rows.schema));
        self.zone == zone && self.inserts.iter().all(is_same)
    }

    /// Appends the rows to a batch, with these values for the parameters; an integer for a
    /// timestamp counts the column's unit. The database numbers rows that need it. Returns the number of
    /// rows of the INSERT, or of the last one if there are several.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input), naming the column, if a value does
    /// not match it. The rows before it are in the batch then.
    pub fn push(&self, db: &Database, values: &[Value], batch: &mut Batch) -> Result<usize> {
        if values.len() != self.types.len() {
            return Err(Error::invalid(format!(
                "the statement has {} parameters, not {}",
                self.types.len(),
                values.len()
            )));
        }
        let canonical_values;
        let values = if self.types.contains(&ColumnType::Jsonb) {
            let typed = values.iter().cloned().zip(&self.types);
            canonical_values =
                typed.map(|(value, column_type)| canonical(value, *column_type)).collect::<Result<Vec<_>>>()?;
            &canonical_values
        } else {
            values
        };
        for rows in &self.inserts {
            rows.each(db, values, |row| batch.push(&rows.schema, row.values()))?;
        }
        Ok(self.inserts.last().map_or(0, |insert| insert.cells.rows.len()))
    }

    /// The rows, without parameters; `None` if they are of several INSERTs.
    ///
    /// # Errors
    /// Those of [`push`](Self::push).
    pub fn rows(&self, db: &Database) -> Result<Option<EngineRows>> {
        let [rows] = self.inserts.as_slice() else { return Ok(None) };
        let (schema, mut all) = (&rows.schema, EngineRows::new(&rows.schema));
        rows.each(db, &[], |row| {
            let is_missing = |(column, value): &(&Column, &Value)| !column.nullable && **value == Value::Null;
            match schema.columns.iter().zip(row.values()).find(is_missing) {
                Some((column, _)) => Err(schema.null_in(column)),
                None => all.push(row.values()),
            }
        })?;
        Ok(Some(all))
    }
}

impl Rows {
    /// Passes each row to `take`, given the values of the parameters.
    fn each(&self, db: &Database, values: &[Value], mut take: impl FnMut(NewRow<'_>) -> Result<()>) -> Result<()> {
        let (Cells { rows, generated }, now) = (&self.cells, SystemTime::now());
        for cells in rows {
            let of_row = generated.iter().map(|generated| generated.value(db, &self.schema, now));
            let of_row = of_row.collect::<Result<Vec<_>>>()?;
            take(NewRow { cells, parameters: values, generated: &of_row })?;
        }
        Ok(())
    }

    /// The rows of an INSERT, if it needs no planning; notes the types of its parameters.
    fn of(insert: &Insert, db: &Database, zone: Zone, types: &mut ParameterTypes) -> Result<Option<Self>> {
        let Some(schema) = table_of(insert, db)? else { return Ok(None) };
        if let Some(OnInsert::OnConflict(clause)) = &insert.on
            && conflict(&schema, &called(insert)?, clause)?.is_some()
        {
            return Ok(None);
        }
        Ok(cells_of(insert, &schema, zone, types)?.map(|cells| Self { schema, cells }))
    }
}

/// The table of an INSERT of values; `None` for other INSERTs.
pub(crate) fn table_of(insert: &Insert, db: &Database) -> Result<Option<Arc<TableSchema>>> {
    match &insert.table {
        TableObject::TableName(name) if values_of(insert).is_some() => db.table(&object_name(name)?).map(Some),
        _ => Ok(None),
    }
}

/// The rows of an INSERT of values; `None` if they must be planned.
pub(crate) fn cells_of(
    insert: &Insert,
    schema: &TableSchema,
    zone: Zone,
    types: &mut ParameterTypes,
) -> Result<Option<Cells>> {
    let Some(values) = values_of(insert) else { return Ok(None) };
    let places = if insert.columns.is_empty() {
        (0..schema.columns.len()).collect()
    } else {
        let place = |name| schema.column_index(&object_name(name)?);
        insert.columns.iter().map(place).collect::<Result<Vec<_>>>()?
    };
    if places.iter().enumerate().any(|(number, place)| places[..number].contains(place)) {
        return Ok(None);
    }
    let mut generated = Vec::new();
    let mut defaults = Vec::with_capacity(schema.columns.len());
    for column in &schema.columns {
        defaults.push(match default_of(column, zone) {
            Some(KnownDefault::Cell(cell)) => Some(cell),
            Some(KnownDefault::Generated(value)) => Some(generated_cell(&mut generated, value)),
            // It may be that no row needs it.
            None => None,
        });
    }
    let mut rows = Vec::with_capacity(values.len());
    for row in values {
        if row.len() > places.len() || !insert.columns.is_empty() && row.len() != places.len() {
            return Ok(None);
        }
        let mut cells = defaults.clone();
        for (expr, &place) in row.iter().zip(&places).filter(|(expr, _)| !is_default(expr)) {
            let column = &schema.columns[place];
            if column.is_always_numbered() {
                return Ok(None);
            }
            cells[place] = match now_for(expr, column.column_type, zone) {
                Some(unit) => Some(generated_cell(&mut generated, Generated::Now(unit))),
                None => types.cell(expr, column.column_type, zone),
            };
            if cells[place].is_none() {
                return Ok(None);
            }
        }
        let Some(cells) = cells.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        rows.push(cells);
    }
    // A value that no row needs is not made.
    let is_needed = rows.iter().flatten().any(|cell| matches!(cell, Cell::Generated(_)));
    Ok(Some(Cells { rows, generated: if is_needed { generated } else { Vec::new() } }))
}

/// A value that each row gets anew, as a cell; the same value has one cell.
fn generated_cell(generated: &mut Vec<Generated>, value: Generated) -> Cell {
    let place = generated.iter().position(|known| *known == value).unwrap_or_else(|| {
        generated.push(value);
        generated.len() - 1
    });
    Cell::Generated(place)
}

/// The INSERTs of `WITH a AS (INSERT ...), ... INSERT ...`, in order; `None` if one of the queries
/// is something else.
fn inserts_of(query: &Query) -> Option<Vec<&Insert>> {
    fn insert(query: &Query) -> Option<&Insert> {
        match query.body.as_ref() {
            SetExpr::Insert(SqlStatement::Insert(insert)) => Some(insert),
            _ => None,
        }
    }
    let before = query.with.iter().filter(|with| !with.recursive).flat_map(|with| &with.cte_tables);
    let queries = before.map(|cte| cte.query.as_ref()).chain([query]);
    queries.map(insert).collect()
}

/// The rows of VALUES, if the INSERT has nothing else.
fn values_of(insert: &Insert) -> Option<&[Parens<Vec<Expr>>]> {
    let query = insert.source.as_deref()?;
    let only_values = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let plain = insert.returning.is_none() && !insert.overwrite && insert.partitioned.is_none();
    let on = matches!(insert.on, None | Some(OnInsert::OnConflict(_)));
    match query.body.as_ref() {
        SetExpr::Values(values) if only_values && plain && on => Some(&values.rows),
        _ => None,
    }
}
