//! Parameters of table functions: `generate_series($1, $2)`, `time_next('reads', $1, $2)`.
//! DataFusion calls table functions during planning, so a statement with such parameters is planned
//! again for each run, with the values inserted. To determine its columns, it is planned with NULL
//! in their place. The parameters' types are those of the casts around them.

use crate::Statement;
use crate::built::cast;
use crate::walk::{visit_expressions_mut, walk_mut};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::sql::parser::Statement as ParsedStatement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, Expr, TableFactor, TimezoneInfo, Value as Literal, VisitorMut,
};
use fleetdb_functions::parameters::number;
use std::ops::ControlFlow;

/// The parameters of table functions, counted from 0, with their types where known.
pub type TableParameters = Vec<(usize, Option<DataType>)>;

impl Statement {
    /// Applies the parameter types a client declares, counted from 0, where the context does not
    /// determine the type: intervals anywhere, instants where they are cast, times where they are
    /// compared with a cast to a date, and times in the arguments of table functions.
    ///
    /// ```
    /// use arrow::datatypes::{DataType, IntervalUnit};
    /// use fleetdb_engine::{Database, Settings, io::{Io, MemoryStorage}};
    /// use fleetdb_query::Session;
    /// let db = Database::open_with(Io::memory(MemoryStorage::new()), Settings::default()).unwrap();
    /// let session = Session::new(db.into(), fleetdb_query::Plain::new()).unwrap();
    /// let mut statement = session.parse_one("SELECT now() - $1").unwrap();
    /// statement.set_types(&[(0, DataType::Interval(IntervalUnit::MonthDayNano))]);
    /// assert_eq!(statement.to_string(), "SELECT now() - CAST($1 AS INTERVAL)");
    /// ```
    pub fn set_types(&mut self, types: &[(usize, DataType)]) {
        let ParsedStatement::Statement(sql) = &mut **self.tree_mut() else { return };
        let given = |expr: &Expr| {
            let place = parameter(expr)?;
            types.iter().find(|(known, _)| *known == place).map(|(_, given)| given)
        };
        let instant_type = |expr: &Expr| given(expr).and_then(with_zone);
        let cast_to = |expr: &mut Expr, in_table: bool| {
            if let Some(sql_type) = given(expr).and_then(|given| cast_type(given, in_table)) {
                *expr = cast(expr.clone(), sql_type);
            }
        };
        let _ = visit_expressions_mut(sql.as_mut(), |expr: &mut Expr| {
            cast_to(expr, false);
            // The outer cast depends on the session's zone.
            if let Expr::Cast { expr: inner, data_type, .. } = expr
                && let Some(instant) = instant_type(inner)
                && !matches!(data_type, SqlType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone))
            {
                **inner = cast(inner.as_ref().clone(), instant);
            }
            // Otherwise the parameter would be a date, without its time of day.
            for operand in compared_with_date(expr) {
                if let Some(sql_type) = given(operand).and_then(time_type) {
                    *operand = cast(operand.clone(), sql_type);
                }
            }
            ControlFlow::<()>::Continue(())
        });
        let in_tables = |expr: &mut Expr| {
            cast_to(expr, true);
            // Table functions take times in UTC, and only with one cast.
            if let Expr::Cast { expr: outer, .. } = expr
                && let Expr::Cast { expr: inner, .. } = outer.as_mut()
                && instant_type(inner).is_some()
            {
                *outer = inner.clone();
            }
        };
        let _ = walk_mut(sql.as_mut(), &mut InTables(in_tables));
    }

    /// The parameters of the statement's table functions. Casts of parameters to an integer type
    /// are removed, because these functions accept only one integer type.
    pub fn table_parameters(&mut self) -> TableParameters {
        let mut found = TableParameters::new();
        let ParsedStatement::Statement(sql) = &mut **self.tree_mut() else { return found };
        let note = |expr: &mut Expr| {
            let (inner, data_type) = match &*expr {
                Expr::Cast { expr, data_type, .. } => (expr.as_ref(), known_type(data_type)),
                other => (other, None),
            };
            let Some(place) = parameter(inner) else { return };
            if data_type == Some(DataType::Int64) {
                *expr = inner.clone();
            }
            match found.iter_mut().find(|(known, _)| *known == place) {
                Some((_, known)) => *known = known.take().or(data_type),
                None => found.push((place, data_type)),
            }
        };
        let _ = walk_mut(sql.as_mut(), &mut InTables(note));
        found
    }

    /// Replaces the parameters of table functions by NULL.
    pub fn without_table_parameters(&self) -> Self {
        let mut statement = self.clone();
        if let ParsedStatement::Statement(sql) = &mut **statement.tree_mut() {
            let null = |expr: &mut Expr| {
                if parameter(expr).is_some() {
                    *expr = Expr::value(Literal::Null);
                }
            };
            let _ = walk_mut(sql.as_mut(), &mut InTables(null));
        }
        statement
    }
}

