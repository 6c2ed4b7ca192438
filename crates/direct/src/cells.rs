//! Literals and parameters as values of columns, without planning.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, FunctionArguments, TimezoneInfo, UnaryOperator, Value as Literal,
};
use fleetdb_engine::{
    ArrayElement, ArrayValue, Column, ColumnType, Database, DefaultValue, Result, TableSchema, Unit, Value,
};
use fleetdb_functions::errors::engine_error;
use fleetdb_functions::values::literals::{value_of_text, value_of_text_in};
use fleetdb_functions::values::times::{TimeText, read_exact};
use fleetdb_functions::values::zone::Zone;
use fleetdb_json::canonical_text;
use fleetdb_statement::generated::expr_of;
use std::time::SystemTime;

/// A value that each run of a statement knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A literal.
    Value(Value),
    /// The parameter's number, counted from 0.
    Parameter(usize),
    /// A value that each row gets anew, by its index among the [`Generated`] values of the row.
    Generated(usize),
}

impl Cell {
    /// The value, given those of the parameters and those that were generated for the row.
    pub fn value<'a>(&'a self, parameters: &'a [Value], generated: &'a [Value]) -> &'a Value {
        match self {
            Self::Value(value) => value,
            Self::Parameter(number) => &parameters[*number],
            Self::Generated(number) => &generated[*number],
        }
    }
}

/// A value that each row gets anew, because its statement does not give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generated {
    /// The next of the table's own numbers.
    Number,
    /// The time at which the statement runs.
    Now(Unit),
}

impl Generated {
    /// The value for a row of a table.
    ///
    /// # Errors
    /// The table has no more numbers, or they cannot be reserved.
    pub fn value(self, db: &Database, schema: &TableSchema, now: SystemTime) -> Result<Value> {
        self.now(now).map_or_else(|| db.next_numbers(schema, 1).map(Value::Int), Ok)
    }

    /// The value if it is the time.
    pub fn now(self, now: SystemTime) -> Option<Value> {
        let Self::Now(unit) = self else { return None };
        Some(count_of(now, unit))
    }
}

/// What a column's default is, if no planning is needed for it.
pub enum KnownDefault {
    /// The same in each row.
    Cell(Cell),
    /// Made anew for each row.
    Generated(Generated),
}

/// The default of a column; `None` if it must be planned.
pub fn default_of(column: &Column, zone: Zone) -> Option<KnownDefault> {
    let text = match &column.default {
        None => return Some(KnownDefault::Cell(Cell::Value(Value::Null))),
        Some(DefaultValue::Number { .. }) => return Some(KnownDefault::Generated(Generated::Number)),
        Some(DefaultValue::Expression(text)) => text,
    };
    let expr = expr_of(text)?;
    match now_for(&expr, column.column_type, zone) {
        Some(unit) => Some(KnownDefault::Generated(Generated::Now(unit))),
        None => cell(&expr, column.column_type, zone).map(KnownDefault::Cell),
    }
}

/// The unit in which a column stores an expression that is the time at which its statement runs; `None`
/// for other expressions and columns.
pub(crate) fn now_for(expr: &Expr, column_type: ColumnType, zone: Zone) -> Option<Unit> {
    // In another zone, a time without a zone is not the instant.
    let is_instant = matches!(column_type, ColumnType::TimestampUtc(_)) || zone == Zone::Utc;
    column_type.time_unit().filter(|_| is_instant && is_now(expr))
}

