//! Flattens `coalesce(coalesce(a, b), c)` to the equivalent `coalesce(a, b, c)`. DataFusion turns a
//! call into a CASE with each argument twice, so nested calls would double in size with each level.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement};
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::visit_expressions_mut;
use std::ops::ControlFlow;

/// Flattens the nested calls of a statement.
pub(super) fn within_each_other(statement: &mut Statement) {
    let _ = visit_expressions_mut(statement, |expr| {
        if let Some(args) = args_of(expr)
            && args.iter_mut().any(|arg| value_of(arg).and_then(args_of).is_some())
        {
            let mut flat = Vec::with_capacity(args.len() + 1);
            for mut arg in std::mem::take(args) {
                match value_of(&mut arg).and_then(args_of) {
                    Some(inner) => flat.append(inner),
                    None => flat.push(arg),
                }
            }
            *args = flat;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn value_of(arg: &mut FunctionArg) -> Option<&mut Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    }
}

/// The arguments, if the expression is a call of coalesce.
fn args_of(expr: &mut Expr) -> Option<&mut Vec<FunctionArg>> {
    let Expr::Function(call) = expr else { return None };
    let [name] = call.name.0.as_slice() else { return None };
    let is_coalesce = name.as_ident().is_some_and(|name| identifier(name) == "coalesce");
    match &mut call.args {
        FunctionArguments::List(list) if is_coalesce => Some(&mut list.args),
        _ => None,
    }
}

#[cfg(test)]
#[path = "coalesce_tests.rs"]
mod tests;
