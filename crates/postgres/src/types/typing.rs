//! Infers types for parameters and texts that DataFusion leaves untyped: `$1::bigint[]`, `id =
//! ANY($1)`, `id = ANY('{1,2}')`, `is_open = 't'`, `ts >= '2026-01-01 12:00'`. Where types are
//! known, it also applies [`operators`].
//!
//! Drivers send an array as one parameter. Its text is PostgreSQL's, `{1,2,NULL,"a, b"}`
//! (<https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO>).

use super::json;
use super::mixed_times::as_instants;
use super::operators::{bytes, may_mean_another, meant, row_numbers};
use super::zones::{Clocks, row_of, time_of_literal};
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction, WindowFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use fleetdb_engine::{ColumnType, Value};
use fleetdb_functions::errors::{misfit, query_error};
use fleetdb_functions::expressions::map_named;
use fleetdb_functions::one_of::{is_long_list, planned};
use fleetdb_functions::uuids::uuid_literal;
use fleetdb_functions::values::array_literals::array_of_text;
use fleetdb_functions::values::literals::value_of_text;
use fleetdb_functions::values::times::{TimeText, read_exact, read_time};
use fleetdb_functions::values::zone::Zone;
use fleetdb_plan::exact_numbers::decimal_of;
use std::sync::Arc;

/// The functions to which DataFusion plans `ANY` and `ALL`; their first argument is the array.
const OF_ARRAYS: [&str; 5] = ["array_has", "array_min", "array_max", "array_position", "cardinality"];