/// A time as a count of a unit.
pub(crate) fn count_of(time: SystemTime, unit: Unit) -> Value {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let count = since.as_nanos() * unit.per_second() as u128 / 1_000_000_000;
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Whether an expression is the time at which its statement runs.
fn is_now(expr: &Expr) -> bool {
    let Expr::Function(call) = expr else { return false };
    let has_no_arguments = match &call.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let name = call.name.to_string();
    has_no_arguments && ["now", "current_timestamp"].iter().any(|now| name.eq_ignore_ascii_case(now))
}

/// The types of a statement's parameters, as its columns give them.
#[derive(Debug, Default)]
pub struct ParameterTypes(Vec<Option<ColumnType>>);

impl ParameterTypes {
    /// The types in order; `None` if there is a parameter without a type.
    pub fn known(self) -> Option<Vec<ColumnType>> {
        self.0.into_iter().collect()
    }

    /// A literal or a parameter for a column; `None` if it must be planned, as a parameter for columns
    /// of two types must.
    pub fn cell(&mut self, expr: &Expr, column_type: ColumnType, zone: Zone) -> Option<Cell> {
        let cell = cell(expr, column_type, zone)?;
        if let Cell::Parameter(number) = cell {
            self.0.resize(self.0.len().max(number + 1), None);
            if *self.0[number].get_or_insert(column_type) != column_type {
                return None;
            }
        }
        Some(cell)
    }
}

/// A value as its column stores it: that of `jsonb` has one text for equal values.
///
/// # Errors
/// It is not JSON.
pub fn canonical(value: Value, column_type: ColumnType) -> Result<Value> {
    match value {
        Value::Text(text) if column_type == ColumnType::Jsonb => {
            canonical_text(&text).map(Value::Text).map_err(engine_error)
        }
        value => Ok(value),
    }
}

/// The text of `TIMESTAMP '...'` or `'...'::timestamp`, if that is the type of the column.
fn text_of_time(expr: &Expr, column_type: ColumnType, zone: Zone) -> Option<&str> {
    let (data_type, literal) = match expr {
        Expr::TypedString(typed) => (&typed.data_type, &typed.value),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, array: false, format: None } => {
            let Expr::Value(literal) = expr.as_ref() else { return None };
            (data_type, literal)
        }
        _ => return None,
    };
    let DataType::Timestamp(None, kind) = data_type else { return None };
    let is_with_zone = matches!(kind, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone);
    let is_same = match column_type {
        ColumnType::Timestamp(Unit::Microsecond | Unit::Nanosecond) => !is_with_zone,
        // The planner knows how its dialect reads such a text in another zone.
        ColumnType::TimestampUtc(Unit::Microsecond | Unit::Nanosecond) => is_with_zone && zone == Zone::Utc,
        _ => false,
    };
    match &literal.value {
        Literal::SingleQuotedString(text) if is_same => Some(text),
        _ => None,
    }
}

/// A time that a column holds as it is; `None` for one with more digits.
fn exact_time(text: &str, column_type: ColumnType, zone: Zone) -> Option<Cell> {
    let data_type = column_type.to_arrow();
    match read_exact(text, &data_type, zone).ok()? {
        (exact, TimeText::Count(count)) if exact == data_type => Some(Cell::Value(Value::Int(count))),
        _ => None,
    }
}

/// A time that a time column is compared with. One with more digits than the column must not be rounded,
/// so it is planned.
pub(crate) fn compared_time(
    expr: &Expr,
    column_type: ColumnType,
    zone: Zone,
    types: &mut ParameterTypes,
) -> Option<Cell> {
    match expr {
        Expr::Value(literal) => match &literal.value {
            // Clients send microseconds.
            Literal::Placeholder(_)
                if matches!(column_type.time_unit(), Some(Unit::Microsecond | Unit::Nanosecond)) =>
            {
                types.cell(expr, column_type, zone)
            }
            Literal::SingleQuotedString(text) => exact_time(text, column_type, zone),
            _ => None,
        },
        // With a type, a time is exact anyway.
        _ => types.cell(expr, column_type, zone),
    }
}

/// An array of literals.
fn array_cell(elements: &[Expr], element: ArrayElement, zone: Zone) -> Option<Cell> {
    let value = |expr| match cell(expr, element.column_type(), zone)? {
        Cell::Value(value) => Some(value),
        Cell::Parameter(_) | Cell::Generated(_) => None,
    };
    let values = elements.iter().map(value).collect::<Option<Vec<_>>>()?;
    ArrayValue::new(element, &values).ok().map(|array| Cell::Value(Value::Array(array)))
}

fn cell(expr: &Expr, column_type: ColumnType, zone: Zone) -> Option<Cell> {
    if let (Expr::Array(array), ColumnType::Array(element)) = (expr, column_type) {
        return array_cell(&array.elem, element, zone);
    }
    if let Some(text) = text_of_time(expr, column_type, zone) {
        return exact_time(text, column_type, zone);
    }
    let (literal, is_negative) = match expr {
        Expr::Value(literal) => (&literal.value, false),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(literal) => (&literal.value, true),
            _ => return None,
        },
        _ => return None,
    };
    Some(match literal {
        Literal::Placeholder(name) if !is_negative => Cell::Parameter(fleetdb_functions::parameters::number(name)?),
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
            Cell::Value(canonical(value_of_text_in(text, column_type, zone).ok()?, column_type).ok()?)
        }
        _ => return None,
    })
}
