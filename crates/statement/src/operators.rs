//! The comparisons and the arithmetic that the engine knows, as SQL's operators.

use datafusion::sql::sqlparser::ast::BinaryOperator;
use fleetdb_engine::{Comparison, Operator};

/// The comparison that an operator is; `None` if it is none.
///
/// ```
/// use datafusion::sql::sqlparser::ast::BinaryOperator;
/// use fleetdb_engine::Comparison;
/// assert_eq!(fleetdb_statement::operators::comparison(&BinaryOperator::LtEq), Some(Comparison::LessOrEqual));
/// assert_eq!(fleetdb_statement::operators::comparison(&BinaryOperator::And), None);
/// ```
pub fn comparison(operator: &BinaryOperator) -> Option<Comparison> {
    Some(match operator {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// The operation on numbers that an operator is; `None` for a division, whose result may not be exact, and
/// for others.
///
/// ```
/// use datafusion::sql::sqlparser::ast::BinaryOperator;
/// use fleetdb_engine::Operator;
/// assert_eq!(fleetdb_statement::operators::arithmetic(&BinaryOperator::Plus), Some(Operator::Add));
/// assert_eq!(fleetdb_statement::operators::arithmetic(&BinaryOperator::Divide), None);
/// ```
pub fn arithmetic(operator: &BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Plus => Operator::Add,
        BinaryOperator::Minus => Operator::Subtract,
        BinaryOperator::Multiply => Operator::Multiply,
        _ => return None,
    })
}
