//! PostgreSQL's `generate_series`: it returns rows in the SELECT list (DataFusion returns an
//! array); its bounds and step may be texts, `generate_series('2026-01-01'::timestamp,
//! '2026-01-02', '1 hour')`; and the column of `FROM generate_series(1, 3) AS g` is called `g`, or
//! without an alias like the function.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, SelectItem, Statement,
    TableFactor, TypedString, Value as Literal, VisitorMut,
};
use fleetdb_functions::values::times::written_out;
use fleetdb_statement::generated::expr_of;
use fleetdb_statement::names::identifier;
use fleetdb_statement::walk::{visit_expressions_mut, walk_mut};
use std::ops::ControlFlow;

const NAME: &str = "generate_series";

/// Rewrites the calls of a statement.
pub(super) fn as_rows(statement: &mut Statement) {
    let _ = walk_mut(statement, &mut Series);
}

struct Series;

impl VisitorMut for Series {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        super::selects(&mut query.body, &mut |select| select.projection.iter_mut().for_each(selected));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: Some(args), .. } = table
            && is_series(name)
        {
            type_texts(&mut args.args);
            super::name_column(alias, NAME);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr
            && is_series(name)
        {
            type_texts(&mut list.args);
        }
        ControlFlow::Continue(())
    }
}

/// Whether this is PostgreSQL's function. A name with a schema, as in catalog queries, is left
/// alone.
fn is_series(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| identifier(name) == NAME))
}

fn selected(item: &mut SelectItem) {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return };
    if !matches!(expr, Expr::Function(call) if is_series(&call.name)) {
        return;
    }
    let Some(rows) = expr_of(&format!("unnest({expr})")) else { return };
    *expr = rows;
}

/// Gives text bounds the type of a time, and a text step that of an interval.
fn type_texts(args: &mut [FunctionArg]) {
    let [start, stop, step] = args else { return };
    let is_of_time = text_of(step).is_some() || matches!(expr_in(step), Some(Expr::Interval(_) | Expr::Cast { .. }));
    if !is_of_time {
        return;
    }
    for end in [start, stop] {
        put(end, |text| format!("CAST({text} AS TIMESTAMP)"));
        if let Some(end) = expr_in_mut(end) {
            write_out(end);
        }
    }
    put(step, |text| format!("INTERVAL {text}"));
}

/// Rewrites texts of times in the form that DataFusion parses.
fn write_out(end: &mut Expr) {
    let _ = visit_expressions_mut(end, |expr| {
        if let Expr::Value(literal) | Expr::TypedString(TypedString { value: literal, .. }) = expr
            && let Literal::SingleQuotedString(text) = &mut literal.value
            && let Some(whole) = written_out(text)
        {
            *text = whole;
        }
        ControlFlow::<()>::Continue(())
    });
}

fn put(arg: &mut FunctionArg, typed: impl Fn(&Expr) -> String) {
    if text_of(arg).is_some()
        && let Some(expr) = expr_in_mut(arg)
        && let Some(typed) = expr_of(&typed(expr))
    {
        *expr = typed;
    }
}

fn text_of(arg: &FunctionArg) -> Option<&str> {
    match expr_in(arg)? {
        Expr::Value(literal) => match &literal.value {
            Literal::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn expr_in(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn expr_in_mut(arg: &mut FunctionArg) -> Option<&mut Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}
