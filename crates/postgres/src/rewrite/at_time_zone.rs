//! `time AT TIME ZONE zone`, as a call of FleetDB's function `timezone(zone, time)`. DataFusion's own
//! operator only changes the zone in the type of the same instant, which clients do not see.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArguments, Statement, Value};
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// Rewrites each `AT TIME ZONE` of a statement as a call of the function.
pub(crate) fn zones_as_calls(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        // Avoids formatting the operand as text, because a chain would be formatted again at every
        // level.
        if let Expr::AtTimeZone { timestamp, time_zone } = expr
            && let Some(Expr::Function(mut call)) = expr_of("timezone(0, 0)")
            && let FunctionArguments::List(list) = &mut call.args
        {
            let operands = [time_zone, timestamp];
            let operands = operands.map(|operand| std::mem::replace(operand.as_mut(), Expr::value(Value::Null)));
            list.args = operands.into_iter().map(|operand| FunctionArg::Unnamed(operand.into())).collect();
            *expr = Expr::Function(call);
        }
        ControlFlow::<()>::Continue(())
    });
}
