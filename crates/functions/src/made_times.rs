//! `make_timestamp(2026, 3, 4, 5, 6, 7.5)`: a time from its parts, with a fraction of seconds to microseconds.

use crate::arguments::misuse;
use crate::errors::query_error;
use arrow::array::{Array, ArrayRef, AsArray, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use chrono::{NaiveDate, TimeDelta};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use fleetdb_engine::{Code, Error};
use std::sync::Arc;

/// The `make_timestamp` function.
pub(super) fn function() -> ScalarUDF {
    let whole = DataType::Int64;
    let types = vec![whole.clone(), whole.clone(), whole.clone(), whole.clone(), whole, DataType::Float64];
    let signature = Signature::exact(types, Volatility::Immutable);
    let body = Arc::new(make_scalar_function(times, Vec::new()));
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    SimpleScalarUDF::new_with_signature("make_timestamp", signature, time, body).into()
}

fn times(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [whole @ .., seconds] = args else {
        return Err(misuse("use make_timestamp(year, month, day, hour, minute, seconds)".to_owned()));
    };
    let whole: Vec<_> = whole.iter().map(|part| part.as_primitive::<Int64Type>()).collect();
    let seconds = seconds.as_primitive::<Float64Type>();
    let time = |row: usize| {
        if seconds.is_null(row) || whole.iter().any(|part| part.is_null(row)) {
            return Ok(None);
        }
        let parts: Vec<i64> = whole.iter().map(|part| part.value(row)).collect();
        time_of(&parts, seconds.value(row)).map(Some).ok_or_else(|| {
            query_error(Error::new(Code::TimeOutOfRange, "make_timestamp: a part of the time is out of range"))
        })
    };
    Ok(Arc::new((0..seconds.len()).map(time).collect::<Result<TimestampNanosecondArray>>()?))
}

/// Nanoseconds since 1970. As in PostgreSQL, 24:00 and 60 seconds are those of the next day and minute.
fn time_of(parts: &[i64], seconds: f64) -> Option<i64> {
    let &[year, month, day, hour, minute] = parts else { return None };
    let day = NaiveDate::from_ymd_opt(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?)?;
    let is_in_day = (0..24).contains(&hour) || hour == 24 && minute == 0 && seconds == 0.0;
    if !is_in_day || !(0..60).contains(&minute) || !(0.0..=60.0).contains(&seconds) {
        return None;
    }
    let us = (hour * 3_600 + minute * 60) * 1_000_000 + (seconds * 1e6).round_ties_even() as i64;
    let time = day.and_hms_opt(0, 0, 0)? + TimeDelta::microseconds(us);
    time.and_utc().timestamp_nanos_opt()
}

#[cfg(test)]
#[path = "made_times_tests.rs"]
mod tests;
