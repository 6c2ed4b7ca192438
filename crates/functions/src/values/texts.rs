//! Text forms of numbers, UUIDs, times and intervals as PostgreSQL writes them: `2`, `1e+15`, `Infinity`,
//! `2026-01-01 00:00:00.5`, `1 day 02:00:00`. Arrow writes `2.0`, `1e15`, `inf`,
//! `2026-01-01T00:00:00.500`, `1 days 2 hours`.

use crate::uuids::texts_of;
use crate::values::zone::{Zone, clock_text, naive};
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationNanosecondType, Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::Result;
use chrono::{Datelike, Timelike};
use fleetdb_engine::ColumnType;
use std::fmt::{Display, LowerExp, Write};
use std::sync::Arc;

/// PostgreSQL writes numbers from here on with an exponent: those with more than DBL_DIG or FLT_DIG
/// digits before the decimal point.
const FLOAT64_MOST: f64 = 1e15;
const FLOAT32_MOST: f32 = 1e6;
const NS_PER_DAY: i64 = 86_400_000_000_000;
const US_PER_SECOND: u64 = 1_000_000;

/// Converts a column to text; `None` if Arrow's cast already gives PostgreSQL's text. Times and
/// intervals are truncated to microseconds, PostgreSQL's resolution.
///
/// ```
/// use arrow::array::{ArrayRef, AsArray, Float64Array};
/// let numbers: ArrayRef = std::sync::Arc::new(Float64Array::from(vec![2.0, 1e15]));
/// let texts = fleetdb_query::text_form(&numbers).unwrap().unwrap();
/// assert_eq!(texts.as_string::<i32>().value(1), "1e+15");
/// ```
///
/// # Errors
/// A time is out of range in microseconds.
pub fn text_form(column: &ArrayRef) -> Result<Option<ArrayRef>> {
    text_form_in(column, Zone::Utc)
}

