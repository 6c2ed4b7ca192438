//! The expressions and conditions of a keyed write, and their values.

use crate::cells::{Cell, count_of};
use fleetdb_engine::{Code, ColumnType, Comparison, Decimal, Error, Operator, Result, Unit, Value};
use fleetdb_functions::values::literals::numeric_overflow;
use std::cmp::Ordering;
use std::time::SystemTime;

/// A compiled expression, whose values are of one column's type.
pub(super) enum Program {
    Cell(Cell),
    /// A column of the old row, by index.
    Old(usize),
    /// A column of the new row, called `excluded`.
    New(usize),
    Arithmetic(Box<Arithmetic>),
    /// The first value whose condition holds, or else the last.
    Case(Vec<(Condition, Self)>, Option<Box<Self>>),
    /// The first value that is not NULL.
    Coalesce(Vec<Self>),
    /// The value with this order to all others that are not NULL.
    Extreme(Ordering, Vec<Self>),
    /// The time at which the statement runs.
    Now(Unit),
}

/// What the value of an expression depends on.
pub(super) struct Inputs<'a> {
    pub(super) old: &'a [Value],
    /// Empty if there is no new row.
    pub(super) new: &'a [Value],
    pub(super) parameters: &'a [Value],
    pub(super) now: SystemTime,
}

/// An operation on two numbers of the same type.
pub(super) struct Arithmetic {
    pub(super) left: Program,
    pub(super) operator: Operator,
    pub(super) right: Program,
    pub(super) column_type: ColumnType,
}

/// A compiled condition.
pub(super) enum Condition {
    Compare(Program, Comparison, Program),
    IsNull(Program),
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
}

/// The order of two values of one type; `None` if one of them is NULL. A NaN is larger than all other
/// numbers, as in PostgreSQL.
pub(super) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Float(left), Value::Float(right)) => {
            Some(left.partial_cmp(right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan())))
        }
        (Value::Decimal(left), Value::Decimal(right)) => {
            // Both have the digits of their column.
            (left.scale == right.scale).then(|| left.unscaled.cmp(&right.unscaled))
        }
        (Value::Boolean(left), Value::Boolean(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
        (Value::Uuid(left), Value::Uuid(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

impl Program {
    pub(super) fn of_value(value: Value) -> Self {
        Self::Cell(Cell::Value(value))
    }

    /// Whether a part of it is computed from numbers.
    pub(super) fn computes(&self) -> bool {
        match self {
            Self::Arithmetic(_) => true,
            Self::Case(branches, last) => {
                branches.iter().any(|(_, value)| value.computes()) || last.as_ref().is_some_and(|last| last.computes())
            }
            Self::Coalesce(of) | Self::Extreme(_, of) => of.iter().any(Self::computes),
            Self::Cell(_) | Self::Old(_) | Self::New(_) | Self::Now(_) => false,
        }
    }

    /// The value for these rows and parameters.
    ///
    /// # Errors
    /// The value is out of range.
    pub(super) fn value(&self, inputs: &Inputs<'_>) -> Result<Value> {
        match self {
            Self::Cell(cell) => Ok(cell.value(inputs.parameters, &[]).clone()),
            Self::Old(place) => Ok(inputs.old[*place].clone()),
            Self::New(place) => Ok(inputs.new[*place].clone()),
            Self::Arithmetic(of) => of.of(&of.left.value(inputs)?, &of.right.value(inputs)?),
            Self::Now(unit) => Ok(count_of(inputs.now, *unit)),
            Self::Case(branches, last) => {
                for (condition, value) in branches {
                    if condition.holds(inputs)? == Some(true) {
                        return value.value(inputs);
                    }
                }
                last.as_ref().map_or(Ok(Value::Null), |last| last.value(inputs))
            }
            Self::Coalesce(of) => {
                for part in of {
                    let value = part.value(inputs)?;
                    if value != Value::Null {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Self::Extreme(wanted, of) => {
                let mut extreme = Value::Null;
                for part in of {
                    let value = part.value(inputs)?;
                    if extreme == Value::Null || order(&value, &extreme) == Some(*wanted) {
                        extreme = value;
                    }
                }
                Ok(extreme)
            }
        }
    }
}

impl Arithmetic {
    fn of(&self, left: &Value, right: &Value) -> Result<Value> {
        let result = match (left, right) {
            (Value::Null, _) | (_, Value::Null) => Some(Value::Null),
            (Value::Int(left), Value::Int(right)) => self.of_integers(*left, *right).map(Value::Int),
            (Value::Float(left), Value::Float(right)) => Some(Value::Float(match self.operator {
                Operator::Add => left + right,
                Operator::Subtract => left - right,
                Operator::Multiply => left * right,
            })),
            (Value::Decimal(left), Value::Decimal(right)) => {
                return self.of_decimals(*left, *right).map(Value::Decimal);
            }
            _ => None,
        };
        let type_name = self.column_type.sql_name();
        result.ok_or_else(|| Error::new(Code::OutOfRange, format!("{type_name} out of range")))
    }

    /// The sum or difference of two numbers of one column type.
    fn of_decimals(&self, left: Decimal, right: Decimal) -> Result<Decimal> {
        let ColumnType::Decimal { precision, scale } = self.column_type else {
            return Err(Error::bug("decimal numbers in the arithmetic of another type"));
        };
        let unscaled = |number: Decimal| number.with_scale(precision, scale).map(|number| number.unscaled);
        let sum = unscaled(left).zip(unscaled(right)).and_then(|(left, right)| match self.operator {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            // Planned; see `compile`.
            Operator::Multiply => None,
        });
        let sum = sum.map(|unscaled| Decimal { unscaled, scale }).filter(|sum| sum.fits(precision));
        sum.ok_or_else(|| numeric_overflow(precision, scale))
    }

    fn of_integers(&self, left: i64, right: i64) -> Option<i64> {
        let value = match self.operator {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
        }?;
        match self.column_type {
            ColumnType::Int16 => i16::try_from(value).ok().map(i64::from),
            ColumnType::Int32 => i32::try_from(value).ok().map(i64::from),
            _ => Some(value),
        }
    }
}

impl Condition {
    /// Whether the condition holds; `None` if it is unknown because of a NULL.
    ///
    /// # Errors
    /// A value is out of range.
    pub(super) fn holds(&self, inputs: &Inputs<'_>) -> Result<Option<bool>> {
        match self {
            Self::Compare(left, comparison, right) => {
                let order = order(&left.value(inputs)?, &right.value(inputs)?);
                Ok(order.map(|order| comparison.allows(order)))
            }
            Self::IsNull(of) => Ok(Some(of.value(inputs)? == Value::Null)),
            Self::And(all) => decided_by(false, all, inputs),
            Self::Or(any) => decided_by(true, any, inputs),
            Self::Not(of) => Ok(of.holds(inputs)?.map(|holds| !holds)),
        }
    }
}

/// The outcome that one condition decides for all; otherwise its opposite, or unknown if one is.
fn decided_by(outcome: bool, conditions: &[Condition], inputs: &Inputs<'_>) -> Result<Option<bool>> {
    let mut all = Some(!outcome);
    for condition in conditions {
        match condition.holds(inputs)? {
            Some(holds) if holds == outcome => return Ok(Some(outcome)),
            Some(_) => {}
            None => all = None,
        }
    }
    Ok(all)
}
