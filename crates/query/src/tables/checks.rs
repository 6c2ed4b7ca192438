//! Conditions of CHECK, in the form that the engine evaluates for each row.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value as Literal,
};
use fleetdb_engine::{
    Code, ColumnId, ColumnType, Comparison, Condition, Decimal, Error, Operand, Operator, Result, Value,
};
use fleetdb_functions::values::literals::value_of_text_in;
use fleetdb_functions::values::zone::Zone;
use fleetdb_statement::names::identifier;
use fleetdb_statement::operators::{arithmetic, comparison};

/// The columns that a condition may name.
pub(crate) struct CheckScope {
    /// The name of the table.
    pub(crate) table: String,
    /// Names, types and numbers.
    pub(crate) columns: Vec<(String, ColumnType, ColumnId)>,
    /// The zone in which times are read from text.
    pub(crate) zone: Zone,
}

/// What a value is, as far as comparisons need it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Boolean,
    /// A column's type, of a time, a date or a binary value.
    Column(ColumnType),
}

impl Kind {
    fn of(column_type: ColumnType) -> Self {
        match column_type {
            ColumnType::Boolean => Self::Boolean,
            ColumnType::Utf8 => Self::Text,
            other if other.is_numeric() => Self::Number,
            other => Self::Column(other),
        }
    }
}

impl CheckScope {
    /// The engine's form of a condition.
    ///
    /// # Errors
    /// The condition has parts that the engine does not evaluate, names columns that do not exist, or
    /// compares values of different types.
    pub(crate) fn condition(&self, expr: &Expr) -> Result<Condition> {
        if let Expr::BinaryOp { left, op, right } = expr
            && let Some(comparison) = comparison(op)
        {
            return self.compare(left, comparison, right);
        }
        let is_null = |of: &Expr| self.operand(of).map(|(operand, _)| Condition::IsNull(operand));
        Ok(match expr {
            Expr::Nested(inner) => self.condition(inner)?,
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                let is_and = *op == BinaryOperator::And;
                let parts = [self.condition(left)?, self.condition(right)?].into_iter();
                let parts = parts.flat_map(|part| match part {
                    Condition::And(parts) if is_and => parts,
                    Condition::Or(parts) if !is_and => parts,
                    other => vec![other],
                });
                if is_and { Condition::And(parts.collect()) } else { Condition::Or(parts.collect()) }
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => not(self.condition(expr)?),
            Expr::Between { expr, negated, low, high } => negated_if(
                *negated,
                Condition::And(vec![
                    self.compare(expr, Comparison::GreaterOrEqual, low)?,
                    self.compare(expr, Comparison::LessOrEqual, high)?,
                ]),
            ),
            Expr::InList { expr, list, negated } => {
                let equal = list.iter().map(|value| self.compare(expr, Comparison::Equal, value));
                negated_if(*negated, Condition::Or(equal.collect::<Result<_>>()?))
            }
            Expr::IsNull(of) => is_null(of)?,
            Expr::IsNotNull(of) => not(is_null(of)?),
            other => match self.operand(other)? {
                (operand, Kind::Boolean) => Condition::IsTrue(operand),
                _ => {
                    return Err(Error::new(
                        Code::TypeMismatch,
                        format!("argument of CHECK must be type boolean: {expr}"),
                    ));
                }
            },
        })
    }

    fn compare(&self, left: &Expr, comparison: Comparison, right: &Expr) -> Result<Condition> {
        // A quoted text has the type of what it is compared with.
        let (left, right) = match (text_of(left), text_of(right)) {
            (None, Some(text)) => {
                let left = self.operand(left)?;
                (left.0, self.text_as(text, left.1)?)
            }
            (Some(text), None) => {
                let right = self.operand(right)?;
                (self.text_as(text, right.1)?, right.0)
            }
            _ => {
                let ((left_operand, left_kind), (right_operand, right_kind)) =
                    (self.operand(left)?, self.operand(right)?);
                if left_kind != right_kind {
                    let message = format!("CHECK compares values of different types: {left} and {right}");
                    return Err(Error::new(Code::TypeMismatch, message));
                }
                (left_operand, right_operand)
            }
        };
        Ok(Condition::Compare(left, comparison, right))
    }

    /// A quoted text as a value of this kind.
    fn text_as(&self, text: &str, kind: Kind) -> Result<Operand> {
        let read = |column_type| value_of_text_in(text, column_type, self.zone);
        match kind {
            Kind::Text => Ok(Operand::Text(text.to_owned())),
            Kind::Number => number(text).ok_or_else(|| {
                let message = format!("invalid input syntax for type numeric: \"{text}\"");
                Error::new(Code::InvalidText, message)
            }),
            Kind::Boolean => match read(ColumnType::Boolean)? {
                Value::Boolean(value) => Ok(Operand::Boolean(value)),
                _ => Err(refused_text(text)),
            },
            Kind::Column(column_type) => match read(column_type)? {
                Value::Int(value) => Ok(Operand::Integer(value)),
                _ => Err(refused_text(text)),
            },
        }
    }

