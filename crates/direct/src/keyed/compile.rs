//! Compiles the expressions of a keyed write: columns of the old and the new row, literals, parameters,
//! sums, differences and products of numbers, CASE, `coalesce`, `greatest`, `least` and `now`. In
//! conditions: comparisons of a column with a value of its type, IS NULL, IN, BETWEEN, AND, OR and NOT.

use super::program::{Arithmetic, Condition, Program};
use crate::cells::{Cell, ParameterTypes, now_for};
use crate::conflict::EXCLUDED;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value as Literal,
};
use fleetdb_engine::{ColumnType, Comparison, Decimal, Operator, TableSchema, Value};
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::names::identifier;
use fleetdb_statement::operators::{arithmetic, comparison};
use std::cmp::Ordering;

/// A condition with a longer list is planned.
pub(super) const MAX_LISTED: usize = 100;

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
                let operator = arithmetic(op)?;
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
                let (left, right) = (self.operand(left, to, types)?, self.operand(right, to, types)?);
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

    /// Compiles a part of an expression. What is computed for a column with few digits may be out of its
    /// range as long as the result is not: the planner computes in 64 bits, and checks only the result.
    fn operand(&self, expr: &Expr, to: ColumnType, types: &mut ParameterTypes) -> Option<Program> {
        let is_narrow = matches!(to, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Decimal { .. });
        self.compile(expr, to, types).filter(|operand| !is_narrow || !operand.computes())
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
        let mut arguments = Vec::with_capacity(list.args.len());
        for argument in &list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else { return None };
            arguments.push(self.operand(argument, to, types)?);
        }
        match call.name.to_string().to_ascii_lowercase().as_str() {
            _ if arguments.is_empty() => None,
            "coalesce" => Some(Program::Coalesce(arguments)),
            "greatest" if is_ordered(to) => Some(Program::Extreme(Ordering::Greater, arguments)),
            "least" if is_ordered(to) => Some(Program::Extreme(Ordering::Less, arguments)),
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
        Expr::Nested(operand) | Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } => {
            is_exact_decimal(operand, precision, scale)
        }
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

/// Whether two values of a column of this type are compared here.
fn is_ordered(column_type: ColumnType) -> bool {
    is_comparable(column_type) || column_type.time_unit().is_some() || column_type == ColumnType::Date32
}

/// Whether values of this type are compared with literals and parameters here. JSON and single floats are
/// compared by rules of their own, and so are dates and times with a date, which may have more digits than
/// the column.
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
                let comparison = comparison(op)?;
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
            Expr::InList { expr, list, negated } if list.len() <= MAX_LISTED => {
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
        let column_type = self.type_of(&column).filter(|column_type| is_ordered(*column_type))?;
        if !is_comparable(column_type) && self.column(value).is_none() {
            return None;
        }
        // A number with more digits than the column must not be rounded.
        if let ColumnType::Decimal { precision, scale } = column_type
            && !is_parameter(value)
            && !is_exact_decimal(value, precision, scale)
        {
            return None;
        }
        Some(Condition::Compare(column, comparison, self.operand(value, column_type, types)?))
    }
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(literal) if matches!(literal.value, Literal::Placeholder(_)))
}
