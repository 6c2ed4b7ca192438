//! Adapts operators, casts and functions that, for some types, mean something else in PostgreSQL
//! than in DataFusion:
//!
//! - intervals and durations are compared by length: 25 hours are more than a day (DataFusion
//!   compares months, then days, then the rest);
//! - a date plus an interval is a timestamp: `current_date - INTERVAL '1 hour'` (in DataFusion a
//!   date, without the hour);
//! - sums of differences of times do not turn hours into days;
//! - `ceil`, `floor` and `trunc` of decimals have no decimals; a list of numbers after `real IN` has its type;
//! - arithmetic on integers of 32 bits or fewer has 64-bit results, and differences of unsigned
//!   integers are signed (PostgreSQL reports overflow, DataFusion wraps around);
//! - casts to integers and to times with fewer digits round (DataFusion truncates); ties of a float
//!   go to even, as in `round(v)`;
//! - numbers and times have PostgreSQL's text forms ([`fleetdb_functions::values::texts`]), bytes that of `bytea`;
//! - parts of times include fractions ([`date_part`](fleetdb_functions::date_part));
//! - a subquery that is an aggregate returns one row ([`crate::rewrite::one_row`]);
//! - windows can be sorted by any type, such as times of day;
//! - row numbers, from `row_number()` and `rank()`, are signed, because clients have no unsigned
//!   type.

use super::one_value::value_of;
use super::spans::{self, is_span};
use super::zones::{is_of_one_type, read_by_cast};
use crate::rewrite::one_row::of_one_row;
use crate::rewrite::quantified::apart;
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::expr_fn::round;
use datafusion::logical_expr::expr::{
    Between, Cast, InList, Placeholder, ScalarFunction, WindowFunction, WindowFunctionParams,
};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, WindowFrameBound, WindowFrameUnits, cast, lit,
};
use fleetdb_engine::{Code, ColumnType, Error, Value};
use fleetdb_functions::conversions::{INTERVAL_LENGTH, LETTER_OF, ROUND_TO_EVEN, TEXT_OF, TIME_OF_DAY, TIME_OF_TEXT};
use fleetdb_functions::errors::{misfit, query_error, sql_name};
use fleetdb_functions::expressions::{leaf, leaves};
use fleetdb_functions::uuids::{UUID_OF, uuid_literal};
use fleetdb_functions::values::array_literals::array_of;
use fleetdb_functions::values::intervals::interval_literal;
use fleetdb_functions::values::literals::value_of_text;
use fleetdb_functions::values::rounding::{self, Rounding};
use fleetdb_functions::values::zone::Zone;
use fleetdb_functions::{clocks, date_part};
use std::collections::HashSet;
use std::sync::Arc;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const SPAN: DataType = DataType::Duration(TimeUnit::Nanosecond);
/// The type of a date with a time of day.
const TIME: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
/// Holds every difference of two unsigned 64-bit integers.
const DIFFERENCE: DataType = DataType::Decimal128(20, 0);
/// The most digits of a decimal.
const MAX_DIGITS: u8 = 38;

/// Whether [`meant`] may change an expression, judged only by its form.
pub(super) fn may_mean_another(expr: &Expr) -> bool {
    match expr {
        Expr::Case(_) | Expr::WindowFunction(_) | Expr::InList(_) => true,
        Expr::AggregateFunction(call) => call.func.name() == "sum",
        Expr::Cast(_) | Expr::Between(_) | Expr::SetComparison(_) => true,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) => true,
        Expr::BinaryExpr(binary) => !matches!(binary.op, Operator::And | Operator::Or),
        Expr::ScalarFunction(call) if is_of_one_type(call.name()) => true,
        Expr::ScalarFunction(call) => {
            matches!(
                call.name(),
                "array_to_string"
                    | "ceil"
                    | "concat"
                    | "concat_ws"
                    | "date_part"
                    | "encode"
                    | "floor"
                    | "format"
                    | "quote_literal"
                    | "quote_nullable"
                    | "round"
                    | "to_date"
                    | "to_timestamp"
                    | "trunc"
            )
        }
        _ => false,
    }
}

