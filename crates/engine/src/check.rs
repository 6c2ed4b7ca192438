//! Conditions on a row, as SQL's CHECK has them. The engine evaluates them when rows are admitted, so
//! that no path to the database leads around them.

use crate::column_type::ColumnType;
use crate::decimal::{Decimal, MAX_DECIMAL_DIGITS};
use crate::ids::ColumnId;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A named condition that no row of a table violates. A row meets a condition that is unknown because
/// of a NULL, as in SQL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, unique in the table.
    pub name: String,
    /// What each row meets.
    pub condition: Condition,
}

/// A condition on a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// A comparison of two values.
    Compare(Operand, Comparison, Operand),
    /// The value is NULL.
    IsNull(Operand),
    /// A boolean value.
    IsTrue(Operand),
    /// All of them hold.
    And(Vec<Self>),
    /// One of them holds.
    Or(Vec<Self>),
    /// The opposite.
    Not(Box<Self>),
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operand {
    /// A column of the row.
    Column(ColumnId),
    /// An integer; with a column of times, in the column's unit.
    Integer(i64),
    /// A number with digits after the decimal point.
    Number {
        /// The number without its decimal point.
        unscaled: i64,
        /// The number of digits after the decimal point.
        scale: u8,
    },
    /// A text.
    Text(String),
    /// A truth value.
    Boolean(bool),
    /// The number of characters of a text.
    Length(Box<Self>),
    /// An operation on two numbers.
    Arithmetic(Box<Self>, Operator, Box<Self>),
}

/// An operation on numbers. It is exact if its result fits; otherwise it is computed as a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
}

impl Condition {
    /// Whether the condition holds; `None` if it is unknown. `value` gives the row's value of a column.
    pub(crate) fn holds<'a>(&'a self, value: &impl Fn(ColumnId) -> Scalar<'a>) -> Option<bool> {
        match self {
            Self::Compare(left, comparison, right) => {
                let order = order(left.value(value), right.value(value))?;
                Some(comparison.allows(order))
            }
            Self::IsNull(of) => Some(matches!(of.value(value), Scalar::Null)),
            Self::IsTrue(of) => match of.value(value) {
                Scalar::Boolean(is_true) => Some(is_true),
                _ => None,
            },
            Self::And(all) => all
                .iter()
                .try_fold(Some(true), |so_far, part| match part.holds(value) {
                    Some(false) => Err(()),
                    part => Ok(so_far.and(part)),
                })
                .unwrap_or(Some(false)),
            Self::Or(any) => any
                .iter()
                .try_fold(Some(false), |so_far, part| match part.holds(value) {
                    Some(true) => Err(()),
                    part => Ok(so_far.and(part)),
                })
                .unwrap_or(Some(true)),
            Self::Not(of) => of.holds(value).map(|holds| !holds),
        }
    }

    /// Calls `each` for every column of the condition.
    fn each_column(&self, each: &mut impl FnMut(ColumnId)) {
        match self {
            Self::Compare(left, _, right) => [left, right].into_iter().for_each(|of| of.each_column(each)),
            Self::IsNull(of) | Self::IsTrue(of) => of.each_column(each),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.each_column(each)),
            Self::Not(of) => of.each_column(each),
        }
    }

    /// The levels of the tree.
    pub(crate) fn levels(&self) -> usize {
        1 + match self {
            Self::Compare(left, _, right) => left.levels().max(right.levels()),
            Self::IsNull(of) | Self::IsTrue(of) => of.levels(),
            Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::levels).max().unwrap_or(0),
            Self::Not(of) => of.levels(),
        }
    }

    /// Whether the condition asks for NULL.
    pub(crate) fn asks_for_null(&self) -> bool {
        match self {
            Self::IsNull(_) => true,
            Self::Compare(..) | Self::IsTrue(_) => false,
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::asks_for_null),
            Self::Not(of) => of.asks_for_null(),
        }
    }

    /// The columns of the condition, each once.
    pub fn columns(&self) -> Vec<ColumnId> {
        let mut columns = Vec::new();
        self.each_column(&mut |column| {
            if !columns.contains(&column) {
                columns.push(column);
            }
        });
        columns
    }

    /// The condition in SQL. `name` gives the name of a column, `constant` an integer as a constant of its
    /// column.
    pub(crate) fn to_sql(
        &self,
        name: &impl Fn(ColumnId) -> String,
        constant: &impl Fn(ColumnId, i64) -> String,
    ) -> String {
        let joined = |parts: &[Self], word: &str| {
            let parts: Vec<String> = parts.iter().map(|part| part.to_sql(name, constant)).collect();
            format!("({})", parts.join(word))
        };
        match self {
            Self::Compare(left, comparison, right) => {
                let (left, right) = match (left, right) {
                    (Operand::Column(id), Operand::Integer(value)) => (name(*id), constant(*id, *value)),
                    (Operand::Integer(value), Operand::Column(id)) => (constant(*id, *value), name(*id)),
                    _ => (left.to_sql(name), right.to_sql(name)),
                };
                format!("({left} {} {right})", comparison.symbol())
            }
            Self::IsNull(of) => format!("({} IS NULL)", of.to_sql(name)),
            Self::IsTrue(of) => of.to_sql(name),
            Self::And(parts) => joined(parts, " AND "),
            Self::Or(parts) => joined(parts, " OR "),
            Self::Not(of) => format!("(NOT {})", of.to_sql(name, constant)),
        }
    }
}

