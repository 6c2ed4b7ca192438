//! Decides which WHERE conditions are pushed down into the scan: those on key columns and on the
//! time.
//!
//! Pushdown is exact: the conditions are not evaluated again above the scan. A condition is pushed
//! down if it compares one column with literals of the column's own type (DataFusion has coerced
//! them by then), or with parameters that have such values.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use fleetdb_engine::{
    Column, Decimal, KeyCondition, KeyPredicate, MAX_DECIMAL_DIGITS, Role, ScanRequest, TableSchema, Uuid, Value,
};
use fleetdb_functions::one_of::OneOf;
use fleetdb_functions::parameters::number;
use std::ops::Bound;
use std::sync::Arc;

/// Combines conditions into one request; `None` if the scan cannot evaluate all of them.
pub fn request(table: &TableSchema, filters: &[Expr]) -> Option<ScanRequest> {
    let mut request = ScanRequest::default();
    for filter in filters {
        push_down(&mut request, table, filter, &[])?;
    }
    Some(request)
}

/// Adds a condition to a request, given the values of its parameters; `None` if the scan cannot
/// evaluate it. The request may then have a part of it.
pub(crate) fn push_down(
    request: &mut ScanRequest,
    table: &TableSchema,
    filter: &Expr,
    values: &[ScalarValue],
) -> Option<()> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            push_down(request, table, left, values)?;
            push_down(request, table, right, values)
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let mut keys = Vec::new();
            let place = equal_to_any(table, filter, values, &mut keys)?;
            key_condition(request, table, place, KeyCondition::In(keys))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if let (Some(place), Some(value)) = (column(table, left), literal(right, values)) {
                comparison(request, table, place, *op, value)
            } else {
                comparison(request, table, column(table, right)?, op.swap()?, literal(left, values)?)
            }
        }
        Expr::Between(between) if !between.negated => {
            let place = column(table, &between.expr)?;
            comparison(request, table, place, Operator::GtEq, literal(&between.low, values)?)?;
            comparison(request, table, place, Operator::LtEq, literal(&between.high, values)?)
        }
        Expr::InList(list) if !list.negated => {
            let place = column(table, &list.expr)?;
            let keys = list.list.iter().map(|item| key_value(&table.columns[place], literal(item, values)?));
            key_condition(request, table, place, KeyCondition::In(keys.collect::<Option<_>>()?))
        }
        Expr::ScalarFunction(call) => {
            let (of, list) = OneOf::keys_of(call)?;
            let place = column(table, of).filter(|&place| table.columns[place].role == Role::Key)?;
            let is_unsigned = table.columns[place].column_type.to_arrow().is_unsigned_integer();
            key_condition(request, table, place, KeyCondition::In(list.keys(is_unsigned)))
        }
        Expr::IsNull(inner) => {
            key_condition(request, table, column(table, inner)?, KeyCondition::In(vec![Value::Null]))
        }
        Expr::IsNotNull(inner) => {
            let anything = KeyCondition::Between(Bound::Unbounded, Bound::Unbounded);
            key_condition(request, table, column(table, inner)?, anything)
        }
        _ => None,
    }
}

fn column(table: &TableSchema, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => table.find(&column.name),
        _ => None,
    }
}

/// The value of a literal or of a parameter; `None` for other expressions and for NULL.
fn literal<'a>(expr: &'a Expr, values: &'a [ScalarValue]) -> Option<&'a ScalarValue> {
    let value = match expr {
        Expr::Literal(value, _) => value,
        Expr::Placeholder(placeholder) => values.get(number(&placeholder.id)?)?,
        _ => return None,
    };
    (!value.is_null()).then_some(value)
}

/// Collects the values of `a = 1 OR a = 2 OR ...` in `keys`; returns the column.
fn equal_to_any(table: &TableSchema, expr: &Expr, values: &[ScalarValue], keys: &mut Vec<Value>) -> Option<usize> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    match op {
        Operator::Or => {
            let place = equal_to_any(table, left, values, keys)?;
            (equal_to_any(table, right, values, keys)? == place).then_some(place)
        }
        Operator::Eq => {
            let place = column(table, left)?;
            keys.push(key_value(&table.columns[place], literal(right, values)?)?);
            Some(place)
        }
        _ => None,
    }
}