/// Like [`text_form`], in a session with this zone: instants are written in local time.
///
/// # Errors
/// Those of [`text_form`].
pub fn text_form_in(column: &ArrayRef, session: Zone) -> Result<Option<ArrayRef>> {
    Ok(Some(match column.data_type() {
        DataType::Float64 => written(column.as_primitive::<Float64Type>(), put_float64),
        DataType::Float32 => written(column.as_primitive::<Float32Type>(), put_float32),
        DataType::Decimal128(..) => cast(column, &DataType::Utf8)?,
        &ColumnType::UUID => texts_of(column.as_fixed_size_binary()),
        DataType::Timestamp(_, zone) => {
            let us = cast(column, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            let clocks = zone.is_some().then_some(session);
            written(us.as_primitive::<TimestampMicrosecondType>(), |us, out| put_time(us, clocks, out))
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let us = cast(column, &DataType::Time64(TimeUnit::Microsecond))?;
            written(us.as_primitive::<Time64MicrosecondType>(), |us, out| put_clock(us.unsigned_abs(), out))
        }
        DataType::Duration(_) | DataType::Interval(IntervalUnit::MonthDayNano) => {
            written(split_days(column)?.as_primitive::<IntervalMonthDayNanoType>(), put_interval)
        }
        _ => return Ok(None),
    }))
}

/// Converts durations to intervals with separate days, as PostgreSQL returns for the difference of
/// two times; returns intervals unchanged.
///
/// # Errors
/// A duration is out of range in nanoseconds.
pub fn split_days(column: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(column.data_type(), DataType::Duration(_)) {
        return Ok(Arc::clone(column));
    }
    let ns = cast(column, &DataType::Duration(TimeUnit::Nanosecond))?;
    let apart = ns.as_primitive::<DurationNanosecondType>().unary::<_, IntervalMonthDayNanoType>(|ns| {
        // At most 292 years.
        IntervalMonthDayNano::new(0, (ns / NS_PER_DAY) as i32, ns % NS_PER_DAY)
    });
    Ok(Arc::new(apart))
}

fn written<T>(
    values: impl IntoIterator<Item = Option<T>>,
    put: impl Fn(T, &mut StringBuilder) -> std::fmt::Result,
) -> ArrayRef {
    let mut texts = StringBuilder::new();
    for value in values {
        match value.map(|value| put(value, &mut texts)) {
            Some(Ok(())) => texts.append_value(""),
            _ => texts.append_null(),
        }
    }
    Arc::new(texts.finish())
}

fn put_float64(value: f64, out: &mut StringBuilder) -> std::fmt::Result {
    put_float(value, (1e-4..FLOAT64_MOST).contains(&value.abs()), out)
}

fn put_float32(value: f32, out: &mut StringBuilder) -> std::fmt::Result {
    put_float(value, (1e-4..FLOAT32_MOST).contains(&value.abs()), out)
}

/// Writes the shortest digits that parse back to the same value, as both Rust and PostgreSQL do.
fn put_float<T: Into<f64> + Display + LowerExp + Copy>(
    value: T,
    is_plain: bool,
    out: &mut StringBuilder,
) -> std::fmt::Result {
    match value.into() {
        f64::INFINITY => out.write_str("Infinity"),
        f64::NEG_INFINITY => out.write_str("-Infinity"),
        number if is_plain || number == 0.0 || number.is_nan() => write!(out, "{value}"),
        _ => put_exponent(&format!("{value:e}"), out),
    }
}

/// Rewrites Rust's `1.5e-7` with PostgreSQL's exponent, which has a sign and at least two digits.
fn put_exponent(text: &str, out: &mut StringBuilder) -> std::fmt::Result {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    write!(out, "{digits}e{sign}{exponent:0>2}")
}

/// Writes microseconds since 1970 as `2026-01-01 00:00:00.5`. With `clocks`, an instant is written
/// in local time with its UTC offset. Years before 1 are counted back from 1 BC.
fn put_time(us: i64, clocks: Option<Zone>, out: &mut StringBuilder) -> std::fmt::Result {
    let ns = i128::from(us) * 1_000;
    let ahead = clocks.unwrap_or_default().ahead_seconds(ns).ok_or(std::fmt::Error)?;
    let time = naive(ns + i128::from(ahead) * 1_000_000_000).ok_or(std::fmt::Error)?;
    let (year, is_before) = if time.year() > 0 { (time.year(), false) } else { (1 - time.year(), true) };
    let (month, day, hour, minute, second) = (time.month(), time.day(), time.hour(), time.minute(), time.second());
    write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
    put_fraction(us.rem_euclid(US_PER_SECOND as i64).unsigned_abs(), out)?;
    match clocks {
        Some(Zone::Utc) => out.write_str("+00")?,
        Some(_) => write!(out, "{}{}", if ahead < 0 { '-' } else { '+' }, clock_text(ahead.unsigned_abs()))?,
        None => {}
    }
    out.write_str(if is_before { " BC" } else { "" })
}

/// Writes the fraction of a second without trailing zeros.
fn put_fraction(us: u64, out: &mut StringBuilder) -> std::fmt::Result {
    if us == 0 {
        return Ok(());
    }
    let digits = format!("{us:06}");
    write!(out, ".{}", digits.trim_end_matches('0'))
}

/// Writes `1 year 2 mons -3 days +04:05:06.5` (`EncodeInterval` in PostgreSQL's `datetime.c`).
fn put_interval(interval: IntervalMonthDayNano, out: &mut StringBuilder) -> std::fmt::Result {
    let us = interval.nanoseconds / 1_000;
    let parts = [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")];
    let (mut is_first, mut is_behind_negative) = (true, false);
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count != 0) {
        let space = if is_first { "" } else { " " };
        let sign = if is_behind_negative && count > 0 { "+" } else { "" };
        let plural = if count == 1 { "" } else { "s" };
        write!(out, "{space}{sign}{count} {unit}{plural}")?;
        (is_first, is_behind_negative) = (false, count < 0);
    }
    if us == 0 && !is_first {
        return Ok(());
    }
    let space = if is_first { "" } else { " " };
    let sign = if us < 0 { "-" } else { if is_behind_negative { "+" } else { "" } };
    write!(out, "{space}{sign}")?;
    put_clock(us.unsigned_abs(), out)
}

/// Writes hours, minutes and seconds.
fn put_clock(us: u64, out: &mut StringBuilder) -> std::fmt::Result {
    let seconds = us / US_PER_SECOND;
    write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    put_fraction(us % US_PER_SECOND, out)
}

#[cfg(test)]
#[path = "texts_tests.rs"]
mod tests;
