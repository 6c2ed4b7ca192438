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

/// A condition evaluated by the scan.
#[derive(Debug)]
pub(crate) enum PushedFilter {
    Key(KeyPredicate),
    /// The time is at or after this.
    From(i64),
    /// The time is at or before this.
    To(i64),
}

impl PushedFilter {
    /// Adds the condition to a request.
    pub(crate) fn narrow(self, request: &mut ScanRequest) {
        match self {
            Self::Key(predicate) => request.key_predicates.push(predicate),
            Self::From(from) => request.from = request.from.max(Some(from)),
            Self::To(to) => request.to = Some(request.to.map_or(to, |before| before.min(to))),
        }
    }
}

/// Combines conditions into one request; `None` if the scan cannot evaluate all of them.
pub fn request(table: &TableSchema, filters: &[Expr]) -> Option<ScanRequest> {
    let mut request = ScanRequest::default();
    for filter in filters {
        push_down(table, filter, &[])?.into_iter().for_each(|taken| taken.narrow(&mut request));
    }
    Some(request)
}

/// Converts a condition for the scan, given the values of its parameters; `None` if the scan cannot
/// evaluate it.
pub(crate) fn push_down(table: &TableSchema, filter: &Expr, values: &[ScalarValue]) -> Option<Vec<PushedFilter>> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let mut taken = push_down(table, left, values)?;
            taken.extend(push_down(table, right, values)?);
            Some(taken)
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let mut keys = Vec::new();
            let place = equal_to_any(table, filter, values, &mut keys)?;
            key_condition(table, place, KeyCondition::In(keys))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if let (Some(place), Some(value)) = (column(table, left), literal(right, values)) {
                comparison(table, place, *op, value)
            } else {
                comparison(table, column(table, right)?, op.swap()?, literal(left, values)?)
            }
        }
        Expr::Between(between) if !between.negated => {
            let place = column(table, &between.expr)?;
            let mut taken = comparison(table, place, Operator::GtEq, literal(&between.low, values)?)?;
            taken.extend(comparison(table, place, Operator::LtEq, literal(&between.high, values)?)?);
            Some(taken)
        }
        Expr::InList(list) if !list.negated => {
            let place = column(table, &list.expr)?;
            let keys = list.list.iter().map(|item| key_value(&table.columns[place], literal(item, values)?));
            key_condition(table, place, KeyCondition::In(keys.collect::<Option<_>>()?))
        }
        Expr::ScalarFunction(call) => {
            let (of, list) = OneOf::keys_of(call)?;
            let place = column(table, of).filter(|&place| table.columns[place].role == Role::Key)?;
            let is_unsigned = table.columns[place].column_type.to_arrow().is_unsigned_integer();
            key_condition(table, place, KeyCondition::In(list.keys(is_unsigned)))
        }
        Expr::IsNull(inner) => key_condition(table, column(table, inner)?, KeyCondition::In(vec![Value::Null])),
        Expr::IsNotNull(inner) => {
            let anything = KeyCondition::Between(Bound::Unbounded, Bound::Unbounded);
            key_condition(table, column(table, inner)?, anything)
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

fn comparison(table: &TableSchema, place: usize, op: Operator, value: &ScalarValue) -> Option<Vec<PushedFilter>> {
    let column = &table.columns[place];
    if column.role == Role::Time {
        let time = time_value(column, value)?;
        return Some(match op {
            Operator::Eq => vec![PushedFilter::From(time), PushedFilter::To(time)],
            Operator::GtEq => vec![PushedFilter::From(time)],
            Operator::LtEq => vec![PushedFilter::To(time)],
            Operator::Gt => vec![PushedFilter::From(time.checked_add(1)?)],
            Operator::Lt => vec![PushedFilter::To(time.checked_sub(1)?)],
            _ => return None,
        });
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
    key_condition(table, place, condition)
}

fn key_condition(table: &TableSchema, place: usize, test: KeyCondition) -> Option<Vec<PushedFilter>> {
    let is_key = table.columns[place].role == Role::Key;
    is_key.then(|| vec![PushedFilter::Key(KeyPredicate { column: place, test })])
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