/// The columns of a node's input that number rows; DataFusion makes them unsigned.
pub(super) fn row_numbers(node: &LogicalPlan) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut input = match node {
        LogicalPlan::Projection(projection) => projection.input.as_ref(),
        _ => return names,
    };
    while let LogicalPlan::Window(window) = input {
        names.extend(window.window_expr.iter().map(|expr| expr.schema_name().to_string()));
        input = window.input.as_ref();
    }
    names
}

/// Rewrites an expression whose operands have been rewritten already; `None` if it needs no change.
///
/// # Errors
/// A text is not valid for the type of the other operand.
pub(super) fn meant(expr: &Expr, schema: &DFSchema, row_numbers: &HashSet<String>) -> Result<Option<Expr>> {
    match expr {
        Expr::Cast(cast) => cast_meant(cast, schema),
        Expr::Between(between) => between_meant(between, schema),
        Expr::ScalarSubquery(subquery) => of_one_row(expr)?.map_or_else(|| value_of(subquery), |meant| Ok(Some(meant))),
        Expr::Exists(_) | Expr::InSubquery(_) => of_one_row(expr),
        Expr::SetComparison(compared) => of_one_row(expr)?.map_or_else(|| apart(compared), Ok).map(Some),
        Expr::BinaryExpr(binary) => match binary.op {
            Operator::Plus | Operator::Minus | Operator::Multiply => Ok(match spans::sides_meant(binary, schema) {
                Some([left, right]) => Some(replaced(binary, left, right)),
                None => arithmetic_meant(binary, schema),
            }),
            Operator::Divide => Ok(quotient_meant(binary, schema)),
            Operator::StringConcat => {
                let texts = [&binary.left, &binary.right].map(|side| text_of(side, schema));
                Ok(texts.iter().any(Option::is_some).then(|| {
                    let [left, right] = texts;
                    replaced(binary, left, right)
                }))
            }
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom => comparison_meant(binary, schema),
            _ => Ok(None),
        },
        Expr::ScalarFunction(call) => Ok(call_meant(call, schema)),
        Expr::WindowFunction(window) => {
            Ok(spans::window_sum_meant(window, schema).or_else(|| window_meant(window, schema)))
        }
        Expr::AggregateFunction(call) => Ok(spans::sum_meant(call, schema)),
        Expr::InList(list) => Ok(list_meant(list, schema)),
        Expr::Column(column) if column.relation.is_none() && row_numbers.contains(&column.name) => {
            let is_unsigned = matches!(expr.get_type(schema), Ok(DataType::UInt64));
            Ok(is_unsigned.then(|| cast(expr.clone(), DataType::Int64)))
        }
        _ => Ok(None),
    }
}

