//! `time_bucket(width, time [, zone [, origin]])`: the start of the bucket that contains a time.
//!
//! The start is an instant of the same type as the time. Times without a zone are UTC, as
//! everywhere. Rows mostly arrive in order of time, so the previous row's bucket is tried first.

use super::calendar::{Buckets, EvenBuckets, NS_PER_SECOND, Width, Zone};
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
use std::ops::Range;
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
        let data_type = args.return_field.data_type();
        let Some(buckets) = buckets(&args.args)? else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(data_type)?));
        };
        let spans = BucketSpans::new(buckets, data_type)?;
        match &args.args[1] {
            ColumnarValue::Array(times) => Ok(ColumnarValue::Array(start_of_all(times, &spans)?)),
            ColumnarValue::Scalar(time) => {
                let starts = start_of_all(&time.to_array()?, &spans)?;
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

/// Buckets in the unit of the times.
#[derive(Clone, Debug)]
pub struct BucketSpans {
    buckets: Buckets,
    unit_ns: i128,
    even: Option<EvenBuckets>,
}

impl BucketSpans {
    fn new(buckets: Buckets, times: &DataType) -> Result<Self> {
        let per_second = per_second(times).ok_or_else(|| misuse(format!("use {USAGE}")))?;
        let unit_ns = NS_PER_SECOND / i128::from(per_second);
        Ok(Self { even: buckets.even(unit_ns), buckets, unit_ns })
    }

    /// The buckets of times of a type, described by the constant arguments of `time_bucket`: the
    /// width, then the zone and the origin. `None` if one of them is NULL.
    ///
    /// # Errors
    /// An argument is invalid.
    pub fn of(constants: &[ScalarValue], times: &DataType) -> Result<Option<Self>> {
        let mut args: Vec<ColumnarValue> = constants.iter().cloned().map(ColumnarValue::Scalar).collect();
        // The time, which does not matter here.
        args.insert(1, ColumnarValue::Scalar(ScalarValue::Null));
        buckets(&args)?.map(|buckets| Self::new(buckets, times)).transpose()
    }

    /// The bucket that contains a time: its start, and a later time up to which all times from this
    /// one on are in it.
    ///
    /// # Errors
    /// A timestamp cannot hold the bucket's start, or the start is not a multiple of the unit.
    pub fn span(&self, time: i64) -> Result<Range<i64>> {
        if let Some(span) = self.even.and_then(|even| even.span(time)) {
            return Ok(span);
        }
        let outside = || misuse(format!("the bucket of time {time} is outside of what a timestamp can hold"));
        let (start_ns, end_ns) = self.buckets.span(i128::from(time) * self.unit_ns).ok_or_else(outside)?;
        if start_ns.rem_euclid(self.unit_ns) != 0 {
            return Err(misuse("the width must be a multiple of the time column's unit".to_owned()));
        }
        let start = i64::try_from(start_ns / self.unit_ns).map_err(|_| outside())?;
        Ok(start..i64::try_from(end_ns.div_euclid(self.unit_ns)).unwrap_or(i64::MAX))
    }
}

/// The bucket start of each time.
fn start_of_all(times: &ArrayRef, spans: &BucketSpans) -> Result<ArrayRef> {
    let numbers = cast(times, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    // Times that are known to be in the current bucket; none at first.
    let (mut start, mut rest) = (0, 0..0);
    let mut start_of = |time: i64| -> Result<i64> {
        if !rest.contains(&time) {
            // Times mostly ascend, and the next bucket needs no division.
            let next = spans.even.filter(|_| !rest.is_empty()).and_then(|even| even.following(rest.end));
            let span = next.filter(|next| next.contains(&time)).map_or_else(|| spans.span(time), Ok)?;
            // Where clocks change, earlier times may be in another bucket.
            let first = if spans.even.is_some() { span.start } else { time };
            (start, rest) = (span.start, first..span.end);
        }
        Ok(start)
    };
    let mut starts = Vec::with_capacity(numbers.len());
    for (row, &time) in numbers.values().iter().enumerate() {
        starts.push(if numbers.is_null(row) { 0 } else { start_of(time)? });
    }
    let starts = PrimitiveArray::<Int64Type>::new(starts.into(), numbers.nulls().cloned());
    Ok(Arc::new(cast(&starts, times.data_type())?))
}
