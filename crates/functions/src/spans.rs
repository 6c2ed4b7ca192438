//! Spans of time in calendar units: `age(now(), installed)` in years, months and days; and
//! `justify_hours`, `justify_days` and `justify_interval`, which turn hours into days and days into
//! months (`timestamp_age` and `interval_justify_interval` in PostgreSQL's `timestamp.c`).

use crate::arguments::misuse;
use crate::errors::query_error;
use crate::values::texts::split_days;
use crate::values::times::read_texts;
use crate::values::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, try_binary};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use arrow::error::ArrowError;
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use std::sync::Arc;

const NS_PER_DAY: i64 = 86_400_000_000_000;
const DAYS_PER_MONTH: i32 = 30;
const MONTHS_PER_YEAR: i32 = 12;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The functions of this module.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    type Body = fn(&[ArrayRef]) -> Result<ArrayRef>;
    let all: [(&str, usize, Body); 4] = [
        ("age", 2, ages),
        ("justify_hours", 1, |args| justified(args, justify_hours)),
        ("justify_days", 1, |args| justified(args, justify_days)),
        ("justify_interval", 1, |args| justified(args, justify_interval)),
    ];
    all.into_iter().map(|(name, arguments, body)| {
        let signature = Signature::any(arguments, Volatility::Immutable);
        let body = Arc::new(make_scalar_function(body, Vec::new()));
        SimpleScalarUDF::new_with_signature(name, signature, INTERVAL, body).into()
    })
}

fn ages(args: &[ArrayRef]) -> Result<ArrayRef> {
    let [until, since] = args else { return Err(misuse("use age(until, since), with two times".to_owned())) };
    let (until, since) = (times(until)?, times(since)?);
    let [until, since] = [&until, &since].map(|times| times.as_primitive::<TimestampNanosecondType>());
    Ok(Arc::new(try_binary::<_, _, _, IntervalMonthDayNanoType>(until, since, |until, since| Ok(age(until, since)))?))
}

/// Converts times, dates and texts of them to nanoseconds.
fn times(values: &ArrayRef) -> Result<ArrayRef> {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    if crate::arguments::is_text(values.data_type()) {
        return read_texts(&cast(values, &DataType::Utf8)?, &time, Zone::Utc).map_err(query_error);
    }
    Ok(cast(values, &time)?)
}

/// The difference of two times in nanoseconds, as whole months, then whole days, then the rest.
/// Days borrowed from a month are those of the earlier time's month.
fn age(until_ns: i64, since_ns: i64) -> IntervalMonthDayNano {
    let is_negative = until_ns < since_ns;
    let (late, early) = if is_negative { (since_ns, until_ns) } else { (until_ns, since_ns) };
    let [late, early] = [late, early].map(|ns| DateTime::from_timestamp_nanos(ns).naive_utc());
    let in_day =
        |at: NaiveDateTime| i64::from(at.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(at.nanosecond());
    let mut ns = in_day(late) - in_day(early);
    let mut days = late.day() as i32 - early.day() as i32;
    let mut months = (late.year() - early.year()) * MONTHS_PER_YEAR + late.month() as i32 - early.month() as i32;
    if ns < 0 {
        ns += NS_PER_DAY;
        days -= 1;
    }
    if days < 0 {
        days += i32::from(early.num_days_in_month());
        months -= 1;
    }
    let sign = if is_negative { -1 } else { 1 };
    IntervalMonthDayNano::new(sign * months, sign * days, i64::from(sign) * ns)
}

fn justified(
    args: &[ArrayRef],
    of: impl Fn(IntervalMonthDayNano) -> Result<IntervalMonthDayNano, ArrowError>,
) -> Result<ArrayRef> {
    let [values] = args else { return Err(misuse("use justify_interval(interval), with one interval".to_owned())) };
    let intervals = cast(&split_days(values)?, &INTERVAL)?;
    Ok(Arc::new(intervals.as_primitive::<IntervalMonthDayNanoType>().try_unary::<_, IntervalMonthDayNanoType, _>(of)?))
}

fn out_of_range() -> ArrowError {
    ArrowError::ArithmeticOverflow("interval out of range".to_owned())
}

/// Moves whole days out of the time; both get the same sign.
fn justify_hours(of: IntervalMonthDayNano) -> Result<IntervalMonthDayNano, ArrowError> {
    let (whole, mut ns) = (of.nanoseconds / NS_PER_DAY, of.nanoseconds % NS_PER_DAY);
    let mut days = i32::try_from(i64::from(of.days) + whole).map_err(|_| out_of_range())?;
    if days > 0 && ns < 0 {
        (days, ns) = (days - 1, ns + NS_PER_DAY);
    } else if days < 0 && ns > 0 {
        (days, ns) = (days + 1, ns - NS_PER_DAY);
    }
    Ok(IntervalMonthDayNano::new(of.months, days, ns))
}

/// Moves whole months of 30 days out of the days; both get the same sign.
fn justify_days(of: IntervalMonthDayNano) -> Result<IntervalMonthDayNano, ArrowError> {
    let (whole, mut days) = (of.days / DAYS_PER_MONTH, of.days % DAYS_PER_MONTH);
    let mut months = of.months.checked_add(whole).ok_or_else(out_of_range)?;
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + DAYS_PER_MONTH);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - DAYS_PER_MONTH);
    }
    Ok(IntervalMonthDayNano::new(months, days, of.nanoseconds))
}

/// Moves whole days out of the time and whole months out of the days; all parts get the same sign.
fn justify_interval(of: IntervalMonthDayNano) -> Result<IntervalMonthDayNano, ArrowError> {
    let whole = of.nanoseconds / NS_PER_DAY;
    let days = i32::try_from(i64::from(of.days) + whole).map_err(|_| out_of_range())?;
    let IntervalMonthDayNano { mut months, mut days, nanoseconds: mut ns } =
        justify_days(IntervalMonthDayNano::new(of.months, days, of.nanoseconds % NS_PER_DAY))?;
    if months > 0 && days == 0 && ns < 0 {
        (months, days) = (months - 1, DAYS_PER_MONTH);
    } else if months < 0 && days == 0 && ns > 0 {
        (months, days) = (months + 1, -DAYS_PER_MONTH);
    }
    if days > 0 && ns < 0 {
        (days, ns) = (days - 1, ns + NS_PER_DAY);
    } else if days < 0 && ns > 0 {
        (days, ns) = (days + 1, ns - NS_PER_DAY);
    }
    Ok(IntervalMonthDayNano::new(months, days, ns))
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
