//! The expressions of a keyed write: columns of the old and the new row, literals, parameters, and
//! sums, differences and products of numbers.

use crate::write::cells::{Cell, ParameterTypes};
use crate::write::conflict::EXCLUDED;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value as Literal};
use fleetdb_engine::{Code, ColumnType, Decimal, Error, Result, TableSchema, Value};
use fleetdb_functions::values::literals::numeric_overflow;
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::names::identifier;

/// A compiled expression, whose values are of one column's type.
pub(super) enum Program {
    Cell(Cell),
    /// A column of the old row, by index.
    Old(usize),
    /// A column of the new row, called `excluded`.
    New(usize),
    Arithmetic(Box<Arithmetic>),
}

/// An operation on two numbers of the same type.
pub(super) struct Arithmetic {
    left: Program,
    operator: Operator,
    right: Program,
    column_type: ColumnType,
}

#[derive(Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
}

/// What the names in an expression mean.
pub(super) struct Scope<'a> {
    pub(super) schema: &'a TableSchema,
    /// The name by which the statement refers to its table.
    pub(super) called: &'a str,
    /// Whether there is a new row. If so, a column needs its table's name.
    pub(super) has_new: bool,
    /// The session's zone.
    pub(super) zone: Zone,
}

impl Scope<'_> {
    /// Compiles an expression for a column of this type; `None` if it must be planned.
    pub(super) fn compile(&self, expr: &Expr, to: ColumnType, types: &mut ParameterTypes) -> Option<Program> {
        match expr {
            Expr::Nested(inner) => self.compile(inner, to, types),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                let program = self.column(expr)?;
                let (Program::Old(place) | Program::New(place)) = program else { return None };
                (self.schema.columns[place].column_type == to).then_some(program)
            }
            Expr::BinaryOp { left, op, right } => {
                let operator = match op {
                    BinaryOperator::Plus => Operator::Add,
                    BinaryOperator::Minus => Operator::Subtract,
                    BinaryOperator::Multiply => Operator::Multiply,
                    _ => return None,
                };
                let is_number = match to {
                    ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 | ColumnType::Float64 => true,
                    // A product has more digits, and an operand must not be rounded before the result.
                    ColumnType::Decimal { precision, scale } => {
                        let is_exact = |side: &Expr| is_exact_decimal(side, precision, scale);
                        !matches!(operator, Operator::Multiply) && is_exact(left) && is_exact(right)
                    }
                    _ => false,
                };
                if !is_number || is_text(left) || is_text(right) {
                    return None;
                }
                let (left, right) = (self.compile(left, to, types)?, self.compile(right, to, types)?);
                // The planner computes with literals in 64 bits, and checks only the result.
                let is_narrow = matches!(to, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Decimal { .. });
                if is_narrow && [&left, &right].iter().any(|side| matches!(side, Program::Arithmetic(_))) {
                    return None;
                }
                Some(Program::Arithmetic(Box::new(Arithmetic { left, operator, right, column_type: to })))
            }
            literal => match types.cell(literal, to, self.zone)? {
                // The planner refuses it, even if there are no rows.
                Cell::Value(value) if !value.fits(to) => None,
                cell => Some(Program::Cell(cell)),
            },
        }
    }

    /// The column that a name means.
    pub(super) fn column(&self, expr: &Expr) -> Option<Program> {
        let place = |name| self.schema.column_index(&identifier(name)).ok();
        match expr {
            Expr::Identifier(name) if !self.has_new => place(name).map(Program::Old),
            Expr::CompoundIdentifier(names) => {
                let [table, name] = names.as_slice() else { return None };
                match identifier(table) {
                    table if table == self.called => place(name).map(Program::Old),
                    table if self.has_new && table == EXCLUDED => place(name).map(Program::New),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Whether an operand is a column, or a literal that a decimal column holds as it is.
fn is_exact_decimal(operand: &Expr, precision: u8, scale: u8) -> bool {
    match operand {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Value(literal) => match &literal.value {
            Literal::Number(digits, _) => {
                Decimal::read(digits).is_some_and(|number| number.with_scale(precision, scale).is_some())
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether an expression is a text, whose type depends on the other operand.
fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(literal) if matches!(literal.value, Literal::SingleQuotedString(_)))
}

impl Program {
    /// The value for these rows and parameters.
    ///
    /// # Errors
    /// The value is out of range.
    pub(super) fn value(&self, old: &[Value], new: &[Value], parameters: &[Value]) -> Result<Value> {
        match self {
            Self::Cell(cell) => Ok(cell.value(parameters, &[]).clone()),
            Self::Old(place) => Ok(old[*place].clone()),
            Self::New(place) => Ok(new[*place].clone()),
            Self::Arithmetic(of) => {
                let value = |program: &Self| program.value(old, new, parameters);
                of.of(&value(&of.left)?, &value(&of.right)?)
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
