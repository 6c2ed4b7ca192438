//! `INSERT INTO table VALUES (...)` with literals and parameters, run without planning. As in
//! PostgreSQL, one statement may contain several: `WITH a AS (INSERT ...) INSERT ...` is one
//! transaction in one round trip with any driver.
//!
//! A statement is analyzed once ([`InsertValues::of`]); each run supplies its values. Anything more
//! complex (an expression, a query, a clause that depends on existing rows) is left to the planner.

use crate::statement::Statement;
use crate::statement::names::{called, object_name};
use crate::write::conflict::conflict;
use datafusion::sql::sqlparser::ast::{
    Expr, Insert, OnInsert, Query, SetExpr, Statement as SqlStatement, TableObject, UnaryOperator, Value as Literal,
};
use fleetdb_engine::{Batch, ColumnType, Database, Error, Result, TableSchema, Value};
use fleetdb_plan::literals::{value_of_text, value_of_text_in};
use fleetdb_plan::zone::Zone;
use std::sync::Arc;

/// A row's value for one column.
enum Cell {
    Value(Value),
    /// The parameter's number, counted from 0.
    Parameter(usize),
}

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
/// assert_eq!(insert.push(&[Value::Int(7), Value::Float(0.5)], &mut batch).unwrap(), 1);
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
    cells: Vec<Vec<Cell>>,
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
    pub(crate) fn of_sql(statement: &SqlStatement, db: &Database, zone: Zone) -> Result<Option<Self>> {
        let inserts = match statement {
            SqlStatement::Insert(insert) => Some(vec![insert]),
            SqlStatement::Query(query) => inserts_of(query),
            _ => None,
        };
        let Some(inserts) = inserts else { return Ok(None) };
        let mut types = Vec::new();
        let mut rows = Vec::with_capacity(inserts.len());
        for insert in inserts {
            match Rows::of(insert, db, zone, &mut types)? {
                Some(of_insert) => rows.push(of_insert),
                None => return Ok(None),
            }
        }
        let types: Option<_> = types.into_iter().collect();
        Ok(types.map(|types| Self { inserts: rows, zone, types }))
    }

    /// The types of the parameters `$1`, `$2`, ...
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.types
    }

    /// Whether the tables and the session's zone are unchanged since the statement was analyzed.
    pub fn fits(&self, db: &Database, zone: Zone) -> bool {
        let is_same = |rows: &Rows| db.table(&rows.schema.name).is_ok_and(|now| Arc::ptr_eq(&now, &rows.schema));
        self.zone == zone && self.inserts.iter().all(is_same)
    }

    /// Appends the rows to a batch, with these values for the parameters; an integer for a
    /// timestamp counts the column's unit. Returns the number of rows of the INSERT, or of the last
    /// one if there are several.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input), naming the column, if a value does
    /// not match it. The rows before it are in the batch then.
    pub fn push(&self, values: &[Value], batch: &mut Batch) -> Result<usize> {
        if values.len() != self.types.len() {
            return Err(Error::invalid(format!(
                "the statement has {} parameters, not {}",
                self.types.len(),
                values.len()
            )));
        }
        for Rows { schema, cells } in &self.inserts {
            for cells in cells {
                let row = cells.iter().map(|cell| match cell {
                    Cell::Value(value) => value,
                    Cell::Parameter(number) => &values[*number],
                });
                batch.push(schema, row)?;
            }
        }
        Ok(self.inserts.last().map_or(0, |rows| rows.cells.len()))
    }
}

impl Rows {
    /// The rows of an INSERT, if it needs no planning; notes the types of its parameters.
    fn of(insert: &Insert, db: &Database, zone: Zone, types: &mut Vec<Option<ColumnType>>) -> Result<Option<Self>> {
        let TableObject::TableName(name) = &insert.table else { return Ok(None) };
        let Some(values) = values_of(insert) else { return Ok(None) };
        let schema = db.table(&object_name(name)?)?;
        if let Some(OnInsert::OnConflict(clause)) = &insert.on
            && conflict(&schema, &called(insert)?, clause)?.is_some()
        {
            return Ok(None);
        }
        let places = if insert.columns.is_empty() {
            (0..schema.columns.len()).collect()
        } else {
            let place = |name| schema.column_index(&object_name(name)?);
            insert.columns.iter().map(place).collect::<Result<Vec<_>>>()?
        };
        if places.iter().enumerate().any(|(number, place)| places[..number].contains(place)) {
            return Ok(None);
        }
        let mut rows = Vec::with_capacity(values.len());
        for row in values {
            if row.len() > places.len() || !insert.columns.is_empty() && row.len() != places.len() {
                return Ok(None);
            }
            let mut cells: Vec<Cell> = schema.columns.iter().map(|_| Cell::Value(Value::Null)).collect();
            for (expr, &place) in row.iter().zip(&places) {
                let column_type = schema.columns[place].column_type;
                let Some(cell) = cell(expr, column_type, zone) else { return Ok(None) };
                if let Cell::Parameter(number) = cell {
                    types.resize(types.len().max(number + 1), None);
                    // A parameter used for columns of two types is left to the planner.
                    if *types[number].get_or_insert(column_type) != column_type {
                        return Ok(None);
                    }
                }
                cells[place] = cell;
            }
            rows.push(cells);
        }
        Ok(Some(Self { schema, cells: rows }))
    }
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
fn values_of(insert: &Insert) -> Option<&[datafusion::sql::sqlparser::ast::Parens<Vec<Expr>>]> {
    let query = insert.source.as_deref()?;
    let only_values = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
    let plain = insert.returning.is_none() && !insert.overwrite && insert.partitioned.is_none();
    let on = matches!(insert.on, None | Some(OnInsert::OnConflict(_)));
    match query.body.as_ref() {
        SetExpr::Values(values) if only_values && plain && on => Some(&values.rows),
        _ => None,
    }
}

fn cell(expr: &Expr, column_type: ColumnType, zone: Zone) -> Option<Cell> {
    let (literal, is_negative) = match expr {
        Expr::Value(literal) => (&literal.value, false),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(literal) => (&literal.value, true),
            _ => return None,
        },
        _ => return None,
    };
    Some(match literal {
        Literal::Placeholder(name) if !is_negative => Cell::Parameter(fleetdb_plan::binding::number(name)?),
        Literal::Null if !is_negative => Cell::Value(Value::Null),
        Literal::Boolean(value) if !is_negative && column_type == ColumnType::Boolean => {
            Cell::Value(Value::Boolean(*value))
        }
        // Numbers for columns of text, time or boolean type are left to the planner.
        Literal::Number(digits, _) if column_type.is_numeric() => {
            let text = if is_negative { format!("-{digits}") } else { digits.clone() };
            Cell::Value(value_of_text(&text, column_type).ok()?)
        }
        Literal::SingleQuotedString(text) if !is_negative => {
            Cell::Value(value_of_text_in(text, column_type, zone).ok()?)
        }
        _ => return None,
    })
}
