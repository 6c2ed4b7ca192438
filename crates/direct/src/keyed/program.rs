//! The expressions of a keyed write: columns of the old and the new row, literals, parameters, sums,
//! differences and products of numbers, CASE, `coalesce`, `greatest`, `least` and `now`.

use super::conditions::{Condition, is_comparable, order};
use crate::cells::{Cell, ParameterTypes, count_of, now_for};
use crate::conflict::EXCLUDED;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value as Literal,
};
use fleetdb_engine::{Code, ColumnType, Decimal, Error, Result, TableSchema, Unit, Value};
use fleetdb_functions::values::literals::numeric_overflow;
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::names::identifier;
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
                if is_narrow && [&left, &right].iter().any(|side| side.computes()) {
                    return None;
                }
                Some(Program::Arithmetic(Box::new(Arithmetic { left, operator, right, column_type: to })))
            }
            Expr::Case { operand: None, conditions, else_result, .. } => {
                let branch = |CaseWhen { condition, result }: &CaseWhen| {
                    Some((self.condition(condition, types)?, self.compile(result, to, types)?))
                };
                let branches = conditions.iter().map(branch).collect::<Option<Vec<_>>>()?;
                let last = match else_result {
                    Some(last) => Some(Box::new(self.compile(last, to, types)?)),
                    None => None,
                };
                Some(Program::Case(branches, last))
            }
            Expr::Function(call) => self.call(expr, call, to, types),
            literal => match types.cell(literal, to, self.zone)? {
                // The planner refuses it, even if there are no rows.
                Cell::Value(value) if !value.fits(to) => None,
                cell => Some(Program::Cell(cell)),
            },
        }
    }

    fn call(&self, expr: &Expr, call: &Function, to: ColumnType, types: &mut ParameterTypes) -> Option<Program> {
        if let Some(unit) = now_for(expr, to, self.zone) {
            return Some(Program::Now(unit));
        }
        let FunctionArguments::List(list) = &call.args else { return None };
        let is_plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
        if !is_plain || call.over.is_some() || call.filter.is_some() || !call.within_group.is_empty() {
            return None;
        }
        let argument = |argument: &FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.compile(expr, to, types),
            _ => None,
        };
        let arguments = || list.args.iter().map(argument).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty());
        match call.name.to_string().to_ascii_lowercase().as_str() {
            "coalesce" => arguments().map(Program::Coalesce),
            "greatest" if is_comparable(to) => arguments().map(|of| Program::Extreme(Ordering::Greater, of)),
            "least" if is_comparable(to) => arguments().map(|of| Program::Extreme(Ordering::Less, of)),
            _ => None,
        }
    }

    /// The type of a column.
    pub(super) fn type_of(&self, column: &Program) -> Option<ColumnType> {
        match column {
            Program::Old(place) | Program::New(place) => Some(self.schema.columns[*place].column_type),
            _ => None,
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
pub(super) fn is_exact_decimal(operand: &Expr, precision: u8, scale: u8) -> bool {
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
    pub(super) fn of_value(value: Value) -> Self {
        Self::Cell(Cell::Value(value))
    }

    /// Whether a part of it is computed from numbers.
    fn computes(&self) -> bool {
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
