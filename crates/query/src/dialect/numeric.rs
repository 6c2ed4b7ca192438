//! `numeric(1000, 15)`, as which Django has a number rounded: DataFusion knows 76 digits, and clients get 38.

use datafusion::sql::sqlparser::ast::{DataType, ExactNumberInfo, Expr, Statement, visit_expressions_mut};
use std::ops::ControlFlow;

/// As many digits as a number has that is sent to clients.
const MAX_DIGITS: u64 = 38;

/// Casts to types of more digits as casts to the longest one; a value that does not fit is an error.
pub(super) fn limit_digits(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Expr::Cast { data_type: DataType::Numeric(digits) | DataType::Decimal(digits), .. } = expr
            && let ExactNumberInfo::Precision(precision) | ExactNumberInfo::PrecisionAndScale(precision, _) = digits
        {
            *precision = MAX_DIGITS.min(*precision);
        }
        ControlFlow::<()>::Continue(())
    });
}