    fn operand(&self, expr: &Expr) -> Result<(Operand, Kind)> {
        Ok(match expr {
            Expr::Nested(inner) => self.operand(inner)?,
            Expr::Identifier(name) => self.column(&identifier(name))?,
            Expr::CompoundIdentifier(names) => match names.as_slice() {
                [table, name] if identifier(table) == self.table => self.column(&identifier(name))?,
                _ => return Err(refused(expr)),
            },
            Expr::Value(literal) => match &literal.value {
                Literal::Number(digits, _) => (number(digits).ok_or_else(|| refused(expr))?, Kind::Number),
                Literal::Boolean(value) => (Operand::Boolean(*value), Kind::Boolean),
                Literal::SingleQuotedString(text) => (Operand::Text(text.clone()), Kind::Text),
                _ => return Err(refused(expr)),
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: of } => match self.operand(of)? {
                (Operand::Integer(value), kind) => {
                    (Operand::Integer(value.checked_neg().ok_or_else(|| refused(expr))?), kind)
                }
                (Operand::Number { unscaled, scale }, kind) => (Operand::Number { unscaled: -unscaled, scale }, kind),
                (operand, Kind::Number) => (
                    Operand::Arithmetic(Box::new(Operand::Integer(0)), Operator::Subtract, Box::new(operand)),
                    Kind::Number,
                ),
                _ => return Err(refused(expr)),
            },
            // A constant with its type, as pg_dump writes it.
            Expr::Cast { expr: of, data_type, .. } => self.cast(expr, of, data_type)?,
            Expr::BinaryOp { left, op, right } => {
                let operator = arithmetic(op).ok_or_else(|| refused(expr))?;
                let ((left, Kind::Number), (right, Kind::Number)) = (self.operand(left)?, self.operand(right)?) else {
                    return Err(refused(expr));
                };
                (Operand::Arithmetic(Box::new(left), operator, Box::new(right)), Kind::Number)
            }
            Expr::Function(call) if is_length(&call.name.to_string()) => {
                let FunctionArguments::List(list) = &call.args else { return Err(refused(expr)) };
                let [FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] = list.args.as_slice() else {
                    return Err(refused(expr));
                };
                match self.operand(of)? {
                    (operand, Kind::Text) => (Operand::Length(Box::new(operand)), Kind::Number),
                    _ => return Err(refused(expr)),
                }
            }
            other => return Err(refused(other)),
        })
    }

    fn cast(&self, whole: &Expr, of: &Expr, data_type: &SqlType) -> Result<(Operand, Kind)> {
        let (operand, kind) = self.operand(of)?;
        let is_text = matches!(data_type, SqlType::Text | SqlType::Varchar(_) | SqlType::CharacterVarying(_));
        let is_number = matches!(data_type, SqlType::Numeric(_) | SqlType::Decimal(_));
        let keeps = is_text && kind == Kind::Text || is_number && kind == Kind::Number;
        if keeps { Ok((operand, kind)) } else { Err(refused(whole)) }
    }

    fn column(&self, name: &str) -> Result<(Operand, Kind)> {
        match self.columns.iter().find(|(known, ..)| known == name) {
            Some((_, column_type, id)) => Ok((Operand::Column(*id), Kind::of(*column_type))),
            None => Err(Error::new(Code::UndefinedColumn, format!("column \"{name}\" does not exist"))),
        }
    }
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

fn negated_if(negated: bool, condition: Condition) -> Condition {
    if negated { not(condition) } else { condition }
}

fn is_length(function: &str) -> bool {
    ["length", "char_length", "character_length"].iter().any(|name| function.eq_ignore_ascii_case(name))
}

/// A quoted text.
fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(literal) => match &literal.value {
            Literal::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A number as it is written.
fn number(digits: &str) -> Option<Operand> {
    if let Ok(value) = digits.parse() {
        return Some(Operand::Integer(value));
    }
    Decimal::read(digits).map(|Decimal { unscaled, scale }| Operand::Number { unscaled, scale })
}

fn refused(part: &Expr) -> Error {
    let message = format!(
        "CHECK with {part} is not supported: compare columns, constants, sums, differences, products and \
         length(text), with AND, OR, NOT, BETWEEN, IN and IS NULL"
    );
    Error::new(Code::NotSupported, message)
}

fn refused_text(text: &str) -> Error {
    Error::new(Code::NotSupported, format!("CHECK with the constant '{text}' of this type is not supported"))
}