fn call(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

/// The operation with those operands replaced that have a replacement.
fn replaced(binary: &BinaryExpr, left: Option<Expr>, right: Option<Expr>) -> Expr {
    let side = |other: Option<Expr>, side: &Expr| Box::new(other.unwrap_or_else(|| side.clone()));
    Expr::BinaryExpr(BinaryExpr::new(side(left, &binary.left), binary.op, side(right, &binary.right)))
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// The type of a time after rounding it for a cast to fewer digits; `None` for other casts.
fn coarser(from: &DataType, to: &DataType) -> Option<DataType> {
    match (from, to) {
        (DataType::Timestamp(from, zone), DataType::Timestamp(to, _)) if to < from => {
            Some(DataType::Timestamp(*to, zone.clone()))
        }
        _ => None,
    }
}

fn cast_meant(cast_of: &Cast, schema: &DFSchema) -> Result<Option<Expr>> {
    let (of, to) = (cast_of.expr.as_ref(), cast_of.field.data_type());
    if let (Some(text), DataType::Binary) = (text(of), to) {
        return Ok(Some(Expr::Literal(ScalarValue::Binary(Some(bytes(text)?)), None)));
    }
    if to == &ColumnType::UUID {
        return Ok(match (text(of), of.get_type(schema)) {
            (Some(text), _) => Some(Expr::Literal(uuid_literal(text)?, None)),
            (None, Ok(DataType::Utf8)) => Some(call(&UUID_OF, vec![of.clone()])),
            (None, Ok(DataType::LargeUtf8 | DataType::Utf8View)) => {
                Some(call(&UUID_OF, vec![cast(of.clone(), DataType::Utf8)]))
            }
            _ => None,
        });
    }
    if let (DataType::List(elements), Ok(DataType::Utf8), None) = (to, of.get_type(schema), text(of))
        && let Ok(ColumnType::Array(element)) = ColumnType::from_arrow(to)
        && element.column_type().to_arrow() == *elements.data_type()
    {
        return Ok(Some(call(&array_of(element), vec![of.clone()])));
    }
    // Arrow would make an array of one element.
    if let (DataType::List(_), Ok(from)) = (to, of.get_type(schema))
        && !(from.is_list() || from.is_null() || from.is_string())
    {
        let message = format!("cannot cast type {} to {}", sql_name(&from), sql_name(to));
        return Err(query_error(Error::new(Code::CannotCast, message)));
    }
    let rounded =
        |number: Expr| Ok(Some(Expr::Cast(Cast { expr: Box::new(number), field: Arc::clone(&cast_of.field) })));
    let from = of.get_type(schema);
    if let Some(coarser) = from.as_ref().ok().and_then(|from| coarser(from, to)) {
        return rounded(rounding::rounded(of.clone(), coarser, Rounding::Nearest));
    }
    match from {
        Ok(DataType::Float32 | DataType::Float64) if to.is_integer() => match of {
            // A literal with a decimal point is a numeric in PostgreSQL, which rounds ties away
            // from 0.
            Expr::Literal(ScalarValue::Float64(Some(number)), _) => rounded(lit(number.round())),
            other => rounded(call(&ROUND_TO_EVEN, vec![other.clone()])),
        },
        Ok(DataType::Decimal128(..) | DataType::Decimal256(..)) if to.is_integer() => {
            rounded(round(vec![of.clone(), lit(0_i32)]))
        }
        // DataFusion assumes that casts between times preserve order, which a cast to the time of
        // day does not.
        Ok(DataType::Timestamp(..)) if matches!(to, DataType::Time32(_) | DataType::Time64(_)) => {
            rounded(call(&TIME_OF_DAY, vec![of.clone()]))
        }
        Ok(DataType::Utf8) if matches!(to, DataType::Time64(_)) => rounded(call(&TIME_OF_TEXT, vec![of.clone()])),
        // Casts to a type with a zone depend on the session: `zones` rewrites them.
        Ok(from) if matches!(leaves(&from, to), (DataType::Utf8, DataType::Timestamp(_, None))) => {
            Ok(read_by_cast(cast_of, &from, Zone::Utc))
        }
        Ok(_) if matches!(to, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            text_of(of, schema).map_or(Ok(None), rounded)
        }
        Ok(from) if has_another_text(leaf(&from)) && matches!(leaves(&from, to), (_, DataType::Utf8)) => {
            rounded(clocks::text(of.clone(), Zone::Utc))
        }
        _ => Ok(None),
    }
}

/// Gives a window another unit if DataFusion has no RANGE for the type that it is sorted by, such as
/// times of day and bytes. Without an offset, RANGE and GROUPS mean the same.
fn window_meant(window: &WindowFunction, schema: &DFSchema) -> Option<Expr> {
    let WindowFunctionParams { order_by, window_frame: frame, .. } = &window.params;
    let has_offset = |bound: &WindowFrameBound| !matches!(bound, WindowFrameBound::CurrentRow) && !bound.is_unbounded();
    if frame.units != WindowFrameUnits::Range || has_offset(&frame.start_bound) || has_offset(&frame.end_bound) {
        return None;
    }
    let sorted_by = order_by.first()?.expr.get_type(schema).ok()?;
    let has_none = matches!(
        sorted_by,
        DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_)
            | DataType::Interval(_)
            | DataType::Binary
            | DataType::FixedSizeBinary(_)
    );
    has_none.then(|| {
        let mut window = window.clone();
        window.params.window_frame.units = WindowFrameUnits::Groups;
        Expr::from(window)
    })
}

/// Parses a text as `bytea` does.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>> {
    match value_of_text(text, ColumnType::Binary) {
        Ok(Value::Binary(bytes)) => Ok(bytes),
        _ => Err(query_error(misfit(text, &DataType::Binary))),
    }
}