fn comparison(
    request: &mut ScanRequest,
    table: &TableSchema,
    place: usize,
    op: Operator,
    value: &ScalarValue,
) -> Option<()> {
    let column = &table.columns[place];
    if column.role == Role::Time {
        let time = time_value(column, value)?;
        let (from, to) = match op {
            Operator::Eq => (Some(time), Some(time)),
            Operator::GtEq => (Some(time), None),
            Operator::LtEq => (None, Some(time)),
            Operator::Gt => (Some(time.checked_add(1)?), None),
            Operator::Lt => (None, Some(time.checked_sub(1)?)),
            _ => return None,
        };
        request.from = request.from.max(from);
        request.to = request.to.into_iter().chain(to).min();
        return Some(());
    }
    let value = key_value(column, value)?;
    let condition = match op {
        Operator::Eq => KeyCondition::In(vec![value]),
        Operator::GtEq => KeyCondition::Between(Bound::Included(value), Bound::Unbounded),
        Operator::Gt => KeyCondition::Between(Bound::Excluded(value), Bound::Unbounded),
        Operator::LtEq => KeyCondition::Between(Bound::Unbounded, Bound::Included(value)),
        Operator::Lt => KeyCondition::Between(Bound::Unbounded, Bound::Excluded(value)),
        _ => return None,
    };
    key_condition(request, table, place, condition)
}

fn key_condition(request: &mut ScanRequest, table: &TableSchema, place: usize, test: KeyCondition) -> Option<()> {
    let is_key = table.columns[place].role == Role::Key;
    is_key.then(|| request.key_predicates.push(KeyPredicate { column: place, test }))
}

/// Converts a literal to a time in the column's unit.
fn time_value(column: &Column, value: &ScalarValue) -> Option<i64> {
    if value.data_type() != column.column_type.to_arrow() {
        return None;
    }
    match value {
        ScalarValue::TimestampSecond(time, _)
        | ScalarValue::TimestampMillisecond(time, _)
        | ScalarValue::TimestampMicrosecond(time, _)
        | ScalarValue::TimestampNanosecond(time, _) => *time,
        _ => None,
    }
}

/// Converts an engine value to a DataFusion value.
pub fn scalar(value: &Value) -> ScalarValue {
    match value {
        Value::Null => ScalarValue::Null,
        Value::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Value::Int(value) => ScalarValue::Int64(Some(*value)),
        Value::UInt(value) => ScalarValue::UInt64(Some(*value)),
        Value::Float(value) => ScalarValue::Float64(Some(*value)),
        Value::Decimal(value) => {
            ScalarValue::Decimal128(Some(i128::from(value.unscaled)), MAX_DECIMAL_DIGITS, value.scale as i8)
        }
        Value::Text(value) => ScalarValue::Utf8(Some(value.clone())),
        Value::Binary(value) => ScalarValue::Binary(Some(value.clone())),
        Value::Uuid(value) => ScalarValue::FixedSizeBinary(16, Some(value.as_bytes().to_vec())),
        Value::Array(array) => ScalarValue::List(Arc::new(array.to_list())),
    }
}

/// Converts a literal to a value of the key column.
pub fn key_value(column: &Column, value: &ScalarValue) -> Option<Value> {
    match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            (column.column_type.to_arrow() == DataType::Utf8).then(|| Value::Text(text.clone()))
        }
        _ if value.data_type() != column.column_type.to_arrow() => None,
        ScalarValue::Binary(Some(bytes)) => Some(Value::Binary(bytes.clone())),
        ScalarValue::FixedSizeBinary(_, Some(bytes)) => Uuid::from_slice(bytes).ok().map(Value::Uuid),
        ScalarValue::Time64Microsecond(Some(value)) => Some(Value::Int(*value)),
        ScalarValue::Boolean(Some(value)) => Some(Value::Boolean(*value)),
        ScalarValue::Int8(Some(value)) => Some(Value::Int(i64::from(*value))),
        ScalarValue::Int16(Some(value)) => Some(Value::Int(i64::from(*value))),
        ScalarValue::Int32(Some(value)) | ScalarValue::Date32(Some(value)) => Some(Value::Int(i64::from(*value))),
        ScalarValue::Int64(Some(value)) => Some(Value::Int(*value)),
        ScalarValue::UInt8(Some(value)) => Some(Value::UInt(u64::from(*value))),
        ScalarValue::UInt16(Some(value)) => Some(Value::UInt(u64::from(*value))),
        ScalarValue::UInt32(Some(value)) => Some(Value::UInt(u64::from(*value))),
        ScalarValue::UInt64(Some(value)) => Some(Value::UInt(*value)),
        ScalarValue::Decimal128(Some(unscaled), _, scale) => {
            let (unscaled, scale) = (i64::try_from(*unscaled).ok()?, u8::try_from(*scale).ok()?);
            Some(Value::Decimal(Decimal { unscaled, scale }))
        }
        _ => time_value(column, value).map(Value::Int),
    }
}