impl Comparison {
    /// The comparison with its sides exchanged.
    ///
    /// ```
    /// use fleetdb_engine::Comparison;
    /// assert_eq!(Comparison::Less.mirrored(), Comparison::Greater);
    /// assert_eq!(Comparison::Equal.mirrored(), Comparison::Equal);
    /// ```
    #[must_use]
    pub fn mirrored(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }

    /// Whether the comparison holds for two values with this order.
    ///
    /// ```
    /// use fleetdb_engine::Comparison;
    /// assert!(Comparison::LessOrEqual.allows(1.cmp(&2)));
    /// assert!(!Comparison::Equal.allows(1.cmp(&2)));
    /// ```
    pub fn allows(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, column: &impl Fn(ColumnId) -> Scalar<'a>) -> Scalar<'a> {
        match self {
            Self::Column(id) => column(*id),
            Self::Integer(value) => Scalar::Integer((*value).into()),
            Self::Number { unscaled, scale } => Scalar::Decimal(Decimal { unscaled: *unscaled, scale: *scale }),
            Self::Text(text) => Scalar::Bytes(text.as_bytes()),
            Self::Boolean(value) => Scalar::Boolean(*value),
            Self::Length(of) => match of.value(column) {
                Scalar::Bytes(text) => Scalar::Integer(String::from_utf8_lossy(text).chars().count() as i128),
                _ => Scalar::Null,
            },
            Self::Arithmetic(left, operator, right) => operator.of(left.value(column), right.value(column)),
        }
    }

    fn levels(&self) -> usize {
        1 + match self {
            Self::Length(of) => of.levels(),
            Self::Arithmetic(left, _, right) => left.levels().max(right.levels()),
            _ => 0,
        }
    }

    fn each_column(&self, each: &mut impl FnMut(ColumnId)) {
        match self {
            Self::Column(id) => each(*id),
            Self::Length(of) => of.each_column(each),
            Self::Arithmetic(left, _, right) => [left, right].into_iter().for_each(|of| of.each_column(each)),
            Self::Integer(_) | Self::Number { .. } | Self::Text(_) | Self::Boolean(_) => {}
        }
    }

    fn to_sql(&self, name: &impl Fn(ColumnId) -> String) -> String {
        match self {
            Self::Column(id) => name(*id),
            Self::Integer(value) => value.to_string(),
            Self::Number { unscaled, scale } => Decimal { unscaled: *unscaled, scale: *scale }.to_string(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Self::Boolean(value) => value.to_string(),
            Self::Length(of) => format!("length({})", of.to_sql(name)),
            Self::Arithmetic(left, operator, right) => {
                let symbol = match operator {
                    Operator::Add => '+',
                    Operator::Subtract => '-',
                    Operator::Multiply => '*',
                };
                format!("({} {symbol} {})", left.to_sql(name), right.to_sql(name))
            }
        }
    }
}

/// A value of a row while a condition is evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar<'a> {
    Null,
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Decimal(Decimal),
    /// A text or a binary value.
    Bytes(&'a [u8]),
}

impl Scalar<'_> {
    /// Converts a raw value of a column that is neither text nor binary.
    pub(crate) fn of_raw(raw: u64, column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean => Self::Boolean(raw != 0),
            ColumnType::UInt8 | ColumnType::UInt16 | ColumnType::UInt32 | ColumnType::UInt64 => {
                Self::Integer(raw.into())
            }
            ColumnType::Float32 => Self::Float(f64::from(f32::from_bits(raw as u32))),
            ColumnType::Float64 => Self::Float(f64::from_bits(raw)),
            ColumnType::Decimal { scale, .. } => Self::Decimal(Decimal { unscaled: raw as i64, scale }),
            _ => Self::Integer((raw as i64).into()),
        }
    }

