//! The conditions of a keyed write beyond its keys, and those of CASE: comparisons of a column with a
//! value of its type, IS NULL, IN, BETWEEN, AND, OR and NOT.

use super::program::{Inputs, Program, Scope, is_exact_decimal};
use crate::cells::ParameterTypes;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use fleetdb_engine::{ColumnType, Result, Value};
use std::cmp::Ordering;

/// A compiled condition.
pub(super) enum Condition {
    Compare(Program, Comparison, Program),
    IsNull(Program),
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
}

/// How two values compare.
#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn of(operator: &BinaryOperator) -> Option<Self> {
        Some(match operator {
            BinaryOperator::Eq => Self::Equal,
            BinaryOperator::NotEq => Self::NotEqual,
            BinaryOperator::Lt => Self::Less,
            BinaryOperator::LtEq => Self::LessOrEqual,
            BinaryOperator::Gt => Self::Greater,
            BinaryOperator::GtEq => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// The comparison with its sides exchanged.
    fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }

    fn allows(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Whether values of this type are compared here. Dates, times with a date, JSON and single floats are
/// compared by rules of their own.
pub(super) fn is_comparable(column_type: ColumnType) -> bool {
    matches!(
        column_type,
        ColumnType::Int8
            | ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::Float64
            | ColumnType::Decimal { .. }
            | ColumnType::Boolean
            | ColumnType::Utf8
            | ColumnType::Uuid
            | ColumnType::Time
    )
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

impl Scope<'_> {
    /// Compiles a condition; `None` if it must be planned.
    pub(super) fn condition(&self, expr: &Expr, types: &mut ParameterTypes) -> Option<Condition> {
        let negated_if = |is_negated: bool, condition| match is_negated {
            true => Condition::Not(Box::new(condition)),
            false => condition,
        };
        Some(match expr {
            Expr::Nested(inner) => self.condition(inner, types)?,
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => Condition::Not(Box::new(self.condition(expr, types)?)),
            Expr::IsNull(of) => Condition::IsNull(self.column(of)?),
            Expr::IsNotNull(of) => Condition::Not(Box::new(Condition::IsNull(self.column(of)?))),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                Condition::And(vec![self.condition(left, types)?, self.condition(right, types)?])
            }
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                Condition::Or(vec![self.condition(left, types)?, self.condition(right, types)?])
            }
            Expr::BinaryOp { left, op, right } => {
                let comparison = Comparison::of(op)?;
                match self.column(left) {
                    Some(column) => self.compared(column, comparison, right, types)?,
                    None => self.compared(self.column(right)?, comparison.mirrored(), left, types)?,
                }
            }
            Expr::Between { expr, negated, low, high } => {
                let from = self.compared(self.column(expr)?, Comparison::GreaterOrEqual, low, types)?;
                let to = self.compared(self.column(expr)?, Comparison::LessOrEqual, high, types)?;
                negated_if(*negated, Condition::And(vec![from, to]))
            }
            Expr::InList { expr, list, negated } => {
                let equal = |value| self.compared(self.column(expr)?, Comparison::Equal, value, types);
                negated_if(*negated, Condition::Or(list.iter().map(equal).collect::<Option<_>>()?))
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let column = self.column(expr)?;
                let is_true = Program::of_value(Value::Boolean(true));
                let is_boolean = self.type_of(&column) == Some(ColumnType::Boolean);
                is_boolean.then_some(Condition::Compare(column, Comparison::Equal, is_true))?
            }
            _ => return None,
        })
    }

    fn compared(
        &self,
        column: Program,
        comparison: Comparison,
        value: &Expr,
        types: &mut ParameterTypes,
    ) -> Option<Condition> {
        let column_type = self.type_of(&column).filter(|column_type| is_comparable(*column_type))?;
        // A literal with more digits than the column must not be rounded.
        if let ColumnType::Decimal { precision, scale } = column_type
            && matches!(value, Expr::Value(_))
            && !is_parameter(value)
            && !is_exact_decimal(value, precision, scale)
        {
            return None;
        }
        Some(Condition::Compare(column, comparison, self.compile(value, column_type, types)?))
    }
}

fn is_parameter(expr: &Expr) -> bool {
    use datafusion::sql::sqlparser::ast::Value as Literal;
    matches!(expr, Expr::Value(literal) if matches!(literal.value, Literal::Placeholder(_)))
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
