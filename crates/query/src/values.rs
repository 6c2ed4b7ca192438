//! `INSERT INTO table VALUES (...)` with literals and parameters, run without planning. As in
//! PostgreSQL, one statement may contain several: `WITH a AS (INSERT ...) INSERT ...` is one
//! transaction in one round trip with any driver.
//!
//! A statement is analyzed once ([`InsertValues::of`]); each run supplies its values. Anything more
//! complex (an expression, a query, a clause that depends on existing rows) is left to the planner.

use crate::conflict::conflict;
use crate::ddl::object_name;
use crate::returning::called;
use crate::statement::Statement;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use datafusion::sql::sqlparser::ast::{
    Expr, Insert, OnInsert, Query, SetExpr, Statement as SqlStatement, TableObject, UnaryOperator, Value as Literal,
};
use fleetdb_engine::{Batch, Code, ColumnType, Database, Error, Result, TableSchema, Unit, Value};
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
/// use fleetdb_query::{InsertValues, Session};
/// let db = std::sync::Arc::new(Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap());
/// let session = Session::new(db.clone()).unwrap();
/// session.sql("CREATE TABLE t (id BIGINT, ts TIMESTAMP(0), v DOUBLE, PRIMARY KEY (id, ts))").unwrap();
/// let statement = session.parse_one("INSERT INTO t VALUES ($1, '2026-01-01', $2)").unwrap();
/// let insert = InsertValues::of(&statement, &db).unwrap().unwrap();
/// let mut batch = Batch::new();
/// assert_eq!(insert.push(&[Value::Int(7), Value::Float(0.5)], &mut batch).unwrap(), 1);
/// db.commit(batch).unwrap();
/// assert_eq!(db.view().table("t").unwrap().count().unwrap(), 1);
/// ```
pub struct InsertValues {
    /// In order; more than one come from WITH.
    inserts: Vec<Rows>,
    /// The types of the parameters, in order.
    types: Vec<ColumnType>,
}

/// The rows of one INSERT.
struct Rows {
    schema: Arc<TableSchema>,
    cells: Vec<Vec<Cell>>,
}

impl InsertValues {
    /// The INSERT that a statement is; `None` if it is something else, or must be planned.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) if it does not fit its table.
    pub fn of(statement: &Statement, db: &Database) -> Result<Option<Self>> {
        statement.sql().map_or(Ok(None), |sql| statement.with_stack(|| Self::of_sql(sql, db)))
    }

    /// As [`of`](Self::of).
    pub(crate) fn of_sql(statement: &SqlStatement, db: &Database) -> Result<Option<Self>> {
        let inserts = match statement {
            SqlStatement::Insert(insert) => Some(vec![insert]),
            SqlStatement::Query(query) => inserts_of(query),
            _ => None,
        };
        let Some(inserts) = inserts else { return Ok(None) };
        let mut types = Vec::new();
        let mut rows = Vec::with_capacity(inserts.len());
        for insert in inserts {
            match Rows::of(insert, db, &mut types)? {
                Some(of_insert) => rows.push(of_insert),
                None => return Ok(None),
            }
        }
        let types: Option<_> = types.into_iter().collect();
        Ok(types.map(|types| Self { inserts: rows, types }))
    }

    /// The types of the parameters `$1`, `$2`, ...
    pub fn parameter_types(&self) -> &[ColumnType] {
        &self.types
    }