    fn integer(self) -> Option<i128> {
        match self {
            Self::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// The exact number without its decimal point, and the number of digits after it.
    fn exact(self) -> Option<(i128, u8)> {
        match self {
            Self::Integer(value) => Some((value, 0)),
            Self::Decimal(value) => Some((value.unscaled.into(), value.scale)),
            _ => None,
        }
    }

    fn float(self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Decimal(value) => Some(value.to_f64()),
            _ => None,
        }
    }
}

impl Operator {
    fn of<'a>(self, left: Scalar<'_>, right: Scalar<'_>) -> Scalar<'a> {
        if let (Some(left), Some(right)) = (left.integer(), right.integer())
            && let Some(exact) = self.of_exact(left, right)
        {
            return Scalar::Integer(exact);
        }
        if let Some(decimal) = self.of_decimals(left, right) {
            return Scalar::Decimal(decimal);
        }
        match (left.float(), right.float()) {
            (Some(left), Some(right)) => Scalar::Float(match self {
                Self::Add => left + right,
                Self::Subtract => left - right,
                Self::Multiply => left * right,
            }),
            _ => Scalar::Null,
        }
    }

    fn of_exact(self, left: i128, right: i128) -> Option<i128> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
        }
    }

    fn of_decimals(self, left: Scalar<'_>, right: Scalar<'_>) -> Option<Decimal> {
        let (left, right) = (left.exact()?, right.exact()?);
        let (unscaled, scale) = match self {
            Self::Multiply => (self.of_exact(left.0, right.0)?, left.1 + right.1),
            _ => {
                let scale = left.1.max(right.1);
                (self.of_exact(at_scale(left, scale)?, at_scale(right, scale)?)?, scale)
            }
        };
        let unscaled = i64::try_from(unscaled).ok()?;
        (scale <= MAX_DECIMAL_DIGITS).then_some(Decimal { unscaled, scale })
    }
}

/// The order of two values; `None` if one is NULL or they are of types that do not compare. As in
/// PostgreSQL, NaN is greater than all other numbers and equal to itself.
fn order(left: Scalar<'_>, right: Scalar<'_>) -> Option<Ordering> {
    match (left, right) {
        (Scalar::Bytes(left), Scalar::Bytes(right)) => return Some(left.cmp(right)),
        (Scalar::Boolean(left), Scalar::Boolean(right)) => return Some(left.cmp(&right)),
        _ => {}
    }
    if let (Some(left), Some(right)) = (left.exact(), right.exact()) {
        let scale = left.1.max(right.1);
        if let (Some(left), Some(right)) = (at_scale(left, scale), at_scale(right, scale)) {
            return Some(left.cmp(&right));
        }
    }
    let (left, right) = (left.float()?, right.float()?);
    Some(left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan())))
}

/// An exact number without its decimal point, with this many digits after it.
fn at_scale((unscaled, scale): (i128, u8), to: u8) -> Option<i128> {
    unscaled.checked_mul(10i128.pow(u32::from(to - scale)))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
