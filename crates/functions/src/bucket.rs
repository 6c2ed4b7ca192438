//! `time_bucket(width, time [, zone [, origin]])`: the start of the bucket that contains a time.
//!
//! The start is an instant of the same type as the time. Times without a zone are UTC, as
//! everywhere. Rows mostly arrive in order of time, so the previous row's bucket is tried first.

use super::calendar::{Buckets, NS_PER_SECOND, Width, Zone};
use crate::arguments::{is_text, misuse};
use crate::expressions::per_second;
use crate::usages::TIME_BUCKET as USAGE;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, IntervalUnit, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The `time_bucket` function. See the module documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TimeBucket {
    signature: Signature,
}

impl Default for TimeBucket {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        bucket_types(types, USAGE)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.get(1).cloned().ok_or_else(|| misuse(format!("use {USAGE}")))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        // If the result is known to be non-NULL, buckets sort like times regardless of where NULLs
        // sort.
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(buckets) = buckets(&args.args)? else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
        };
        let unit = per_second(args.return_field.data_type()).ok_or_else(|| misuse(format!("use {USAGE}")))?;
        match &args.args[1] {
            ColumnarValue::Array(times) => Ok(ColumnarValue::Array(start_of_all(times, &buckets, unit)?)),
            ColumnarValue::Scalar(time) => {
                let starts = start_of_all(&time.to_array()?, &buckets, unit)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&starts, 0)?))
            }
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        // A later time falls into the same bucket or a later one, provided the other arguments are
        // constant.
        let constant = |input: &ExprProperties| input.sort_properties == SortProperties::Singleton;
        let others = inputs.iter().enumerate().filter(|(place, _)| *place != 1);
        Ok(match inputs.get(1) {
            Some(time) if others.into_iter().all(|(_, input)| constant(input)) => time.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

/// The types to which the arguments are coerced: width and time, then zone and origin.
pub fn bucket_types(types: &[DataType], usage: &str) -> Result<Vec<DataType>> {
    let [width, time, rest @ ..] = types else { return Err(misuse(format!("use {usage}"))) };
    if !matches!(width, DataType::Interval(_) | DataType::Duration(_)) && !is_text(width) || rest.len() > 2 {
        return Err(misuse(format!("{width} is no width of a bucket: use {usage}")));
    }
    let time = match time {
        DataType::Timestamp(..) => time.clone(),
        DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Second, None),
        other if is_text(other) => DataType::Timestamp(TimeUnit::Nanosecond, None),
        other => return Err(misuse(format!("{other} is no time: use {usage}"))),
    };
    let mut coerced = vec![DataType::Interval(IntervalUnit::MonthDayNano), time];
    if let Some(zone) = rest.first() {
        if !is_text(zone) {
            return Err(misuse(format!("{zone} is no time zone: use {usage}")));
        }
        coerced.push(DataType::Utf8);
    }
    if rest.len() == 2 {
        coerced.push(DataType::Timestamp(TimeUnit::Nanosecond, None));
    }
    Ok(coerced)
}

/// The buckets described by the arguments; `None` if an argument is NULL.
pub fn buckets(args: &[ColumnarValue]) -> Result<Option<Buckets>> {
    let constant = |place: usize| match args.get(place) {
        None => Ok(None),
        Some(ColumnarValue::Scalar(value)) => Ok(Some(value)),
        Some(ColumnarValue::Array(_)) => {
            Err(misuse(format!("width, zone and origin are the same for all rows: use {USAGE}")))
        }
    };
    let width = match constant(0)? {
        Some(ScalarValue::IntervalMonthDayNano(Some(width))) => Width::new(*width).map_err(misuse)?,
        _ => return Ok(None),
    };
    let zone = match constant(2)? {
        None => Zone::Utc,
        Some(ScalarValue::Utf8(Some(name))) => Zone::named(name).map_err(misuse)?,
        Some(_) => return Ok(None),
    };
    let origin_ns = match constant(3)? {
        None => None,
        Some(ScalarValue::TimestampNanosecond(Some(origin), _)) => Some(i128::from(*origin)),
        Some(_) => return Ok(None),
    };
    Ok(Some(
        Buckets::new(width, zone, origin_ns).ok_or_else(|| misuse("the origin is not in the calendar".to_owned()))?,
    ))
}

/// The bucket start of each time.
fn start_of_all(times: &ArrayRef, buckets: &Buckets, per_second: i64) -> Result<ArrayRef> {
    let unit_ns = NS_PER_SECOND / i128::from(per_second);
    let numbers = cast(times, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let even = buckets.even(unit_ns);
    // The current bucket in the unit of the times; empty at first.
    let (mut start, mut from, mut to) = (0i64, i64::MAX, i64::MIN);
    let mut start_of = |time: i64| -> Result<i64> {
        if from <= time && time < to {
            return Ok(start);
        }
        if let Some(even) = even {
            // Times mostly ascend, and the next bucket needs no division.
            let next = if from < to { even.following(to) } else { None };
            if let Some(span) = next.filter(|next| next.contains(&time)).or_else(|| even.span(time)) {
                (start, from, to) = (span.start, span.start, span.end);
                return Ok(start);
            }
        }
        let outside = || misuse(format!("the bucket of time {time} is outside of what a timestamp can hold"));
        let (start_ns, end_ns) = buckets.span(i128::from(time) * unit_ns).ok_or_else(outside)?;
        if start_ns.rem_euclid(unit_ns) != 0 {
            return Err(misuse("the width must be a multiple of the time column's unit".to_owned()));
        }
        start = i64::try_from(start_ns / unit_ns).map_err(|_| outside())?;
        from = time;
        to = i64::try_from(end_ns.div_euclid(unit_ns)).unwrap_or(i64::MAX);
        Ok(start)
    };
    let mut starts = Vec::with_capacity(numbers.len());
    for (row, &time) in numbers.values().iter().enumerate() {
        starts.push(if numbers.is_null(row) { 0 } else { start_of(time)? });
    }
    let starts = PrimitiveArray::<Int64Type>::new(starts.into(), numbers.nulls().cloned());
    Ok(Arc::new(cast(&starts, times.data_type())?))
}