    /// Whether the tables are still as they were when the statement was looked at.
    pub fn fits(&self, db: &Database) -> bool {
        let is_same = |rows: &Rows| db.table(&rows.schema.name).is_ok_and(|now| Arc::ptr_eq(&now, &rows.schema));
        self.inserts.iter().all(is_same)
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
    fn of(insert: &Insert, db: &Database, types: &mut Vec<Option<ColumnType>>) -> Result<Option<Self>> {
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
                let Some(cell) = cell(expr, column_type) else { return Ok(None) };
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

fn cell(expr: &Expr, column_type: ColumnType) -> Option<Cell> {
    let (literal, is_negative) = match expr {
        Expr::Value(literal) => (&literal.value, false),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(literal) => (&literal.value, true),
            _ => return None,
        },
        _ => return None,
    };
    Some(match literal {
        Literal::Placeholder(name) if !is_negative => Cell::Parameter(crate::binding::number(name)?),
        Literal::Null if !is_negative => Cell::Value(Value::Null),
        Literal::Boolean(value) if !is_negative && column_type == ColumnType::Boolean => {
            Cell::Value(Value::Boolean(*value))
        }
        // Numbers for columns of text, time or boolean type are left to the planner.
        Literal::Number(digits, _) if column_type.is_numeric() => {
            let text = if is_negative { format!("-{digits}") } else { digits.clone() };
            Cell::Value(value_of_text(&text, column_type).ok()?)
        }
        Literal::SingleQuotedString(text) if !is_negative => Cell::Value(value_of_text(text, column_type).ok()?),
        _ => return None,
    })
}

/// A text as a value of a column, as SQL reads it.
///
/// # Errors
/// [`ErrorKind::Input`](fleetdb_engine::ErrorKind::Input) that says what the column takes.
pub fn value_of_text(text: &str, column_type: ColumnType) -> Result<Value> {
    let trimmed = text.trim();
    let value = match column_type {
        ColumnType::Utf8 => Some(Value::Text(text.to_owned())),
        ColumnType::Binary => bytes_of(text).map(Value::Binary),
        ColumnType::Boolean => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Some(Value::Boolean(true)),
            "f" | "false" | "n" | "no" | "off" | "0" => Some(Value::Boolean(false)),
            _ => None,
        },
        ColumnType::Float32 | ColumnType::Float64 => return number_of(text, column_type),
        ColumnType::UInt64 => trimmed.parse().ok().map(Value::UInt),
        ColumnType::Timestamp(unit) | ColumnType::TimestampUtc(unit) => {
            let with_seconds = with_seconds(trimmed);
            let time = string_to_datetime(&Utc, with_seconds.as_deref().unwrap_or(trimmed));
            let time = time.ok().or_else(|| far_time(trimmed));
            time.and_then(|time| count(time, unit)).map(Value::Int)
        }
        ColumnType::Date32 => trimmed
            .parse::<NaiveDate>()
            .ok()
            .or_else(|| far_date(trimmed))
            .map(|date| Value::Int(date.signed_duration_since(DateTime::UNIX_EPOCH.date_naive()).num_days())),
        _ => trimmed.parse().ok().map(Value::Int),
    };
    value.ok_or_else(|| {
        let is_time = column_type.time_unit().is_some() || column_type == ColumnType::Date32;
        let code = if is_time { Code::InvalidTime } else { Code::InvalidText };
        Error::new(code, format!("'{text}' does not fit a column of type {column_type}"))
    })
}

/// Parses a float. A number out of the column's range, such as `1e400`, is rejected instead of
/// becoming infinity or zero.
fn number_of(text: &str, column_type: ColumnType) -> Result<Value> {
    let trimmed = text.trim();
    let value = match column_type {
        ColumnType::Float32 => trimmed.parse::<f32>().ok().map(f64::from),
        _ => trimmed.parse().ok(),
    };
    let misfit = || format!("'{text}' does not fit a column of type {column_type}");
    let value = value.ok_or_else(|| Error::new(Code::InvalidText, misfit()))?;
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let is_beyond = match value {
        infinite if infinite.is_infinite() => trimmed.contains(|c: char| c.is_ascii_digit()),
        0.0 => mantissa.contains(|c: char| matches!(c, '1'..='9')),
        _ => false,
    };
    if is_beyond {
        let message = format!("'{text}' is out of the range of a column of type {column_type}");
        return Err(Error::new(Code::OutOfRange, message));
    }
    Ok(Value::Float(value))
}

/// A date of a year that takes a sign or more than four digits, or with BC behind it: as CSV and PostgreSQL write them.
fn far_date(text: &str) -> Option<NaiveDate> {
    let (text, is_before) = text.strip_suffix(" BC").map_or((text, false), |text| (text, true));
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = digits.split('-').map(|part| part.parse::<u32>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let year = sign * i32::try_from(year).ok()?;
    let date = NaiveDate::from_ymd_opt(if is_before { 1 - year } else { year }, month, day);
    date.filter(|_| parts.next().is_none())
}

/// As [`far_date`], a time of UTC.
fn far_time(text: &str) -> Option<DateTime<Utc>> {
    let (text, era) = text.strip_suffix(" BC").map_or((text, ""), |text| (text, " BC"));
    let (date, clock) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    let clock = ["Z", "+00:00", "+00"].iter().find_map(|zone| clock.strip_suffix(zone)).unwrap_or(clock);
    let clock = clock.parse::<NaiveTime>().ok()?;
    Some(far_date(&format!("{date}{era}"))?.and_time(clock).and_utc())
}

/// A time whose seconds are left out, as people do: `2026-01-01 12:00`, `2026-01-01T12:00+02`, with them; `None` for any
/// other text.
pub(crate) fn with_seconds(text: &str) -> Option<String> {
    let (minute, zone) = text.trim().split_at_checked("2026-01-01 12:00".len())?;
    let is_minute = minute.bytes().zip("0000-00-00 00:00".bytes()).all(|(is, like)| match like {
        b'0' => is.is_ascii_digit(),
        b' ' => matches!(is, b' ' | b'T' | b't'),
        _ => is == like,
    });
    let is_whole = zone.is_empty() || zone.trim_start().starts_with(['Z', 'z', '+', '-']);
    (is_minute && is_whole).then(|| format!("{minute}:00{zone}"))
}

/// The first or the last time of a unit, for a text that means one before or behind all of them: `-infinity`, `9999-12-31` in
/// nanoseconds; `None` for any other text.
pub(crate) fn far_count(text: &str, unit: Unit) -> Option<i64> {
    let trimmed = text.trim();
    match trimmed.to_ascii_lowercase().as_str() {
        "infinity" | "+infinity" => return Some(i64::MAX),
        "-infinity" => return Some(i64::MIN),
        _ => {}
    }
    let with_seconds = with_seconds(trimmed);
    let time = string_to_datetime(&Utc, with_seconds.as_deref().unwrap_or(trimmed)).ok();
    let time = time.or_else(|| far_time(trimmed))?;
    let is_far = count(time, unit).is_none();
    is_far.then(|| if time < DateTime::UNIX_EPOCH { i64::MIN } else { i64::MAX })
}

/// A time as a count of a unit since 1970; `None` if that is no i64.
fn count(time: DateTime<Utc>, unit: Unit) -> Option<i64> {
    match unit {
        Unit::Second => Some(time.timestamp()),
        Unit::Millisecond => Some(time.timestamp_millis()),
        Unit::Microsecond => Some(time.timestamp_micros()),
        Unit::Nanosecond => time.timestamp_nanos_opt(),
    }
}

/// Bytes as PostgreSQL writes them: `\x` and hexadecimal digits; or as UTF-8, in which `\\` is a backslash and `\001`, three
/// digits to the base of 8, any byte.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("\\x") else { return unescaped(text.as_bytes()) };
    digits.as_bytes().chunks(2).map(|pair| byte_of(pair, 2, 16)).collect()
}

fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => (b'\\', behind),
            (b'\\', escaped) => {
                let (digits, behind) = escaped.split_at_checked(3)?;
                (byte_of(digits, 3, 8)?, behind)
            }
            (byte, behind) => (byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    Some(bytes)
}

/// Parses `count` digits of a base as a byte.
fn byte_of(digits: &[u8], count: usize, base: u32) -> Option<u8> {
    let digits = str::from_utf8(digits).ok().filter(|digits| digits.len() == count && !digits.starts_with('+'))?;
    u8::from_str_radix(digits, base).ok()
}