/// The text of a number, UUID or time; `None` for types whose text is the same in DataFusion.
fn text_of(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    has_another_text(&expr.get_type(schema).ok()?).then(|| call(&TEXT_OF, vec![expr.clone()]))
}

fn has_another_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Float32
            | DataType::Float64
            | DataType::Timestamp(..)
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Duration(_)
            | DataType::Interval(IntervalUnit::MonthDayNano)
            | &ColumnType::UUID
    )
}

/// The text of a boolean as functions produce it; `None` for anything else.
fn letter_of(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let is_boolean = matches!(expr.get_type(schema), Ok(DataType::Boolean));
    is_boolean.then(|| call(&LETTER_OF, vec![expr.clone()]))
}

fn call_meant(of: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    match (of.name(), of.args.as_slice()) {
        ("date_part", [field, value]) => {
            let is_ours = date_part::is_for(text(field)?, &value.get_type(schema).ok()?);
            let is_new = !Arc::ptr_eq(&of.func, &date_part::DATE_PART);
            (is_ours && is_new).then(|| call(&date_part::DATE_PART, of.args.clone()))
        }
        ("quote_literal" | "quote_nullable", [value]) => Some(call(&of.func, vec![text_of(value, schema)?])),
        ("concat" | "concat_ws" | "format", args) => {
            let text = |arg| text_of(arg, schema).or_else(|| letter_of(arg, schema));
            let texts: Vec<Option<Expr>> = args.iter().map(text).collect();
            texts.iter().any(Option::is_some).then(|| {
                let args = texts.into_iter().zip(args).map(|(text, arg)| text.unwrap_or_else(|| arg.clone()));
                call(&of.func, args.collect())
            })
        }
        // A literal is a numeric in PostgreSQL, which rounds ties away from 0.
        ("round", [number]) if !matches!(number, Expr::Literal(..)) => {
            let is_float = matches!(number.get_type(schema), Ok(DataType::Float32 | DataType::Float64));
            is_float.then(|| call(&ROUND_TO_EVEN, vec![number.clone()]))
        }
        ("ceil" | "floor" | "trunc", [number]) => whole_meant(of, number, schema),
        ("array_to_string", [array, rest @ ..])
            if array
                .get_type(schema)
                .is_ok_and(|of| matches!(of, DataType::List(_)) && has_another_text(leaf(&of))) =>
        {
            let texts = clocks::text(array.clone(), Zone::Utc);
            Some(call(&of.func, std::iter::once(texts).chain(rest.iter().cloned()).collect()))
        }
        ("encode", [bytes, form]) if text(form)?.eq_ignore_ascii_case("base64") => {
            Some(call(&of.func, vec![bytes.clone(), lit("base64pad")]))
        }
        _ => None,
    }
}

/// Numbers that a `real` is compared with in a list; `None` for any other list. PostgreSQL compares a
/// single one as a `double precision`.
fn list_meant(list: &InList, schema: &DFSchema) -> Option<Expr> {
    let is_number = |item: &Expr| matches!(item, Expr::Literal(value, _) if value.data_type().is_numeric());
    if list.list.len() < 2 || !list.list.iter().all(is_number) || list.expr.get_type(schema).ok()? != DataType::Float32
    {
        return None;
    }
    let items = list.list.iter().map(|item| cast(item.clone(), DataType::Float32)).collect();
    Some(Expr::InList(InList::new(list.expr.clone(), items, list.negated)))
}

/// A whole number without the decimals of the number that it was computed from.
fn whole_meant(of: &ScalarFunction, number: &Expr, schema: &DFSchema) -> Option<Expr> {
    match number.get_type(schema).ok()? {
        DataType::Decimal128(precision, scale) if scale > 0 => {
            // Rounded up, a number may have a digit more.
            let digits = |scale: i8| DataType::Decimal128((precision + 1).min(MAX_DIGITS), scale);
            let whole = call(&of.func, vec![cast(number.clone(), digits(scale))]);
            Some(cast(whole, digits(0)))
        }
        _ => None,
    }
}

