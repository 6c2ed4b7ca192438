//! Names of sequences in calls: `nextval('meters_id_seq'::regclass)`, as many programs write them.

use crate::names::identifier;
use crate::walk::visit_expressions_mut;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, VisitMut};
use fleetdb_functions::names::{NEXT_NUMBER, RAISE_NUMBERS};
use std::ops::ControlFlow;

/// Removes casts to `regclass` around the names of sequences: a sequence has no number of its own.
pub fn without_casts<T: VisitMut + ?Sized>(tree: &mut T) {
    let _ = visit_expressions_mut(tree, |expr| {
        if let Expr::Function(call) = expr
            && let FunctionArguments::List(list) = &mut call.args
            && let Some(name) = call.name.0.last().and_then(|part| part.as_ident()).map(identifier)
            && [NEXT_NUMBER, RAISE_NUMBERS].contains(&name.as_str())
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) = list.args.first_mut()
            && let Expr::Cast { expr: inner, data_type, .. } = argument
            && data_type.to_string().eq_ignore_ascii_case("regclass")
        {
            *argument = *inner.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}
