//! `numeric(1000, 15)`, as Django casts numbers to round them: DataFusion supports 76 digits, and
//! clients get 38.

use datafusion::sql::sqlparser::ast::{DataType, ExactNumberInfo, Expr, Statement};
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// The maximum number of digits sent to clients.
const MAX_DIGITS: u64 = 38;

/// Limits the precision of casts to the maximum. A value that does not fit is an error.
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