/// Gives a plan's parameters and texts their types, in a session with this zone.
///
/// # Errors
/// A text is not an array of its type.
pub(crate) fn typed(plan: LogicalPlan, clocks: Clocks<'_>) -> Result<LogicalPlan> {
    // Changes below may give columns other types.
    let mut has_changed = false;
    let (assigning, assigned_values) = assigning(&plan);
    let typed = plan.transform_up_with_subqueries(|node| {
        let mixed = as_instants(node, clocks.zone, assigned_values.as_ref())?;
        has_changed |= mixed.transformed;
        let node = mixed.data;
        let (mut is_untyped, mut is_meant) = (matches!(node, LogicalPlan::Limit(_)), false);
        let row_numbers = row_numbers(&node);
        let is_assigning = match &node {
            LogicalPlan::Projection(of) => assigning.as_ref().is_some_and(|schema| Arc::ptr_eq(schema, &of.schema)),
            _ => false,
        };
        node.apply_expressions(|expr| {
            is_untyped |= has_untyped(expr);
            is_meant |= expr.exists(|expr| Ok(may_mean_another(expr) || json::is_row(expr)))?;
            Ok(if is_untyped && is_meant { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        is_meant |= !row_numbers.is_empty() || !clocks.are_utc();
        let node = if has_changed { node.recompute_schema()? } else { node };
        if !is_untyped && !is_meant {
            return Ok(Transformed::new_transformed(node, has_changed));
        }
        if let LogicalPlan::Limit(_) = node {
            return node.map_expressions(|count| match counted(&count)? {
                Some(typed) => Ok(Transformed::yes(typed)),
                None => Ok(Transformed::no(count)),
            });
        }
        let schema = merge_schema(&node.inputs());
        let typed = map_named(node, |expr| {
            let typed = if is_untyped { typed_expr(expr, &schema, clocks.zone)? } else { Transformed::no(expr) };
            let typed = typed.transform_data(|expr| {
                expr.transform_up(|expr| {
                    if let Some(of_json) = json::meant(&expr, &schema, clocks.zone, clocks.functions)? {
                        return Ok(Transformed::yes(of_json));
                    }
                    let meant = match meant(&expr, &schema, &row_numbers)? {
                        None if clocks.are_utc() => clocks.meant_in_utc(&expr, &schema)?,
                        meant => meant,
                    };
                    // A subquery may be JSON as well as have another form.
                    let of_json = json::subquery_meant(meant.as_ref().unwrap_or(&expr), &schema);
                    Ok(of_json.or(meant).map_or_else(|| Transformed::no(expr), Transformed::yes))
                })
            })?;
            match clocks.are_utc() {
                true => Ok(typed),
                false => typed.transform_data(|expr| by_clocks(expr, &schema, clocks, is_assigning)),
            }
        })?;
        has_changed |= typed.transformed;
        typed.map_data(|node| if has_changed { node.recompute_schema() } else { Ok(node) })
    })?;
    Ok(typed.data)
}

/// The schema of the projection that casts values to the columns a statement writes, and that of
/// the VALUES below it; `None` for those that do not exist.
fn assigning(plan: &LogicalPlan) -> (Option<DFSchemaRef>, Option<DFSchemaRef>) {
    let LogicalPlan::Dml(dml) = plan else { return (None, None) };
    let LogicalPlan::Projection(assigned) = dml.input.as_ref() else { return (None, None) };
    let values = match assigned.input.as_ref() {
        LogicalPlan::Values(values) => Some(Arc::clone(&values.schema)),
        _ => None,
    };
    (Some(Arc::clone(&assigned.schema)), values)
}

/// Rewrites an expression for the session's zone. The outermost cast of a value written to a column
/// is treated like the casts that DataFusion adds.
fn by_clocks(expr: Expr, schema: &DFSchema, clocks: Clocks<'_>, is_assigning: bool) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Alias(mut alias) if is_assigning => {
            let meant = by_clocks(*alias.expr, schema, clocks, true)?;
            alias.expr = Box::new(meant.data);
            Ok(Transformed::new_transformed(Expr::Alias(alias), meant.transformed))
        }
        Expr::Cast(mut cast) if is_assigning => {
            let meant = by_clocks(*cast.expr, schema, clocks, false)?;
            cast.expr = Box::new(meant.data);
            Ok(Transformed::new_transformed(Expr::Cast(cast), meant.transformed))
        }
        expr => expr.transform_up(|expr| {
            Ok(match clocks.meant(&expr, schema)? {
                Some(meant) => Transformed::yes(meant),
                None => Transformed::no(expr),
            })
        }),
    }
}

/// Whether an expression has something that [`typed_expr`] gives a type.
fn has_untyped(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Cast(cast) => is_untyped(&cast.expr),
        Expr::BinaryExpr(compared) => may_take_type(&compared.left) || may_take_type(&compared.right),
        Expr::Between(between) => may_take_type(&between.low) || may_take_type(&between.high),
        Expr::InList(list) => {
            let has_text = |item: &Expr| is_text(item) || row_of(item).is_some_and(|row| row.args.iter().any(is_text));
            is_long_list(list) || list.list.iter().any(has_text)
        }
        Expr::WindowFunction(call) => default_of(call).is_some_and(is_text),
        Expr::ScalarFunction(call) => array_of(call).is_some_and(is_untyped) || places(call).is_some(),
        _ => false,
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(false)
}

/// Whether this is a parameter or a text whose type depends on the context.
fn is_untyped(expr: &Expr) -> bool {
    is_text(expr) || matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}

/// Whether this is a text, or a cast of one, that may take the type of what it is compared with.
fn may_take_type(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_text(&cast.expr),
        other => is_text(other),
    }
}

fn is_text(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

/// The array argument of one of [`OF_ARRAYS`].
fn array_of(call: &ScalarFunction) -> Option<&Expr> {
    OF_ARRAYS.contains(&call.name()).then(|| call.args.first())?
}

/// The default of a `lag` or `lead`.
fn default_of(call: &WindowFunction) -> Option<&Expr> {
    matches!(call.fun.name(), "lag" | "lead").then(|| call.params.args.get(2))?
}

/// The decimal places of a `round`, if they are a number. The result type depends on them, but
/// DataFusion casts them to 32 bits and does not know the type before it has done so (55.2): a CASE
/// then has one type in its plan and another in its rows.
fn places(call: &ScalarFunction) -> Option<i32> {
    match (call.name(), call.args.as_slice()) {
        ("round", [_, Expr::Literal(ScalarValue::Int64(Some(places)), _)]) => i32::try_from(*places).ok(),
        _ => None,
    }
}

fn typed_expr(expr: Expr, schema: &DFSchema, zone: Zone) -> Result<Transformed<Expr>> {
    let arrays = compared_arrays(&expr, schema);
    expr.transform_up(|expr| match expr {
        Expr::Cast(mut cast) => {
            let typed = with_type(&cast.expr, cast.field.data_type(), zone)?;
            let is_typed = put(&mut cast.expr, typed);
            Ok(Transformed::new_transformed(Expr::Cast(cast), is_typed))
        }
        Expr::ScalarFunction(mut call) => {
            let of = array_of(&call).and_then(|array| arrays.iter().find(|(compared, _)| compared == array));
            let typed = of.map(|(array, data_type)| with_type(array, data_type, zone)).transpose()?.flatten();
            let mut is_typed = call.args.first_mut().is_some_and(|array| put(array, typed));
            if let Some(places) = places(&call) {
                call.args[1] = Expr::Literal(ScalarValue::Int32(Some(places)), None);
                is_typed = true;
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(call), is_typed))
        }
        // A concatenation with a text remains a text.
        Expr::BinaryExpr(mut compared) if compared.op != Operator::StringConcat => {
            if compared.op.supports_propagation() {
                let left = far_bound(&compared.left, &compared.right, schema, zone)?;
                let right = far_bound(&compared.right, &compared.left, schema, zone)?;
                if put(&mut compared.left, left) | put(&mut compared.right, right) {
                    return Ok(Transformed::yes(Expr::BinaryExpr(compared)));
                }
            }
            let left = typed_as_compared(&compared.left, &compared.right, schema, zone)?;
            let right = typed_as_compared(&compared.right, &compared.left, schema, zone)?;
            let is_typed = put(&mut compared.left, left) | put(&mut compared.right, right);
            Ok(Transformed::new_transformed(Expr::BinaryExpr(compared), is_typed))
        }
        Expr::Between(mut between) => {
            let mut is_typed = false;
            for bound in [&mut between.low, &mut between.high] {
                let far = far_bound(bound, &between.expr, schema, zone)?;
                let typed =
                    far.map_or_else(|| typed_as_compared(bound, &between.expr, schema, zone), |far| Ok(Some(far)))?;
                is_typed |= put(bound, typed);
            }
            Ok(Transformed::new_transformed(Expr::Between(between), is_typed))
        }
        Expr::InList(mut list) => {
            let mut is_typed = false;
            match planned(&list, schema)? {
                Some(Expr::InList(expanded)) => (list, is_typed) = (expanded, true),
                Some(planned) => return Ok(Transformed::yes(planned)),
                None => {}
            }
            let row = row_of(&list.expr);
            for item in &mut list.list {
                match (row, item) {
                    (Some(row), Expr::ScalarFunction(item)) => {
                        for (part, with) in item.args.iter_mut().zip(&row.args) {
                            let typed = typed_as_compared(part, with, schema, zone)?;
                            is_typed |= put(part, typed);
                        }
                    }
                    (_, item) => {
                        let typed = typed_as_compared(item, &list.expr, schema, zone)?;
                        is_typed |= put(item, typed);
                    }
                }
            }
            Ok(Transformed::new_transformed(Expr::InList(list), is_typed))
        }
        Expr::WindowFunction(mut call) => {
            let typed = match (default_of(&call), call.params.args.first().map(|value| value.get_type(schema))) {
                (Some(default), Some(Ok(data_type))) => time_of_literal(default, &data_type, zone),
                _ => None,
            };
            let is_typed = call.params.args.get_mut(2).is_some_and(|default| put(default, typed));
            Ok(Transformed::new_transformed(Expr::WindowFunction(call), is_typed))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Replaces an expression by a typed one, if there is one; returns whether there was.
fn put(place: &mut Expr, typed: Option<Expr>) -> bool {
    let is_typed = typed.is_some();
    if let Some(typed) = typed {
        *place = typed;
    }
    is_typed
}

/// Replaces a time outside a column's range, given as a text or a cast of one, by the first or last
/// value of the column's type, so that comparisons have the right result. `None` for anything else.
fn far_bound(expr: &Expr, with: &Expr, schema: &DFSchema, zone: Zone) -> Result<Option<Expr>> {
    let (text, cast_to) = match expr {
        Expr::Cast(cast) if cast.field.data_type().is_temporal() => (cast.expr.as_ref(), cast.field.data_type()),
        other => (other, &DataType::Null),
    };
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = text else { return Ok(None) };
    let unit_of = |data_type: &DataType| ColumnType::from_arrow(data_type).ok().and_then(ColumnType::time_unit);
    let Ok(with) = with.get_type(schema) else { return Ok(None) };
    let Some(unit) = unit_of(&with) else { return Ok(None) };
    let has_zone = |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, Some(_)));
    let zone = if has_zone(&with) || has_zone(cast_to) { zone } else { Zone::Utc };
    let read = read_time(text, unit, zone);
    // If the column has a coarser unit than the cast, a time that is too far for the cast may be in
    // the column's range.
    let is_too_far = || unit_of(cast_to).is_some_and(|unit| read_time(text, unit, zone).far().is_some());
    let Some(count) = read.far().or_else(|| read.bound().filter(|_| is_too_far())) else { return Ok(None) };
    time_literal(count, &with).map(Some)
}

fn time_literal(count: i64, data_type: &DataType) -> Result<Expr> {
    Ok(Expr::Literal(ScalarValue::Int64(Some(count)).cast_to(data_type)?, None))
}

/// Converts a text to the type of what it is compared with: boolean, binary, UUID, array, decimal or
/// timestamp. `None` for anything else.
fn typed_as_compared(expr: &Expr, with: &Expr, schema: &DFSchema, zone: Zone) -> Result<Option<Expr>> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = expr else { return Ok(None) };
    match with.get_type(schema) {
        Ok(DataType::Boolean) => match value_of_text(text, ColumnType::Boolean) {
            Ok(Value::Boolean(truth)) => Ok(Some(Expr::Literal(ScalarValue::Boolean(Some(truth)), None))),
            _ => Err(query_error(misfit(text, &DataType::Boolean))),
        },
        Ok(DataType::Binary) => Ok(Some(Expr::Literal(ScalarValue::Binary(Some(bytes(text)?)), None))),
        Ok(ColumnType::UUID) => Ok(Some(Expr::Literal(uuid_literal(text)?, None))),
        Ok(DataType::List(element)) => Ok(Some(Expr::Literal(array_of_text(text, element.data_type(), zone)?, None))),
        Ok(DataType::Decimal128(..)) => Ok(decimal_of(text).map(|number| Expr::Literal(number, None))),
        Ok(data_type @ DataType::Timestamp(..)) => match read_exact(text, &data_type, zone).map_err(query_error)? {
            (exact, TimeText::Count(count)) => time_literal(count, &exact).map(Some),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The untyped arrays of an expression, with the types implied by what they are compared with.
fn compared_arrays(expr: &Expr, schema: &DFSchema) -> Vec<(Expr, DataType)> {
    let mut arrays = Vec::new();
    let mut note = |array: &Expr, with: &Expr| {
        if is_untyped(array)
            && !is_untyped(with)
            && let Ok(data_type) = with.get_type(schema)
        {
            let element = Field::new_list_field(data_type, true);
            arrays.push((array.clone(), DataType::List(Arc::new(element))));
        }
    };
    let looked = expr.apply(|expr| {
        match expr {
            Expr::ScalarFunction(call) if call.name() == "array_has" => {
                if let [array, with] = call.args.as_slice() {
                    note(array, with);
                }
            }
            // A comparison with the minimum or maximum of the array.
            Expr::BinaryExpr(compared) => {
                for (side, with) in [(&compared.left, &compared.right), (&compared.right, &compared.left)] {
                    if let Expr::ScalarFunction(call) = side.as_ref()
                        && let Some(array) = array_of(call)
                        && matches!(call.name(), "array_min" | "array_max")
                    {
                        note(array, with);
                    }
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if looked.is_err() {
        arrays.clear();
    }
    arrays
}

/// Gives a parameter or a text the type of a row count; `None` for anything else.
fn counted(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = expr else {
        return with_type(expr, &DataType::Int64, Zone::Utc);
    };
    match value_of_text(text, ColumnType::Int64) {
        Ok(Value::Int(count)) => Ok(Some(Expr::Literal(ScalarValue::Int64(Some(count)), None))),
        _ => Err(query_error(misfit(text, &DataType::Int64))),
    }
}

/// Gives a parameter, or the text of an array or a time, this type; `None` for anything else.
fn with_type(expr: &Expr, data_type: &DataType, zone: Zone) -> Result<Option<Expr>> {
    Ok(match (expr, data_type) {
        (Expr::Placeholder(Placeholder { id, field: None }), _) => {
            let field = Field::new("", data_type.clone(), true);
            Some(Expr::Placeholder(Placeholder::new_with_field(id.clone(), Some(Arc::new(field)))))
        }
        (Expr::Literal(ScalarValue::Utf8(Some(text)), _), DataType::List(element)) => {
            Some(Expr::Literal(array_of_text(text, element.data_type(), zone)?, None))
        }
        (_, DataType::Timestamp(..)) => time_of_literal(expr, data_type, zone),
        _ => None,
    })
}
