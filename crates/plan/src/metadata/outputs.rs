//! The output columns of an aggregate over containers: which there are, and their arrays.

use crate::pushdown::scalar;
use crate::scan::FleetScan;
use arrow::array::{ArrayRef, Float64Array, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use fleetdb_engine::{ColumnSum, ColumnTotals, ContainerSummary, Role, Value};
use fleetdb_functions::whole_sum::Whole;
use std::sync::Arc;

/// The precision of a sum of decimal numbers.
const MAX_DECIMAL_PRECISION: u8 = 38;

/// One output column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Output {
    /// A key column, by its index in the key.
    Key(usize),
    /// The start of the time bucket.
    Bucket,
    Rows,
    FirstTime,
    LastTime,
    /// These refer to a field by its index in `fields`.
    Count(usize),
    Sum(usize),
    Min(usize),
    Max(usize),
    Avg(usize),
    /// A column of the newest row, by its index in the table.
    Last(usize),
}

/// Whether an aggregate function counts rows, as `count(*)` does.
pub fn counts_rows(function: &AggregateFunctionExpr) -> bool {
    let is_value = |argument: &Arc<dyn PhysicalExpr>| {
        argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
    };
    function.fun().name() == "count"
        && !function.is_distinct()
        && function.order_bys().is_empty()
        && matches!(function.expressions().as_slice(), [argument] if is_value(argument))
}

impl Output {
    /// The output for an aggregate function; `None` if the container index cannot provide it.
    pub(super) fn of(scan: &FleetScan, function: &AggregateFunctionExpr, fields: &mut Vec<usize>) -> Option<Self> {
        if let Some(place) = newest(scan, function) {
            return Some(Self::Last(place));
        }
        if counts_rows(function) {
            return Some(Self::Rows);
        }
        if function.is_distinct() || !function.order_bys().is_empty() {
            return None;
        }
        let [argument] = <[_; 1]>::try_from(function.expressions()).ok()?;
        let name = function.fun().name();
        let (column, cast) = match argument.downcast_ref::<CastExpr>() {
            Some(cast) => (cast.expr().downcast_ref::<Column>()?, Some(cast.cast_type())),
            None => (argument.downcast_ref::<Column>()?, None),
        };
        let table = scan.table();
        let place = scan.place(column.index())?;
        let column = &table.columns[place];
        match (column.role, name, cast) {
            (Role::Time, "count", None) => return Some(Self::Rows),
            (Role::Time, "min", None) => return Some(Self::FirstTime),
            (Role::Time, "max", None) => return Some(Self::LastTime),
            (Role::Field, ..) if column.column_type.is_numeric() => {}
            _ => return None,
        }
        let field = fields.iter().position(|field| *field == place).unwrap_or_else(|| {
            fields.push(place);
            fields.len() - 1
        });
        // DataFusion widens the type before adding; the engine adds in 128 bits.
        let wide = |to: &DataType| matches!(to, DataType::Int64 | DataType::UInt64 | DataType::Float64);
        match name {
            "count" if cast.is_none() => Some(Self::Count(field)),
            "min" if cast.is_none() => Some(Self::Min(field)),
            "max" if cast.is_none() => Some(Self::Max(field)),
            "sum" if cast.is_none_or(wide) => Some(Self::Sum(field)),
            "avg" if cast.is_none_or(wide) && !column.column_type.is_decimal() => Some(Self::Avg(field)),
            _ => None,
        }
    }

    /// The column's values. Without a row, only counts have a value.
    pub(super) fn column(self, rows: &[Option<ContainerSummary>], data_type: &DataType) -> Result<ArrayRef> {
        let rows = || rows.iter().map(Option::as_ref);
        let totals = |field: usize| {
            rows().map(move |row| row.and_then(|row| row.amounts.get(field)).filter(|totals| totals.count > 0))
        };
        let integers = |values: &mut dyn Iterator<Item = Option<i64>>| -> Result<ArrayRef> {
            Ok(cast(&Int64Array::from_iter(values), data_type)?)
        };
        let scalars = |values: &mut dyn Iterator<Item = Option<&Value>>| {
            let scalars = values.map(|value| typed(value, data_type)).collect::<Result<Vec<_>>>()?;
            ScalarValue::iter_to_array(scalars)
        };
        match self {
            Self::Rows => integers(&mut rows().map(|row| Some(row.map_or(0, |row| row.rows as i64)))),
            Self::Count(field) => integers(&mut totals(field).map(|totals| Some(totals.map_or(0, |t| t.count as i64)))),
            Self::Bucket => integers(&mut rows().map(|row| row?.bucket)),
            Self::FirstTime => integers(&mut rows().map(|row| Some(row?.times.0))),
            Self::LastTime => integers(&mut rows().map(|row| Some(row?.times.1))),
            Self::Key(key) => scalars(&mut rows().map(|row| row?.key.get(key))),
            Self::Min(field) => scalars(&mut totals(field).map(|totals| Some(&totals?.min))),
            Self::Max(field) => scalars(&mut totals(field).map(|totals| Some(&totals?.max))),
            Self::Sum(field) => sums(&mut totals(field), data_type),
            Self::Avg(field) => {
                let averages =
                    totals(field).map(|totals| totals.map(|totals| as_float(totals.sum) / totals.count as f64));
                Ok(Arc::new(Float64Array::from_iter(averages)))
            }
            Self::Last(_) => Err(DataFusionError::Internal("a column of a row is no total".to_owned())),
        }
    }
}