fn comparison_meant(binary: &BinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (Ok(left), Ok(right)) = (binary.left.get_type(schema), binary.right.get_type(schema)) else { return Ok(None) };
    if !is_span(&left) && !is_span(&right) {
        return Ok(None);
    }
    let (with_left, with_right) = (length(&binary.left, &left)?, length(&binary.right, &right)?);
    Ok((with_left.is_some() || with_right.is_some()).then(|| replaced(binary, with_left, with_right)))
}

fn between_meant(between: &Between, schema: &DFSchema) -> Result<Option<Expr>> {
    let parts = [&between.expr, &between.low, &between.high];
    let mut lengths = Vec::with_capacity(parts.len());
    for part in parts {
        match part.get_type(schema) {
            Ok(data_type) => lengths.push((part.as_ref(), data_type)),
            Err(_) => return Ok(None),
        }
    }
    if !lengths.iter().any(|(_, data_type)| is_span(data_type)) {
        return Ok(None);
    }
    let mut changed = false;
    let mut parts = Vec::with_capacity(lengths.len());
    for (part, data_type) in lengths {
        let length = length(part, &data_type)?;
        changed |= length.is_some();
        parts.push(Box::new(length.unwrap_or_else(|| part.clone())));
    }
    let Ok([expr, low, high]) = <[_; 3]>::try_from(parts) else { return Ok(None) };
    Ok(changed.then(|| Expr::Between(Between::new(expr, between.negated, low, high))))
}

/// Converts what is compared with an interval or duration to a duration in nanoseconds; `None` if
/// it needs no conversion.
fn length(expr: &Expr, data_type: &DataType) -> Result<Option<Expr>> {
    let of_interval = |interval: Expr| Some(call(&INTERVAL_LENGTH, vec![interval]));
    Ok(match (expr, data_type) {
        (Expr::Placeholder(Placeholder { id, field: None }), _) => {
            let field = Arc::new(Field::new("", INTERVAL, true));
            of_interval(Expr::Placeholder(Placeholder::new_with_field(id.clone(), Some(field))))
        }
        (expr, _) if text(expr).is_some() => text(expr).map(interval_literal).transpose()?.and_then(of_interval),
        (_, DataType::Interval(IntervalUnit::MonthDayNano)) => of_interval(expr.clone()),
        (_, DataType::Interval(_)) => of_interval(cast(expr.clone(), INTERVAL)),
        (_, DataType::Duration(TimeUnit::Nanosecond)) => None,
        (_, DataType::Duration(_)) => Some(cast(expr.clone(), SPAN)),
        _ => None,
    })
}

fn arithmetic_meant(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (binary.left.get_type(schema).ok()?, binary.right.get_type(schema).ok()?);
    let is_date = |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Date64);
    let is_interval = |data_type: &DataType| matches!(data_type, DataType::Interval(_));
    let (mut with_left, mut with_right) = (None, None);
    match binary.op {
        Operator::Plus | Operator::Minus if is_date(&left) && is_interval(&right) => {
            with_left = Some(cast(binary.left.as_ref().clone(), TIME));
        }
        Operator::Plus if is_interval(&left) && is_date(&right) => {
            with_right = Some(cast(binary.right.as_ref().clone(), TIME));
        }
        Operator::Minus if left == DataType::UInt64 && right == DataType::UInt64 => {
            with_left = Some(cast(binary.left.as_ref().clone(), DIFFERENCE));
        }
        _ if is_short(&left) && is_short(&right) => {
            with_left = Some(cast(binary.left.as_ref().clone(), DataType::Int64));
        }
        _ => return None,
    }
    Some(replaced(binary, with_left, with_right))
}

/// A quotient of a part of a time, which is no integer in PostgreSQL.
fn quotient_meant(binary: &BinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let fraction = |side: &Expr| {
        let is_part = matches!(side, Expr::ScalarFunction(call) if call.name() == "date_part");
        let is_integer = || side.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
        (is_part && is_integer()).then(|| cast(side.clone(), DataType::Float64))
    };
    let (left, right) = (fraction(&binary.left), fraction(&binary.right));
    (left.is_some() || right.is_some()).then(|| replaced(binary, left, right))
}

/// Whether this is an integer type of less than 64 bits.
fn is_short(data_type: &DataType) -> bool {
    data_type.is_integer() && !matches!(data_type, DataType::Int64 | DataType::UInt64)
}
