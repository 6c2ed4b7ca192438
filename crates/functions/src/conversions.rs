//! Functions for casts and comparisons whose results differ between PostgreSQL and DataFusion.
//! `fleetdb-postgres` inserts them (its `types/operators.rs`).

use crate::arguments::misuse;
use crate::errors::{misfit, query_error};
use crate::values::literals::value_of_text;
use crate::values::texts::{split_days, text_form};
use arrow::array::{ArrayRef, AsArray, BooleanArray, StringArray, Time64MicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationNanosecondType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ScalarUDF, Signature, SimpleScalarUDF, Volatility};
use fleetdb_engine::{ColumnType, Value};
use std::sync::{Arc, LazyLock};

/// The length of a month when intervals are compared.
const MONTH_DAYS: i64 = 30;
const NS_PER_DAY: i64 = 86_400_000_000_000;

/// Converts a number, UUID, time or interval to PostgreSQL's text.
pub static TEXT_OF: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| function("text_of", Signature::any(1, Volatility::Immutable), DataType::Utf8, text_of));

/// Converts a boolean to `t` or `f`, as PostgreSQL's functions do; a cast gives `true` or `false`.
pub static LETTER_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Boolean], Volatility::Immutable);
    function("letter_of", signature, DataType::Utf8, letter_of)
});

/// Rounds to the nearest integer, and ties to even, as `v::int` does for a float.
pub static ROUND_TO_EVEN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    function("round_to_even", signature, DataType::Float64, round_to_even)
});

/// The time of day of a timestamp.
pub static TIME_OF_DAY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    function("time_of_day", signature, DataType::Time64(TimeUnit::Microsecond), time_of_day)
});

/// The time of day that a text says.
pub static TIME_OF_TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
    function("time_of_text", signature, DataType::Time64(TimeUnit::Microsecond), time_of_text)
});

/// The length of an interval for comparisons, with months of 30 days and days of 24 hours
/// (`interval_cmp_value` in PostgreSQL's `timestamp.c`).
pub static INTERVAL_LENGTH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let signature = Signature::exact(vec![interval], Volatility::Immutable);
    function("interval_length", signature, DataType::Duration(TimeUnit::Nanosecond), interval_length)
});

/// The difference of two times as an interval with separate days, as PostgreSQL's differences are.
pub static SPLIT_DAYS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    function("split_days", Signature::any(1, Volatility::Immutable), interval, |args| Ok(split_days(one(args)?)?))
});

fn function(
    name: &str,
    signature: Signature,
    return_type: DataType,
    of: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> Arc<ScalarUDF> {
    let of = Arc::new(make_scalar_function(of, Vec::new()));
    Arc::new(SimpleScalarUDF::new_with_signature(name, signature, return_type, of).into())
}

fn one(args: &[ArrayRef]) -> Result<&ArrayRef> {
    args.first().ok_or_else(|| misuse("an argument is missing".to_owned()))
}

fn text_of(args: &[ArrayRef]) -> Result<ArrayRef> {
    let values = one(args)?;
    match text_form(values)? {
        Some(texts) => Ok(texts),
        None => Ok(cast(values, &DataType::Utf8)?),
    }
}

fn letter_of(args: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(Arc::new(letters(one(args)?.as_boolean())))
}

/// Booleans as `t` and `f`.
pub(crate) fn letters(values: &BooleanArray) -> StringArray {
    values.iter().map(|value| value.map(|is_true| if is_true { "t" } else { "f" })).collect()
}

fn time_of_day(args: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(cast(one(args)?, &DataType::Time64(TimeUnit::Microsecond))?)
}

fn time_of_text(args: &[ArrayRef]) -> Result<ArrayRef> {
    let time = |text: &str| match value_of_text(text, ColumnType::Time) {
        Ok(Value::Int(us)) => Ok(us),
        Ok(_) => Err(query_error(misfit(text, &DataType::Time64(TimeUnit::Microsecond)))),
        Err(error) => Err(query_error(error)),
    };
    let times = one(args)?.as_string::<i32>().iter().map(|text| text.map(time).transpose());
    Ok(Arc::new(times.collect::<Result<Time64MicrosecondArray>>()?))
}

fn round_to_even(args: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(Arc::new(one(args)?.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)))
}

fn interval_length(args: &[ArrayRef]) -> Result<ArrayRef> {
    let intervals = one(args)?.as_primitive::<IntervalMonthDayNanoType>();
    let length = |interval: IntervalMonthDayNano| {
        let days = i64::from(interval.months) * MONTH_DAYS + i64::from(interval.days);
        let ns = days.checked_mul(NS_PER_DAY).and_then(|ns| ns.checked_add(interval.nanoseconds));
        ns.ok_or_else(|| misuse("an interval of more than 292 years cannot be compared".to_owned()))
    };
    Ok(Arc::new(intervals.try_unary::<_, DurationNanosecondType, DataFusionError>(length)?))
}
