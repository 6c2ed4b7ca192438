//! JSON in plans: casts of `jsonb` scalars, texts next to `jsonb`, whole rows, and the types of
//! expressions whose metadata DataFusion drops.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::{Case, InList, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};
use fleetdb_functions::clocks;
use fleetdb_functions::planned_names::as_written;
use fleetdb_functions::values::zone::Zone;
use fleetdb_json::kind::JsonKind;
use fleetdb_json::scalars::{cast_of, kind_of_expr, marked};
use fleetdb_json::{BUILDERS, INSTANT, ROW, canonical_text, check_text};
use std::sync::Arc;

/// Whether this is a call that [`meant`] replaces by one with the columns of a table.
pub(super) fn is_row(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == ROW)
}

/// Rewrites an expression whose operands have been rewritten already; `None` if it needs no change.
///
/// # Errors
/// A text next to `jsonb` is not JSON, or a cast does not exist.
pub(super) fn meant(
    expr: &Expr,
    schema: &DFSchema,
    zone: Zone,
    functions: &dyn FunctionRegistry,
) -> Result<Option<Expr>> {
    match expr {
        Expr::Cast(cast) => match kind(&cast.expr, schema) {
            Some(kind) => cast_of(cast.expr.as_ref().clone(), kind, cast.field.data_type()).map(Some),
            None => Ok(None),
        },
        Expr::Case(case) => case_meant(case, schema),
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            let left = typed_as(&binary.left, &binary.right, schema)?;
            let right = typed_as(&binary.right, &binary.left, schema)?;
            Ok((left.is_some() || right.is_some()).then(|| {
                let side = |typed: Option<Expr>, side: &Expr| Box::new(typed.unwrap_or_else(|| side.clone()));
                Expr::BinaryExpr(BinaryExpr::new(side(left, &binary.left), binary.op, side(right, &binary.right)))
            }))
        }
        Expr::InList(list) => {
            let items = list.list.iter().map(|item| typed_as(item, &list.expr, schema));
            let items = items.collect::<Result<Vec<_>>>()?;
            Ok(items.iter().any(Option::is_some).then(|| {
                let items =
                    items.into_iter().zip(&list.list).map(|(typed, item)| typed.unwrap_or_else(|| item.clone()));
                Expr::InList(InList::new(list.expr.clone(), items.collect(), list.negated))
            }))
        }
        Expr::ScalarFunction(call) if call.name() == ROW => Ok(match row_of(call, schema) {
            Some(Expr::ScalarFunction(mut row)) => {
                if let Some(args) = instants_of(&row.args, schema, zone, functions)? {
                    row.args = args;
                }
                Some(Expr::ScalarFunction(row))
            }
            other => other,
        }),
        Expr::ScalarFunction(call) if is_of_one_type(call.name()) => {
            let Some((args, kind)) = of_one_kind(call.args.iter(), schema)? else { return Ok(None) };
            let call = ScalarFunction::new_udf(Arc::clone(&call.func), args);
            Ok(Some(marked(Expr::ScalarFunction(call), kind)))
        }
        Expr::ScalarFunction(call) if zone != Zone::Utc && BUILDERS.contains(&call.name()) => {
            let args = instants_of(&call.args, schema, zone, functions)?;
            Ok(args.map(|args| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args))))
        }
        _ => Ok(None),
    }
}

/// A scalar subquery whose value is JSON, marked as such; `None` for anything else.
pub(super) fn subquery_meant(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    match expr {
        Expr::ScalarSubquery(_) => kind(expr, schema).map(|kind| marked(expr.clone(), kind)),
        _ => None,
    }
}

/// Whether a function returns one of its arguments, or an array of them: its result is JSON like them.
fn is_of_one_type(function: &str) -> bool {
    matches!(function, "coalesce" | "nullif" | "make_array")
}

fn kind(expr: &Expr, schema: &DFSchema) -> Option<JsonKind> {
    kind_of_expr(expr, schema).ok().flatten()
}

fn is_comparison(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), None) => Some(text),
        _ => None,
    }
}

/// A text as JSON of this kind; `None` for anything else.
fn typed(expr: &Expr, kind: JsonKind) -> Result<Option<Expr>> {
    let Some(text) = text(expr) else { return Ok(None) };
    Ok(Some(match kind {
        JsonKind::Jsonb => lit(canonical_text(text)?),
        JsonKind::Json => {
            check_text(text)?;
            lit(text)
        }
    }))
}

/// A text that is compared with `jsonb`, in the canonical form.
fn typed_as(expr: &Expr, with: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    if text(expr).is_none() || kind(with, schema) != Some(JsonKind::Jsonb) {
        return Ok(None);
    }
    typed(expr, JsonKind::Jsonb)
}

/// If one of the expressions has a kind: all of them, with texts as JSON of this kind.
fn of_one_kind<'a>(
    exprs: impl Iterator<Item = &'a Expr> + Clone,
    schema: &DFSchema,
) -> Result<Option<(Vec<Expr>, JsonKind)>> {
    let Some(kind) = exprs.clone().find_map(|expr| kind(expr, schema)) else { return Ok(None) };
    let exprs = exprs.map(|expr| Ok(typed(expr, kind)?.unwrap_or_else(|| expr.clone())));
    Ok(Some((exprs.collect::<Result<_>>()?, kind)))
}

fn case_meant(case: &Case, schema: &DFSchema) -> Result<Option<Expr>> {
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let Some((results, kind)) = of_one_kind(results.map(AsRef::as_ref), schema)? else { return Ok(None) };
    let mut results = results.into_iter().map(Box::new);
    let branches = case.when_then_expr.iter().map(|(when, _)| when.clone()).zip(results.by_ref()).collect();
    Ok(Some(marked(Expr::Case(Case::new(case.expr.clone(), branches, results.next())), kind)))
}

/// `json_row(t.*)` with the names and values of the columns. A column that is called like the table
/// is meant before the table.
fn row_of(call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    #[expect(deprecated, reason = "DataFusion still plans t.* as an argument so")]
    let [Expr::Wildcard { qualifier: Some(table), .. }] = call.args.as_slice() else { return None };
    if let Ok((of, field)) = schema.qualified_field_with_unqualified_name(table.table()) {
        return Some(Expr::Column((of, field).into()));
    }
    let columns = schema.fields_indices_with_qualified(table).into_iter().flat_map(|place| {
        let (table, field) = schema.qualified_field(place);
        [lit(as_written(field.name())), Expr::Column((table, field).into())]
    });
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), columns.collect())))
}

/// Arguments with instants as texts in the session's zone; `None` if there are none.
fn instants_of(
    args: &[Expr],
    schema: &DFSchema,
    zone: Zone,
    functions: &dyn FunctionRegistry,
) -> Result<Option<Vec<Expr>>> {
    let is_instant = |arg: &Expr| matches!(arg.get_type(schema), Ok(DataType::Timestamp(_, Some(_))));
    if zone == Zone::Utc || !args.iter().any(is_instant) {
        return Ok(None);
    }
    let instant = functions.udf(INSTANT)?;
    let shown = |arg: &Expr| match is_instant(arg) {
        true => instant.call(vec![clocks::text(arg.clone(), zone)]),
        false => arg.clone(),
    };
    Ok(Some(args.iter().map(shown).collect()))
}
