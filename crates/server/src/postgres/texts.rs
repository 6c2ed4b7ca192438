//! The text form of numbers and times as PostgreSQL writes it: `2`, `1e+15`, `Infinity`, `2026-01-01 00:00:00.5`. The encoder
//! of the crate writes `2.0`, `1e15`, `inf` and `2026-01-01 00:00:00.500000`, the times with chrono's patterns, which it reads
//! anew for each value.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Datelike, Timelike};
use pgwire::api::results::{FieldFormat, FieldInfo};
use std::fmt::{Display, LowerExp, Write};
use std::sync::Arc;

/// From here on PostgreSQL writes numbers with an exponent: more than DBL_DIG and FLT_DIG digits in front of the point.
const FLOAT64_MOST: f64 = 1e15;
const FLOAT32_MOST: f32 = 1e6;

/// The rows with numbers and times as texts, in columns that are sent as such.
pub(super) fn with_texts(rows: &RecordBatch, fields: &[FieldInfo]) -> arrow::error::Result<RecordBatch> {
    let schema = rows.schema_ref();
    let (mut columns, mut types) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
    for ((column, arrow), field) in rows.columns().iter().zip(schema.fields()).zip(fields) {
        let text = match field.format() {
            FieldFormat::Text => texts(column)?,
            FieldFormat::Binary => None,
        };
        types.push(match text {
            Some(_) => Arc::new(Field::new(arrow.name(), DataType::Utf8, true)),
            None => Arc::clone(arrow),
        });
        columns.push(text.unwrap_or_else(|| Arc::clone(column)));
    }
    RecordBatch::try_new(Arc::new(Schema::new(types)), columns)
}

/// A column's texts; `None` if the encoder's are PostgreSQL's.
fn texts(column: &ArrayRef) -> arrow::error::Result<Option<ArrayRef>> {
    Ok(Some(match column.data_type() {
        DataType::Float64 => written(column.as_primitive::<Float64Type>(), put_float64),
        DataType::Float32 => written(column.as_primitive::<Float32Type>(), put_float32),
        DataType::Timestamp(_, zone) => {
            // Finer than what clients know is cut off, as in the binary form.
            let us = cast(column, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            let suffix = if zone.is_some() { "+00" } else { "" };
            written(us.as_primitive::<TimestampMicrosecondType>(), |us, out| put_time(us, suffix, out))
        }
        _ => return Ok(None),
    }))
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

/// The shortest digits that give the value again, as those of Rust and of PostgreSQL are.
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

/// `1.5e-7`, as Rust writes it, with the sign and the two digits that PostgreSQL gives an exponent at least.
fn put_exponent(text: &str, out: &mut StringBuilder) -> std::fmt::Result {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    write!(out, "{digits}e{sign}{exponent:0>2}")
}

/// Microseconds since 1970 as `2026-01-01 00:00:00.5`; years before the first are counted back from 1 BC.
fn put_time(us: i64, suffix: &str, out: &mut StringBuilder) -> std::fmt::Result {
    let time = DateTime::from_timestamp_micros(us).ok_or(std::fmt::Error)?;
    let (year, is_before) = if time.year() > 0 { (time.year(), false) } else { (1 - time.year(), true) };
    let (month, day, hour, minute, second) = (time.month(), time.day(), time.hour(), time.minute(), time.second());
    write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")?;
    let fraction = us.rem_euclid(1_000_000);
    if fraction > 0 {
        let digits = format!("{fraction:06}");
        write!(out, ".{}", digits.trim_end_matches('0'))?;
    }
    out.write_str(suffix)?;
    out.write_str(if is_before { " BC" } else { "" })
}

#[cfg(test)]
#[path = "texts_tests.rs"]
mod tests;
