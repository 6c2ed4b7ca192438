//! Literals and parameters as values of columns, without planning.

use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value as Literal};
use fleetdb_engine::{ColumnType, Value};
use fleetdb_functions::values::literals::{value_of_text, value_of_text_in};
use fleetdb_functions::values::zone::Zone;

/// A value that each run of a statement knows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Value(Value),
    /// The parameter's number, counted from 0.
    Parameter(usize),
}

impl Cell {
    /// The value, given those of the parameters.
    pub(crate) fn value<'a>(&'a self, parameters: &'a [Value]) -> &'a Value {
        match self {
            Self::Value(value) => value,
            Self::Parameter(number) => &parameters[*number],
        }
    }
}

/// The types of a statement's parameters, as its columns give them.
#[derive(Debug, Default)]
pub(crate) struct ParameterTypes(Vec<Option<ColumnType>>);

impl ParameterTypes {
    /// The types in order; `None` if there is a parameter without a type.
    pub(crate) fn known(self) -> Option<Vec<ColumnType>> {
        self.0.into_iter().collect()
    }

    /// A literal or a parameter for a column; `None` if it must be planned, as a parameter for columns
    /// of two types must.
    pub(crate) fn cell(&mut self, expr: &Expr, column_type: ColumnType, zone: Zone) -> Option<Cell> {
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