/// Visits each expression in the arguments of table functions, inner ones first.
struct InTables<F>(F);

impl<F: FnMut(&mut Expr)> VisitorMut for InTables<F> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let of_expr = &mut Each(&mut self.0);
        match factor {
            TableFactor::Table { args: Some(args), .. } => walk_mut(&mut args.args, of_expr),
            TableFactor::Function { args, .. } => walk_mut(args, of_expr),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Each<'a, F>(&'a mut F);

impl<F: FnMut(&mut Expr)> VisitorMut for Each<'_, F> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}

/// The number of a parameter, counted from 0; `None` for any other expression.
fn parameter(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(literal) => match &literal.value {
            Literal::Placeholder(name) => number(name),
            _ => None,
        },
        _ => None,
    }
}

/// The operands that an operator or a condition combines with a cast to a date.
fn compared_with_date(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::BinaryOp { left, right, .. } => match (is_date(left), is_date(right)) {
            (true, false) => vec![right],
            (false, true) => vec![left],
            _ => Vec::new(),
        },
        Expr::Between { expr, low, high, .. } if is_date(expr) => vec![low, high],
        Expr::InList { expr, list, .. } if is_date(expr) => list.iter_mut().collect(),
        _ => Vec::new(),
    }
}

fn is_date(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { data_type: SqlType::Date, .. } => true,
        Expr::Nested(inner) => is_date(inner),
        _ => false,
    }
}

/// The SQL type of a time; `None` for any other type.
fn time_type(given: &DataType) -> Option<SqlType> {
    match given {
        DataType::Timestamp(_, None) => Some(SqlType::Timestamp(None, TimezoneInfo::None)),
        DataType::Timestamp(_, Some(_)) => with_zone(given),
        _ => None,
    }
}

/// The SQL type of an instant, or of an array of instants; `None` for any other type.
fn with_zone(given: &DataType) -> Option<SqlType> {
    match given {
        DataType::Timestamp(_, Some(_)) => Some(SqlType::Timestamp(None, TimezoneInfo::WithTimeZone)),
        DataType::List(element) => {
            let element = Box::new(with_zone(element.data_type())?);
            Some(SqlType::Array(ArrayElemTypeDef::SquareBracket(element, None)))
        }
        _ => None,
    }
}

/// The type that a parameter is cast to; `None` if it needs no cast.
fn cast_type(given: &DataType, in_table: bool) -> Option<SqlType> {
    match given {
        DataType::Interval(_) if !in_table => Some(SqlType::Interval { fields: None, precision: None }),
        DataType::Timestamp(..) if in_table => Some(SqlType::Timestamp(None, TimezoneInfo::None)),
        DataType::Date32 if in_table => Some(SqlType::Date),
        _ => None,
    }
}

/// The type of a parameter with a cast to this type.
fn known_type(cast_to: &SqlType) -> Option<DataType> {
    Some(match cast_to {
        SqlType::SmallInt(_) | SqlType::Int(_) | SqlType::Integer(_) | SqlType::BigInt(_) => DataType::Int64,
        SqlType::Int2(_) | SqlType::Int4(_) | SqlType::Int8(_) => DataType::Int64,
        SqlType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
        SqlType::Date => DataType::Date32,
        SqlType::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        SqlType::Text | SqlType::Varchar(_) => DataType::Utf8,
        SqlType::Double(_) | SqlType::DoublePrecision | SqlType::Float8 => DataType::Float64,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "table_parameters_tests.rs"]
mod tests;