/// A value as a scalar of this type.
fn typed(value: Option<&Value>, data_type: &DataType) -> Result<ScalarValue> {
    match value.map(scalar) {
        None | Some(ScalarValue::Null) => ScalarValue::try_from(data_type),
        Some(scalar) if scalar.data_type() == *data_type => Ok(scalar),
        Some(scalar) => scalar.cast_to(data_type),
    }
}

fn as_float(sum: ColumnSum) -> f64 {
    match sum {
        ColumnSum::Float(sum) => sum,
        ColumnSum::Integer(sum) => sum as f64,
        ColumnSum::Decimal { unscaled, scale } => unscaled as f64 / 10f64.powi(i32::from(scale)),
    }
}

/// Sums as a column of this type.
fn sums(totals: &mut dyn Iterator<Item = Option<&ColumnTotals>>, data_type: &DataType) -> Result<ArrayRef> {
    fn narrowed<T: Whole>(totals: &mut dyn Iterator<Item = Option<&ColumnTotals>>) -> Result<ArrayRef> {
        let integer = |totals: &ColumnTotals| match totals.sum {
            ColumnSum::Integer(sum) => T::narrow(sum),
            _ => Err(DataFusionError::Internal("an integer's sum is no integer".to_owned())),
        };
        let sums = totals.map(|totals| totals.map(integer).transpose()).collect::<Result<PrimitiveArray<T>>>()?;
        Ok(Arc::new(sums))
    }
    match data_type {
        DataType::Int64 => narrowed::<Int64Type>(totals),
        DataType::UInt64 => narrowed::<UInt64Type>(totals),
        DataType::Decimal128(..) => {
            let scalars = totals.map(|totals| match totals.map(|totals| totals.sum) {
                Some(ColumnSum::Decimal { unscaled, scale }) => {
                    ScalarValue::Decimal128(Some(unscaled), MAX_DECIMAL_PRECISION, scale as i8).cast_to(data_type)
                }
                _ => ScalarValue::try_from(data_type),
            });
            ScalarValue::iter_to_array(scalars.collect::<Result<Vec<_>>>()?)
        }
        _ => Ok(Arc::new(Float64Array::from_iter(totals.map(|totals| totals.map(|totals| as_float(totals.sum)))))),
    }
}

/// The column whose newest value a function returns: `last(value, time)`, or the expansion of
/// DISTINCT ON, which is the first value in descending order of time or the last in ascending
/// order.
fn newest(scan: &FleetScan, function: &AggregateFunctionExpr) -> Option<usize> {
    let table = scan.table();
    let place = |expr: &Arc<dyn PhysicalExpr>| scan.place(expr.downcast_ref::<Column>()?.index());
    let arguments = function.expressions();
    let value = place(arguments.first()?)?;
    let by_time = |falling: bool| {
        // Within a container, the key columns are constant, so sorting by them has no effect.
        let mut order =
            function.order_bys().iter().filter(|sort| !place(&sort.expr).is_some_and(|p| table.key.contains(&p)));
        let time = order.next().is_some_and(|sort| {
            table.time.is_some() && place(&sort.expr) == table.time && sort.options.descending == falling
        });
        time && order.next().is_none()
    };
    let is_newest = match function.fun().name() {
        "last" => arguments.len() == 2 && table.time.is_some() && place(&arguments[1]) == table.time,
        "first_value" => !function.ignore_nulls() && by_time(true),
        "last_value" => !function.ignore_nulls() && by_time(false),
        _ => false,
    };
    (is_newest && !function.is_distinct()).then_some(value)
}
